// torchvision's operators, by their names and schemas: where torchvision is not loaded these kernels wait for
// nobody. Numbers of 16 bits are computed in f32, as on other devices.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>
#include <dlprim/roi.hpp>

#include "plans.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

int64_t number(const c10::SymInt& n) {
  return n.guard_int(__FILE__, __LINE__);
}

void check_boxes(const char* op, const at::Tensor& x, const at::Tensor& rois) {
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, op, ": rois must have shape as Tensor[K, 5], not ",
              rois.sizes());
  TORCH_CHECK(x.dim() == 4, op, ": the input must have 4 dimensions, not ", x.dim());
  TORCH_CHECK(x.scalar_type() == rois.scalar_type(), op,
              ": Expected tensor for argument #1 'input' to have the same"
              " type as tensor for argument #2 'rois'; but type ",
              x.scalar_type(), " does not equal ", rois.scalar_type());
  TORCH_CHECK(x.device() == rois.device(), op, ": Expected all tensors to be on the same device, but found ",
              x.device(), " and ", rois.device());
}

at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double threshold) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4, "boxes should be a 2d tensor of 4 columns, got ",
              boxes.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0),
              "boxes and scores should have same number of elements in dimension 0, got ", boxes.size(0),
              " and ", scores.sizes());
  const c10::DeviceGuard guard(boxes.device());
  if (boxes.size(0) == 0) return at::empty({0}, boxes.options().dtype(at::kLong));
  const at::Tensor order = std::get<1>(scores.sort(/*stable=*/true, 0, /*descending=*/true));
  const at::Tensor sorted = boxes.index_select(0, order),
                   keep = at::empty({boxes.size(0)}, boxes.options().dtype(at::kBool));
  const dlprim::Tensor x = view(sorted), y = view(keep);
  run_plan<dlprim::Nms>(
      home_of(boxes), Key::of(x, y, threshold),
      [&] {
        return dlprim::Nms(home_of(boxes).context, {x, y, threshold});
      },
      [&](const dlprim::Nms& plan, const dlprim::Stream& stream) { plan.run(stream, x, y); });
  return order.masked_select(keep);
}

// Pooling

Key key_of(const dlprim::Tensor& x, const dlprim::Tensor& rois, const dlprim::Tensor& y,
           const dlprim::RoiParams& p) {
  return Key::of(x, rois, y, p.bins, p.scale, p.samples, p.aligned, p.by_position);
}

at::Tensor pool(const at::Tensor& input, const at::Tensor& rois, const c10::SymInt& rows,
                const c10::SymInt& columns, const dlprim::RoiParams& params) {
  const int64_t p = number(rows), q = number(columns);
  const int64_t channels = params.by_position ? input.size(1) / (p * q) : input.size(1);
  const at::Tensor output = at::empty({rois.size(0), channels, p, q}, input.options());
  if (output.numel() == 0) return output;
  const dlprim::Tensor x = view(input), boxes = view(rois), y = view(output);
  run_plan<dlprim::RoiPool>(
      home_of(input), key_of(x, boxes, y, params),
      [&] {
        return dlprim::RoiPool(home_of(input).context, {x, boxes, y, params});
      },
      [&](const dlprim::RoiPool& plan, const dlprim::Stream& stream) { plan.run(stream, x, boxes, y); });
  return output;
}

at::Tensor pool_backward(const at::Tensor& grad, const at::Tensor& rois, at::IntArrayRef sizes,
                         const dlprim::RoiParams& params) {
  const at::Tensor result = at::empty(sizes, grad.options());
  if (grad.numel() == 0 || result.numel() == 0) return result.zero_();
  const dlprim::Tensor dy = view(grad), boxes = view(rois), dx = view(result);
  run_plan<dlprim::RoiPoolBackward>(
      home_of(grad), key_of(dy, boxes, dx, params),
      [&] {
        return dlprim::RoiPoolBackward(home_of(grad).context, {dy, boxes, dx, params});
      },
      [&](const dlprim::RoiPoolBackward& plan, const dlprim::Stream& stream) {
        plan.run(stream, dy, boxes, dx);
      });
  return result;
}

dlprim::RoiParams align(double scale, int64_t samples, bool aligned) {
  return {dlprim::RoiBins::samples, scale, samples, aligned, false};
}
dlprim::RoiParams by_position(dlprim::RoiBins bins, double scale, int64_t samples) {
  return {bins, scale, samples, /*aligned=*/true, /*by_position=*/true};
}

at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double scale, c10::SymInt rows,
                     c10::SymInt columns, int64_t samples, bool aligned) {
  check_boxes("roi_align", input, rois);
  const c10::DeviceGuard guard(input.device());
  return pool(input, rois, rows, columns, align(scale, samples, aligned));
}
at::Tensor roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, double scale, c10::SymInt,
                              c10::SymInt, c10::SymInt batch, c10::SymInt channels, c10::SymInt height,
                              c10::SymInt width, int64_t samples, bool aligned) {
  const c10::DeviceGuard guard(grad.device());
  return pool_backward(grad, rois, {number(batch), number(channels), number(height), number(width)},
                       align(scale, samples, aligned));
}

/// For each output the input's channel, which is a matter of its place alone.
at::Tensor channels_of(const at::Tensor& output) {
  const int64_t planes = output.size(1) * output.size(2) * output.size(3);
  return at::arange(planes, output.options().dtype(at::kInt))
      .view({1, output.size(1), output.size(2), output.size(3)})
      .expand(output.sizes())
      .contiguous();
}
void check_channels(const char* op, const at::Tensor& input, const c10::SymInt& rows,
                    const c10::SymInt& columns) {
  TORCH_CHECK(input.size(1) % (number(rows) * number(columns)) == 0, op,
              ": input channels must be a multiple of pooling height * pooling width");
}

std::tuple<at::Tensor, at::Tensor> ps_roi_align(const at::Tensor& input, const at::Tensor& rois, double scale,
                                                c10::SymInt rows, c10::SymInt columns, int64_t samples) {
  check_boxes("ps_roi_align", input, rois);
  check_channels("ps_roi_align", input, rows, columns);
  const c10::DeviceGuard guard(input.device());
  const at::Tensor y =
      pool(input, rois, rows, columns, by_position(dlprim::RoiBins::samples, scale, samples));
  return {y, channels_of(y)};
}
at::Tensor ps_roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor&,
                                 double scale, c10::SymInt, c10::SymInt, int64_t samples, c10::SymInt batch,
                                 c10::SymInt channels, c10::SymInt height, c10::SymInt width) {
  const c10::DeviceGuard guard(grad.device());
  return pool_backward(grad, rois, {number(batch), number(channels), number(height), number(width)},
                       by_position(dlprim::RoiBins::samples, scale, samples));
}

std::tuple<at::Tensor, at::Tensor> ps_roi_pool(const at::Tensor& input, const at::Tensor& rois, double scale,
                                               c10::SymInt rows, c10::SymInt columns) {
  check_boxes("ps_roi_pool", input, rois);
  check_channels("ps_roi_pool", input, rows, columns);
  const c10::DeviceGuard guard(input.device());
  const at::Tensor y = pool(input, rois, rows, columns, by_position(dlprim::RoiBins::elements, scale, 0));
  return {y, channels_of(y)};
}
at::Tensor ps_roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor&,
                                double scale, c10::SymInt, c10::SymInt, c10::SymInt batch,
                                c10::SymInt channels, c10::SymInt height, c10::SymInt width) {
  const c10::DeviceGuard guard(grad.device());
  return pool_backward(grad, rois, {number(batch), number(channels), number(height), number(width)},
                       by_position(dlprim::RoiBins::elements, scale, 0));
}

std::tuple<at::Tensor, at::Tensor> roi_pool(const at::Tensor& input, const at::Tensor& rois, double scale,
                                            c10::SymInt rows, c10::SymInt columns) {
  check_boxes("roi_pool", input, rois);
  const c10::DeviceGuard guard(input.device());
  const at::Tensor output = at::empty({rois.size(0), input.size(1), number(rows), number(columns)},
                                      input.options()),
                   places = at::empty(output.sizes(), input.options().dtype(at::kInt));
  if (output.numel() == 0) return {output, places};
  const dlprim::Tensor x = view(input), boxes = view(rois), y = view(output), indices = view(places);
  run_plan<dlprim::RoiMaxPool>(
      home_of(input), Key::of(x, boxes, y, indices, scale),
      [&] {
        return dlprim::RoiMaxPool(home_of(input).context, {x, boxes, y, indices, scale});
      },
      [&](const dlprim::RoiMaxPool& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, boxes, y, indices);
      });
  return {output, places};
}
/// Every gradient is added where its largest element was.
at::Tensor roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& places, double,
                             c10::SymInt, c10::SymInt, c10::SymInt batch, c10::SymInt channels,
                             c10::SymInt height, c10::SymInt width) {
  const c10::DeviceGuard guard(grad.device());
  const int64_t n = number(batch), c = number(channels), h = number(height), w = number(width);
  const at::Tensor result = at::zeros({n * c * h * w}, grad.options().dtype(at::kFloat));
  if (grad.numel() != 0) {
    const at::Tensor planes = rois.select(1, 0).to(at::kLong).mul(c).unsqueeze(1) +
                              at::arange(c, places.options().dtype(at::kLong));
    const at::Tensor at_place = planes.view({-1, c, 1, 1}).mul(h * w) + places.to(at::kLong);
    // Empty bins have no largest element: they add 0 to the first.
    const at::Tensor there = places.ge(0);
    result.index_add_(0, at_place.mul(there).reshape({-1}), grad.to(at::kFloat).mul(there).reshape({-1}));
  }
  return result.view({n, c, h, w}).to(grad.scalar_type());
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("nms", TORCH_FN(nms));
  m.impl("roi_align", TORCH_FN(roi_align));
  m.impl("_roi_align_backward", TORCH_FN(roi_align_backward));
  m.impl("roi_pool", TORCH_FN(roi_pool));
  m.impl("_roi_pool_backward", TORCH_FN(roi_pool_backward));
  m.impl("ps_roi_align", TORCH_FN(ps_roi_align));
  m.impl("_ps_roi_align_backward", TORCH_FN(ps_roi_align_backward));
  m.impl("ps_roi_pool", TORCH_FN(ps_roi_pool));
  m.impl("_ps_roi_pool_backward", TORCH_FN(ps_roi_pool_backward));
}

}  // namespace

}  // namespace ocl
