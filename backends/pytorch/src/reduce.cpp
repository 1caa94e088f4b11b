// Reductions: an iterator of PyTorch's, whose output stands still along the dimensions that are reduced, and
// a reduction of dlprim's generator. Operators are registered below, beside the stubs that they call.
#include <ATen/NativeFunctions.h>
#include <ATen/native/ReduceAllOps.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <dlprim/pointwise.hpp>

#include <limits>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// The reductions there are.
enum class Kind : int64_t {
  sum,
  sum_of_numbers,
  mean,
  product,
  all,
  any,
  least,
  largest,
  variance,
  deviation,
  norm0,
  norm1,
  norm2,
  norm,
  largest_magnitude,
  least_magnitude
};

dlprim::Reduction logical(const char* identity, const char* operation) {
  dlprim::Reduction reduction;
  reduction.init = std::string("a0 = ") + identity;
  reduction.accumulate = std::string("a0 = a0 != 0 ") + operation + " x0 != 0";
  reduction.combine = std::string("a0 = a0 != 0 ") + operation + " b0 != 0";
  reduction.finish = "y0 = a0";
  return reduction;
}

dlprim::Reduction reduction_of(Kind kind, int outputs) {
  switch (kind) {
    case Kind::sum:
      return dlprim::sum_of("x0");
    case Kind::sum_of_numbers:
      return dlprim::sum_of("x0 != x0 ? 0 : x0");
    case Kind::mean:
      return dlprim::sum_of("x0", "y0 = a0 / s0");
    case Kind::product:
      return {1, "a0 = 1", "a0 *= x0", "a0 *= b0", "y0 = a0"};
    case Kind::all:
      return logical("1", "&&");
    case Kind::any:
      return logical("0", "||");
    case Kind::least:
      return dlprim::min_of("x0");
    case Kind::largest:
      return dlprim::max_of("x0");
    case Kind::variance:
    case Kind::deviation: {
      // As many as the correction, or fewer: NaN of one element, else infinity.
      const std::string variance = "a2 / (a0 > s0 ? a0 - s0 : 0)";
      return dlprim::welford("x0",
                             (kind == Kind::variance ? "y0 = " + variance : "y0 = sqrt(" + variance + ")") +
                                 (outputs == 2 ? "; y1 = a1" : ""));
    }
    case Kind::norm1:
      return dlprim::sum_of("fabs(x0)");
    case Kind::norm2:
      return dlprim::sum_of("x0 * x0", "y0 = sqrt(a0)");
    case Kind::norm:
      return dlprim::sum_of("pow(fabs(x0), s0)", "y0 = pow(a0, 1 / s0)");
    case Kind::largest_magnitude:
      return dlprim::max_of("fabs(x0)");
    case Kind::least_magnitude:
      return dlprim::min_of("fabs(x0)");
    case Kind::norm0:
      return dlprim::sum_of("x0 != 0");
  }
  TORCH_INTERNAL_ASSERT(false);
}

/// What the reduction gives where there is nothing to reduce. `number` is a norm's order.
double of_nothing(Kind kind, double number) {
  switch (kind) {
    case Kind::mean:
    case Kind::variance:
    case Kind::deviation:
      return std::numeric_limits<double>::quiet_NaN();
    case Kind::product:
    case Kind::all:
      return 1;
    case Kind::norm:
      return number < 0 ? std::numeric_limits<double>::infinity() : 0;
    case Kind::least:
    case Kind::least_magnitude:
      return std::numeric_limits<double>::infinity();
    case Kind::largest:
      return -std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

/// Output `index`: of size 1 where the iterator reduces.
dlprim::Tensor output(const at::TensorIteratorBase& iter, int index) {
  const dlprim::Tensor moving = operand(iter, index);
  dlprim::Shape shape = moving.shape();
  for (int i = 0; i < shape.size(); i++)
    if (moving.strides()[i] == 0) shape[i] = 1;
  return moving.as_strided(shape, moving.strides());
}

void run(Kind kind, at::TensorIteratorBase& iter, std::optional<double> number = std::nullopt) {
  static const char here = 0;
  if (iter.numel() == 0) {
    for (int i = 0; i < iter.noutputs(); i++)
      if (const at::Tensor& result = iter.output(i); result.numel() != 0)
        result.fill_(of_nothing(kind, number.value_or(0)));
    return;
  }
  Device& on = device(iter.device(0).index());
  Key key = Key::of(reinterpret_cast<intptr_t>(&here), kind);
  key.add_operands(iter);
  thread_local std::vector<dlprim::Tensor> inputs, outputs;
  thread_local std::vector<dlprim::Scalar> values;
  const auto clear = [] { inputs.clear(), outputs.clear(), values.clear(); };
  clear();
  for (int i = 0; i < iter.noutputs(); i++) outputs.push_back(output(iter, i));
  inputs.push_back(operand(iter, iter.noutputs()));
  if (number) values.push_back(*number);
  run_plan<dlprim::Reduce>(
      on, key,
      [&] {
        const std::vector<dlprim::TensorDesc> xs(inputs.begin(), inputs.end()),
            ys(outputs.begin(), outputs.end());
        return dlprim::Reduce(on.context, xs, ys, static_cast<int>(values.size()),
                              reduction_of(kind, iter.noutputs()));
      },
      [&](const dlprim::Reduce& plan, const dlprim::Stream& stream) {
        plan.run(stream, inputs, outputs, values);
      });
  clear();
}

template <Kind kind>
void reduce(at::TensorIterator& iter) {
  run(kind, iter);
}

void mean(at::TensorIterator& iter) {
  run(Kind::mean, iter, static_cast<double>(iter.numel()) / static_cast<double>(iter.num_output_elements()));
}

void variance(at::TensorIterator& iter, double correction, bool root) {
  run(root ? Kind::deviation : Kind::variance, iter, correction);
}

// std and var by the stub's function: PyTorch's own, until 2.12, refuse devices that they do not know.
double correction_of(const std::optional<at::Scalar>& correction) {
  return correction ? correction->toDouble() : 1;
}
template <bool root>
at::Tensor& spread_out(const at::Tensor& x, at::OptionalIntArrayRef dims,
                       const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& y) {
  at::TensorIterator iter =
      at::native::make_reduction(root ? "std" : "var", y, x, dims, keepdim, y.scalar_type());
  if (iter.numel() == 0) return y.fill_(std::numeric_limits<double>::quiet_NaN());
  variance(iter, correction_of(correction), root);
  return y;
}
template <bool root>
at::Tensor spread(const at::Tensor& x, at::OptionalIntArrayRef dims,
                  const std::optional<at::Scalar>& correction, bool keepdim) {
  at::Tensor y = at::empty({0}, x.options());
  return spread_out<root>(x, dims, correction, keepdim, y);
}
template <bool root>
std::tuple<at::Tensor, at::Tensor> spread_and_mean(const at::Tensor& x, at::OptionalIntArrayRef dims,
                                                   const std::optional<at::Scalar>& correction,
                                                   bool keepdim) {
  at::Tensor y = at::empty({0}, x.options()), mean = at::empty({0}, x.options());
  at::TensorIterator iter =
      at::native::make_reduction(root ? "std_mean" : "var_mean", y, mean, x, dims, keepdim, x.scalar_type());
  if (iter.numel() == 0) {
    y.fill_(std::numeric_limits<double>::quiet_NaN());
    mean.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    variance(iter, correction_of(correction), root);
  }
  return {y, mean};
}

Kind norm_kind(double order) {
  if (order == 0) return Kind::norm0;
  if (order == 1) return Kind::norm1;
  if (order == 2) return Kind::norm2;
  if (std::isinf(order)) return order > 0 ? Kind::largest_magnitude : Kind::least_magnitude;
  return Kind::norm;
}

void norm(at::TensorIterator& iter, const c10::Scalar& order) {
  const double p = order.toDouble();
  const Kind kind = norm_kind(p);
  run(kind, iter, kind == Kind::norm ? std::optional(p) : std::nullopt);
}

void largest_of_all(at::Tensor& result, const at::Tensor& x) {
  at::amax_out(result, x, {}, false);
}
void least_of_all(at::Tensor& result, const at::Tensor& x) {
  at::amin_out(result, x, {}, false);
}

void extremes_of_all(const at::Tensor& x, at::Tensor& least, at::Tensor& largest) {
  at::amin_out(least, x, {}, false);
  at::amax_out(largest, x, {}, false);
}
void extremes(const at::Tensor& x, int64_t dim, bool keepdim, at::Tensor& least, at::Tensor& largest) {
  at::amin_out(least, x, dim, keepdim);
  at::amax_out(largest, x, dim, keepdim);
}

at::Tensor count_nonzero(const at::Tensor& x, at::IntArrayRef dims) {
  return x.ne(0).sum(dims);
}

/// Waits for the device: it gives a bool of Python's.
bool equal(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "equal takes tensors of one dtype, these are of ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.device() == b.device(), "equal takes tensors of one device, these are on ", a.device(),
              " and ", b.device());
  return a.sizes() == b.sizes() && (a.numel() == 0 || a.eq(b).all().item<bool>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_CLASS(sum_IntList_out, at::native::structured_sum_out)
  OCL_NATIVE(nansum, nansum)
  OCL_NATIVE(nansum_out, nansum_out)
  OCL_CLASS(aminmax_out, at::native::structured_aminmax_out)
  OCL_FUNCTION(count_nonzero_dim_IntList, count_nonzero)
  OCL_FUNCTION(equal, equal)
  OCL_CLASS(mean_out, at::native::structured_mean_out)
  OCL_CLASS(prod_int_out, at::native::structured_prod_out)
  OCL_CLASS(amax_out, at::native::structured_amax_out)
  OCL_CLASS(amin_out, at::native::structured_amin_out)
  OCL_CLASS(all_out, at::native::structured_all_out)
  OCL_CLASS(all_dims_out, at::native::structured_all_dims_out)
  OCL_CLASS(all_all_out, at::native::structured_all_all_out)
  OCL_CLASS(any_out, at::native::structured_any_out)
  OCL_CLASS(any_dims_out, at::native::structured_any_dims_out)
  OCL_CLASS(any_all_out, at::native::structured_any_all_out)
  OCL_NATIVE(prod, prod)
  OCL_NATIVE(max, max)
  OCL_NATIVE(min, min)
  OCL_FLOATING(var_correction, spread<false>)
  OCL_FLOATING(var_correction_out, spread_out<false>)
  OCL_FLOATING(std_correction, spread<true>)
  OCL_FLOATING(std_correction_out, spread_out<true>)
  OCL_FLOATING(var_mean_correction, spread_and_mean<false>)
  OCL_FLOATING(std_mean_correction, spread_and_mean<true>)
  OCL_CLASS(linalg_vector_norm_out, at::native::structured_linalg_vector_norm_out)
  OCL_CLASS(norm_out, at::native::structured_norm_out)
  OCL_CLASS(norm_dtype_out, at::native::structured_norm_dtype_out)
}

}  // namespace

}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(sum_stub, &ocl::reduce<ocl::Kind::sum>)
REGISTER_PRIVATEUSE1_DISPATCH(nansum_stub, &ocl::reduce<ocl::Kind::sum_of_numbers>)
REGISTER_PRIVATEUSE1_DISPATCH(aminmax_stub, &ocl::extremes)
REGISTER_PRIVATEUSE1_DISPATCH(aminmax_allreduce_stub, &ocl::extremes_of_all)
REGISTER_PRIVATEUSE1_DISPATCH(mean_stub, &ocl::mean)
REGISTER_PRIVATEUSE1_DISPATCH(prod_stub, &ocl::reduce<ocl::Kind::product>)
REGISTER_PRIVATEUSE1_DISPATCH(and_stub, &ocl::reduce<ocl::Kind::all>)
REGISTER_PRIVATEUSE1_DISPATCH(or_stub, &ocl::reduce<ocl::Kind::any>)
REGISTER_PRIVATEUSE1_DISPATCH(min_values_stub, &ocl::reduce<ocl::Kind::least>)
REGISTER_PRIVATEUSE1_DISPATCH(max_values_stub, &ocl::reduce<ocl::Kind::largest>)
REGISTER_PRIVATEUSE1_DISPATCH(std_var_stub, &ocl::variance)
REGISTER_PRIVATEUSE1_DISPATCH(norm_stub, &ocl::norm)
REGISTER_PRIVATEUSE1_DISPATCH(max_all_stub, &ocl::largest_of_all)
REGISTER_PRIVATEUSE1_DISPATCH(min_all_stub, &ocl::least_of_all)

}  // namespace at::native
