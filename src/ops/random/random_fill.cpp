// The launch of random.cl.
#include "ops/random/random_fill.hpp"

#include <cmath>

#include "core/composed.hpp"

namespace dlprim::detail {
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
  launch.arg(y).arg(count_).arg(state);
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

}  // namespace dlprim::detail
