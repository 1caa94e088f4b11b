// Counting elements: checks, plans, calls. The engines are in histogram_bins.cpp and histogram_weights.cpp.
#include <dlprim/histogram.hpp>

#include <algorithm>
#include <climits>
#include <cmath>

#include <dlprim/copy.hpp>

#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/reduce/histogram_impl.hpp"

namespace dlprim::detail {

template <>
inline constexpr int kFields<HistogramRange> = 2;
template <>
inline constexpr int kFields<BincountDesc> = 3;
template <>
inline constexpr int kFields<HistcDesc> = 3;
template <>
inline constexpr int kFields<EndsDesc> = 3;

DType HistogramProblem::accumulator(bool wide) const {
  if (!weights) return DType::i32;
  return wide || weights->dtype == DType::f64 || y.dtype == DType::f64 ? DType::f64 : DType::f32;
}

Ends::Ends(const Context& context, const EndsDesc& desc, const Options& options) : dtype_(desc.dtype) {
  const Reduction both =
      dtype_ == DType::i64
          ? Reduction{2, desc.from_zero ? "a0 = 0; a1 = 0" : "a0 = LONG_MAX; a1 = LONG_MIN",
                      "a0 = min(a0, (real)x0); a1 = max(a1, (real)x0)", "a0 = min(a0, b0); a1 = max(a1, b1)",
                      "y0 = a0; y1 = a1"}
          : Reduction{2, "a0 = INFINITY; a1 = -INFINITY",
                      "a0 = x0 < a0 || x0 != x0 ? x0 : a0; a1 = x0 > a1 || x0 != x0 ? x0 : a1",
                      "a0 = b0 < a0 || b0 != b0 ? b0 : a0; a1 = b1 > a1 || b1 != b1 ? b1 : a1",
                      "y0 = a0; y1 = a1"};
  layout_.add(2 * size_of(dtype_));
  const TensorDesc low({1}, dtype_), high({1}, {1}, dtype_, false);
  reduce_.emplace(context, std::vector<TensorDesc>{desc.x}, std::vector<TensorDesc>{low, high}, 0, both,
                  layout_.rest(options));
  scratch_at_ = layout_.add(reduce_->workspace_size());
}

Tensor Ends::run(const Stream& stream, const Tensor& x, const Tensor& workspace) const {
  const Tensor ends = workspace_part(workspace, 0, {2}, dtype_);
  reduce_->run(stream, {x}, {ends.slice(0, 0, 1), ends.slice(0, 1, 2)}, {},
               workspace_scratch(workspace, scratch_at_, *reduce_));
  return ends;
}

Defines histogram_defines(const HistogramProblem& p, DType accumulator) {
  Defines defines;
  const DType w = p.weights ? p.weights->dtype : DType::f32;
  define_type(defines, "X", p.x.dtype);
  defines.set("VALUE", compute_type(p.x.dtype));
  define_type(defines, "W", w);
  defines.set("WEIGHTED", p.weights.has_value());
  defines.set("ACC", p.weights ? storage_type(accumulator) : "uint");
  define_type(defines, "Y", p.y.dtype);
  defines.set("Y_VALUE", compute_type(p.y.dtype));
  return defines.set("RANGE", p.ranged).set("WHOLE", p.whole()).set("FROM_DATA", p.from_data());
}

}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

void check(const Context& context, const TensorDesc& x, const TensorDesc& y) {
  require_strides("x", x);
  require(element_count(x.shape) < INT_MAX, "x", element_count(x.shape), " elements are not less than ",
          INT_MAX);
  require_real(context, x.dtype);
  require_real(context, y.dtype);
  require_rank("y", y, 1);
  require(element_count(y.shape) < INT_MAX, "y", element_count(y.shape), " bins are not less than ", INT_MAX);
  require(y.dtype != DType::boolean, "y", "dtype bool counts nothing");
  require_writable("y", y);
}

void require_whole(DType dtype) {
  require(!is_floating(dtype), "x", "dtype ", name_of(dtype), " must be an integer");
}

bool is_i64(double number) {
  return number == std::trunc(number) && number >= -0x1p63 && number < 0x1p63;
}

constexpr EngineList<HistogramProblem, HistogramImpl> kCounting = {&kHistogramAtomics, &kHistogramParts},
                                                      kWeighing = {&kHistogramExact, &kHistogramSorted,
                                                                   &kHistogramParts};

std::shared_ptr<const HistogramImpl> plan(const char* op, const Context& context, const HistogramProblem& p,
                                          const Options& options, std::shared_ptr<const PlanInfo>& info) {
  PlanInfo made;
  std::shared_ptr<const HistogramImpl> impl =
      choose_engine(op, p.weights ? kWeighing : kCounting, context, p, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " x=", brief(p.x), " y=", brief(p.y));
  if (p.weights) made.text += cat(" weights=", brief(*p.weights));
  if (p.ranged) made.text += cat(" low=", p.range.low, " high=", p.range.high);
  made.bytes = traffic({p.x, p.y}) + (p.weights ? traffic({*p.weights}) : 0);
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

/// How many bins x's numbers need. Waits.
int64_t bins_for(const Stream& stream, const Tensor& x, const Options& options, const Tensor& workspace) {
  if (x.numel() == 0) return 0;
  Options within;
  within.workspace_limit = options.workspace_limit;
  const EndsDesc desc{x, DType::i64, true};
  const auto ends = cached_plan<Ends>(stream, "ends", desc, within, workspace);
  PlanInfo needs;
  needs.workspace = ends->workspace_size();
  const Tensor space = workspace_for(needs, stream, workspace);
  const std::vector<int64_t> found = read<int64_t>(stream, ends->run(stream, x, space));
  require(found[0] >= 0, "x", "the element ", found[0], " is below 0");
  require(found[1] >= 0 && found[1] < INT64_MAX, "x", "the element ", static_cast<uint64_t>(found[1]),
          " needs more bins than can be counted");
  return found[1] + 1;
}

}  // namespace

Bincount::Bincount(const Context& context, const BincountDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(context, desc.x, desc.y);
  require_whole(desc.x.dtype);
  if (desc.weights) {
    require_shape("weights", *desc.weights, desc.x.shape);
    require_floating("weights", *desc.weights, true);
    require_floating("y", desc.y, true);
    require_real(context, desc.weights->dtype);
  }
  impl_ = plan("bincount", context, {desc.x, desc.weights, desc.y, false, {}}, options, info_);
}

void Bincount::run(const Stream& stream, const Tensor& x, const Tensor& weights, const Tensor& y,
                   const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_optional("weights", weights, stream.context(), desc_.weights);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}, {"weights", weights}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {x, weights, y}, space);
}

Histc::Histc(const Context& context, const HistcDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(context, desc.x, desc.y);
  require(desc.x.dtype != DType::u64, "x", "dtype u64 has no ranges, i64 has");
  const HistogramRange& range = desc.range;
  require(std::isfinite(range.low) && std::isfinite(range.high) && range.low <= range.high, "range", "from ",
          range.low, " to ", range.high, " is none");
  require(is_floating(desc.x.dtype) || (is_i64(range.low) && is_i64(range.high)), "range", "from ", range.low,
          " to ", range.high, " must be two numbers of i64, as x has ", name_of(desc.x.dtype));
  impl_ = plan("histc", context, {desc.x, {}, desc.y, true, range}, options, info_);
}

void Histc::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {x, {}, y}, space);
}

void bincount(const Stream& stream, const Tensor& x, const Tensor& weights, const Tensor& y,
              const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const BincountDesc desc{x, described(weights), y};
  cached_plan<Bincount>(stream, "bincount", desc, options, workspace)->run(stream, x, weights, y, workspace);
}

void histc(const Stream& stream, const Tensor& x, const HistogramRange& range, const Tensor& y,
           const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const HistcDesc desc{x, y, range};
  cached_plan<Histc>(stream, "histc", desc, options, workspace)->run(stream, x, y, workspace);
}

Tensor bincount(const Stream& stream, const Tensor& x, const Tensor& weights, int64_t minlength,
                const Options& options, const Tensor& workspace) {
  require_context("x", x, stream.context());
  require_whole(x.dtype());
  require(minlength >= 0, "minlength", minlength, " is below 0");
  if (weights.defined()) require_floating("weights", weights, true);
  const DType dtype = !weights.defined()              ? DType::i64
                      : weights.dtype() == DType::f64 ? DType::f64
                                                      : DType::f32;
  const Tensor y(stream, {std::max(minlength, bins_for(stream, x, options, workspace))}, dtype);
  bincount(stream, x, weights, y, options, workspace);
  return y;
}

}  // namespace dlprim
