// Reading and writing at places that tensors of indices say, and choosing by masks, through dlprim's. Indices
// outside read 0 and write nothing: a device cannot throw.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <dlprim/index.hpp>
#include <dlprim/masked.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using dlprim::ScatterParams;
using dlprim::ScatterReduce;
using Indices = std::vector<dlprim::Tensor>;

std::vector<std::optional<dlprim::TensorDesc>> descriptions(const Indices& indices) {
  std::vector<std::optional<dlprim::TensorDesc>> result;
  for (const dlprim::Tensor& index : indices) result.push_back(description(index));
  return result;
}

/// y = x[indices]
void read_at(Device& on, const dlprim::Tensor& x, const Indices& indices, const dlprim::Tensor& y) {
  Key key = Key::of(x, y);
  for (const dlprim::Tensor& index : indices) key.add(index);
  run_plan<dlprim::Index>(
      on, key,
      [&] {
        return dlprim::Index(on.context, {x, descriptions(indices), y});
      },
      [&](const dlprim::Index& plan, const dlprim::Stream& stream) { plan.run(stream, x, indices, y); });
}

/// y[indices] becomes the values, or is folded with them. x: y itself, or none for zeros.
void write_at(Device& on, const dlprim::Tensor& x, const Indices& indices, const dlprim::Tensor& values,
              const ScatterParams& params, const dlprim::Tensor& y, int64_t skip = -1) {
  Key key = Key::of(x, values, y, params.reduce, params.include_self, skip);
  for (const dlprim::Tensor& index : indices) key.add(index);
  run_plan<dlprim::IndexPut>(
      on, key,
      [&] {
        return dlprim::IndexPut(on.context, {description(x), descriptions(indices), values, y, params, skip});
      },
      [&](const dlprim::IndexPut& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, indices, values, y);
      });
}

// Several indices at once

/// The tensors of indices, masks as the places of what they choose.
std::vector<at::Tensor> places_of(const at::Tensor& self,
                                  const c10::List<std::optional<at::Tensor>>& indices) {
  at::native::checkIndexTensorTypes(indices, /*allow_int*/ true);
  std::vector<at::Tensor> places = at::native::expandTensors(self, indices, /*ensure_same_device=*/true);
  TORCH_CHECK_INDEX(places.size() <= static_cast<size_t>(self.dim()), "too many indices for a tensor of ",
                    self.dim(), " dimensions");
  // Kernels take indices of one dtype.
  const auto is = [&](at::ScalarType type) {
    return std::any_of(places.begin(), places.end(),
                       [&](const at::Tensor& t) { return t.defined() && t.scalar_type() == type; });
  };
  if (is(at::kInt) && is(at::kLong))
    for (at::Tensor& t : places)
      if (t.defined()) t = t.to(at::kLong);
  return places;
}

/// The shape of self[places].
std::vector<int64_t> indexed_shape(const at::Tensor& self, const std::vector<at::Tensor>& places) {
  std::vector<int64_t> common, shape;
  size_t first = places.size(), last = 0, count = 0;
  for (size_t i = 0; i < places.size(); i++) {
    if (!places[i].defined()) continue;
    common = count++ ? at::infer_size(common, places[i].sizes()) : places[i].sizes().vec();
    first = std::min(first, i);
    last = i;
  }
  const bool neighbours = count == 0 || last - first + 1 == count;
  if (!neighbours) shape = common;
  for (size_t i = 0; i < static_cast<size_t>(self.dim()); i++) {
    if (neighbours && count && i == first) shape.insert(shape.end(), common.begin(), common.end());
    if (i >= places.size() || !places[i].defined()) shape.push_back(self.size(static_cast<int64_t>(i)));
  }
  return shape;
}

Indices views(const std::vector<at::Tensor>& tensors) {
  Indices result;
  for (const at::Tensor& t : tensors) result.push_back(view(t));
  return result;
}

at::Tensor& index_out(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                      at::Tensor& out) {
  const std::vector<at::Tensor> places = places_of(self, indices);
  at::native::resize_output(out, indexed_shape(self, places));
  if (out.numel() == 0) return out;
  if (std::none_of(places.begin(), places.end(), [](const at::Tensor& t) { return t.defined(); }))
    return out.copy_(self);
  read_at(home_of(self), view(self), views(places), view(out));
  return out;
}

at::Tensor index(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  at::Tensor out = at::empty({0}, self.options());
  return index_out(self, indices, out);
}

at::Tensor& index_put(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                      const at::Tensor& values, bool accumulate, bool) {
  TORCH_CHECK(self.scalar_type() == values.scalar_type(), "index_put_: self is of dtype ", self.scalar_type(),
              ", the values are of ", values.scalar_type());
  if (!accumulate) {
    const auto [by_mask, mask] = at::native::canDispatchToMaskedFill(self, indices, values);
    if (by_mask) return self.masked_fill_(mask.to(self.device()), values.item());
  }
  const std::vector<at::Tensor> places = places_of(self, indices);
  const std::vector<int64_t> shape = indexed_shape(self, places);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return self;
  at::Tensor from = values.to(self.device());
  TORCH_CHECK(at::is_expandable_to(from.sizes(), shape), "index_put_: values of sizes ", values.sizes(),
              " do not broadcast to ", at::IntArrayRef(shape));
  if (from.is_alias_of(self)) from = from.clone();
  write_at(home_of(self), view(self), views(places), view(from),
           {accumulate ? ScatterReduce::sum : ScatterReduce::none}, view(self));
  return self;
}

// One index

/// The index in the place of dimension `dim`.
Indices along(int64_t dim, const at::Tensor& index) {
  Indices indices(static_cast<size_t>(dim) + 1);
  indices.back() = view(at_least_1d(index));
  return indices;
}

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select: the index has ", index.dim(), " dimensions, not one");
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                    "index_select: the index is of dtype ", index.scalar_type(), ", not int32 or int64");
  dim = at::maybe_wrap_dim(dim, self.dim());
  std::vector<int64_t> shape = self.sizes().vec();
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = index.numel();
  at::native::resize_output(out, shape);
  if (out.numel() != 0)
    read_at(home_of(self), view(at_least_1d(self)), along(dim, index), view(at_least_1d(out)));
  return out;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  at::Tensor out = at::empty({0}, self.options());
  return index_select_out(self, dim, index, out);
}

/// out = self, and then its slices along `dim` become those of source, or are folded with them.
void write_along(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                 ScatterReduce reduce, const at::Tensor& out) {
  if (!out.is_same(self)) out.copy_(self);
  if (index.numel() == 0 || out.numel() == 0) return;
  write_at(home_of(out), view(at_least_1d(out)), along(at::maybe_wrap_dim(dim, self.dim()), index),
           view(at_least_1d(source)), {reduce}, view(at_least_1d(out)));
}

struct IndexAdd : at::meta::structured_index_add {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
            const at::Scalar& alpha, const at::Tensor& out) {
    write_along(self, dim, index, alpha.equal(1) ? source : source * alpha, ScatterReduce::sum, out);
  }
};

struct IndexCopy : at::meta::structured_index_copy {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
            const at::Tensor& out) {
    write_along(self, dim, index, source, ScatterReduce::none, out);
  }
};

at::Tensor& index_fill(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  write_along(self, dim, index, at::scalar_tensor(value, self.options()), ScatterReduce::none, self);
  return self;
}

at::Tensor& index_fill_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ takes a value of no dimensions, this one has ", value.dim());
  write_along(self, dim, index, value.to(self.options()), ScatterReduce::none, self);
  return self;
}

at::Tensor embedding_backward(const at::Tensor& grad, const at::Tensor& indices, c10::SymInt rows,
                              c10::SymInt padding, bool by_frequency) {
  const at::Tensor grad_weight =
      at::empty({rows.guard_int(__FILE__, __LINE__), grad.size(-1)}, grad.options());
  if (indices.numel() == 0) return grad_weight.zero_();
  if (grad_weight.numel() == 0) return grad_weight;
  const dlprim::Tensor dy = view(grad), index = view(indices), dw = view(grad_weight);
  ScatterParams params{ScatterReduce::sum};
  if (by_frequency) params = {ScatterReduce::mean, false};
  write_at(home_of(grad), {}, {index}, dy, params, dw, padding.guard_int(__FILE__, __LINE__));
  return grad_weight;
}

// Masks. How many elements are chosen decides the result's size: that waits for the device.

/// The first coordinates that `out` has room for; the rest of it stays.
void write_nonzero(const at::Tensor& self, const at::Tensor& out) {
  if (self.numel() == 0 || out.numel() == 0) return;
  const at::Tensor counted = at::empty({1}, out.options());
  const dlprim::Tensor x = view(self), y = view(out), n = view(counted);
  run_plan<dlprim::Nonzero>(
      home_of(self), Key::of(x, y),
      [&] {
        return dlprim::Nonzero(home_of(self).context, {x, y, n});
      },
      [&](const dlprim::Nonzero& plan, const dlprim::Stream& stream) { plan.run(stream, x, y, n); });
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero gives int64, the output is of ", out.scalar_type());
  const int64_t count = self.numel() ? self.ne(0).sum().item<int64_t>() : 0;
  at::native::resize_output(out, {count, self.dim()});
  write_nonzero(self, out);
  return out;
}

at::Tensor& nonzero_static_out(const at::Tensor& self, c10::SymInt size, int64_t fill, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero_static gives int64, the output is of ",
              out.scalar_type());
  const int64_t room = size.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(room >= 0, "nonzero_static: the size is ", room);
  at::native::resize_output(out, {room, self.dim()});
  write_nonzero(self, out.fill_(fill));
  return out;
}

at::Tensor nonzero_static(const at::Tensor& self, c10::SymInt size, int64_t fill) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return nonzero_static_out(self, std::move(size), fill, out);
}

at::Tensor nonzero(const at::Tensor& self) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return nonzero_out(self, out);
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: the mask is of dtype ", mask.scalar_type(),
              ", not bool");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "masked_select: self is of dtype ", self.scalar_type(),
              ", the output of ", out.scalar_type());
  const auto [from, by] = at::expand_outplace(self, mask, "masked_select");
  const int64_t count = by->numel() ? by->sum().item<int64_t>() : 0;
  at::native::resize_output(out, {count});
  if (count == 0) return out;
  const at::Tensor counted = at::empty({1}, out.options().dtype(at::kLong));
  const dlprim::Tensor x = view(at_least_1d(*from)), m = view(at_least_1d(*by)), y = view(out),
                       n = view(counted);
  run_plan<dlprim::MaskedSelect>(
      home_of(self), Key::of(x, m, y),
      [&] {
        return dlprim::MaskedSelect(home_of(self).context, {x, m, y, n});
      },
      [&](const dlprim::MaskedSelect& plan, const dlprim::Stream& stream) { plan.run(stream, x, m, y, n); });
  return out;
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  at::Tensor out = at::empty({0}, self.options());
  return masked_select_out(self, mask, out);
}

/// The elements of self that the mask chooses become those of source, in their order.
at::Tensor& masked_scatter(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "masked_scatter_: self is of dtype ",
              self.scalar_type(), ", the source of ", source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_: the mask is of dtype ", mask.scalar_type(),
              ", not bool");
  if (self.numel() == 0 || source.numel() == 0) return self;
  const c10::MaybeOwned<at::Tensor> by = at::expand_inplace(self, mask, "masked_scatter_");
  const at::Tensor row = source.reshape({-1}), placed = at::empty(self.sizes(), self.options());
  const dlprim::Tensor dy = view(row), m = view(at_least_1d(*by)), dx = view(at_least_1d(placed));
  run_plan<dlprim::MaskedSelectBackward>(
      home_of(self), Key::of(dy, m, dx),
      [&] {
        return dlprim::MaskedSelectBackward(home_of(self).context, {dy, m, dx});
      },
      [&](const dlprim::MaskedSelectBackward& plan, const dlprim::Stream& stream) {
        plan.run(stream, dy, m, dx);
      });
  return self.copy_(at::where(*by, placed, self));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(index_Tensor, index)
  OCL_FUNCTION(index_Tensor_out, index_out)
  OCL_FUNCTION(_index_put_impl_, index_put)
  OCL_FUNCTION(index_select, index_select)
  OCL_FUNCTION(index_select_out, index_select_out)
  OCL_CLASS(index_add_out, IndexAdd)
  OCL_CLASS(index_copy_out, IndexCopy)
  OCL_FUNCTION(index_fill__int_Scalar, index_fill)
  OCL_FUNCTION(index_fill__int_Tensor, index_fill_tensor)
  OCL_FUNCTION(embedding_dense_backward, embedding_backward)
  OCL_FUNCTION(masked_scatter_, masked_scatter)
  OCL_FUNCTION(nonzero, nonzero)
  OCL_FUNCTION(nonzero_out, nonzero_out)
  OCL_FUNCTION(nonzero_static, nonzero_static)
  OCL_FUNCTION(nonzero_static_out, nonzero_static_out)
  OCL_FUNCTION(masked_select, masked_select)
  OCL_FUNCTION(masked_select_out, masked_select_out)
}

}  // namespace

}  // namespace ocl
