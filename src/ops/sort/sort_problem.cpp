// Sorting's rows in tensors of any strides, and the macros of sort_word.cl.
#include <algorithm>
#include <climits>

#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

SortRows::SortRows(const std::vector<const TensorDesc*>& tensors, int axis) : steps(tensors.size()) {
  const Shape& shape = tensors[0]->shape;
  int64_t count = 1;
  dims = 0;
  for (int d = 0; d < shape.size(); d++) {
    if (d == axis || shape[d] == 1) continue;
    count *= shape[d];
    require(count <= INT_MAX, "x", count, " rows along axis ", axis, " are more than ", INT_MAX);
    bool merges = dims > 0;
    for (size_t t = 0; t < tensors.size(); t++)
      merges = merges && steps[t].rows[static_cast<size_t>(dims - 1)] == shape[d] * tensors[t]->strides[d];
    if (!merges) dims++;
    const auto at = static_cast<size_t>(dims - 1);
    kept.sizes[at] = static_cast<int>(merges ? kept.sizes[at] * shape[d] : shape[d]);
    for (size_t t = 0; t < tensors.size(); t++) steps[t].rows[at] = tensors[t]->strides[d];
  }
  dims = std::max(dims, 1);
  rows = static_cast<int>(count);
  for (size_t t = 0; t < tensors.size(); t++) steps[t].axis = tensors[t]->strides[axis];
}

void SortRows::bind(Launch& launch, size_t which, const Tensor& tensor) const {
  launch.arg(tensor).arg(steps[which]);
}

int SortRows::compiled_dims() const {
  return dims <= 2 ? dims : kMost;
}

void SortRows::bind_sizes(Launch& launch) const {
  launch.arg(kept);
}

void SortRows::bind_all(Launch& launch, std::initializer_list<const Tensor*> tensors) const {
  size_t which = 0;
  for (const Tensor* tensor : tensors) bind(launch, which++, *tensor);
  bind_sizes(launch);
}

void SortProblem::bind_sizes(Launch& launch) const {
  at.bind_sizes(launch);
  launch.arg(descending ? -1 : 0);
}

void SortProblem::bind_all(Launch& launch, const SortTensors& t) const {
  at.bind_all(launch, {&t.x, &t.y, &t.indices});
  launch.arg(descending ? -1 : 0);
}

int64_t rows_of_group(const Context& context, const SortProblem& p) {
  constexpr int64_t kElements = 8192;
  const int64_t groups = 8LL * std::max(1, context.device().facts().compute_units);
  const int64_t most = std::max<int64_t>(1, kElements / std::max(1, p.n));
  return std::max({int64_t{1}, ceil_div(p.at.rows, groups), std::min<int64_t>(most, p.at.rows)});
}

Defines sort_defines(const SortProblem& p, bool short_words) {
  static constexpr const char* kRaw[] = {"uchar", "ushort", "uint", "ulong"};
  const int bits = p.key_bits();
  Defines defines;
  defines.set("RAW", kRaw[bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3]).set("RAW_BITS", bits);
  defines.set("KIND", is_floating(p.dtype) ? 2 : is_signed_integer(p.dtype) ? 1 : 0);
  if (is_floating(p.dtype))
    defines.set("INFINITE", p.dtype == DType::f32    ? "0x7f800000u"
                            : p.dtype == DType::f16  ? "0x7c00u"
                            : p.dtype == DType::bf16 ? "0x7f80u"
                                                     : "0x7ff0000000000000ul");
  defines.set("WORD_BITS", short_words ? 32 : bits == 64 ? 128 : 64).set("ROW_DIMS", p.at.compiled_dims());
  defines.set("INDEX", p.index == DType::i64 ? "long" : "int");
  return defines.set("HAS_Y", p.y).set("HAS_INDICES", p.indices);
}

}  // namespace dlprim::detail
