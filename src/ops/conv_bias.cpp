// The bias' gradient of a convolution: a sum over all axes of dy but the channels.
#include <dlprim/conv.hpp>
#include <dlprim/pointwise.hpp>

#include "core/check.hpp"

namespace dlprim {

void conv2d_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias) {
  using namespace detail;
  require_context("dy", dy, stream.context());
  require_context("dbias", dbias, stream.context());
  require_rank("dy", dy, 4);
  require_dtype("dy", dy, DType::f32);
  require_dtype("dbias", dbias, DType::f32);
  require_shape("dbias", dbias, {dy.size(1)});
  require_writable("dbias", dbias);
  require_no_overlap("dbias", dbias, "dy", dy);
  const int64_t step = dbias.strides()[0];
  // The three reduced axes have size 1, so their strides are never used.
  reduce(stream, {dy}, {dbias.as_strided({1, dy.size(1), 1, 1}, {1, step, 1, 1})}, {}, sum_of("x0"));
}

}  // namespace dlprim
