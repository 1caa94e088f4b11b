// Linear layers: GEMM on transposed views, and a sum over rows.
#include <dlprim/linear.hpp>

#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/pointwise/activation_impl.hpp"

namespace dlprim {

using namespace detail;

namespace {

/// The argument is a matrix of f32 with one size given, unless that is -1.
void require_matrix(const Named& x, int axis, int64_t size) {
  require(x.tensor.defined(), x.name, "is not defined");
  require_rank(x.name, x.tensor, 2);
  Shape shape = x.tensor.shape();
  if (size >= 0) shape[axis] = size;
  require_shape(x.name, x.tensor, shape);
}

/// result = A B with the shapes checked and refusals in the caller's names.
void multiply(const Stream& stream, const Named& a, bool a_transposed, const Named& b, bool b_transposed,
              const Tensor& bias, Activation activation, const Named& result) {
  const int a_inner = a_transposed ? 0 : 1, b_inner = b_transposed ? 1 : 0;
  require_matrix(a, 0, -1);
  require_matrix(b, b_inner, a.tensor.size(a_inner));
  require(result.tensor.defined(), result.name, "is not defined");
  require_shape(result.name, result.tensor, {a.tensor.size(1 - a_inner), b.tensor.size(1 - b_inner)});
  if (bias.defined()) require_shape("bias", bias, {b.tensor.size(1 - b_inner)});
  require_apart({result}, {a, b});
  try {
    gemm(stream, a_transposed ? a.tensor.transpose(0, 1) : a.tensor,
         b_transposed ? b.tensor.transpose(0, 1) : b.tensor, bias, {1, 0, activation}, result.tensor);
  } catch (const ValidationError& error) {
    const std::string& argument = error.argument();
    const char* name = argument == "a"   ? a.name
                       : argument == "b" ? b.name
                       : argument == "c" ? result.name
                                         : nullptr;
    if (!name) throw;
    throw renamed(error, name);
  }
}

}  // namespace

void linear(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias, Activation activation,
            const Tensor& y) {
  require_activation("activation", activation);
  multiply(stream, {"x", x}, false, {"w", w}, true, bias, activation, {"y", y});
}

void linear_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  multiply(stream, {"dy", dy}, false, {"w", w}, false, {}, Activation::identity, {"dx", dx});
}

void linear_backward_weights(const Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dw) {
  multiply(stream, {"dy", dy}, true, {"x", x}, false, {}, Activation::identity, {"dw", dw});
}

void linear_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias) {
  require_matrix({"dy", dy}, 0, -1);
  require_context("dy", dy, stream.context());
  require_context("dbias", dbias, stream.context());
  require_dtype("dy", dy, DType::f32);
  require_dtype("dbias", dbias, DType::f32);
  require_shape("dbias", dbias, {dy.size(1)});
  require_writable("dbias", dbias);
  require_no_overlap("dbias", dbias, "dy", dy);
  reduce(stream, {dy}, {dbias}, {}, sum_of("x0"));
}

}  // namespace dlprim
