// How many parts a sum is computed in, and the kernel that adds them up.
#include "ops/conv_parts.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/state.hpp"

namespace dlprim::detail {
namespace {

// Work-groups for each compute unit, so that late ones leave few units idle.
constexpr int64_t kGroupsPerUnit = 4;
constexpr size_t kGroup = 64;
constexpr int64_t kCpuWidth = 1024;

int64_t width_on(const Device& device) {
  return device.kind() == DeviceKind::cpu ? kCpuWidth : 1;
}

}  // namespace

ConvParts conv_parts_for(int64_t k, int64_t block, int64_t tiles, const Device& device, int64_t results,
                         int64_t room) {
  const int64_t blocks = std::max<int64_t>(1, ceil_div(k, block));
  const int64_t wanted = kGroupsPerUnit * std::max(1, device.facts().compute_units);
  int64_t count = tiles >= wanted ? 1 : ceil_div(wanted, std::max<int64_t>(1, tiles));
  count = std::min({count, blocks, std::max<int64_t>(1, room / std::max<int64_t>(1, results))});
  const int64_t steps = ceil_div(blocks, count) * block;
  // Parts of equal length may need fewer of them.
  return {static_cast<int>(std::max<int64_t>(1, ceil_div(k, steps))), static_cast<int>(steps)};
}

Kernel conv_add_parts_kernel(const Context& context) {
  return context.state().programs.kernel("conv_parts", "conv_add_parts",
                                         Defines().set("WIDTH", width_on(context.device())));
}

void conv_add_parts(const Stream& stream, const Kernel& kernel, const Tensor& x, const Tensor& y, int parts) {
  const bool cpu = stream.context().device().kind() == DeviceKind::cpu;
  const size_t group = cpu ? 1 : kGroup;
  const int64_t items = ceil_div(y.numel(), width_on(stream.context().device()));
  Launch(stream, kernel)
      .arg(x)
      .arg(y)
      .arg(y.numel())
      .arg(parts)
      .run({static_cast<size_t>(round_up(items, static_cast<int64_t>(group)))}, {group});
}

}  // namespace dlprim::detail
