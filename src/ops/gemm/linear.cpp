// Linear layers: GEMM on transposed views, and a sum over rows.
#include <dlprim/linear.hpp>

#include <dlprim/gemm.hpp>

#include "core/composed.hpp"
#include "ops/lib/channel_sum.hpp"
#include "ops/pointwise/activation_impl.hpp"

namespace dlprim {

using namespace detail;

namespace {

/// The argument is a matrix with one size given, unless that is -1.
void require_matrix(const Named& x, int axis, int64_t size) {
  require(x.tensor.defined(), x.name, "is not defined");
  require_rank(x.name, x.tensor, 2);
  Shape shape = x.tensor.shape();
  if (size >= 0) shape[axis] = size;
  require_shape(x.name, x.tensor, shape);
}

/// How a call wants its GEMM.
struct Wanted {
  GemmParams params;
  const Options& options;
  const Tensor& workspace;
};

/// result = A B with the shapes checked and refusals in the caller's names.
void multiply(const Stream& stream, const Named& a, bool a_transposed, const Named& b, bool b_transposed,
              const Tensor& bias, const Named& result, const Wanted& wanted) {
  const int a_inner = a_transposed ? 0 : 1, b_inner = b_transposed ? 1 : 0;
  require_matrix(a, 0, -1);
  require_matrix(b, b_inner, a.tensor.size(a_inner));
  require(result.tensor.defined(), result.name, "is not defined");
  require_shape(result.name, result.tensor, {a.tensor.size(1 - a_inner), b.tensor.size(1 - b_inner)});
  if (bias.defined()) require_shape("bias", bias, {b.tensor.size(1 - b_inner)});
  require_apart({result}, {a, b});
  try {
    gemm(stream, a_transposed ? a.tensor.transpose(0, 1) : a.tensor,
         b_transposed ? b.tensor.transpose(0, 1) : b.tensor, bias, wanted.params, result.tensor,
         wanted.options, wanted.workspace);
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
            const Tensor& y, const Options& options, const Tensor& workspace) {
  require_activation("activation", activation);
  multiply(stream, {"x", x}, false, {"w", w}, true, bias, {"y", y}, {{1, 0, activation}, options, workspace});
}

void linear_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx,
                          const Options& options, const Tensor& workspace) {
  multiply(stream, {"dy", dy}, false, {"w", w}, false, {}, {"dx", dx}, {{}, options, workspace});
}

void linear_backward_weights(const Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dw,
                             const Options& options, const Tensor& workspace) {
  linear_backward_weights(stream, x, dy, dw, Write::replace, options, workspace);
}

void linear_backward_weights(const Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dw,
                             Write write, const Options& options, const Tensor& workspace) {
  require_write("write", write);
  const double beta = write == Write::add ? 1 : 0;
  multiply(stream, {"dy", dy}, true, {"x", x}, false, {}, {"dw", dw}, {{1, beta}, options, workspace});
}

void linear_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias, const Options& options,
                          const Tensor& workspace) {
  require_matrix({"dy", dy}, 0, -1);
  require_context("dy", dy, stream.context());
  require_context("dbias", dbias, stream.context());
  channel_sum(stream, dy, dbias, options, workspace);
}

}  // namespace dlprim
