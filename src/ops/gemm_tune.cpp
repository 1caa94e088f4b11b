// GEMM as tuning sees it: what its tables are asked by, a problem with operands to measure, and which
// problems are worth a row.
#include <limits>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>

#include "core/gen/arguments.hpp"
#include "core/state.hpp"
#include "core/tune/measure.hpp"
#include "core/tune/problem_line.hpp"
#include "ops/gemm_impl.hpp"

namespace dlprim::detail {
namespace {

/// Operands of small integers. Products of up to 4 M of them are summed without rounding, and they are exact
/// in every dtype and in every part of a split one.
class GemmSubject : public TuneSubject {
 public:
  /// Bias, activation, alpha and beta of the description do not count: they are the same text in all engines.
  GemmSubject(const Context& context, GemmDesc desc, const Options& options)
      : options_(plain(options)),
        stream_(context),
        desc_(without_epilogue(std::move(desc))),
        problem_(gemm_problem(desc_)),
        tuned_(gemm_tune_problem(problem_, options_)) {
    stream_.state().logs = false;  // hundreds of runs are no operators of the user's
  }

  const TuneProblem& problem() const override { return tuned_; }
  std::vector<std::string> candidates() const override {
    return gemm_candidates(stream_.context(), problem_, options_);
  }
  const Stream& stream() const override { return stream_; }

  TuneRun plan(const std::string& engine) override {
    if (!c_.defined()) make_operands();
    Options options = options_;
    options.engine = engine;
    const auto plan = std::make_shared<const Gemm>(stream_.context(), desc_, options);
    const auto bytes = static_cast<int64_t>(plan->workspace_size());
    if (bytes > 0 && (!workspace_.defined() || workspace_.bytes() < bytes)) {
      workspace_ = {};
      workspace_ = Tensor(stream_, {bytes}, DType::u8);
    }
    return {plan->request(), [this, plan] { plan->run(stream_, a_, b_, {}, c_, workspace_); }};
  }
  void poison() override {
    fill(stream_, c_, is_floating(c_.dtype()) ? std::numeric_limits<double>::quiet_NaN() : -1234567);
  }
  void keep_result() override { copy(stream_, c_, right_); }
  int64_t wrong_elements() override {
    const Tensor count(stream_, {1});
    reduce(stream_, {c_, right_}, {count}, {}, sum_of("x0 == x1 ? 0 : 1"));
    return static_cast<int64_t>(read<float>(stream_, count)[0]);
  }

 private:
  static Options plain(const Options& options) {
    Options result;
    result.math = options.math;
    result.deterministic = options.deterministic;
    return result;
  }
  static GemmDesc without_epilogue(GemmDesc desc) {
    return {std::move(desc.a), std::move(desc.b), std::move(desc.c)};
  }

  void make_operands() {
    a_ = integers(desc_.a, 1);
    b_ = integers(desc_.b, 2);
    right_ = Tensor(stream_, desc_.c.shape, desc_.c.dtype);
    c_ = memory_for(desc_.c);
  }
  /// A tensor as described. `whole` is the memory from its first to its last element.
  Tensor memory_for(const TensorDesc& desc, Tensor* whole = nullptr) const {
    int64_t extent = 1;
    for (int i = 0; i < desc.shape.size(); i++) extent += (desc.shape[i] - 1) * desc.strides[i];
    const int64_t shift = desc.aligned ? 0 : 1;
    const Tensor memory(stream_, {extent + shift}, desc.dtype);
    if (whole) *whole = memory;
    return memory.as_strided(desc.shape, desc.strides, shift);
  }
  Tensor integers(const TensorDesc& desc, uint64_t seed) const {
    Tensor whole;
    const Tensor x = memory_for(desc, &whole), reals(stream_, whole.shape());
    random_uniform(stream_, reals, -2.5, 2.5, {seed, 0});
    pointwise(stream_, {reals}, {whole}, {}, "y0 = rint(x0)");
    return x;
  }

  Options options_;
  Stream stream_;
  GemmDesc desc_;
  GemmProblem problem_;
  TuneProblem tuned_;
  Tensor a_, b_, c_, right_, workspace_;
};

/// [batch,] rows, columns; transposed in memory or not.
TensorDesc matrices(int64_t batch, int64_t rows, int64_t columns, bool transposed, DType dtype) {
  const Strides strides = transposed ? Strides{1, rows} : Strides{columns, 1};
  if (batch == 1) return {{rows, columns}, strides, dtype, true};
  return {{batch, rows, columns}, {rows * columns, strides[0], strides[1]}, dtype, true};
}

std::unique_ptr<TuneSubject> subject(const Context& context, const std::string& text) {
  ProblemLine line(text);
  const int64_t m = line.size("m"), n = line.size("n"), k = line.size("k"), batch = line.size("batch", 1);
  const bool a_transposed = line.word("a", {"n", "t"}) == "t",
             b_transposed = line.word("b", {"n", "t"}) == "t";
  const DType dtype = line.dtype("dtype", DType::f32);
  const DType result = line.dtype("c_dtype", dtype == DType::i8 ? DType::i32 : dtype);
  Options options;
  options.math = parse_math(line.word("math", {"standard", "strict", "tf32"}));
  line.word("engine", {"auto"});
  line.finish();
  const GemmDesc desc{matrices(batch, m, k, a_transposed, dtype), matrices(batch, k, n, b_transposed, dtype),
                      matrices(batch, m, n, false, result)};
  gemm_problem(desc);  // refuses dtypes that do not go together
  require_real(context, dtype);
  return std::make_unique<GemmSubject>(context, desc, options);
}

struct Sizes {
  int64_t m, n, k;
};

/// What networks ask for: squares, narrow products, linear layers, vectors; odd sizes, which no vector
/// divides.
constexpr Sizes kFull[] = {{64, 64, 64},       {128, 128, 128},    {256, 256, 256},    {512, 512, 512},
                           {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192},
                           {1025, 1025, 1025}, {2049, 2049, 2049}, {64, 64, 2048},     {64, 2048, 64},
                           {2048, 64, 64},     {64, 2048, 2048},   {2048, 64, 2048},   {2048, 2048, 64},
                           {128, 128, 8192},   {32, 1024, 1024},   {128, 512, 784},    {8, 4096, 4096},
                           {1, 4096, 4096},    {4096, 1, 4096}};
constexpr Sizes kQuick[] = {{64, 64, 64},       {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024},
                            {2048, 2048, 2048}, {64, 64, 2048},  {64, 2048, 512}, {1, 2048, 2048}};
constexpr const char* kForms[] = {"a=n b=n", "a=n b=t", "a=t b=n", "a=t b=t"};

/// Whether a measurement of the problem takes seconds, not minutes, and its operands a small part of memory.
bool is_fit(const Device& device, const Sizes& s, DType dtype) {
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  const double units = std::max(1, device.facts().compute_units);
  const double per_unit = device.kind() == DeviceKind::cpu ? 1.5e9 : 1e10;
  const double bytes = (m * k + k * n + 2 * m * n) * static_cast<double>(size_of(dtype));
  return 2 * m * n * k <= per_unit * units && bytes <= static_cast<double>(device.facts().global_memory) / 8;
}

std::vector<std::string> problems(const Context& context, bool full) {
  const Device& device = context.device();
  const bool matrix = device.probes().matrix != MatrixEngine::none;
  struct Kind {
    DType dtype;
    const char* text;
    bool all;  ///< every problem in every form
  };
  std::vector<Kind> kinds = {{DType::f32, "dtype=f32", true}};
  if (full && matrix) kinds.push_back({DType::f32, "dtype=f32 math=tf32", true});
  if (full || matrix) kinds.push_back({DType::f16, "dtype=f16", full && matrix});
  if (full) kinds.push_back({DType::bf16, "dtype=bf16", matrix});
  std::vector<std::string> lines;
  const auto add = [&](const Sizes& s, const char* form, const Kind& kind) {
    if (is_fit(device, s, kind.dtype))
      lines.push_back(cat("gemm m=", s.m, " n=", s.n, " k=", s.k, " ", form, " ", kind.text));
  };
  for (const Kind& kind : kinds) {
    if (full && kind.all)
      for (const char* form : kForms)
        for (const Sizes& s : kFull) add(s, form, kind);
    else
      for (const Sizes& s : kQuick) add(s, kForms[0], kind);
    if (!full)
      for (int form = 1; form < 4; form++) add({512, 512, 512}, kForms[form], kind);
  }
  return lines;
}

}  // namespace

TuneProblem gemm_tune_problem(const GemmProblem& p, const Options& options) {
  TuneProblem result;
  result.op = "gemm";
  result.dtype = p.dtype;
  result.result = p.c_dtype;
  const bool tf32 = p.dtype == DType::f32 && options.math == MathMode::tf32;
  result.math = tf32 ? MathMode::tf32 : MathMode::standard;
  // "odd": 16-byte reads of an operand are not possible, which costs some engines a copy and others half
  // their rate.
  result.form =
      cat(p.a.unit_k ? "mk" : "km", p.b.unit_k ? "-nk" : "-kn", p.a.vectors && p.b.vectors ? "" : "-odd");
  result.sizes = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}};
  return result;
}

void measure_gemm_on_first_use(const Context& context, const GemmDesc& desc, const GemmProblem& p,
                               const Options& options) {
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.batch == 0) return;
  measure_on_first_use(context, gemm_tune_problem(p, options),
                       [&] { return std::make_unique<GemmSubject>(context, desc, options); });
}

extern const TuneFamily kGemmTuning;
const TuneFamily kGemmTuning = {"gemm", problems, subject};

}  // namespace dlprim::detail
