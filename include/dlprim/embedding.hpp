// Embedding: rows of a table by number. Rules for indices: dlprim/gather.hpp.
#pragma once

#include <dlprim/index.hpp>

namespace dlprim {

struct EmbeddingParams {
  int64_t padding_idx = -1;         ///< a row that gets no gradient; none if negative
  bool scale_grad_by_freq = false;  ///< each row's gradient is divided by how often its number occurs
};

/// y[..., :] = w[index[...], :]. w: [V, D]; y: the index's shape and D; one dtype, any. Its plan: Index of w
/// by `index` alone.
DLPRIM_API void embedding(const Stream& stream, const Tensor& w, const Tensor& index, const Tensor& y,
                          const Options& options = {}, const Tensor& workspace = {});
/// dw: zero, plus for each index its row of dy. As PyTorch's embedding_dense_backward; floating dtypes in any
/// mix. Its plan: IndexPut of dy without x, which skips padding_idx; by sum, or, where gradients are divided
/// by frequencies, by mean without the place's old value.
DLPRIM_API void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& index,
                                   const EmbeddingParams& params, const Tensor& dw,
                                   const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
