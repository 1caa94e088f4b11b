// Tensors made of others without arithmetic, and of nothing but their place: concatenation, reversal, ranges.
#include <set>

#include <ATen/NativeFunctions.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/RangeFactories.h>
#include <dlprim/movement.hpp>

#include "expression.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

struct Cat : at::meta::structured_cat {
  void impl(const at::ITensorListRef& tensors, int64_t dim, const at::Tensor& out) {
    if (out.numel() == 0) return;
    std::vector<dlprim::Tensor> inputs;
    for (const at::Tensor& t : tensors)
      if (t.numel() != 0) inputs.push_back(view(t));
    const int axis = axis_of(dim, out);
    submit(home_of(out),
           [&](const dlprim::Stream& stream) { dlprim::concat(stream, inputs, axis, view(out)); });
  }
};

std::vector<int> axes_of(at::IntArrayRef dims, int64_t rank) {
  std::vector<int> axes;
  for (const int64_t dim : dims) axes.push_back(static_cast<int>(at::maybe_wrap_dim(dim, rank)));
  return axes;
}

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  at::dim_list_to_bitset(dims, static_cast<size_t>(self.dim()));  // each at most once
  const at::Tensor out = at::empty_like(self, at::MemoryFormat::Preserve);
  if (self.numel() == 0 || dims.empty() || self.dim() == 0) return out.copy_(self);
  const std::vector<int> axes = axes_of(dims, self.dim());
  submit(home_of(self),
         [&](const dlprim::Stream& stream) { dlprim::flip(stream, view(self), axes, view(out)); });
  return out;
}

at::Tensor roll(const at::Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  const at::IntArrayRef by = C10_AS_INTARRAYREF_SLOW(shifts);
  if (dims.empty() && by.size() == 1) return roll(self.reshape({-1}), shifts, {0}).view(self.sizes());
  TORCH_CHECK(by.size() == dims.size() && !by.empty(), "roll: ", by.size(), " shifts for ", dims.size(),
              " dimensions");
  if (self.numel() == 0) return self.clone();
  if (std::set<int64_t>(dims.begin(), dims.end()).size() != dims.size()) {  // one after the other
    at::Tensor result = self;
    for (size_t i = 0; i < dims.size(); i++) result = roll(result, shifts.slice(i, 1), dims[i]);
    return result;
  }
  const at::Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  const std::vector<int> axes = axes_of(dims, self.dim());
  submit(home_of(self),
         [&](const dlprim::Stream& stream) { dlprim::roll(stream, view(self), by.vec(), axes, view(out)); });
  return out;
}

/// Zeros that autograd need not look at; here they are zeros.
at::Tensor efficient_zeros(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device,
                           std::optional<bool> pinned) {
  return at::zeros(C10_AS_INTARRAYREF_SLOW(size), dtype, layout, device, pinned);
}

at::Tensor channel_shuffle(const at::Tensor& self, c10::SymInt groups) {
  const int64_t count = groups.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(self.dim() > 2 && count > 0 && self.size(1) % count == 0, "channel_shuffle: ", self.sizes(),
              " has no channels in ", count, " groups");
  if (self.numel() == 0) return at::empty_like(self);
  const at::Tensor out = at::empty_like(self);
  const int64_t channels = self.size(1) / count;
  out.unflatten(1, {channels, count}).copy_(self.unflatten(1, {count, channels}).transpose(1, 2));
  return out;
}

/// Windows of `size` elements, `step` apart, back to where they came from; where they overlap they are added.
at::Tensor unfold_backward(const at::Tensor& grad, c10::SymIntArrayRef sizes, int64_t dim, int64_t size,
                           int64_t step) {
  const at::Tensor out = at::zeros(C10_AS_INTARRAYREF_SLOW(sizes), grad.options());
  if (grad.numel() == 0) return out;
  if (out.dim() == 0) return out.copy_(grad.squeeze(-1));
  dim = at::maybe_wrap_dim(dim, out.dim());
  if (step >= size) {
    out.unfold(dim, size, step).copy_(grad);
    return out;
  }
  const auto places = grad.options().dtype(at::kLong);
  const at::Tensor index =
      at::arange(grad.size(dim), places).mul(step).unsqueeze(1).add(at::arange(size, places));
  return out.index_add_(dim, index.flatten(), grad.movedim(-1, dim + 1).flatten(dim, dim + 1));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(flip, flip)
  OCL_FUNCTION(roll, roll)
  OCL_FUNCTION(_efficientzerotensor, efficient_zeros)
  OCL_FUNCTION(channel_shuffle, channel_shuffle)
  OCL_FUNCTION(unfold_backward, unfold_backward)
  OCL_CLASS(cat_out, Cat)
  OCL_NATIVE(arange_start_out, arange_out)
}

/// start, start + step, ... Kernels do not know an element's place: it is summed up.
void arange(at::TensorIterator& iter, const at::Scalar& start, const at::Scalar&, const at::Scalar& step) {
  static constexpr Row row = expression("p + (x - 1) * q").in_output_dtype();
  if (iter.numel() == 0) return;
  const at::Tensor places = at::ones({iter.numel()}, iter.tensor(0).options().dtype(at::kLong)).cumsum(0);
  at::TensorIterator both = iterator_over(iter.tensor(0), {places});
  const std::array<at::Scalar, 2> scalars{start, step};
  run_pointwise(row, both, scalars);
}

}  // namespace

}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(arange_stub, &ocl::arange)

}  // namespace at::native
