// Embedding: rows of a table by number. Rules for indices: dlprim/gather.hpp.
#pragma once

#include <dlprim/index.hpp>

namespace dlprim {

struct EmbeddingParams {
  int64_t padding_idx = -1;         ///< a row that gets no gradient; none if negative
  bool scale_grad_by_freq = false;  ///< each row's gradient is divided by how often its number occurs
};

/// y[..., :] = w[index[...], :]. w: [V, D]; y: the index's shape and D; one dtype, any.
DLPRIM_API void embedding(const Stream& stream, const Tensor& w, const Tensor& index, const Tensor& y);
/// dw: zero, plus for each index its row of dy. As PyTorch's embedding_dense_backward; floating dtypes in any
/// mix.
DLPRIM_API void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& index,
                                   const Tensor& dw, const EmbeddingParams& params = {},
                                   const Options& options = {});

}  // namespace dlprim
