// Random numbers: `cpu` and `direct`, the two forms of random.cl, write row-major memory; `copied` serves
// other strides by way of the workspace.
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>

#include <cmath>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/random_fill.hpp"

namespace dlprim {

using namespace detail;

namespace detail {

RandomFill::RandomFill(const Context& context, const TensorDesc& y, const Defines& defines, bool cpu)
    : count_(element_count(y.shape)), cpu_(cpu) {
  Defines all = defines;
  all.set("DTYPE", name_of(y.dtype)).set("T", storage_type(y.dtype)).set("WORDS", cpu ? 8 : 1);
  kernel_ = context.state().programs.kernel("random", "random_fill", all);
}

bool RandomFill::prefers_cpu(const Context& context) {
  return context.device().kind() == DeviceKind::cpu;
}

void RandomFill::run(const Stream& stream, const Tensor* x, const Tensor& y, const Draw& draw,
                     const RandomState& state) const {
  if (count_ == 0) return;
  const int64_t groups_of_four = ceil_div(count_ + 3, 4);  // the first one may hold a single element
  const int blocks = cpu_ ? 1024 : 1;
  const int64_t local = cpu_ ? 1 : 64;
  Launch launch(stream, kernel_);
  if (x) launch.arg(*x);
  launch.arg(y).arg(count_).arg(state.seed).arg(state.offset);
  launch.arg(draw.a).arg(draw.b).arg(draw.top).arg(draw.threshold).arg(blocks);
  launch.run({items_in_groups(ceil_div(groups_of_four, blocks), local)}, {static_cast<size_t>(local)});
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
  RandomFill fill;
  std::unique_ptr<const Pointwise> copy;  ///< from the workspace to y
  size_t bytes = 0;
  Impl(RandomFill fill_) : fill(std::move(fill_)) {}
  size_t workspace_size() const override { return bytes; }
};

namespace {

std::string refuse_strides(const Context&, const RandomDesc& desc, const Options&) {
  return is_row_major(desc.y) ? "" : cat("y is not row-major, its strides are ", to_string(desc.y.strides));
}

std::string refuse_copied(const Context&, const RandomDesc& desc, const Options& options) {
  const size_t bytes = static_cast<size_t>(element_count(desc.y.shape)) * sizeof(float);
  return bytes > options.workspace_limit
             ? cat("workspace of ", bytes, " bytes exceeds ", options.workspace_limit)
             : "";
}

Defines defines_of(Distribution distribution) {
  Defines defines;
  defines.set("UNIFORM", distribution == Distribution::uniform)
      .set("NORMAL", distribution == Distribution::normal);
  return defines.set("DROPOUT", false);
}

std::unique_ptr<const Random::Impl> make_cpu(const Context& context, const RandomDesc& desc, const Options&) {
  return std::make_unique<const Random::Impl>(
      RandomFill(context, desc.y, defines_of(desc.distribution), true));
}

std::unique_ptr<const Random::Impl> make_direct(const Context& context, const RandomDesc& desc,
                                                const Options&) {
  return std::make_unique<const Random::Impl>(
      RandomFill(context, desc.y, defines_of(desc.distribution), false));
}

std::unique_ptr<const Random::Impl> make_copied(const Context& context, const RandomDesc& desc,
                                                const Options&) {
  const TensorDesc plain(desc.y.shape);
  auto impl = std::make_unique<Random::Impl>(
      RandomFill(context, plain, defines_of(desc.distribution), RandomFill::prefers_cpu(context)));
  impl->copy = std::make_unique<const Pointwise>(context, std::vector<TensorDesc>{plain},
                                                 std::vector<TensorDesc>{desc.y}, 0,
                                                 desc.y.dtype == DType::boolean ? "y0 = x0 != 0" : "y0 = x0");
  impl->bytes = static_cast<size_t>(element_count(plain.shape)) * sizeof(float);
  return impl;
}

const char* name_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform:
      return "uniform";
    case Distribution::normal:
      return "normal";
    case Distribution::bernoulli:
      return "bernoulli";
  }
  throw ValidationError("distribution", cat("number ", static_cast<int>(distribution), " does not exist"));
}

/// The kernel's numbers; refusals call a and b by the names given.
Draw make_draw(Distribution distribution, double a, double b, const char* a_name, const char* b_name) {
  Draw draw;
  if (distribution == Distribution::bernoulli) {
    draw.threshold = probability_threshold(a_name, a);
    return draw;
  }
  const auto number = [](const char* name, double value) {
    const auto result = static_cast<float>(value);
    require(std::isfinite(result), name, value, " is not a finite f32");
    return result;
  };
  draw.a = number(a_name, a);
  draw.b = number(b_name, b);
  if (distribution == Distribution::uniform) {
    require(a <= b, b_name, b, " must not be below ", a_name, ", ", a);
    const double range = static_cast<double>(draw.b) - draw.a;
    require(std::isfinite(static_cast<float>(range)), b_name, b, " less ", a_name, ", ", a,
            ", is not a finite f32");
    draw.top = draw.b > draw.a ? std::nextafter(draw.b, draw.a) : draw.a;
  } else {
    require(b >= 0, b_name, b, " must not be negative");
  }
  return draw;
}

}  // namespace

Random::Random(const Context& context, const RandomDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  // The forms run on every device, and each is the better one on its own kind.
  std::vector<Engine<RandomDesc, Impl>> engines = {{"cpu", refuse_strides, make_cpu},
                                                   {"direct", refuse_strides, make_direct},
                                                   {"copied", refuse_copied, make_copied}};
  if (!RandomFill::prefers_cpu(context)) std::swap(engines[0], engines[1]);
  require_writable("y", desc.y);
  require_real(context, desc.y.dtype);
  PlanInfo info;
  const char* distribution = name_of(desc.distribution);
  impl_ = choose_engine("random", engines, context, desc, options, info);
  info.text = cat("op=random engine=", info.engine, " distribution=", distribution, " y=", brief(desc.y));
  info.bytes = traffic({desc.y});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void Random::run(const Stream& stream, double a, double b, const RandomState& state, const Tensor& y,
                 const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"workspace", workspace}}, {{"y", y}});
  check_state(state, y.numel());
  const Draw draw = make_draw(desc_.distribution, a, b, "a", "b");
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  if (!impl_->copy) return impl_->fill.run(stream, nullptr, y, draw, state);
  const Tensor plain = workspace_part(space, 0, y.shape());
  impl_->fill.run(stream, nullptr, plain, draw, state);
  impl_->copy->run(stream, {plain}, {y}, {});
}

namespace {

void random(const Stream& stream, Distribution distribution, double a, double b, const RandomState& state,
            const Tensor& y, const char* a_name, const char* b_name) {
  require_defined({{"y", y}});
  make_draw(distribution, a, b, a_name, b_name);
  const RandomDesc desc{y, distribution};
  cached_plan<Random>(stream, PlanKey("random").add(desc.y).add(distribution), desc)
      ->run(stream, a, b, state, y);
}

}  // namespace

void random_uniform(const Stream& stream, const Tensor& y, double low, double high,
                    const RandomState& state) {
  random(stream, Distribution::uniform, low, high, state, y, "low", "high");
}
void random_normal(const Stream& stream, const Tensor& y, double mean, double deviation,
                   const RandomState& state) {
  random(stream, Distribution::normal, mean, deviation, state, y, "mean", "deviation");
}
void random_bernoulli(const Stream& stream, const Tensor& y, double p, const RandomState& state) {
  random(stream, Distribution::bernoulli, p, 0, state, y, "p", "");
}

}  // namespace dlprim
