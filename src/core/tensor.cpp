// Tensors and their views.
#include <dlprim/rehearsal.hpp>
#include <dlprim/tensor.hpp>

#include "core/check.hpp"
#include "core/state.hpp"

namespace dlprim {

using detail::require;

namespace {

std::shared_ptr<detail::Storage> allocate(const Context& context, const Shape& shape, DType dtype,
                                          const detail::QueueState* queue) {
  const auto bytes = static_cast<uint64_t>(element_count(shape)) * size_of(dtype);
  return std::make_shared<detail::Storage>(context, bytes, queue);
}

}  // namespace

Tensor::Tensor(std::shared_ptr<detail::Storage> storage, int64_t offset, const Shape& shape,
               const Strides& strides, DType dtype)
    : storage_(std::move(storage)),
      offset_(offset),
      numel_(element_count(shape)),
      shape_(shape),
      strides_(strides),
      dtype_(dtype) {}

Tensor::Tensor(const Context& context, const Shape& shape, DType dtype)
    : Tensor(allocate(context, shape, dtype, nullptr), 0, shape, contiguous_strides(shape), dtype) {
  offset_ = static_cast<int64_t>(storage_->offset / size_of(dtype));
}

Tensor::Tensor(const Stream& stream, const Shape& shape, DType dtype)
    : Tensor(allocate(stream.context(), shape, dtype, stream.state().queue.get()), 0, shape,
             contiguous_strides(shape), dtype) {
  offset_ = static_cast<int64_t>(storage_->offset / size_of(dtype));
}

Tensor Tensor::wrap(const Context& context, const cl::Buffer& buffer, int64_t offset, const Shape& shape,
                    const Strides& strides, DType dtype) {
  require(buffer() != nullptr, "buffer", "is null");
  cl_context owner = nullptr;
  size_t bytes = 0;
  detail::cl_check(clGetMemObjectInfo(buffer(), CL_MEM_CONTEXT, sizeof owner, &owner, nullptr),
                   "clGetMemObjectInfo");
  detail::cl_check(clGetMemObjectInfo(buffer(), CL_MEM_SIZE, sizeof bytes, &bytes, nullptr),
                   "clGetMemObjectInfo");
  require(owner == context.cl()(), "buffer", "belongs to another OpenCL context");
  const Tensor whole(std::make_shared<detail::Storage>(context, buffer, bytes), 0, {0}, {1}, dtype);
  return whole.as_strided(shape, strides, offset);
}

Tensor Tensor::wrap(const Context& context, const cl::Buffer& buffer, const Shape& shape, DType dtype) {
  return wrap(context, buffer, 0, shape, contiguous_strides(shape), dtype);
}

int64_t Tensor::size(int axis) const {
  return shape_[detail::normalize_axis("axis", axis, rank())];
}

bool Tensor::is_contiguous() const noexcept {
  if (numel_ == 0) return true;
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; i--) {
    if (shape_[i] != 1 && strides_[i] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

std::string Tensor::describe() const {
  return defined() ? name_of(dtype_) + to_string(shape_) : std::string("undefined tensor");
}

const cl::Buffer& Tensor::buffer() const {
  require(defined(), "tensor", "is not defined");
  require(storage_->buffer() != nullptr || Rehearsal::active(), "tensor",
          "was made in a rehearsal, and has no memory");
  return storage_->buffer;
}

const Context& Tensor::context() const {
  require(defined(), "tensor", "is not defined");
  return storage_->context;
}

Tensor Tensor::reshape(const Shape& shape) const {
  require(defined(), "tensor", "is not defined");
  require(is_contiguous(), "tensor", "reshape of ", *this, " with strides ", strides_,
          " needs contiguous memory");
  Shape result = shape;
  int open = -1;
  for (int i = 0; i < shape.size(); i++) {
    require(shape[i] >= -1 && (shape[i] != -1 || open < 0), "shape", shape, " for ", *this);
    if (shape[i] == -1) result[open = i] = 1;
  }
  if (open >= 0) {
    const int64_t known = element_count(result);
    require(known > 0 && numel_ % known == 0, "shape", shape, " does not fit ", *this);
    result[open] = numel_ / known;
  }
  require(element_count(result) == numel_, "shape", shape, " does not fit ", *this);
  return Tensor(storage_, offset_, result, contiguous_strides(result), dtype_);
}

Tensor Tensor::permute(const Dims& axes) const {
  require(defined(), "tensor", "is not defined");
  require(axes.size() == rank(), "axes", axes, " for ", *this);
  Shape shape = Dims::filled(rank(), 0);
  Strides strides = shape;
  unsigned seen = 0;
  for (int i = 0; i < rank(); i++) {
    require(axes[i] >= 0 && axes[i] < rank() && !(seen >> axes[i] & 1u), "axes", axes, " for ", *this);
    seen |= 1u << axes[i];
    shape[i] = shape_[static_cast<int>(axes[i])];
    strides[i] = strides_[static_cast<int>(axes[i])];
  }
  return Tensor(storage_, offset_, shape, strides, dtype_);
}

Tensor Tensor::transpose(int axis0, int axis1) const {
  const int a = detail::normalize_axis("axis0", axis0, rank()),
            b = detail::normalize_axis("axis1", axis1, rank());
  Tensor result = *this;
  std::swap(result.shape_[a], result.shape_[b]);
  std::swap(result.strides_[a], result.strides_[b]);
  return result;
}

Tensor Tensor::slice(int axis, int64_t start, int64_t end, int64_t step) const {
  const int a = detail::normalize_axis("axis", axis, rank());
  require(start >= 0 && start <= shape_[a], "start", start, " along axis ", a, " of ", *this);
  require(end >= start && end <= shape_[a], "end", end, " behind ", start, " along axis ", a, " of ", *this);
  require(step >= 1, "step", step, " must be 1 or more");
  Shape shape = shape_;
  Strides strides = strides_;
  shape[a] = start == end ? 0 : (end - start - 1) / step + 1;
  if (shape[a] > 1) strides[a] *= step;  // a single element needs no step, which may be huge
  return Tensor(storage_, offset_ + start * strides_[a], shape, strides, dtype_);
}

Tensor Tensor::expand(const Shape& shape) const {
  require(defined(), "tensor", "is not defined");
  const int extra = shape.size() - rank();
  require(extra >= 0, "shape", shape, " for ", *this);
  Strides strides = Dims::filled(shape.size(), 0);
  for (int i = extra; i < shape.size(); i++) {
    const int64_t size = shape_[i - extra];
    require(size == shape[i] || size == 1, "shape", shape, " for ", *this);
    strides[i] = size == shape[i] ? strides_[i - extra] : 0;
  }
  return Tensor(storage_, offset_, shape, strides, dtype_);
}

Tensor Tensor::reinterpret(DType dtype) const {
  require(defined(), "tensor", "is not defined");
  const auto from = static_cast<int64_t>(size_of(dtype_)), to = static_cast<int64_t>(size_of(dtype));
  if (from == to) return Tensor(storage_, offset_, shape_, strides_, dtype);
  require(is_contiguous(), "tensor", "reinterpret of ", *this, " needs contiguous memory");
  require(bytes() % to == 0 && offset_ * from % to == 0, "dtype", *this, " does not divide into ",
          name_of(dtype));
  return Tensor(storage_, offset_ * from / to, {bytes() / to}, {1}, dtype);
}

Tensor Tensor::as_strided(const Shape& shape, const Strides& strides, int64_t offset) const {
  require(defined(), "tensor", "is not defined");
  require(shape.size() == strides.size(), "strides", strides, " for shape ", shape);
  element_count(shape);
  __int128 last = static_cast<__int128>(offset_) + offset;
  const __int128 first = last;
  bool empty = false;
  for (int i = 0; i < shape.size(); i++) {
    require(strides[i] >= 0, "strides", "negative stride in ", strides);
    if (shape[i] == 0) empty = true;
    last += static_cast<__int128>(shape[i] > 0 ? shape[i] - 1 : 0) * strides[i];
  }
  const auto size = static_cast<__int128>(size_of(dtype_));
  const bool inside =
      first * size >= static_cast<__int128>(storage_->offset) &&
      (last + (empty ? 0 : 1)) * size <= static_cast<__int128>(storage_->offset + storage_->size);
  require(inside || empty, "shape", shape, " with strides ", strides, " at offset ", offset,
          " leaves the memory of ", storage_->size, " bytes");
  return Tensor(storage_, empty ? offset_ : offset_ + offset, shape, strides, dtype_);
}

}  // namespace dlprim
