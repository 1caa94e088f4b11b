// Operators that are neither structured nor a line of a list: small functions over the parts of this folder.
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Reduction.h>

#include "compute.hpp"
#include "expression.hpp"
#include "special.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// self where the mask is 0, the value elsewhere.
at::Tensor& masked_fill_(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  static constexpr Row row = expression("b != 0 ? p : a").in_output_dtype();
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_: the mask is of dtype ", mask.scalar_type(),
              ", not bool");
  const c10::MaybeOwned<at::Tensor> expanded = at::expand_inplace(self, mask, "masked_fill_");
  at::TensorIterator iter = iterator_over(self, {self, *expanded});
  const std::array<at::Scalar, 1> scalars{value};
  run_pointwise(row, iter, scalars);
  return self;
}

at::Tensor& masked_fill_tensor_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ takes a value of no dimensions, this one has ", value.dim());
  if (value.device().is_cpu()) return masked_fill_(self, mask, value.item());
  self.copy_(at::where(mask, value.to(self.scalar_type()), self));
  return self;
}

double largest_of(at::ScalarType type) {
  double largest = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "largest_of", [&] {
    largest = static_cast<double>(std::numeric_limits<scalar_t>::max());
  });
  return largest;
}

/// Numbers in place of NaN and the infinities; by default 0 and the dtype's extremes.
at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> above,
                           std::optional<double> below, at::Tensor& out) {
  static constexpr Row row =
      expression("x != x ? p : x == INFINITY ? q : x == -INFINITY ? r : x").in_output_dtype();
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: the output is of dtype ",
              out.scalar_type(), ", not ", self.scalar_type());
  at::native::resize_output(out, self.sizes());
  if (!self.is_floating_point()) return out.copy_(self);
  at::TensorIterator iter = iterator_over(out, {self});
  const double largest = largest_of(self.scalar_type());
  const std::array<at::Scalar, 3> scalars{nan.value_or(0), above.value_or(largest), below.value_or(-largest)};
  run_pointwise(row, iter, scalars);
  return out;
}

struct Cross : at::meta::structured_linalg_cross {
  void impl(const at::Tensor& a, const at::Tensor& b, int64_t dim, const at::Tensor& out) {
    if (out.numel() == 0) return;
    const int axis = axis_of(dim, out);
    const auto part = [&](const at::Tensor& t, int i) { return view(t).slice(axis, i, i + 1); };
    compute(home_of(out), "y0 = x1 * x5 - x2 * x4; y1 = x2 * x3 - x0 * x5; y2 = x0 * x4 - x1 * x3",
            {part(a, 0), part(a, 1), part(a, 2), part(b, 0), part(b, 1), part(b, 2)},
            {part(out, 0), part(out, 1), part(out, 2)});
  }
};

std::tuple<at::Tensor&, at::Tensor&> frexp_out(const at::Tensor& self, at::Tensor& mantissa,
                                               at::Tensor& exponent) {
  TORCH_CHECK(mantissa.scalar_type() == self.scalar_type() && exponent.scalar_type() == at::kInt,
              "frexp: outputs are of dtypes ", mantissa.scalar_type(), " and ", exponent.scalar_type(),
              ", not ", self.scalar_type(), " and int32");
  at::native::resize_output(mantissa, self.sizes());
  at::native::resize_output(exponent, self.sizes());
  if (self.numel() != 0)
    compute(home_of(self), "int e; real m = frexp((real)x0, &e); y0 = m; y1 = e", {view(self)},
            {view(mantissa), view(exponent)});
  return {mantissa, exponent};
}

struct NextAfter : at::meta::structured_nextafter {
  void impl(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
    static constexpr Row row = statements(special::kNextAfter).in_output_dtype();
    if (out.numel() == 0) return;
    const at::ScalarType type = common_dtype();
    const int size = static_cast<int>(c10::elementSize(type)), digits = 8 * size - 1;
    const at::ScalarType bits = size == 2 ? at::kShort : size == 4 ? at::kInt : at::kLong;
    const int mantissa = type == at::kHalf ? 10 : type == at::kBFloat16 ? 7 : size == 4 ? 23 : 52;
    const int64_t all = std::numeric_limits<int64_t>::max() >> (63 - digits);
    const at::Tensor y = out.scalar_type() == type ? out : at::empty(out.sizes(), out.options().dtype(type)),
                     y_bits = y.view(bits), a_bits = a.to(out.device(), type).view(bits),
                     b_bits = b.to(out.device(), type).view(bits);
    at::TensorIterator iter = iterator_over(y_bits, {a_bits, b_bits});
    const std::array<at::Scalar, 2> scalars{all >> mantissa << mantissa, all};
    run_pointwise(row, iter, scalars);
    if (!y.is_same(out)) out.copy_(y);
  }
};

at::Tensor trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace takes a matrix, this tensor has ", self.dim(), " dimensions");
  return self.diagonal().sum();
}

// Losses of two tensors. PyTorch's functions make a result of the wrong size first where they reduce.

at::Tensor reduced(const at::Tensor& losses, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return losses.mean();
  return reduction == at::Reduction::Sum ? losses.sum() : losses;
}
at::Tensor mse_loss(const at::Tensor& input, const at::Tensor& target, int64_t reduction) {
  at::Tensor losses = at::empty({0}, input.options().dtype(at::result_type(input, target)));
  return reduced(at::mse_loss_out(losses, input, target, at::Reduction::None), reduction);
}
at::Tensor smooth_l1_loss(const at::Tensor& input, const at::Tensor& target, int64_t reduction, double beta) {
  at::Tensor losses = at::empty({0}, input.options().dtype(at::result_type(input, target)));
  return reduced(at::smooth_l1_loss_out(losses, input, target, at::Reduction::None, beta), reduction);
}

// Elements counted row by row

c10::List<std::optional<at::Tensor>> listed_alone(const at::Tensor& index) {
  TORCH_CHECK(index.scalar_type() == at::kLong, "the index is of dtype ", index.scalar_type(), ", not int64");
  c10::List<std::optional<at::Tensor>> list;
  list.push_back(index);
  return list;
}

at::Tensor take_places(const at::Tensor& self, const at::Tensor& index) {
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "take: there is nothing to take from");
  if (index.numel() == 0) return at::empty(index.sizes(), self.options());
  return at::index(self.reshape({-1}), listed_alone(index));
}

at::Tensor& take_out(const at::Tensor& self, const at::Tensor& index, at::Tensor& out) {
  at::native::resize_output(out, index.sizes());
  return out.copy_(take_places(self, index));
}

at::Tensor& put(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  TORCH_CHECK(index.numel() == source.numel() && self.scalar_type() == source.scalar_type(),
              "put_: ", index.numel(), " places for ", source.numel(), " elements, of dtypes ",
              self.scalar_type(), " and ", source.scalar_type());
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "put_: there is no place to put to");
  if (index.numel() == 0) return self;
  at::Tensor row = self.reshape({-1});
  row.index_put_(listed_alone(index.reshape({-1})), source.reshape({-1}), accumulate);
  if (!row.is_alias_of(self)) self.copy_(row.view(self.sizes()));
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_CLASS(linalg_cross_out, Cross)
  OCL_CLASS(nextafter_out, NextAfter)
  OCL_FUNCTION(mse_loss, mse_loss)
  OCL_FUNCTION(smooth_l1_loss, smooth_l1_loss)
  OCL_FLOATING(frexp_Tensor_out, frexp_out)
  OCL_FUNCTION(trace, trace)
  OCL_FUNCTION(take, take_places)
  OCL_FUNCTION(take_out, take_out)
  OCL_FUNCTION(put_, put)
  OCL_FUNCTION(masked_fill__Scalar, masked_fill_)
  OCL_FUNCTION(masked_fill__Tensor, masked_fill_tensor_)
  OCL_FUNCTION(nan_to_num_out, nan_to_num_out)
}

}  // namespace

}  // namespace ocl
