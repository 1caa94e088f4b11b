#include "ops/conv/conv_nv_images.hpp"

#include <algorithm>

#include "core/composed.hpp"
#include "ops/conv/conv_nv_filter.hpp"
#include "ops/conv/conv_parts.hpp"

namespace dlprim::detail {
namespace {

ConvProblem of_images(const ConvProblem& p, int images) {
  ConvProblem result = p;
  result.n = images;
  result.result_dtype = DType::f32;
  const Spatial& taps = p.w_space;
  const int64_t row = taps[2], plane = row * taps[1], volume = plane * taps[0];
  result.w = {volume * p.group_c(), volume, plane, row, 1};
  result.w_extent = result.w[0] * p.k;
  result.w_row_major = true;
  const auto evenly = [&](int64_t elements, DType dtype) {
    return elements * static_cast<int64_t>(size_of(dtype)) % 16 == 0;
  };
  result.w_aligned = evenly(result.w_extent, DType::f32);
  result.x_aligned = p.x_aligned && evenly(p.x[0] * images, p.dtype);
  result.y_aligned = p.y_aligned && evenly(p.y[0] * images, p.dtype);
  result.x_extent -= p.x[0] * (p.n - images);
  result.y_extent -= p.y[0] * (p.n - images);
  return result;
}

/// As many images at a time as leave a quarter of the workspace to sums; all of them if that is enough, 0 if
/// there is no room for one.
int images_at_a_time(const ConvProblem& p, const Options& options) {
  if (p.direction != ConvDirection::backward_filter || p.n == 0) return 0;
  const uint64_t limit = options.workspace_limit;
  if (conv_nv_filter_pixel_bytes(p, options) <= limit - limit / 4) return p.n;
  const uint64_t sums = static_cast<uint64_t>(p.k) * p.group_c() * p.taps() * sizeof(float);
  for (int count = 2; count <= p.n && sums * count < limit; count++) {
    const auto images = static_cast<int>(ceil_div(p.n, count));
    const uint64_t room = limit - sums * count;
    if (conv_nv_filter_pixel_bytes(of_images(p, images), options) <= room - room / 4) return images;
  }
  return 0;
}

/// Of [part, K, ...].
Tensor part_of(const Tensor& parts, int64_t i) {
  Shape shape;
  for (int axis = 1; axis < parts.rank(); axis++) shape.push_back(parts.shape()[axis]);
  return parts.slice(0, i, i + 1).reshape(shape);
}

class Images : public ConvImpl {
 public:
  Images(const Context& context, const ConvProblem& p, const EngineOptions& options, MakeConv make)
      : n_(p.n), images_(images_at_a_time(p, options)) {
    const auto count = static_cast<int>(ceil_div(n_, images_));
    sums_.emplace(context, p, count, parts_);
    EngineOptions rest = options;
    rest.workspace_limit = parts_.rest(options).workspace_limit;
    for (int images : {images_, n_ - (count - 1) * images_})
      impls_.push_back(make(context, of_images(p, images), rest));
    for (const auto& impl : impls_) inner_bytes_ = std::max(inner_bytes_, impl->workspace_size());
    inner_at_ = parts_.add(inner_bytes_);
  }

  size_t workspace_size() const override { return parts_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor parts = sums_->partial(workspace),
                 room = workspace_part(workspace, inner_at_, {static_cast<int64_t>(inner_bytes_)}, DType::u8);
    for (int begin = 0; begin < n_; begin += images_) {
      const int end = std::min(begin + images_, n_);
      const Tensor x = t.x.slice(0, begin, end), y = t.y.slice(0, begin, end),
                   dw = part_of(parts, begin / images_);
      impls_[end == n_ ? 1 : 0]->run(stream, {x, dw, y, t.with}, room);
    }
    sums_->add_up(stream, workspace, t.w);
  }

 private:
  const int n_, images_;
  WorkspaceParts parts_;
  std::optional<ConvPartSums> sums_;
  std::vector<std::unique_ptr<const ConvImpl>> impls_;  ///< of `images_`, and of those that are left
  size_t inner_bytes_ = 0, inner_at_ = 0;
};

}  // namespace

std::optional<ConvProblem> conv_nv_images(const ConvProblem& p, const Options& options) {
  const int images = images_at_a_time(p, options);
  if (images == 0 || images == p.n) return {};
  return of_images(p, images);
}

std::unique_ptr<const ConvImpl> make_conv_nv_images(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options, MakeConv make) {
  return std::make_unique<Images>(context, problem, options, make);
}

}  // namespace dlprim::detail
