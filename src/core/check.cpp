// The checks that every operator makes of its arguments.
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

/// Bytes from element 0 to the end of those that lie less than a multiple of `pitch` bytes behind it.
int64_t bytes_in_pitch(const Tensor& t, int64_t pitch) {
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  int64_t bytes = size;
  for (int i = 0; i < t.rank(); i++) {
    const int64_t step = t.strides()[i] * size;
    if (t.shape()[i] > 1 && step % pitch != 0) bytes += (t.shape()[i] - 1) * step;
  }
  return bytes;
}

/// True if, for some stride of either, one has its elements where the other has gaps.
bool interleaved(const Tensor& a, const Tensor& b) {
  for (const Tensor* t : {&a, &b})
    for (int i = 0; i < t->rank(); i++) {
      const int64_t pitch = t->strides()[i] * static_cast<int64_t>(size_of(t->dtype()));
      if (t->shape()[i] == 1 || pitch == 0) continue;
      const int64_t apart = (byte_range(b).first - byte_range(a).first) % pitch;
      const int64_t gap = apart < 0 ? apart + pitch : apart;
      if (gap >= bytes_in_pitch(a, pitch) && gap + bytes_in_pitch(b, pitch) <= pitch) return true;
    }
  return false;
}

bool same_strides(const TensorDesc& a, const TensorDesc& b) {
  for (int i = 0; i < a.shape.size(); i++)
    if (a.shape[i] > 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

}  // namespace

ValidationError renamed(const ValidationError& error, const ArgName& argument) {
  return {argument.text(), std::string(error.what()).substr(error.argument().size() + 2)};
}

void require_context(const ArgName& argument, const Tensor& tensor, const Context& context) {
  require(tensor.defined(), argument, "is not defined");
  require(tensor.context() == context, argument, "belongs to another context");
}

void require_tensor(const ArgName& argument, const Tensor& tensor, const Context& context,
                    const TensorDesc& desc) {
  require_context(argument, tensor, context);
  const TensorDesc given(tensor);
  require(given.dtype == desc.dtype, argument, "dtype ", name_of(given.dtype), " must be ",
          name_of(desc.dtype));
  require(given.shape == desc.shape, argument, "shape ", given.shape, " must be ", desc.shape);
  require(same_strides(given, desc) || tensor.numel() == 0, argument, "strides ", given.strides, " must be ",
          desc.strides);
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

void require_strides(const ArgName& argument, const TensorDesc& desc) {
  require(desc.strides.size() == desc.shape.size(), argument, "strides ", desc.strides, " do not fit shape ",
          desc.shape);
  double reach = 0, count = 1;
  bool empty = false;
  for (int i = 0; i < desc.shape.size(); i++) {
    require(desc.shape[i] >= 0, argument, "shape ", desc.shape, " must not be negative");
    require(desc.strides[i] >= 0, argument, "strides ", desc.strides, " must not be negative");
    empty |= desc.shape[i] == 0;
    const auto size =
        static_cast<double>(std::max<int64_t>(desc.shape[i], 1));  // products of some sizes stand alone
    reach += static_cast<double>(desc.strides[i]) * (size - 1);
    count *= size;
  }
  require(count < (empty ? 0x1p60 : static_cast<double>(kElementLimit)), argument, "too many elements in ",
          desc.shape, ", must be fewer than 2^", empty ? 60 : 40);
  require(reach < 0x1p60, argument, "strides ", desc.strides, " of shape ", desc.shape, " reach too far");
}

void require_writable(const ArgName& argument, const TensorDesc& desc) {
  require_strides(argument, desc);
  // Sorted by stride, each dimension must step over all that the ones below it reach.
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (int i = 0; i < desc.shape.size(); i++) {
    if (desc.shape[i] == 0) return;
    if (desc.shape[i] > 1) steps.emplace_back(desc.strides[i], desc.shape[i]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    require(stride > reach, argument, "strides ", desc.strides, " of shape ", desc.shape,
            " put several elements at one address");
    reach += stride * (size - 1);
  }
}

bool memory_overlaps(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || a.buffer()() != b.buffer()()) return false;
  const auto [a0, a1] = byte_range(a);
  const auto [b0, b1] = byte_range(b);
  return a0 < b1 && b0 < a1 && !interleaved(a, b);
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.offset() == b.offset() && a.shape() == b.shape() && a.strides() == b.strides() &&
         size_of(a.dtype()) == size_of(b.dtype());
}

void require_no_overlap(const ArgName& output, const Tensor& y, const ArgName& input, const Tensor& x) {
  require(!memory_overlaps(y, x), output, "shares memory with ", input);
}

void require_rank(const ArgName& argument, const TensorDesc& desc, int rank) {
  require(desc.shape.size() == rank, argument, "rank ", desc.shape.size(), " must be ", rank, ", shape is ",
          desc.shape);
}

void require_dtype(const ArgName& argument, const TensorDesc& desc, DType dtype) {
  require(desc.dtype == dtype, argument, "dtype ", name_of(desc.dtype), " must be ", name_of(dtype));
}

void require_shape(const ArgName& argument, const TensorDesc& desc, const Shape& shape) {
  require(desc.shape == shape, argument, "shape ", desc.shape, " must be ", shape);
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
