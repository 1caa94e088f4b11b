#include "core/check.hpp"

#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

namespace dlprim::detail {
namespace {

/// The bytes of the buffer that the tensor reaches: [begin, end).
std::pair<int64_t, int64_t> byte_range(const Tensor& t) {
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  const int64_t begin = t.offset() * size;
  return {begin, begin + extent_of(t) * size};
}

}  // namespace

void require_tensor(const ArgName& argument, const Tensor& tensor, const Context& context,
                    const TensorDesc& desc) {
  require(tensor.defined(), argument, "is not defined");
  require(tensor.context() == context, argument, "belongs to another context");
  const TensorDesc given(tensor);
  require(given.dtype == desc.dtype, argument, "dtype ", name_of(given.dtype), " must be ",
          name_of(desc.dtype));
  require(given.shape == desc.shape, argument, "shape ", to_string(given.shape), " must be ",
          to_string(desc.shape));
  require(given.strides == desc.strides || tensor.numel() == 0, argument, "strides ",
          to_string(given.strides), " must be ", to_string(desc.strides));
  require(given.aligned || !desc.aligned, argument, "starts at element ", tensor.offset(),
          ", but the plan was made for 16-byte alignment");
}

int64_t extent_of(const TensorDesc& desc) {
  int64_t last = 0;
  for (int i = 0; i < desc.shape.size(); i++) {
    if (desc.shape[i] == 0) return 0;
    last += (desc.shape[i] - 1) * desc.strides[i];
  }
  return last + 1;
}

void require_writable(const ArgName& argument, const TensorDesc& desc) {
  // Sorted by stride, each dimension must step over all that the ones below it reach.
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (int i = 0; i < desc.shape.size(); i++) {
    if (desc.shape[i] == 0) return;
    if (desc.shape[i] > 1) steps.emplace_back(desc.strides[i], desc.shape[i]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    require(stride > reach, argument, "strides ", to_string(desc.strides), " of shape ",
            to_string(desc.shape), " put several elements at one address");
    reach += stride * (size - 1);
  }
}

bool ranges_overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || a.buffer()() != b.buffer()()) return false;
  const auto [a0, a1] = byte_range(a);
  const auto [b0, b1] = byte_range(b);
  return a0 < b1 && b0 < a1;
}

void require_no_overlap(const ArgName& output, const Tensor& y, const ArgName& input, const Tensor& x) {
  require(!ranges_overlap(y, x), output, "shares memory with ", input.text());
}

void require_rank(const ArgName& argument, const TensorDesc& desc, int rank) {
  require(desc.shape.size() == rank, argument, "rank ", desc.shape.size(), " must be ", rank, ", shape is ",
          to_string(desc.shape));
}

void require_dtype(const ArgName& argument, const TensorDesc& desc, DType dtype) {
  require(desc.dtype == dtype, argument, "dtype ", name_of(desc.dtype), " must be ", name_of(dtype));
}

void require_shape(const ArgName& argument, const TensorDesc& desc, const Shape& shape) {
  require(desc.shape == shape, argument, "shape ", to_string(desc.shape), " must be ", to_string(shape));
}

int to_int(const char* what, int64_t value) {
  require(value >= INT_MIN && value <= INT_MAX, what, value, " does not fit in 32 bits");
  return static_cast<int>(value);
}

int normalize_axis(const ArgName& argument, int axis, int rank) {
  require(axis >= -rank && axis < rank, argument, "axis ", axis, " of a tensor of rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace dlprim::detail
