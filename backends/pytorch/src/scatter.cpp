// gather, scatter and their reductions along one dimension, through dlprim's.
#include <dlprim/gather.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using dlprim::ScatterParams;
using dlprim::ScatterReduce;

struct Gather : at::meta::structured_gather {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool, const at::Tensor& out) {
    if (out.numel() == 0) return;
    const dlprim::Tensor x = view(at_least_1d(self)), places = view(at_least_1d(index)),
                         y = view(at_least_1d(out));
    const int axis = axis_of(dim, self);
    run_plan<dlprim::Gather>(
        home_of(self), Key::of(x, places, y, axis),
        [&] {
          return dlprim::Gather(home_of(self).context, {x, places, y, axis});
        },
        [&](const dlprim::Gather& plan, const dlprim::Stream& stream) { plan.run(stream, x, places, y); });
  }
};

/// out = self, and then its elements that the index names along `dim` become those of src, or are folded with
/// them.
void scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
             const ScatterParams& params, const at::Tensor& out) {
  if (!out.is_same(self)) out.copy_(self);
  if (index.numel() == 0 || out.numel() == 0) return;
  const at::Tensor part =
      src.dim() ? src.as_strided(index.sizes(), src.strides()) : src.expand(index.sizes());
  const dlprim::Tensor y = view(at_least_1d(out)), places = view(at_least_1d(index)),
                       values = view(at_least_1d(part));
  const int axis = axis_of(dim, self);
  run_plan<dlprim::Scatter>(
      home_of(self), Key::of(places, values, y, axis, params.reduce, params.include_self),
      [&] {
        return dlprim::Scatter(home_of(self).context, {y, places, values, y, axis, params});
      },
      [&](const dlprim::Scatter& plan, const dlprim::Stream& stream) {
        plan.run(stream, y, places, values, y);
      });
}

at::Tensor number(const at::Scalar& value, const at::Tensor& like) {
  return at::scalar_tensor(value, like.options());
}

ScatterReduce reduce_of(c10::string_view name) {
  if (name == "sum" || name == "add") return ScatterReduce::sum;
  if (name == "prod" || name == "multiply") return ScatterReduce::prod;
  if (name == "mean") return ScatterReduce::mean;
  if (name == "amax") return ScatterReduce::max;
  if (name == "amin") return ScatterReduce::min;
  TORCH_CHECK(false, "scatter: there is no reduction ", name);
}

struct ScatterSource : at::meta::structured_scatter_src {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
            const at::Tensor& out) {
    scatter(self, dim, index, src, {}, out);
  }
};
struct ScatterValue : at::meta::structured_scatter_value {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
            const at::Tensor& out) {
    scatter(self, dim, index, number(value, self), {}, out);
  }
};
struct ScatterReduced : at::meta::structured_scatter_reduce {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
            c10::string_view reduce, const at::Tensor& out) {
    scatter(self, dim, index, src, {reduce_of(reduce)}, out);
  }
};
struct ScatterValueReduced : at::meta::structured_scatter_value_reduce {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
            c10::string_view reduce, const at::Tensor& out) {
    scatter(self, dim, index, number(value, self), {reduce_of(reduce)}, out);
  }
};
struct ScatterAdd : at::meta::structured_scatter_add {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
            const at::Tensor& out) {
    scatter(self, dim, index, src, {ScatterReduce::sum}, out);
  }
};
struct ScatterReduceTwo : at::meta::structured_scatter_reduce_two {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
            c10::string_view reduce, bool include_self, const at::Tensor& out) {
    scatter(self, dim, index, src, {reduce_of(reduce), include_self}, out);
  }
};

struct IndexReduce : at::meta::structured_index_reduce {
  void impl(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
            c10::string_view reduce, bool include_self, const at::Tensor& out) {
    if (source.numel() == 0 || self.numel() == 0) {
      if (!out.is_same(self)) out.copy_(self);
      return;
    }
    std::vector<int64_t> shape(static_cast<size_t>(std::max<int64_t>(source.dim(), 1)), 1);
    shape[static_cast<size_t>(dim)] = index.numel();
    const at::Tensor places = index.reshape(shape).expand_as(at_least_1d(source));
    scatter(at_least_1d(self), dim, places, at_least_1d(source), {reduce_of(reduce), include_self},
            at_least_1d(out));
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_CLASS(gather_out, Gather)
  OCL_CLASS(scatter_src_out, ScatterSource)
  OCL_CLASS(scatter_value_out, ScatterValue)
  OCL_CLASS(scatter_reduce_out, ScatterReduced)
  OCL_CLASS(scatter_value_reduce_out, ScatterValueReduced)
  OCL_CLASS(scatter_add_out, ScatterAdd)
  OCL_CLASS(scatter_reduce_two_out, ScatterReduceTwo)
  OCL_CLASS(index_reduce_out, IndexReduce)
}

}  // namespace

}  // namespace ocl
