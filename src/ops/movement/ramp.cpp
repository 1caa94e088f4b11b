// Numbers in a row: the kernels of ramp.cl.
#include <climits>
#include <cmath>

#include <dlprim/patterns.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ArangeDesc> = 1;
template <>
inline constexpr int kFields<LinspaceDesc> = 1;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

bool holds_integers(const TensorDesc& y) {
  return !is_floating(y.dtype);
}

/// Numbers computed in one type from both ends.
struct Ramp {
  Ramp(const Context& context, const TensorDesc& y)
      : integers(holds_integers(y)), f64(context.device().probes().fp64) {
    Defines defines;
    defines.set("DTYPE", name_of(y.dtype)).set("T", storage_type(y.dtype));
    defines.set("REAL", integers ? "long" : f64 ? "double" : "float");
    kernel = context.state().programs.kernel("ramp", "ramp", defines);
  }
  void run(const Stream& stream, Scalar start, Scalar step, Scalar end, int64_t half, const Tensor& y) const {
    Launch launch(stream, kernel);
    launch.arg(y).arg(y.strides()[0]).arg(y.numel()).arg(half);
    for (const Scalar value : {start, step, end}) {
      if (integers)
        launch.arg(static_cast<int64_t>(value.modulo_2_64()));
      else
        launch.real(f64 ? DType::f64 : DType::f32, value.real());
    }
    launch.run({items_in_groups(y.numel(), 64)}, {64});
  }

  bool integers, f64;
  Kernel kernel;
};

/// linspace of whole numbers, which are below 2^63; so is the distance.
void run_whole(const Stream& stream, const Kernel& kernel, int64_t first, int64_t last, const Tensor& y) {
  constexpr int64_t kFar = int64_t{1} << 62;
  require(std::max(first, last) < kFar && std::min(first, last) > -kFar, "end", last, " is too far from ",
          first);
  const int64_t distance = last - first;
  const int64_t intervals = std::max<int64_t>(y.numel() - 1, 1);
  const int64_t rest = (distance % intervals + intervals) % intervals;
  Launch launch(stream, kernel);
  launch.arg(y).arg(y.strides()[0]).arg(y.numel()).arg(first).arg((distance - rest) / intervals);
  launch.arg(rest).arg(intervals).run({items_in_groups(y.numel(), 64)}, {64});
}

void check(const Context& context, const TensorDesc& y) {
  require_writable("y", y);
  require_rank("y", y, 1);
  require_real(context, y.dtype);
}

void check_run(const PlanInfo& info, const Stream& stream, const TensorDesc& desc, const Tensor& y,
               const Tensor& workspace) {
  require_stream(info, stream);
  require_tensor("y", y, stream.context(), desc);
  require_apart({{"workspace", workspace}}, {{"y", y}});
  workspace_for(info, stream, workspace);
}

/// Numbers of `dtype` can be made of this one: if they are whole, it is.
void require_fitting(const char* name, Scalar value, const Tensor& y, DType dtype) {
  const bool whole = value.is_whole() || (takes(dtype, value) && value.real() == std::floor(value.real()));
  require(whole || is_floating(dtype), name, value.real(), " for ", y);
}

std::shared_ptr<const PlanInfo> info_of(const char* op, const Context& context, const TensorDesc& y,
                                        const Options& options) {
  PlanInfo info;
  info.text = cat("y=", brief(y));
  info.bytes = traffic({y});
  return single_engine(op, "direct", "", context, options, std::move(info));
}

}  // namespace

struct Arange::Impl {
  ArangeDesc desc;
  Ramp ramp;
};

Arange::Arange(const Context& context, const ArangeDesc& desc, const Options& options) : Plan(nullptr) {
  check(context, desc.y);
  info_ = info_of("arange", context, desc.y, options);
  impl_ = std::make_shared<const Impl>(Impl{desc, Ramp(context, desc.y)});
}

void Arange::run(const Stream& stream, Scalar start, Scalar step, const Tensor& y,
                 const Tensor& workspace) const {
  check_run(*info_, stream, impl_->desc.y, y, workspace);
  require_fitting("start", start, y, y.dtype());
  require_fitting("step", step, y, y.dtype());
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->ramp.run(stream, start, step, start, y.numel(), y);
}

struct Linspace::Impl {
  LinspaceDesc desc;
  std::optional<Ramp> ramp;
  Kernel whole;  ///< of integers
};

Linspace::Linspace(const Context& context, const LinspaceDesc& desc, const Options& options) : Plan(nullptr) {
  check(context, desc.y);
  require(desc.y.dtype != DType::boolean, "y", "dtype bool has no numbers between two");
  Impl impl{desc, {}, {}};
  if (holds_integers(desc.y)) {
    require(element_count(desc.y.shape) < INT_MAX, "y", element_count(desc.y.shape),
            " elements must be less than 2^31");
    Defines defines;
    defines.set("DTYPE", name_of(desc.y.dtype)).set("T", storage_type(desc.y.dtype)).set("REAL", "long");
    impl.whole = context.state().programs.kernel("ramp", "whole_ramp", defines);
  } else {
    impl.ramp.emplace(context, desc.y);
  }
  info_ = info_of("linspace", context, desc.y, options);
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

void Linspace::run(const Stream& stream, Scalar start, Scalar end, const Tensor& y,
                   const Tensor& workspace) const {
  check_run(*info_, stream, impl_->desc.y, y, workspace);
  const DType between = impl_->ramp ? y.dtype() : DType::i64;
  require_fitting("start", start, y, between);
  require_fitting("end", end, y, between);
  const int64_t count = y.numel();
  if (count == 0) return;
  const OperatorScope scope(stream, *info_);
  if (!impl_->ramp) return run_whole(stream, impl_->whole, start.whole(), end.whole(), y);
  const double step = count > 1 ? (end.real() - start.real()) / static_cast<double>(count - 1) : 0;
  impl_->ramp->run(stream, start, step, end, std::max<int64_t>(1, count / 2), y);
}

void arange(const Stream& stream, Scalar start, Scalar step, const Tensor& y, const Options& options,
            const Tensor& workspace) {
  require_defined({{"y", y}});
  const ArangeDesc desc{y};
  cached_plan<Arange>(stream, "arange", desc, options, workspace)->run(stream, start, step, y, workspace);
}

void linspace(const Stream& stream, Scalar start, Scalar end, const Tensor& y, const Options& options,
              const Tensor& workspace) {
  require_defined({{"y", y}});
  const LinspaceDesc desc{y};
  cached_plan<Linspace>(stream, "linspace", desc, options, workspace)->run(stream, start, end, y, workspace);
}

}  // namespace dlprim
