// Padding: where the elements along an axis come from. resample.cpp does the rest.
#include <dlprim/pad.hpp>

#include <algorithm>

#include "ops/resample/resample.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<PadParams> = 3;
template <>
inline constexpr int kFields<PadDesc> = 3;
template <>
inline constexpr int kFields<PadBackwardDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

const char* name_of(PadMode mode) {
  switch (mode) {
    case PadMode::constant:
      return "constant";
    case PadMode::reflect:
      return "reflect";
    case PadMode::replicate:
      return "replicate";
    case PadMode::circular:
      return "circular";
  }
  throw ValidationError("mode", cat("number ", static_cast<int>(mode), " does not exist"));
}

/// One axis of x, and what is put around it.
struct AxisPad {
  int64_t size = 0, begin = 0, end = 0;

  int64_t padded() const { return size + begin + end; }
  /// What cropping leaves.
  int64_t kept() const { return size + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0); }
};

/// The element that comes to place o; -1: none.
int64_t source_of(const AxisPad& axis, PadMode mode, int64_t o) {
  const int64_t i = o - axis.begin, last = axis.size - 1;
  switch (mode) {
    case PadMode::constant:
      return i >= 0 && i <= last ? i : -1;
    case PadMode::reflect:
      return i < 0 ? -i : i > last ? 2 * last - i : i;
    case PadMode::replicate:
      return std::clamp<int64_t>(i, 0, last);
    case PadMode::circular: {
      const int64_t kept = axis.kept(), from = std::max<int64_t>(-axis.begin, 0);
      return from + (o - std::max<int64_t>(axis.begin, 0) + kept) % kept;
    }
  }
  return -1;
}

AxisTaps taps_of(const AxisPad& axis, PadMode mode) {
  AxisTaps taps;
  taps.source_size = axis.size;
  for (int64_t o = 0; o < axis.padded(); o++) {
    const int64_t source = source_of(axis, mode, o);
    if (source >= 0) taps.source.push_back(static_cast<int32_t>(source));
    taps.end_place();
  }
  return taps;
}

std::string listed(const Dims& dims) {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "" : ",") + std::to_string(d);
  return text;
}

/// Backward d is of dx and dy.
std::shared_ptr<const Resample> plan(const Context& context, const PadDesc& d, bool backward,
                                     const Options& options, std::shared_ptr<const PlanInfo>& info) {
  const char *x = backward ? "dx" : "x", *y = backward ? "dy" : "y";
  require_floating(x, d.x, true);
  require_floating(y, d.y, true);
  require_shape(y, d.y, pad_output_shape(d.x.shape, d.params));
  require_writable(backward ? x : y, backward ? d.x : d.y);
  ResampleProblem problem{backward ? d.y : d.x, backward ? d.x : d.y, {}};
  for (int i = 0; i < d.x.shape.size(); i++) {
    const AxisPad axis{d.x.shape[i], d.params.begin[i], d.params.end[i]};
    if (axis.begin == 0 && axis.end == 0) continue;
    to_int(y, std::max(axis.size, axis.padded()));
    const AxisTaps taps = taps_of(axis, d.params.mode);
    problem.axes.push_back({i, backward ? transposed(taps) : taps});
  }
  PlanInfo made;
  const char* op = backward ? "pad_backward" : "pad";
  auto impl = choose_resample(op, context, problem, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " mode=", name_of(d.params.mode), " x=", brief(d.x),
                  " y=", brief(d.y), " begin=", listed(d.params.begin), " end=", listed(d.params.end));
  made.bytes = traffic({d.x, d.y});
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

}  // namespace

Shape pad_output_shape(const Shape& x, const PadParams& params) {
  const std::string mode = name_of(params.mode);
  require(x.size() >= 1, "x", "rank 0 must be 1 or more");
  require(params.begin.size() == x.size(), "begin", params.begin.size(), " numbers for ", x.size(), " axes");
  require(params.end.size() == x.size(), "end", params.end.size(), " numbers for ", x.size(), " axes");
  Shape y = x;
  for (int i = 0; i < x.size(); i++) {
    const AxisPad axis{x[i], params.begin[i], params.end[i]};
    const int64_t most = std::max(axis.begin, axis.end);
    constexpr int64_t kMost = int64_t{1} << 32;  // far more than kernels count
    require(std::max(std::abs(std::max(-kMost - 1, axis.begin)), std::abs(std::max(-kMost - 1, axis.end))) <=
                kMost,
            "begin", axis.begin, " and ", axis.end, " around axis ", i, " do not fit in 32 bits");
    require(axis.padded() >= 0 && axis.kept() >= 0, "begin", axis.begin, " and ", axis.end, " around axis ",
            i, " leave nothing of size ", x[i]);
    y[i] = axis.padded();
    if (params.mode == PadMode::constant || most <= 0) continue;
    const int64_t room = params.mode == PadMode::reflect    ? axis.size - 1
                         : params.mode == PadMode::circular ? axis.kept()
                         : axis.size > 0                    ? most
                                                            : 0;
    require(most <= room, "begin", most, " around axis ", i, " of size ", x[i], " is more than ", mode,
            " can take, ", room);
  }
  return y;
}

Pad::Pad(const Context& context, const PadDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc), impl_(plan(context, desc, false, options, info_)) {}

void Pad::run(const Stream& stream, const Tensor& x, double value, const Tensor& y,
              const Tensor& workspace) const {
  run_resample(*info_, *impl_, stream, {"x", x}, desc_.x, {"y", y}, desc_.y, value, workspace);
}

PadBackward::PadBackward(const Context& context, const PadBackwardDesc& desc, const Options& options)
    : Plan(nullptr),
      desc_(desc),
      impl_(plan(context, {desc.dx, desc.dy, desc.params}, true, options, info_)) {}

void PadBackward::run(const Stream& stream, const Tensor& dy, const Tensor& dx,
                      const Tensor& workspace) const {
  run_resample(*info_, *impl_, stream, {"dy", dy}, desc_.dy, {"dx", dx}, desc_.dx, 0, workspace);
}

void pad(const Stream& stream, const Tensor& x, const PadParams& params, double value, const Tensor& y,
         const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const PadDesc desc{x, y, params};
  cached_plan<Pad>(stream, "pad", desc, options, workspace)->run(stream, x, value, y, workspace);
}

void pad_backward(const Stream& stream, const Tensor& dy, const PadParams& params, const Tensor& dx,
                  const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"dx", dx}});
  const PadBackwardDesc desc{dy, dx, params};
  cached_plan<PadBackward>(stream, "pad_backward", desc, options, workspace)->run(stream, dy, dx, workspace);
}

}  // namespace dlprim
