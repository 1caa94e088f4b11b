// A launch for each place: dlprim's multi-tensor kernels are not public. Plans depend on the sizes of a place
// alone, and tensors without gaps count as vectors, so that few plans serve many places.
#include "places.hpp"

#include <ATen/native/ForeachUtils.h>
#include <dlprim/pointwise.hpp>

#include "plans.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

/// Whether all tensors of the place may be taken for vectors.
bool are_vectors(const Places& places, size_t i) {
  const at::Tensor& first = places.outputs[0][i];
  if (!first.is_non_overlapping_and_dense()) return false;
  const auto alike = [&](const at::TensorList& list) { return list[i].strides() == first.strides(); };
  return std::all_of(places.outputs.begin(), places.outputs.end(), alike) &&
         std::all_of(places.inputs.begin(), places.inputs.end(), alike);
}

/// A place's tensors for dlprim. Their memory is used again from place to place.
struct Operands {
  std::vector<dlprim::Tensor> inputs, outputs;
  std::vector<dlprim::Scalar> scalars;

  void take(const Places& places, size_t i) {
    inputs.clear(), outputs.clear();
    const bool vectors = are_vectors(places, i);
    const auto seen = [&](const at::Tensor& t) {
      return vectors ? flat(t, require_dtype(t.scalar_type()), t.numel()) : view(t);
    };
    const auto single = [](const at::Tensor& t) { return flat(t, require_dtype(t.scalar_type()), 1); };
    for (const at::TensorList& list : places.outputs) outputs.push_back(seen(list[i]));
    for (const at::TensorList& list : places.inputs) inputs.push_back(seen(list[i]));
    for (const at::TensorList& list : places.singles) inputs.push_back(single(list[i]));
    for (const at::Tensor& number : places.numbers) inputs.push_back(single(number));
    if (!places.scalar_list.empty()) {
      if (scalars.size() > places.scalars.size()) scalars.pop_back();
      scalars.emplace_back(places.scalar_list[i].toDouble());
    }
  }
};

}  // namespace

bool fit_together(c10::ArrayRef<at::TensorList> lists) {
  if (lists.empty() || lists[0].empty()) return false;
  for (const at::TensorList& list : lists)
    if (list.size() != lists[0].size()) return false;
  const at::Tensor& first = lists[0][0];
  return first.device().type() == kOcl && first.is_floating_point() &&
         computes(home_of(first), first.scalar_type()) && at::native::can_use_fast_route(lists);
}

std::vector<dlprim::Tensor> vectors_of(at::TensorList list) {
  std::vector<dlprim::Tensor> result;
  result.reserve(list.size());
  for (const at::Tensor& t : list)
    if (t.numel()) result.push_back(flat(t, require_dtype(t.scalar_type()), t.numel()));
  return result;
}

void run_places(const void* what, int64_t variant, const Places& places,
                const std::function<std::string()>& text) {
  static auto* const plans = new Plans<dlprim::Pointwise>;
  if (places.outputs[0].empty()) return;
  Device& on = home_of(places.outputs[0][0]);
  thread_local Operands operands;
  auto& [inputs, outputs, scalars] = operands;
  scalars.clear();
  for (const at::Scalar& scalar : places.scalars) scalars.emplace_back(scalar.toDouble());
  const size_t lists = places.inputs.size();
  // Single elements need no boundary; a plan that asks for none serves all.
  const auto described = [&](size_t k) {
    dlprim::TensorDesc desc = inputs[k];
    if (k >= lists) desc.aligned = false;
    return desc;
  };
  submit(on, [&](const dlprim::Stream& stream) {
    std::shared_ptr<const dlprim::Pointwise> plan;
    std::optional<Key> last;
    for (size_t i = 0; i < places.outputs[0].size(); i++) {
      if (places.outputs[0][i].numel() == 0) continue;
      operands.take(places, i);
      Key key = Key::of(reinterpret_cast<intptr_t>(what), variant);
      for (const dlprim::Tensor& y : outputs) key.add(y);
      for (size_t k = 0; k < lists; k++) key.add(inputs[k]);
      for (size_t k = lists; k < inputs.size(); k++) key.add(inputs[k].dtype());
      if (!last || !(key == *last)) {
        plan = plans->get(on, key, [&] {
          std::vector<dlprim::TensorDesc> xs;
          for (size_t k = 0; k < inputs.size(); k++) xs.push_back(described(k));
          const std::vector<dlprim::TensorDesc> ys(outputs.begin(), outputs.end());
          return dlprim::Pointwise(on.context, xs, ys, static_cast<int>(scalars.size()), text());
        });
        last = key;
      }
      plan->run(stream, inputs, outputs, scalars);
    }
  });
  inputs.clear(), outputs.clear();
}

}  // namespace ocl
