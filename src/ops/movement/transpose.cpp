// Tiles, words and dimensions of transpose.cl and transpose_cpu.cl.
#include "ops/movement/transpose.hpp"

#include <algorithm>
#include <climits>

#include "core/composed.hpp"
#include "ops/index/indexing.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kLeast = 8;  // elements either way, from which on tiles pay
constexpr size_t kOuter = 6;   // other dimensions that the kernels take

/// The dimension along which x steps by one; kept.size() if there is none.
size_t unit_of_x(const std::vector<LoopDim>& kept) {
  size_t i = 0;
  while (i < kept.size() && kept[i].strides[0] != 1) i++;
  return i;
}

/// Whether `v` elements at a time are aligned in x and y.
bool fits(const LoopDim& a, const LoopDim& b, const std::vector<LoopDim>& outer, int64_t v) {
  bool ok = a.size % v == 0 && b.size % v == 0 && a.strides[0] % v == 0 && b.strides[1] % v == 0;
  for (const LoopDim& dim : outer) ok &= dim.strides[0] % v == 0 && dim.strides[1] % v == 0;
  return ok;
}

}  // namespace

bool Transpose::suits(const TensorDesc& x, const TensorDesc& y) {
  if (x.dtype != y.dtype || element_count(y.shape) < 4 * kLeast * kLeast) return false;
  const LoopNest nest = make_loop_nest({x}, {y}, false);
  const std::vector<LoopDim>& kept = nest.kept;
  const size_t b = unit_of_x(kept);
  if (kept.size() < 2 || b + 1 >= kept.size()) return false;
  int64_t batches = 1;
  for (size_t i = 0; i + 1 < kept.size(); i++)
    if (i != b) batches *= kept[i].size;
  return kept.back().strides[1] == 1 && kept.back().size >= kLeast && kept[b].size >= kLeast &&
         kept.back().size < INT_MAX / 2 && kept[b].size < INT_MAX / 2 && batches <= 65535 &&
         nest.kept_count / 64 < INT_MAX;
}

Transpose::Transpose(const Context& context, const TensorDesc& x, const TensorDesc& y, bool cpu) : cpu_(cpu) {
  const LoopNest nest = make_loop_nest({x}, {y}, false);
  const size_t b = unit_of_x(nest.kept);
  for (size_t i = 0; i + 1 < nest.kept.size(); i++) {
    if (i != b) outer_.push_back(nest.kept[i]);
    if (i != b) batches_ *= nest.kept[i].size;
  }
  a_ = nest.kept.back();
  b_ = nest.kept[b];
  wide_ = nest.wide;
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  Defines defines;
  defines.set("ELEMENT", word_type(size)).set("OFFSET", wide_ ? "long" : "int");
  if (!cpu_) {
    int64_t v = x.aligned && y.aligned ? std::max<int64_t>(1, 4 / size) : 1;
    while (v > 1 && !fits(a_, b_, outer_, v)) v /= 2;
    tile_ = 32 * v;
    defines.set("V", v).set("ACCESS", word_type(size * v));
  }
  outer_.insert(outer_.begin(), kOuter - outer_.size(), LoopDim{1, {0, 0}});
  kernel_ = context.state().programs.kernel(cpu_ ? "transpose_cpu" : "transpose", "transpose", defines);
}

void Transpose::run(const Stream& stream, const Tensor& x, const Tensor& y) const {
  Launch launch(stream, kernel_);
  launch.arg(x).arg(y).arg(static_cast<int>(a_.size)).arg(static_cast<int>(b_.size));
  bind_offset(launch, wide_, a_.strides[0]);
  bind_offset(launch, wide_, b_.strides[1]);
  for (const LoopDim& dim : outer_) {
    launch.arg(static_cast<int>(dim.size));
    for (int64_t stride : dim.strides) bind_offset(launch, wide_, stride);
  }
  const auto tiles = static_cast<size_t>(ceil_div(a_.size, tile_) * ceil_div(b_.size, tile_)),
             batches = static_cast<size_t>(batches_);
  if (cpu_)
    launch.run({tiles, batches}, {1, 1});
  else
    launch.run({tiles * 32, batches * 8}, {32, 8});
}

}  // namespace dlprim::detail
