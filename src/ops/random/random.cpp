// Random numbers: `cpu` and `direct`, the two forms of random.cl, write row-major memory, `tiles` memory
// whose innermost dimension is another one; `copied` serves other strides by way of the workspace.
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>

#include <optional>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "ops/random/random_draw.hpp"
#include "ops/random/random_tiles.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<RandomDesc> = 2;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Random::Impl : EngineImpl {
  std::optional<RandomFill> fill;
  std::optional<RandomTiles> tiles;
  std::unique_ptr<const Pointwise> copy;  ///< from the workspace to y
  size_t bytes = 0;
  size_t workspace_size() const override { return bytes; }
};

namespace {

std::string refuse_strides(const Context&, const RandomDesc& desc, const EngineOptions&) {
  return is_row_major(desc.y) ? "" : cat("y is not row-major, its strides are ", to_string(desc.y.strides));
}

std::string refuse_copied(const Context&, const RandomDesc& desc, const EngineOptions& options) {
  return workspace_refusal(static_cast<size_t>(element_count(desc.y.shape)) * size_of(desc.y.dtype), options);
}

std::string refuse_tiles(const Context&, const RandomDesc& desc, const EngineOptions&) {
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

std::unique_ptr<const Random::Impl> make_cpu(const Context& context, const RandomDesc& desc,
                                             const EngineOptions&) {
  return make_fill(context, desc, true);
}

std::unique_ptr<const Random::Impl> make_direct(const Context& context, const RandomDesc& desc,
                                                const EngineOptions&) {
  return make_fill(context, desc, false);
}

std::unique_ptr<const Random::Impl> make_tiles(const Context& context, const RandomDesc& desc,
                                               const EngineOptions&) {
  auto impl = std::make_unique<Random::Impl>();
  impl->tiles.emplace(context, nullptr, desc.y, defines_of(desc));
  return impl;
}

std::unique_ptr<const Random::Impl> make_copied(const Context& context, const RandomDesc& desc,
                                                const EngineOptions&) {
  const TensorDesc plain(desc.y.shape, desc.y.dtype);
  auto impl = make_fill(context, {plain, desc.distribution}, RandomFill::prefers_cpu(context));
  impl->copy = std::make_unique<const Pointwise>(context, std::vector<TensorDesc>{plain},
                                                 std::vector<TensorDesc>{desc.y}, 0, "y0 = x0");
  impl->bytes = static_cast<size_t>(element_count(plain.shape)) * size_of(plain.dtype);
  return impl;
}

// The forms run on every device, and each is the better one on its own kind.
using Form = Engine<RandomDesc, Random::Impl>;
constexpr Form kDirect{"direct", refuse_strides, make_direct, avoid_on_cpus},
    kCpu{"cpu", refuse_strides, make_cpu}, kTiles{"tiles", refuse_tiles, make_tiles, avoid_on_cpus},
    kCopied{"copied", refuse_copied, make_copied};
constexpr EngineList<RandomDesc, Random::Impl> kEngines = {&kDirect, &kCpu, &kTiles, &kCopied};

}  // namespace

Random::Random(const Context& context, const RandomDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  require_writable("y", desc.y);
  require_real(context, desc.y.dtype);
  PlanInfo info;
  const char* distribution = names_of(desc.distribution).text;
  impl_ = choose_engine("random", kEngines, context, desc, options, info);
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
