#include "ops/lib/channel_sum.hpp"

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"

namespace dlprim::detail {

void channel_sum(const Stream& stream, const Tensor& dy, const Tensor& dbias, const Options& options,
                 const Tensor& workspace) {
  require_floating("dy", dy, true);
  if (dbias.dtype() != DType::f32) require_dtype("dbias", dbias, dy.dtype());
  require_shape("dbias", dbias, {dy.size(1)});
  require_writable("dbias", dbias);
  require_no_overlap("dbias", dbias, "dy", dy);
  // The reduced axes have size 1, so their strides are never used.
  Shape shape = Dims::filled(dy.rank(), 1), strides = shape;
  shape[1] = dy.size(1), strides[1] = dbias.strides()[0];
  reduce(stream, {dy}, {dbias.as_strided(shape, strides)}, {}, sum_of("x0"), options, workspace);
}

}  // namespace dlprim::detail
