// Convolution as tuning sees it: what its tables are asked by, a problem with operands to measure, and which
// problems are worth a row.
#include "ops/conv/conv_tune.hpp"

#include <algorithm>

#include "core/gen/arguments.hpp"
#include "core/tune/problem_line.hpp"
#include "ops/tune/tune_operands.hpp"

namespace dlprim::detail {
namespace {

/// What is left of a description to be measured.
ConvDesc plain(const ConvDesc& desc) {
  ConvDesc result{desc.x, desc.w, desc.y, desc.params};
  result.params.activation = Activation::identity;
  return result;
}

class ConvSubject : public PlanSubject {
 public:
  ConvSubject(const Context& context, ConvDirection direction, const ConvDesc& desc, const Options& options)
      : PlanSubject(context, options),
        direction_(direction),
        desc_(plain(desc)),
        problem_(conv_problem(direction, desc_)),
        tuned_(conv_tune_problem(problem_, this->options())) {}

  const TuneProblem& problem() const override { return tuned_; }
  TuneRun plan(const std::string& engine) override {
    const ConvDesc& d = desc_;
    if (direction_ == ConvDirection::forward)
      return run_of<Conv>(d, engine,
                          [this](const Conv& p, const Tensor& ws) { p.run(stream(), x_, w_, {}, y_, ws); });
    if (direction_ == ConvDirection::backward_data)
      return run_of<ConvBackwardData>(
          ConvBackwardDataDesc{d.y, d.w, d.x, d.params}, engine,
          [this](const ConvBackwardData& p, const Tensor& ws) { p.run(stream(), y_, w_, x_, ws); });
    return run_of<ConvBackwardFilter>(
        ConvBackwardFilterDesc{d.x, d.y, d.w, d.params}, engine,
        [this](const ConvBackwardFilter& p, const Tensor& ws) { p.run(stream(), x_, y_, {}, w_, ws); });
  }
  /// Right results are whole numbers. Engines that compute by fractions, as Winograd's, come near them, but
  /// never as near to a wrong one; and with 16 bits they may round to a neighbour.
  int64_t wrong_elements() override {
    const char* near = "fabs(x0 - x1) <= 0.4f ? 0 : 1";
    if (result().dtype() == DType::f16) near = "fabs(x0 - x1) <= fmax(0.4f, 0.001f * fabs(x1)) ? 0 : 1";
    if (result().dtype() == DType::bf16) near = "fabs(x0 - x1) <= fmax(0.4f, 0.008f * fabs(x1)) ? 0 : 1";
    return count(near);
  }

 private:
  TuneCandidates found(const Options& options) const override {
    return conv_candidates(stream().context(), problem_, options);
  }
  void make_operands() override {
    x_ = tune_integers(stream(), desc_.x, 1);
    w_ = tune_integers(stream(), desc_.w, 2);
    y_ = tune_integers(stream(), desc_.y, 3);
  }
  const Tensor& result() const override {
    return direction_ == ConvDirection::forward ? y_ : direction_ == ConvDirection::backward_data ? x_ : w_;
  }

  ConvDirection direction_;
  ConvDesc desc_;
  ConvProblem problem_;
  TuneProblem tuned_;
  Tensor x_, w_, y_;
};

constexpr const char* kDirections[] = {"forward", "backward_data", "backward_filter"};

/// The fields of bench/measure_conv.cpp.
struct Line {
  explicit Line(const std::string& text) : line(text) {
    const std::string word = line.word("direction", {kDirections[0], kDirections[1], kDirections[2]});
    direction = static_cast<ConvDirection>(std::find(kDirections, kDirections + 2, word) - kDirections);
    const int64_t n = line.size("n"), c = line.size("c"), k = line.size("k");
    const Dims size = line.sizes("size", {}), window = line.sizes("window", {});
    ConvParams& p = desc.params;
    p.stride = line.sizes("stride", {1}), p.dilation = line.sizes("dilation", {1});
    p.pad_begin = p.pad_end = line.sizes("pad", {0});
    p.groups = line.size("groups", 1);
    const DType dtype = line.dtype("dtype", DType::f32);
    const bool last = line.word("layout", {"nchw", "nhwc"}) == "nhwc";
    // Networks' weights lie as they do in files, whatever images do.
    const bool w_last = line.word("weights", {last ? "nhwc" : "nchw", last ? "nchw" : "nhwc"}) == "nhwc";
    options.math = parse_math(line.word("math", {"standard", "strict", "tf32"}));
    line.word("engine", {"auto"});
    line.word("constant", {"w"});
    line.finish();
    Shape x{n, c}, w{k, c / p.groups};
    for (int64_t s : size) x.push_back(s);
    for (int64_t s : window) w.push_back(s);
    desc.x = described(x, last, dtype), desc.w = described(w, w_last, dtype);
    desc.y = described(conv_output_shape(x, w, p), last, dtype);
  }

  ProblemLine line;
  ConvDirection direction;
  ConvDesc desc;
  Options options;

 private:
  static TensorDesc described(const Shape& shape, bool channels_last, DType dtype) {
    Strides strides = contiguous_strides(shape);
    int64_t step = shape[1];
    for (int i = shape.size() - 1; channels_last && i >= 2; i--) strides[i] = step, step *= shape[i];
    if (channels_last) strides[1] = 1;
    return {shape, strides, dtype, true};
  }
};

std::unique_ptr<TuneSubject> subject(const Context& context, const std::string& text, TuneMode mode) {
  Line line(text);
  conv_problem(line.direction, line.desc);  // refuses what does not go together
  require_real(context, line.desc.x.dtype);
  line.options.tune = mode;
  return std::make_unique<ConvSubject>(context, line.direction, line.desc, line.options);
}

/// Those of network_convs() in tests/cases/conv.cpp.
constexpr const char* kQuick[] = {"c=64 size=56x56 k=64 window=3x3 pad=1x1",
                                  "c=128 size=28x28 k=128 window=3x3 pad=1x1",
                                  "c=256 size=14x14 k=256 window=3x3 pad=1x1",
                                  "c=512 size=7x7 k=512 window=3x3 pad=1x1",
                                  "c=3 size=224x224 k=64 window=7x7 stride=2x2 pad=3x3",
                                  "c=256 size=56x56 k=64 window=1x1",
                                  "c=64 size=56x56 k=256 window=1x1",
                                  "c=256 size=56x56 k=512 window=1x1 stride=2x2",
                                  "c=512 size=14x14 k=512 window=3x3 pad=1x1 groups=512"};
/// The rest of resnet18 and mobilenet_v2.
constexpr const char* kMore[] = {"c=64 size=56x56 k=128 window=3x3 stride=2x2 pad=1x1",
                                 "c=64 size=56x56 k=128 window=1x1 stride=2x2",
                                 "c=128 size=28x28 k=256 window=3x3 stride=2x2 pad=1x1",
                                 "c=128 size=28x28 k=256 window=1x1 stride=2x2",
                                 "c=256 size=14x14 k=512 window=3x3 stride=2x2 pad=1x1",
                                 "c=256 size=14x14 k=512 window=1x1 stride=2x2",
                                 "c=3 size=224x224 k=32 window=3x3 stride=2x2 pad=1x1",
                                 "c=32 size=112x112 k=32 window=3x3 pad=1x1 groups=32",
                                 "c=32 size=112x112 k=16 window=1x1",
                                 "c=16 size=112x112 k=96 window=1x1",
                                 "c=96 size=112x112 k=96 window=3x3 stride=2x2 pad=1x1 groups=96",
                                 "c=96 size=56x56 k=24 window=1x1",
                                 "c=24 size=56x56 k=144 window=1x1",
                                 "c=144 size=56x56 k=144 window=3x3 pad=1x1 groups=144",
                                 "c=144 size=56x56 k=24 window=1x1",
                                 "c=144 size=56x56 k=144 window=3x3 stride=2x2 pad=1x1 groups=144",
                                 "c=144 size=28x28 k=32 window=1x1",
                                 "c=32 size=28x28 k=192 window=1x1",
                                 "c=192 size=28x28 k=192 window=3x3 pad=1x1 groups=192",
                                 "c=192 size=28x28 k=32 window=1x1",
                                 "c=192 size=28x28 k=192 window=3x3 stride=2x2 pad=1x1 groups=192",
                                 "c=192 size=14x14 k=64 window=1x1",
                                 "c=64 size=14x14 k=384 window=1x1",
                                 "c=384 size=14x14 k=384 window=3x3 pad=1x1 groups=384",
                                 "c=384 size=14x14 k=64 window=1x1",
                                 "c=384 size=14x14 k=96 window=1x1",
                                 "c=96 size=14x14 k=576 window=1x1",
                                 "c=576 size=14x14 k=576 window=3x3 pad=1x1 groups=576",
                                 "c=576 size=14x14 k=96 window=1x1",
                                 "c=576 size=14x14 k=576 window=3x3 stride=2x2 pad=1x1 groups=576",
                                 "c=576 size=7x7 k=160 window=1x1",
                                 "c=160 size=7x7 k=960 window=1x1",
                                 "c=960 size=7x7 k=960 window=3x3 pad=1x1 groups=960",
                                 "c=960 size=7x7 k=160 window=1x1",
                                 "c=960 size=7x7 k=320 window=1x1",
                                 "c=320 size=7x7 k=1280 window=1x1"};

bool is_fit(const Device& device, const std::string& text) {
  const Line line(text);
  double bytes = 0;
  for (const TensorDesc* t : {&line.desc.x, &line.desc.w, &line.desc.y})
    bytes += 2 * static_cast<double>(element_count(t->shape)) * static_cast<double>(size_of(t->dtype));
  return tune_fits(device, conv_flops(conv_problem(line.direction, line.desc)), bytes);
}

std::vector<std::string> problems(const Context& context, bool full) {
  const Device& device = context.device();
  const bool cpu = device.kind() == DeviceKind::cpu;
  std::vector<const char*> kinds = {"dtype=f32"};
  if (device.probes().matrix != MatrixEngine::none) {
    kinds.insert(kinds.end(), {"dtype=f32 math=tf32 layout=nhwc", "dtype=bf16 layout=nhwc"});
    if (full)
      kinds.insert(kinds.end(), {"dtype=f16 layout=nhwc", "dtype=f32 layout=nhwc", "dtype=f32 math=tf32"});
  }
  if (cpu && full) kinds.push_back("dtype=f32 layout=nhwc");
  std::vector<const char*> layers(std::begin(kQuick), std::end(kQuick));
  if (full) layers.insert(layers.end(), std::begin(kMore), std::end(kMore));
  std::vector<std::string> lines;
  for (const char* kind : kinds)
    for (const char* layer : layers)
      for (const char* direction : kDirections) {
        std::string line = cat("conv direction=", direction, " n=", cpu ? 8 : 64, " ", layer, " ", kind);
        if (is_fit(device, line)) lines.push_back(std::move(line));
      }
  return lines;
}

/// Whether elements lie one after the other, with the axes in this order, the outermost first.
bool lies(const ConvStrides& strides, const std::array<int64_t, 5>& sizes, std::array<size_t, 5> order) {
  int64_t step = 1;
  for (size_t i = 5; i-- > 0;) {
    const size_t axis = order[i];
    if (sizes[axis] != 1 && strides[axis] != step) return false;
    step *= sizes[axis];
  }
  return true;
}

/// "3x3"; the depth is left out where there is none.
std::string text_of(const ConvProblem& p, const Spatial& numbers) {
  return cat(p.has_depth() ? cat(numbers[0], "x") : "", numbers[1], "x", numbers[2]);
}

/// Padding behind that is not as in front.
Spatial uneven_pad(const ConvProblem& p) {
  Spatial result{0, 0, 0};
  for (size_t i = 0; i < 3; i++) {
    const int window = (p.w_space[i] - 1) * p.dilation[i] + 1, free = p.x_space[i] + 2 * p.pad[i] - window;
    if (free < 0 || free / p.stride[i] + 1 != p.y_space[i])
      result[i] = (p.y_space[i] - 1) * p.stride[i] + window - p.x_space[i] - p.pad[i];
  }
  return result;
}

}  // namespace

std::string conv_layout(const ConvProblem& p) {
  constexpr std::array<size_t, 5> planes{0, 1, 2, 3, 4}, last{0, 2, 3, 4, 1};
  const auto sizes = [](int64_t a, int64_t b, const Spatial& space) {
    return std::array<int64_t, 5>{a, b, space[0], space[1], space[2]};
  };
  const std::array<std::pair<const ConvStrides*, std::array<int64_t, 5>>, 3> all = {
      {{&p.x, sizes(p.n, p.c, p.x_space)},
       {&p.w, sizes(p.k, p.group_c(), p.w_space)},
       {&p.y, sizes(p.n, p.k, p.y_space)}}};
  // What is made of a constant w once is the same however it lies.
  const auto every = [&](const std::array<size_t, 5>& order) {
    return std::all_of(all.begin(), all.end(), [&](const auto& t) {
      return (p.constant_w && t.first == &p.w) || lies(*t.first, t.second, order);
    });
  };
  if (every(planes)) return "nchw";
  if (every(last)) return "nhwc";
  std::string text;
  for (const auto& [strides, size] : all)
    text += cat(text.empty() ? "" : ".", lies(*strides, size, planes) ? "nchw"
                                         : lies(*strides, size, last) ? "nhwc"
                                                                      : "other");
  return text;
}

TuneProblem conv_tune_problem(const ConvProblem& p, const Options& options) {
  TuneProblem result;
  result.op = "conv";
  result.dtype = p.dtype;
  result.result = p.result_dtype;
  if (options.math == MathMode::strict && p.dtype != DType::f64) result.math = MathMode::strict;
  if (options.math == MathMode::tf32 && p.dtype == DType::f32) result.math = MathMode::tf32;
  result.form = cat(kDirections[static_cast<size_t>(p.direction)], "-", conv_layout(p), "-window",
                    text_of(p, p.w_space));
  if (p.stride != Spatial{1, 1, 1}) result.form += cat("-stride", text_of(p, p.stride));
  if (p.pad != Spatial{0, 0, 0}) result.form += cat("-pad", text_of(p, p.pad));
  if (const Spatial end = uneven_pad(p); end != Spatial{0, 0, 0}) result.form += cat("-end", text_of(p, end));
  if (p.dilation != Spatial{1, 1, 1}) result.form += cat("-dilation", text_of(p, p.dilation));
  // "odd": engines that read several channels at once cannot.
  const bool single = p.group_c() == 1 && p.group_k() == 1;
  const int c = single ? p.c : p.group_c(), k = single ? p.k : p.group_k();
  if (c % 8 != 0 || k % 8 != 0 || !p.x_aligned || !p.w_aligned || !p.y_aligned) result.form += "-odd";
  result.sizes = {{"n", p.n}, {"c", p.c}, {"k", p.k}, {"h", p.x_space[1]}, {"w", p.x_space[2]}};
  result.sizes.insert(result.sizes.end(), {{"groups", p.groups}, {"d", p.x_space[0]}});
  return result;
}

void measure_conv_on_first_use(const Context& context, ConvDirection direction, const ConvDesc& desc,
                               const Options& options) {
  const ConvProblem p = conv_problem(direction, desc);
  if (p.n == 0 || p.c == 0 || p.k == 0 || p.x_pixels() == 0 || p.y_pixels() == 0) return;
  measure_on_first_use(context, conv_tune_problem(p, options), options.tune,
                       [&] { return std::make_unique<ConvSubject>(context, direction, desc, options); });
}

extern const TuneFamily kConvTuning;
const TuneFamily kConvTuning = {"conv", problems, subject};

}  // namespace dlprim::detail
