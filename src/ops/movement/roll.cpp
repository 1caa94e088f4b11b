// Rolls: copies of the parts that change places.
#include <dlprim/movement.hpp>

#include "ops/lib/view.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<RollDesc> = 4;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Roll::Impl {
  RollDesc desc;
  std::vector<ViewCopy> copies;
};

namespace {

using Parts = std::vector<std::pair<View, View>>;

/// Each axis cuts every part in two, which change places.
Parts parts_of(const RollDesc& d) {
  const int rank = d.x.shape.size();
  require(d.shifts.size() == d.axes.size(), "shifts", d.shifts.size(), " for ", d.axes.size(), " axes");
  Parts parts = {{whole(d.x), whole(d.y)}};
  for (size_t i = 0; i < d.axes.size(); i++) {
    const int along = normalize_axis("axes", d.axes[i], rank);
    for (size_t j = 0; j < i; j++)
      require(along != normalize_axis("axes", d.axes[j], rank), "axes", "axis ", along, " is there twice");
    const int64_t size = d.x.shape[along];
    const int64_t shift = size ? (d.shifts[i] % size + size) % size : 0;
    if (shift == 0) continue;
    Parts cut;
    for (const auto& [from, to] : parts) {
      cut.emplace_back(sliced(from, along, 0, size - shift), sliced(to, along, shift, size));
      cut.emplace_back(sliced(from, along, size - shift, size), sliced(to, along, 0, shift));
    }
    parts = std::move(cut);
  }
  return parts;
}

}  // namespace

Roll::Roll(const Context& context, const RollDesc& desc, const Options& options) : Plan(nullptr) {
  require_strides("x", desc.x);
  require_writable("y", desc.y);
  require_shape("y", desc.y, desc.x.shape);
  auto impl = std::make_shared<Impl>(Impl{desc, {}});
  for (const auto& [from, to] : parts_of(desc)) impl->copies.emplace_back(context, desc.x, from, desc.y, to);
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y));
  for (size_t i = 0; i < desc.axes.size(); i++)
    info.text += cat(i ? "," : " shifts=", desc.shifts[i], "@", desc.axes[i]);
  info.bytes = traffic({desc.x, desc.y});
  info_ = single_engine("roll", "copies", "", context, options, std::move(info));
  impl_ = std::move(impl);
}

void Roll::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_moved(*info_, stream, impl_->desc.x, x, impl_->desc.y, y, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  for (const ViewCopy& part : impl_->copies) part.run(stream, x, y);
}

void roll(const Stream& stream, const Tensor& x, const std::vector<int64_t>& shifts,
          const std::vector<int>& axes, const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const RollDesc desc{x, y, shifts, axes};
  cached_plan<Roll>(stream, "roll", desc, options, workspace)->run(stream, x, y, workspace);
}

}  // namespace dlprim
