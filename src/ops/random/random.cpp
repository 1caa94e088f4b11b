// Random numbers: `cpu` and `direct`, the two forms of random.cl, write row-major memory, `tiles` memory
// whose innermost dimension is another one; `copied` serves other strides by way of the workspace.
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/random/random_fill.hpp"
#include "ops/random/random_tiles.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<RandomDesc> = 2;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace detail {
namespace {

/// Blocks of four words a work-item, and work-items a group.
int blocks_of(bool cpu) {
  return cpu ? 1024 : 4;
}
int local_of(bool cpu) {
  return cpu ? 1 : 256;
}

}  // namespace

RandomFill::RandomFill(const Context& context, const TensorDesc& y, const Defines& defines, bool cpu)
    : count_(element_count(y.shape)), cpu_(cpu) {
  Defines all = defines;
  all.set("DTYPE", name_of(y.dtype)).set("T", storage_type(y.dtype)).set("WORDS", cpu ? 8 : 1);
  all.set("BLOCKS", blocks_of(cpu)).set("LOCAL", local_of(cpu));
  kernel_ = context.state().programs.kernel("random", "random_fill", all);
}

bool RandomFill::prefers_cpu(const Context& context) {
  return context.device().kind() == DeviceKind::cpu;
}

void RandomFill::run(const Stream& stream, const Tensor* x, const Tensor& y, const Draw& draw,
                     const RandomState& state) const {
  if (count_ == 0) return;
  const bool aligned = (state.offset | static_cast<uint64_t>(y.offset() | (x ? x->offset() : 0))) % 4 == 0;
  const int64_t groups_of_four = ceil_div(count_ + 3, 4);  // the first one may hold a single element
  Launch launch(stream, kernel_);
  if (x) launch.arg(*x);
  launch.arg(y).arg(count_).arg(state.seed).arg(state.offset);
  launch.arg(draw.a).arg(draw.b).arg(draw.top).arg(draw.threshold).arg(draw.low);
  launch.arg(static_cast<int>(aligned));
  const int64_t local = local_of(cpu_);
  launch.run({items_in_groups(ceil_div(groups_of_four, blocks_of(cpu_)), local)},
             {static_cast<size_t>(local)});
}

void check_state(const RandomState& state, int64_t count) {
  require(state.offset <= UINT64_MAX - static_cast<uint64_t>(count), "state", "offset ", state.offset,
          " and ", count, " elements pass 2^64");
}

uint64_t probability_threshold(const char* argument, double p) {
  require(p >= 0 && p <= 1, argument, p, " must lie in [0, 1]");
  return static_cast<uint64_t>(std::ceil(p * 0x1p32));
}

}  // namespace detail

struct Random::Impl : EngineImpl {
  std::optional<RandomFill> fill;
  std::optional<RandomTiles> tiles;
  std::unique_ptr<const Pointwise> copy;  ///< from the workspace to y
  size_t bytes = 0;
  size_t workspace_size() const override { return bytes; }
};

namespace {

std::string refuse_strides(const Context&, const RandomDesc& desc, const Options&) {
  return is_row_major(desc.y) ? "" : cat("y is not row-major, its strides are ", to_string(desc.y.strides));
}

std::string refuse_copied(const Context&, const RandomDesc& desc, const Options& options) {
  return workspace_refusal(static_cast<size_t>(element_count(desc.y.shape)) * size_of(desc.y.dtype), options);
}

/// "log_normal", and random.cl's macro, which Bernoulli numbers do not have.
struct Names {
  const char *text, *macro;
};

Names names_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform:
      return {"uniform", "UNIFORM"};
    case Distribution::normal:
      return {"normal", "NORMAL"};
    case Distribution::bernoulli:
      return {"bernoulli", "BERNOULLI"};
    case Distribution::log_normal:
      return {"log_normal", "LOG_NORMAL"};
    case Distribution::exponential:
      return {"exponential", "EXPONENTIAL"};
    case Distribution::cauchy:
      return {"cauchy", "CAUCHY"};
    case Distribution::geometric:
      return {"geometric", "GEOMETRIC"};
    case Distribution::integers:
      return {"integers", "INTEGERS"};
  }
  throw ValidationError("distribution", cat("number ", static_cast<int>(distribution), " does not exist"));
}

std::string refuse_tiles(const Context&, const RandomDesc& desc, const Options&) {
  return RandomTiles::refuse(nullptr, desc.y);
}

Defines defines_of(const RandomDesc& desc) {
  Defines defines;
  defines.set(names_of(desc.distribution).macro, true);
  if (desc.distribution == Distribution::integers) defines.set("VALUE", compute_type(desc.y.dtype));
  return defines;
}

std::unique_ptr<Random::Impl> make_fill(const Context& context, const RandomDesc& desc, bool cpu) {
  auto impl = std::make_unique<Random::Impl>();
  impl->fill.emplace(context, desc.y, defines_of(desc), cpu);
  return impl;
}

std::unique_ptr<const Random::Impl> make_cpu(const Context& context, const RandomDesc& desc, const Options&) {
  return make_fill(context, desc, true);
}

std::unique_ptr<const Random::Impl> make_direct(const Context& context, const RandomDesc& desc,
                                                const Options&) {
  return make_fill(context, desc, false);
}

std::unique_ptr<const Random::Impl> make_tiles(const Context& context, const RandomDesc& desc,
                                               const Options&) {
  auto impl = std::make_unique<Random::Impl>();
  impl->tiles.emplace(context, nullptr, desc.y, defines_of(desc));
  return impl;
}

std::unique_ptr<const Random::Impl> make_copied(const Context& context, const RandomDesc& desc,
                                                const Options&) {
  const TensorDesc plain(desc.y.shape, desc.y.dtype);
  auto impl = make_fill(context, {plain, desc.distribution}, RandomFill::prefers_cpu(context));
  impl->copy = std::make_unique<const Pointwise>(context, std::vector<TensorDesc>{plain},
                                                 std::vector<TensorDesc>{desc.y}, 0, "y0 = x0");
  impl->bytes = static_cast<size_t>(element_count(plain.shape)) * size_of(plain.dtype);
  return impl;
}

/// The least and the largest whole number up to which `dtype` has all.
std::pair<int64_t, int64_t> whole_numbers(DType dtype) {
  const auto symmetric = [](int bits) { return std::pair(-(int64_t{1} << bits), int64_t{1} << bits); };
  switch (dtype) {
    case DType::f64:
      return symmetric(53);
    case DType::f32:
      return symmetric(24);
    case DType::f16:
      return symmetric(11);
    case DType::bf16:
      return symmetric(8);
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    case DType::i16:
      return {-32768, 32767};
    case DType::i32:
      return {INT32_MIN, INT32_MAX};
    case DType::i64:
      return {INT64_MIN, INT64_MAX};
    case DType::boolean:
      return {0, 1};
  }
  return {0, 0};
}

/// What a refusal calls a and b.
struct ArgumentNames {
  const char *a = "a", *b = "b";
};

float finite_float(const char* name, double value) {
  const auto result = static_cast<float>(value);
  require(std::isfinite(result), name, value, " is not a finite f32");
  return result;
}

Draw uniform_draw(double a, double b, const ArgumentNames& names) {
  Draw draw;
  draw.a = finite_float(names.a, a);
  draw.b = finite_float(names.b, b);
  require(a <= b, names.b, b, " must not be below ", names.a, ", ", a);
  const double range = static_cast<double>(draw.b) - draw.a;
  require(std::isfinite(static_cast<float>(range)), names.b, b, " less ", names.a, ", ", a,
          ", is not a finite f32");
  draw.top = draw.b > draw.a ? std::nextafter(draw.b, draw.a) : draw.a;
  return draw;
}

Draw geometric_draw(double p, DType dtype, const ArgumentNames& names) {
  Draw draw;
  require(p >= 0x1p-90 && p <= 1, names.a, p, " must lie in [2^-90, 1]");
  draw.a = static_cast<float>(-1 / std::log1p(-p));  // -1 / -inf = 0: one trial
  if (p == 1) draw.a = 0;
  draw.top = std::numeric_limits<float>::max();
  if (!is_floating(dtype)) {
    const auto most = static_cast<double>(whole_numbers(dtype).second);
    draw.top = static_cast<float>(most);
    if (draw.top > most || most >= 0x1p63) draw.top = std::nextafter(draw.top, 0.0f);
  }
  return draw;
}

Draw make_draw(const RandomDesc& desc, double a, double b, const ArgumentNames& names) {
  Draw draw;
  switch (desc.distribution) {
    case Distribution::uniform:
      return uniform_draw(a, b, names);
    case Distribution::bernoulli:
      draw.threshold = probability_threshold(names.a, a);
      return draw;
    case Distribution::exponential:
      require(a >= 0x1p-90 && a <= 0x1p90, names.a, a, " must lie in [2^-90, 2^90]");
      draw.a = static_cast<float>(1 / a);
      return draw;
    case Distribution::geometric:
      return geometric_draw(a, desc.y.dtype, names);
    case Distribution::integers:
      throw ValidationError("distribution", "integers are drawn by run_integers");
    default:
      draw.a = finite_float(names.a, a);
      draw.b = finite_float(names.b, b);
      require(b >= 0, names.b, b, " must not be negative");
      return draw;
  }
}

Draw integer_draw(const RandomDesc& desc, int64_t low, int64_t high) {
  require(desc.distribution == Distribution::integers, "distribution",
          "run_integers is for integers, this plan makes ", names_of(desc.distribution).text);
  require(low < high, "high", high, " must be above low, ", low);
  const auto [least, most] = whole_numbers(desc.y.dtype);
  require(low >= least, "low", low, " is below ", least, ", the least that ", name_of(desc.y.dtype),
          " takes");
  require(high - 1 <= most, "high", high, " is above ", most, ", the largest that ", name_of(desc.y.dtype),
          " takes, by more than 1");
  Draw draw;
  draw.low = low;
  draw.threshold = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return draw;
}

}  // namespace

Random::Random(const Context& context, const RandomDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  // The forms run on every device, and each is the better one on its own kind.
  std::vector<Engine<RandomDesc, Impl>> engines = {{"cpu", refuse_strides, make_cpu},
                                                   {"direct", refuse_strides, make_direct},
                                                   {"copied", refuse_copied, make_copied},
                                                   {"tiles", refuse_tiles, make_tiles}};
  if (!RandomFill::prefers_cpu(context)) {
    std::swap(engines[0], engines[1]);
    std::swap(engines[2], engines[3]);
  }
  require_writable("y", desc.y);
  require_real(context, desc.y.dtype);
  PlanInfo info;
  const char* distribution = names_of(desc.distribution).text;
  impl_ = choose_engine("random", engines, context, desc, options, info);
  info.text = cat("op=random engine=", info.engine, " distribution=", distribution, " y=", brief(desc.y));
  info.bytes = traffic({desc.y});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void Random::run(const Stream& stream, double a, double b, const RandomState& state, const Tensor& y,
                 const Tensor& workspace) const {
  draw(stream, make_draw(desc_, a, b, {}), state, y, workspace);
}

void Random::run_integers(const Stream& stream, int64_t low, int64_t high, const RandomState& state,
                          const Tensor& y, const Tensor& workspace) const {
  draw(stream, integer_draw(desc_, low, high), state, y, workspace);
}

void Random::draw(const Stream& stream, const Draw& draw, const RandomState& state, const Tensor& y,
                  const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"workspace", workspace}}, {{"y", y}});
  check_state(state, y.numel());
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  if (impl_->tiles) return impl_->tiles->run(stream, nullptr, y, draw, state);
  if (!impl_->copy) return impl_->fill->run(stream, nullptr, y, draw, state);
  const Tensor plain = workspace_part(space, 0, y.shape(), y.dtype());
  impl_->fill->run(stream, nullptr, plain, draw, state);
  impl_->copy->run(stream, {plain}, {y}, {});
}

namespace {

void random(const Stream& stream, Distribution distribution, double a, double b, const RandomState& state,
            const Tensor& y, const ArgumentNames& names, const Options& options, const Tensor& workspace) {
  require_defined({{"y", y}});
  const RandomDesc desc{y, distribution};
  make_draw(desc, a, b, names);
  cached_plan<Random>(stream, "random", desc, options, workspace)->run(stream, a, b, state, y, workspace);
}

}  // namespace

void random_uniform(const Stream& stream, double low, double high, const RandomState& state, const Tensor& y,
                    const Options& options, const Tensor& workspace) {
  random(stream, Distribution::uniform, low, high, state, y, {"low", "high"}, options, workspace);
}
void random_normal(const Stream& stream, double mean, double deviation, const RandomState& state,
                   const Tensor& y, const Options& options, const Tensor& workspace) {
  random(stream, Distribution::normal, mean, deviation, state, y, {"mean", "deviation"}, options, workspace);
}
void random_log_normal(const Stream& stream, double mean, double deviation, const RandomState& state,
                       const Tensor& y, const Options& options, const Tensor& workspace) {
  random(stream, Distribution::log_normal, mean, deviation, state, y, {"mean", "deviation"}, options,
         workspace);
}
void random_bernoulli(const Stream& stream, double p, const RandomState& state, const Tensor& y,
                      const Options& options, const Tensor& workspace) {
  random(stream, Distribution::bernoulli, p, 0, state, y, {"p"}, options, workspace);
}
void random_exponential(const Stream& stream, double rate, const RandomState& state, const Tensor& y,
                        const Options& options, const Tensor& workspace) {
  random(stream, Distribution::exponential, rate, 0, state, y, {"rate"}, options, workspace);
}
void random_cauchy(const Stream& stream, double median, double scale, const RandomState& state,
                   const Tensor& y, const Options& options, const Tensor& workspace) {
  random(stream, Distribution::cauchy, median, scale, state, y, {"median", "scale"}, options, workspace);
}
void random_geometric(const Stream& stream, double p, const RandomState& state, const Tensor& y,
                      const Options& options, const Tensor& workspace) {
  random(stream, Distribution::geometric, p, 0, state, y, {"p"}, options, workspace);
}
void random_integers(const Stream& stream, int64_t low, int64_t high, const RandomState& state,
                     const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"y", y}});
  const RandomDesc desc{y, Distribution::integers};
  integer_draw(desc, low, high);
  cached_plan<Random>(stream, "random", desc, options, workspace)
      ->run_integers(stream, low, high, state, y, workspace);
}

}  // namespace dlprim
