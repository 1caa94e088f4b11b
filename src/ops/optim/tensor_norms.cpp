// TensorNorms: parts by multi_tensor.cl, and each tensor's end by finish_norms of gradients.cl.
#include <dlprim/tensor_norms.hpp>

#include <algorithm>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/optim/norm_form.hpp"

namespace dlprim::detail {

#include "kernels/optim/norm_places.h"

template <>
inline constexpr int kFields<TensorNormsDesc> = 5;

}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct TensorNorms::Impl {
  MultiTensor parts;
  Kernel finish;
};

TensorNorms::TensorNorms(const Context& context, const TensorNormsDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  require_norm(desc.order, desc.tensors, desc.elements);
  require(is_floating(desc.y), "y", "dtype ", name_of(desc.y), " is not floating");
  require((desc.x == DType::f64) == (desc.y == DType::f64), "y", "dtype ", name_of(desc.y),
          " stands beside x's ", name_of(desc.x));
  MultiTensorForm form = norm_form("x", desc.x, desc.order);
  form.apart = true;
  MultiTensor parts(context, form);
  Defines defines = norm_defines(context, parts.real(), desc.order);
  define_type(defines, "Y", desc.y);
  const Kernel finish = context.state().programs.kernel("gradients", "finish_norms", defines);
  PlanInfo info;
  info.text = cat("x=", name_of(desc.x), " y=", name_of(desc.y), " order=", name_of(desc.order));
  info.bytes = static_cast<double>(desc.elements) * static_cast<double>(size_of(desc.x));
  info.workspace =
      static_cast<size_t>(parts.most_groups(desc.tensors, desc.elements)) * size_of(parts.real());
  info_ = single_engine("tensor_norms", "multi_tensor", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(Impl{std::move(parts), finish});
}

void TensorNorms::run(const Stream& stream, const std::vector<Tensor>& x, const Tensor& y,
                      const Tensor& workspace) const {
  const Context& context = stream.context();
  require_stream(*info_, stream);
  const auto tensors = static_cast<int64_t>(x.size());
  require(tensors == desc_.tensors && elements_of(x) <= desc_.elements, "x", tensors, " tensors of ",
          elements_of(x), " elements, the plan is for ", desc_.tensors, " of ", desc_.elements);
  require_context("y", y, context);
  require_dtype("y", y, desc_.y);
  require_shape("y", y, {tensors});
  require_writable("y", TensorDesc(y));
  require_apart({{"y", y}, {"workspace", workspace}}, {});
  const TensorPlaces places = impl_->parts.check(stream, {&x}, {}, {{"y", y}, {"workspace", workspace}});
  if (tensors == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  DeviceNumbers numbers;
  numbers.parts = workspace_part(space, 0, {places.groups}, impl_->parts.real());
  const OperatorScope scope(stream, *info_);
  if (places.groups > 0) impl_->parts.run(stream, {&x}, places, {}, numbers);
  size_t place = 0;
  int64_t part = 0;
  for (int64_t begin = 0; begin < tensors; begin += NORM_PLACES) {
    const int64_t end = std::min<int64_t>(begin + NORM_PLACES, tensors);
    NormPlaces some{};
    for (int64_t t = begin; t < end; t++) {  // of tensors without elements there is no place
      some.first[t - begin] = to_int("parts", part);
      some.tensor[t - begin] = to_int("x", t);
      if (place < places.all.size() && static_cast<int64_t>(places.all[place].index) == t)
        part += impl_->parts.groups_of(places.all[place++]);
    }
    some.first[end - begin] = to_int("parts", part);
    Launch launch(stream, impl_->finish);
    launch.arg(numbers.parts).arg(some).arg(y).arg(y.strides()[0]);
    launch.run({static_cast<size_t>(end - begin) * norm_group(context)}, {norm_group(context)});
  }
}

void tensor_norms(const Stream& stream, const std::vector<Tensor>& x, NormOrder order, const Tensor& y,
                  const Options& options, const Tensor& workspace) {
  const TensorNormsDesc desc{x.empty() ? DType::f32 : x[0].dtype(), y.defined() ? y.dtype() : DType::f32,
                             order, static_cast<int64_t>(x.size()), elements_of(x)};
  cached_plan<TensorNorms>(stream, "tensor_norms", desc, options, workspace)->run(stream, x, y, workspace);
}

}  // namespace dlprim
