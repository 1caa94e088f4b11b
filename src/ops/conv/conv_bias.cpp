// The bias' gradient of a convolution: a sum over all axes of dy but the channels.
#include <dlprim/conv.hpp>

#include "core/check.hpp"
#include "ops/lib/channel_sum.hpp"

namespace dlprim {

void conv_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias, const Options& options,
                        const Tensor& workspace) {
  using namespace detail;
  require_context("dy", dy, stream.context());
  require_context("dbias", dbias, stream.context());
  const int rank = dy.rank();
  require(rank >= 3 && rank <= 5, "dy", "rank ", rank, " must be 3, 4 or 5, shape is ", dy.shape());
  channel_sum(stream, dy, dbias, options, workspace);
}

}  // namespace dlprim
