#include "ops/gemm/gemm_batches.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace dlprim::detail {
namespace {

using Dimension = GemmBatches::Dimension;

/// The dimensions in front of the last two, but those of size 1, neighbours joined where that can be.
std::vector<Dimension> batch_dimensions(const GemmDesc& desc) {
  std::vector<Dimension> result;
  const Shape& shape = desc.a.shape;
  for (int i = 0; i < shape.size() - 2; i++) {
    const Dimension next{shape[i], {desc.a.strides[i], desc.b.strides[i], desc.c.strides[i]}};
    if (next.size == 1) continue;
    bool joins = !result.empty();
    for (size_t t = 0; t < 3 && joins; t++) joins = result.back().strides[t] == next.size * next.strides[t];
    if (joins)
      result.back() = {result.back().size * next.size, next.strides};
    else
      result.push_back(next);
  }
  return result;
}

/// The last two dimensions behind one of `batch`. It starts on a 16-byte boundary if all that it is repeated
/// at do.
TensorDesc product_of(const TensorDesc& x, size_t which, const Dimension& batch,
                      const std::vector<Dimension>& outer) {
  const int rank = x.shape.size();
  TensorDesc result = x;
  result.shape = {batch.size, x.shape[rank - 2], x.shape[rank - 1]};
  result.strides = {batch.strides[which], x.strides[rank - 2], x.strides[rank - 1]};
  const auto bytes = static_cast<int64_t>(size_of(x.dtype));
  for (const Dimension& d : outer) result.aligned = result.aligned && d.strides[which] * bytes % 16 == 0;
  return result;
}

}  // namespace

int64_t GemmBatches::count() const {
  int64_t result = 1;
  for (const Dimension& d : outer) result *= d.size;
  return result;
}

std::array<int64_t, 3> GemmBatches::offsets(int64_t index) const {
  std::array<int64_t, 3> result{};
  for (auto d = outer.rbegin(); d != outer.rend(); ++d) {
    for (size_t t = 0; t < 3; t++) result[t] += index % d->size * d->strides[t];
    index /= d->size;
  }
  return result;
}

GemmBatches gemm_batches(const GemmDesc& desc) {
  const int rank = desc.a.shape.size();
  require(rank >= 2, "a", "rank ", rank, " must be 2 or more, shape is ", to_string(desc.a.shape));
  GemmBatches result;
  result.product = desc;
  if (rank <= 3) return result;
  for (const auto& [name, x] : {std::pair("b", &desc.b), std::pair("c", &desc.c)}) {
    require_rank(name, *x, rank);
    for (int i = 0; i < rank - 2; i++)
      require(x->shape[i] == desc.a.shape[i], name, "shape ", to_string(x->shape), ": dimension ", i,
              " must be ", desc.a.shape[i], ", as a's");
  }
  require_writable("c", desc.c);
  result.outer = batch_dimensions(desc);
  Dimension batch{1, {0, 0, 0}};
  if (!result.outer.empty()) {
    const auto largest =
        std::max_element(result.outer.begin(), result.outer.end(),
                         [](const Dimension& x, const Dimension& y) { return x.size < y.size; });
    batch = *largest;
    result.outer.erase(largest);
  }
  result.product.a = product_of(desc.a, 0, batch, result.outer);
  result.product.b = product_of(desc.b, 1, batch, result.outer);
  result.product.c = product_of(desc.c, 2, batch, result.outer);
  return result;
}

}  // namespace dlprim::detail
