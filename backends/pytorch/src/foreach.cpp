// Operators over lists of tensors, _foreach_...: a kernel for each overload, made of its schema and of a row
// of foreach_list.inc. What they do not suit, as PyTorch's own on other devices do not, goes tensor by
// tensor.
#include <ATen/native/ForeachUtils.h>
#include <dlprim/tensor_norms.hpp>

#include <limits>

#include "expression.hpp"
#include "places.hpp"
#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// Registered for every other device: the operator of single tensors in a loop, which checks its arguments.
template <class Op, class... Args>
auto one_by_one(Args&&... args) {
  return Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), std::forward<Args>(args)...);
}

// Arguments, in their order. False for what is not served.
bool take(Places& places, at::TensorList list) {
  places.inputs.push_back(list);
  return true;
}
bool take(Places& places, const at::Scalar& scalar) {
  places.scalars.push_back(scalar);
  return !scalar.isComplex();
}
bool take(Places& places, at::ArrayRef<at::Scalar> scalars) {
  places.scalar_list.append(scalars.begin(), scalars.end());
  return scalars.size() == places.inputs[0].size() &&
         std::none_of(scalars.begin(), scalars.end(), [](const at::Scalar& s) { return s.isComplex(); });
}
bool take(Places& places, const at::Tensor& number) {
  if (places.inputs[0].empty()) return false;
  const at::Tensor& first = places.inputs[0][0];
  if (number.is_cpu() && number.dim() == 1 && number.numel() == static_cast<int64_t>(places.inputs[0].size()))
    return take(places, at::native::convert_tensor_to_scalar_list(number, number.numel()));
  places.numbers.push_back(number);
  return number.dim() == 0 && number.device() == first.device() && number.dtype() == first.dtype();
}

template <class Op, const Row& row, class Schema = typename Op::schema>
struct Foreach;

template <class Op, const Row& row, class Result, class... Args>
struct Foreach<Op, row, Result(Args...)> {
  static Result call(Args... args) {
    Places places;
    if (!(take(places, args) && ...) || !fit_together(places.inputs)) return one_by_one<Op>(args...);
    if constexpr (std::is_void_v<Result>) {
      places.changed = {places.inputs[0]};
      places.inputs.erase(places.inputs.begin());
      run(places);
    } else {
      Result results;
      for (const at::Tensor& t : places.inputs[0]) results.push_back(at::empty_like(t));
      places.outputs = {results};
      run(places);
      return results;
    }
  }

 private:
  static void run(const Places& places) {
    run_places(&row, 0, places, [&] {
      std::vector<std::string> inputs, scalars;
      for (size_t i = 0; i < places.changed.size() + places.inputs.size() + places.numbers.size(); i++)
        inputs.push_back("x" + std::to_string(i));
      for (size_t i = 0; i < places.scalars.size() + !places.scalar_list.empty(); i++)
        scalars.push_back("s" + std::to_string(i));
      return body_of(row, places.written()[0].scalar_type(), inputs, scalars);
    });
  }
};

constexpr Row kPowerOfNumber = expression("pow(p, x)");

void zero(at::TensorList list) {
  static const char here = 0;
  if (!fit_together({list})) return one_by_one<at::_ops::_foreach_zero_>(list);
  Places places;
  places.outputs = {list};
  run_places(&here, 0, places, [] { return "y0 = 0"; });
}

/// Of any two dtypes.
void copy(at::TensorList list, at::TensorList from, bool non_blocking) {
  static const char here = 0;
  const auto alike = [](const at::Tensor& a, const at::Tensor& b) {
    return a.device() == b.device() && a.sizes() == b.sizes() && a.strides() == b.strides();
  };
  if (!fit_together({list}) || !fit_together({from}) ||
      !std::equal(list.begin(), list.end(), from.begin(), from.end(), alike))
    return one_by_one<at::_ops::_foreach_copy_>(list, from, non_blocking);
  Places places;
  places.outputs = {list};
  places.inputs = {from};
  run_places(&here, 0, places, [] { return "y0 = x0"; });
}

/// The library's orders of norms.
std::optional<dlprim::NormOrder> order_of(double order) {
  if (order == 1) return dlprim::NormOrder::one;
  if (order == 2) return dlprim::NormOrder::two;
  if (order == std::numeric_limits<double>::infinity()) return dlprim::NormOrder::infinity;
  return std::nullopt;
}

/// As vectors of one tensor, which a norm of all norms then reads at once.
std::vector<at::Tensor> norm(at::TensorList list, const at::Scalar& order_given,
                             std::optional<at::ScalarType> type) {
  const auto order = order_of(order_given.toDouble());
  const auto empty = [](const at::Tensor& t) { return t.numel() == 0; };
  if (!order || !fit_together({list}) || std::any_of(list.begin(), list.end(), empty) ||
      (type && !(c10::isFloatingType(*type) && computes(home_of(list[0]), *type))) ||
      (type.value_or(list[0].scalar_type()) == at::kDouble) != (list[0].scalar_type() == at::kDouble))
    return one_by_one<at::_ops::_foreach_norm_Scalar>(list, order_given, type);
  const auto count = static_cast<int64_t>(list.size());
  const at::Tensor norms = at::empty({count}, list[0].options().dtype(type.value_or(list[0].scalar_type())));
  std::vector<at::Tensor> dense;
  int64_t elements = 0;
  for (const at::Tensor& t : list) {
    dense.push_back(t.is_non_overlapping_and_dense() ? t : t.contiguous());
    elements += t.numel();
  }
  const dlprim::TensorNormsDesc desc{require_dtype(list[0].scalar_type()), require_dtype(norms.scalar_type()),
                                     *order, count, elements};
  Device& on = home_of(norms);
  run_plan<dlprim::TensorNorms>(
      on, Key::of(desc.x, desc.y, desc.order, count, elements),
      [&] { return dlprim::TensorNorms(on.context, desc); },
      [&](const dlprim::TensorNorms& plan, const dlprim::Stream& stream) {
        plan.run(stream, vectors_of(dense), view(norms));
      });
  return norms.unbind();
}

#define UNARY(op, row) KERNELS(op, , row)
#define SCALAR(op, row) KERNELS(op, _Scalar, row) KERNELS(op, _ScalarList, row)
#define LIST(op, row) KERNELS(op, _List, row)
#define TENSOR(op, row) KERNELS(op, _Tensor, row)
#define SCALAR_TENSOR(op, row) KERNELS(op, _Tensor, row)

#define KERNELS(op, overload, row) constexpr Row op##overload##_row = row;
#include "foreach_list.inc"
#undef KERNELS

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define KERNEL(op, row) register_kernel<at::_ops::op, Foreach<at::_ops::op, row>>(m);
#define KERNELS(op, overload, row)                    \
  KERNEL(_foreach_##op##overload, op##overload##_row) \
  KERNEL(_foreach_##op##_##overload, op##overload##_row)
#include "foreach_list.inc"
  KERNEL(_foreach_pow_ScalarAndTensor, kPowerOfNumber)
  m.impl("_foreach_zero_", TORCH_FN(zero));
  m.impl("_foreach_copy_", TORCH_FN(copy));
  m.impl("_foreach_norm.Scalar", TORCH_FN(norm));
}

}  // namespace

}  // namespace ocl
