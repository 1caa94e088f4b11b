// Places as dlprim's MultiPointwise takes them: tensors without gaps as vectors, others by way of copies.
// Plans depend on the expression and on dtypes alone.
#include "places.hpp"

#include <ATen/Functions.h>
#include <ATen/native/ForeachUtils.h>
#include <dlprim/multi_pointwise.hpp>

#include "plans.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

dlprim::Tensor vector_of(const at::Tensor& t) {
  return flat(t, require_dtype(t.scalar_type()), t.numel());
}

/// Whether all tensors of the place may be taken for vectors.
bool are_vectors(const Places& places, size_t i) {
  const at::Tensor& first = places.written()[i];
  if (!first.is_non_overlapping_and_dense()) return false;
  const auto alike = [&](const at::TensorList& list) { return list[i].strides() == first.strides(); };
  const auto all = [&](const Places::Lists& lists) { return std::all_of(lists.begin(), lists.end(), alike); };
  return all(places.changed) && all(places.inputs) && all(places.outputs);
}

/// What dlprim is given.
struct Arguments {
  dlprim::MultiPointwiseTensors tensors;
  std::vector<double> scalars;
  std::vector<std::vector<double>> place_scalars;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  ///< tensors with gaps, and what is written for them

  explicit Arguments(const Places& places) {
    const size_t count = places.written().size();
    for (const auto& [to, from] : {std::pair(&tensors.changed, places.changed.size()),
                                   std::pair(&tensors.inputs, places.inputs.size()),
                                   std::pair(&tensors.outputs, places.outputs.size()),
                                   std::pair(&tensors.singles, places.singles.size())}) {
      to->resize(from);
      for (std::vector<dlprim::Tensor>& list : *to) list.reserve(count);
    }
    place_scalars.resize(!places.scalar_list.empty());
    for (size_t i = 0; i < count; i++)
      if (places.written()[i].numel() > 0) add(places, i);
    for (const at::Tensor& number : places.numbers) tensors.numbers.push_back(vector_of(number));
    for (const at::Scalar& scalar : places.scalars) scalars.push_back(scalar.toDouble());
  }

  bool none() const { return (tensors.changed.empty() ? tensors.outputs : tensors.changed)[0].empty(); }

  dlprim::MultiPointwiseDesc description(const std::string& text) const {
    const auto dtypes = [](const std::vector<std::vector<dlprim::Tensor>>& lists) {
      std::vector<dlprim::DType> result;
      for (const std::vector<dlprim::Tensor>& list : lists) result.push_back(list[0].dtype());
      return result;
    };
    dlprim::MultiPointwiseDesc desc;
    desc.changed = dtypes(tensors.changed), desc.inputs = dtypes(tensors.inputs);
    desc.singles = dtypes(tensors.singles), desc.outputs = dtypes(tensors.outputs);
    for (const dlprim::Tensor& number : tensors.numbers) desc.numbers.push_back(number.dtype());
    desc.scalars = static_cast<int>(scalars.size()),
    desc.place_scalars = static_cast<int>(place_scalars.size());
    desc.body = text;
    return desc;
  }

  /// All that the description has but the text.
  void add_to(Key& key) const {
    for (const auto* lists : {&tensors.changed, &tensors.inputs, &tensors.singles, &tensors.outputs}) {
      key.add(lists->size());
      for (const std::vector<dlprim::Tensor>& list : *lists) key.add(list[0].dtype());
    }
    key.add(tensors.numbers.size());
    for (const dlprim::Tensor& number : tensors.numbers) key.add(number.dtype());
    key.add(scalars.size()), key.add(place_scalars.size());
  }

 private:
  void add(const Places& places, size_t i) {
    const bool vectors = are_vectors(places, i);
    const auto add = [&](std::vector<std::vector<dlprim::Tensor>>& to, const Places::Lists& lists,
                         bool written) {
      for (size_t k = 0; k < lists.size(); k++) {
        const at::Tensor& t = lists[k][i];
        const at::Tensor without_gaps = vectors ? t : t.contiguous();
        to[k].push_back(vector_of(without_gaps));
        if (written && !without_gaps.is_same(t)) copies.emplace_back(t, without_gaps);
      }
    };
    add(tensors.changed, places.changed, true);
    add(tensors.inputs, places.inputs, false);
    add(tensors.outputs, places.outputs, true);
    for (size_t k = 0; k < places.singles.size(); k++)
      tensors.singles[k].push_back(vector_of(places.singles[k][i]));
    if (!places.scalar_list.empty()) place_scalars[0].push_back(places.scalar_list[i].toDouble());
  }
};

void run_together(const void* what, int64_t variant, const Places& places,
                  const std::function<std::string()>& text) {
  const Arguments arguments(places);
  if (arguments.none()) return;
  Device& on = home_of(places.written()[0]);
  Key key = Key::of(reinterpret_cast<intptr_t>(what), variant);
  arguments.add_to(key);
  run_plan<dlprim::MultiPointwise>(
      on, key, [&] { return dlprim::MultiPointwise(on.context, arguments.description(text())); },
      [&](const dlprim::MultiPointwise& plan, const dlprim::Stream& stream) {
        plan.run(stream, arguments.tensors, arguments.scalars, arguments.place_scalars);
      });
  for (const auto& [to, from] : arguments.copies) to.copy_(from);
}

/// Place i alone, and what its numbers are by now.
struct OnePlace {
  Places places;
  c10::SmallVector<at::Tensor, 4> singles;

  OnePlace(const Places& all, size_t i) : places(all) {
    for (Places::Lists* lists : {&places.changed, &places.inputs, &places.outputs})
      for (at::TensorList& list : *lists) list = list.slice(i, 1);
    for (const at::TensorList& list : all.singles) singles.push_back(list[i].clone());
    for (size_t k = 0; k < singles.size(); k++) places.singles[k] = singles[k];
    for (at::Tensor& number : places.numbers) number = number.clone();
    if (!all.scalar_list.empty()) places.scalar_list = {all.scalar_list[i]};
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
    if (t.numel()) result.push_back(vector_of(t));
  return result;
}

void run_places(const void* what, int64_t variant, const Places& places,
                const std::function<std::string()>& text) {
  try {
    return run_together(what, variant, places, text);
  } catch (const dlprim::ValidationError&) {
    if (places.written().size() == 1) throw;
  }
  // Nothing was written: a tensor stands at two places. Then they go one behind the other.
  for (size_t i = 0; i < places.written().size(); i++) {
    const OnePlace one(places, i);
    run_together(what, variant, one.places, text);
  }
}

}  // namespace ocl
