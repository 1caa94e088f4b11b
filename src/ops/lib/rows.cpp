// Rows: strides of several tensors along an axis and beside it.
#include "ops/lib/rows.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/state.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kKept = 4;  // dimensions that rows.cl takes

}  // namespace

Shape row_shape(Shape shape, int axis) {
  shape[axis] = 1;
  return shape;
}

RowNest::RowNest(const Shape& shape, int axis, const std::vector<TensorDesc>& tensors) {
  // The last two are no tensors: they say how large rows are, and along which axis they lie.
  const Strides none = Dims::filled(shape.size(), 0);
  std::vector<TensorDesc> inputs = tensors;
  inputs.emplace_back(shape, none, DType::u8, true);
  nest_ = make_loop_nest(inputs, {TensorDesc(row_shape(shape, axis), none, DType::u8, true)}, true);
}

bool RowNest::packed(size_t tensor, bool across) const {
  const int64_t lanes = across ? inner() : size();
  return lanes <= 1 || (across ? inner_stride(tensor) : axis_stride(tensor)) == 1;
}

bool RowNest::vectors(size_t tensor, const TensorDesc& desc, int64_t v) const {
  bool fits = !across() && packed(tensor) && desc.aligned && size() % v == 0;
  for (const LoopDim& dim : nest_.kept) fits &= dim.strides[tensor] % v == 0;
  return fits;
}

bool RowNest::ragged(const std::vector<size_t>& numbers, const std::vector<TensorDesc>& tensors,
                     int64_t v) const {
  constexpr int64_t kLong = 1024;  // below, a row's ends are too much of it
  bool fits = v > 1 && !across() && size() >= kLong;
  for (const size_t i : numbers) {
    fits &= packed(i) && tensors[i].aligned && size_of(tensors[i].dtype) * static_cast<size_t>(v) <= 16;
    for (const LoopDim& dim : nest_.kept) fits &= (dim.strides[i] - dim.strides[numbers[0]]) % v == 0;
  }
  return fits;
}

void RowNest::define(Defines& defines) const {
  defines.set("INDEX", nest_.wide ? "ulong" : "uint");
  defines.set("RANK", static_cast<int64_t>(std::clamp<size_t>(nest_.kept.size(), 1, kKept)));
}

size_t RowNest::peeled() const {
  return nest_.kept.size() > kKept ? nest_.kept.size() - kKept : 0;
}

int64_t RowNest::rows_a_launch() const {
  int64_t rows = 1;
  for (size_t i = peeled(); i < nest_.kept.size(); i++) rows *= nest_.kept[i].size;
  return rows;
}

void RowNest::bind(Launch& launch, const std::vector<Tensor>& tensors, int64_t part) const {
  for (size_t t = 0; t < tensors.size(); t++) {
    int64_t offset = 0, rest = part;
    for (size_t i = peeled(); i-- > 0; rest /= nest_.kept[i].size)
      offset += rest % nest_.kept[i].size * nest_.kept[i].strides[t];
    launch.arg(offset && tensors[t].defined() ? tensors[t].as_strided({1}, {1}, offset) : tensors[t]);
    RowStrides strides{axis_stride(t), {}};
    for (size_t i = 0; i < std::min(kKept, nest_.kept.size()); i++)
      strides.kept[i] = nest_.kept[nest_.kept.size() - 1 - i].strides[t];
    launch.arg(strides);
  }
  RowKept kept{{1, 1, 1, 1}};
  for (size_t i = 0; i < std::min(kKept, nest_.kept.size()); i++)
    kept.size[i] = nest_.kept[nest_.kept.size() - 1 - i].size;
  launch.arg(rows_a_launch()).arg(size()).arg(kept);
}

void RowForm::try_ragged(const RowNest& nest, const std::vector<size_t>& numbers,
                         const std::vector<TensorDesc>& tensors) {
  for (const int v : {8, 4})
    if (vector == 1 && nest.ragged(numbers, tensors, v)) ragged = true, vector = v;
}

void RowForm::choose(const Device& device, const RowNest& nest, int64_t registers) {
  constexpr int64_t kGroup = 256;
  const int64_t most = std::max<int64_t>(1, device.facts().max_work_group);
  const auto power = [](int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
  };
  const int64_t accesses = std::max<int64_t>(1, ceil_div(nest.size() + (ragged ? vector - 1 : 0), vector));
  const int64_t deepest = std::max<int64_t>(1, registers / vector);
  // Four accesses in flight a lane; but four lanes or a whole row read together. Neighbouring rows are read
  // together anyway: where these are many, a lane takes as much as it can hold.
  const int64_t least = nest.across() ? 1 : std::min<int64_t>(4, power(accesses));
  const bool many = nest.across() && nest.rows() >= int64_t{1024} * device.facts().compute_units;
  const int64_t group = std::min(kGroup, most), across = std::min<int64_t>(32, group);
  lanes = std::clamp(power(ceil_div(accesses, many ? deepest : 4)), least,
                     nest.across() ? std::max<int64_t>(1, group / across) : group);
  // Rows that do not fit even so get a larger group, alone.
  if (ceil_div(accesses, lanes) > deepest && !nest.across())
    while (lanes < std::min<int64_t>(1024, most) && ceil_div(accesses, lanes) > deepest) lanes *= 2;
  items = ceil_div(accesses, lanes);
  hold = items <= deepest;
  if (!hold) {
    items = std::clamp<int64_t>(16 / vector, 1, 4);
    lanes = std::min<int64_t>(lanes, nest.across() ? lanes : 512);
  }
  rows = std::max<int64_t>(1, group / lanes);
}

Kernel RowForm::kernel(const Context& context, const char* file, const char* name, const Defines& defines) {
  for (;;) {
    Defines all = defines;
    all.set("V", vector)
        .set("LANES", lanes)
        .set("ROWS", rows)
        .set("ITEMS", items)
        .set("HOLD", hold)
        .set("RAGGED", ragged);
    const Kernel made = context.state().programs.kernel(file, name, all);
    if (group() <= made.max_work_group() || group() == 1) return made;
    if (rows > 1) {
      rows /= 2;
    } else {
      lanes /= 2;
      hold = false;
      items = std::max(1, 4 / vector);
    }
  }
}

CpuRows::CpuRows(const RowNest& nest) {
  constexpr int64_t kElements = 8192;          // of one work-group: far above the cost of starting it
  constexpr int64_t kShort = 32, kLong = 256;  // elements of a row
  across = nest.across() || (nest.size() < kShort && nest.inner() >= kShort);
  lanes = across || nest.size() >= kLong ? 64 : 16;
  while (across && lanes >= 16 && lanes >= 2 * nest.inner()) lanes /= 2;
  block = std::max<int64_t>(1, kElements / std::max<int64_t>(1, nest.size()));
  groups = across ? nest.rows_a_launch() / std::max<int64_t>(1, nest.inner()) * ceil_div(nest.inner(), lanes)
                  : ceil_div(nest.rows_a_launch(), block);
}

void CpuRows::define(Defines& defines, const RowNest& nest, size_t tensor, const char* name,
                     DType dtype) const {
  const bool packed = nest.packed(tensor, across);
  defines.set(cat(name, "_STEP"), packed);
  defines.set(cat(name, "_GAPS"), !packed && is_floating(dtype) && size_of(dtype) == 2);
}

}  // namespace dlprim::detail
