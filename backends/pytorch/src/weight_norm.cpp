// Weights as lengths times directions (weight_norm), and rows of embeddings that are cut down to a length.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>

#include "structured.hpp"

namespace ocl {

namespace {

/// All dimensions but one, along which there is a length for each slice.
std::vector<int64_t> other_dims(const at::Tensor& v, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < v.dim(); i++)
    if (i != dim) dims.push_back(i);
  return dims;
}

/// Lengths are computed and kept in f32 where weights are 16-bit floats, as on other devices.
at::ScalarType wide(const at::Tensor& v) {
  return v.scalar_type() == at::kHalf || v.scalar_type() == at::kBFloat16 ? at::kFloat : v.scalar_type();
}

std::tuple<at::Tensor, at::Tensor> weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const std::vector<int64_t> dims = other_dims(v, dim);
  const at::ScalarType type = wide(v);
  // Of a vector each element is a slice of its own, and an empty list of dimensions means all.
  const at::Tensor norms =
      dims.empty() ? v.to(type).abs() : at::linalg_vector_norm(v, 2, dims, /*keepdim=*/true, type);
  return {(v * (g.to(type) / norms)).to(v.scalar_type()), norms};
}

std::tuple<at::Tensor, at::Tensor> weight_norm_backward(const at::Tensor& grad, const at::Tensor& v,
                                                        const at::Tensor& g, const at::Tensor& norms,
                                                        int64_t dim) {
  const std::vector<int64_t> dims = other_dims(v, dim);
  const at::ScalarType type = wide(v);
  const at::Tensor dw = grad.to(type), direction = v.to(type) / norms;
  at::Tensor along = dw * direction;
  if (!dims.empty()) along = along.sum(dims, /*keepdim=*/true);
  const at::Tensor dv = (dw - direction * along) * (g.to(type) / norms);
  return {dv.to(v.scalar_type()), along.to(g.scalar_type())};
}

/// Rows that indices name and that are longer than max_norm become that long. An index that is there twice
/// writes the same twice.
at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm,
                              double norm_type) {
  TORCH_CHECK(self.dim() == 2, "embedding_renorm_: the table has ", self.dim(), " dimensions, not 2");
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "embedding_renorm_: indices are of dtype ", indices.scalar_type(), ", not int32 or int64");
  const at::Tensor places = indices.reshape({-1}).to(at::kLong);
  if (places.numel() == 0) return self;
  const at::Tensor rows = self.index_select(0, places);
  const at::Tensor norms = at::linalg_vector_norm(rows, norm_type, 1, /*keepdim=*/true, wide(self));
  const at::Tensor factors =
      at::where(norms > max_norm, max_norm / (norms + 1e-7), at::ones({}, norms.options()));
  return self.index_copy_(0, places, (rows * factors).to(self.scalar_type()));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(_weight_norm_interface, weight_norm)
  OCL_FLOATING(_weight_norm_interface_backward, weight_norm_backward)
  OCL_FLOATING(embedding_renorm_, embedding_renorm_)
}

}  // namespace

}  // namespace ocl
