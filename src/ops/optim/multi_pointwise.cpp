// MultiPointwise: an expression for multi_tensor.cl.
#include <dlprim/multi_pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression_check.hpp"
#include "ops/optim/multi_tensor.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<MultiPointwiseDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct MultiPointwise::Impl {
  MultiPointwiseDesc desc;
  MultiTensor kernel;
};

namespace {

MultiTensorForm form_of(const MultiPointwiseDesc& d) {
  require(!d.changed.empty() || !d.outputs.empty(), "outputs", "nothing is written");
  for (const auto& [name, count] :
       {std::pair("scalars", d.scalars), std::pair("place_scalars", d.place_scalars)})
    require(count >= 0, name, count, " must not be negative");
  MultiTensorForm form;
  size_t x = 0, y = 0;
  const auto add = [&](const char* what, const std::vector<DType>& dtypes, bool read, bool written,
                       bool single) {
    for (size_t k = 0; k < dtypes.size(); k++)
      form.lists.push_back({cat(what, '[', k, ']'), dtypes[k], read ? cat('x', x++) : "",
                            written ? cat('y', y++) : "", single});
  };
  add("changed", d.changed, true, true, false);
  add("inputs", d.inputs, true, false, false);
  add("outputs", d.outputs, false, true, false);
  add("singles", d.singles, true, false, true);
  for (size_t k = 0; k < d.numbers.size(); k++)
    form.numbers.push_back({cat("numbers[", k, ']'), d.numbers[k], cat('x', x++)});
  form.scalars = d.scalars;
  form.place_scalars = d.place_scalars;
  check_expression("body", d.body,
                   {{'x', 0, x, "input"},
                    {'y', 0, y, "output"},
                    {'s', 0, static_cast<size_t>(d.scalars + d.place_scalars), "scalar"}},
                   true);
  form.expression = d.body;
  form.body = "{\n" + statement("body", d.body) + "}";
  form.any_mix = form.same_elements = true;
  return form;
}

std::string text_of(const MultiPointwiseDesc& d) {
  std::string text;
  const auto add = [&](const char* what, const std::vector<DType>& dtypes) {
    for (size_t k = 0; k < dtypes.size(); k++) text += cat(' ', what, k, '=', name_of(dtypes[k]));
  };
  add("changed", d.changed);
  add("inputs", d.inputs);
  add("singles", d.singles);
  add("numbers", d.numbers);
  add("outputs", d.outputs);
  return text.substr(1) + generated_text({}, {}, "body", d.body);
}

DType dtype_of(const std::vector<Tensor>& list) {
  return list.empty() ? DType::f32 : list[0].dtype();
}

double bytes_of(const std::vector<std::vector<Tensor>>& lists) {
  double bytes = 0;
  for (const std::vector<Tensor>& list : lists)
    for (const Tensor& x : list) bytes += static_cast<double>(x.bytes());
  return bytes;
}

}  // namespace

MultiPointwise::MultiPointwise(const Context& context, const MultiPointwiseDesc& desc, const Options& options)
    : Plan(nullptr) {
  const MultiTensorForm form = form_of(desc);
  PlanInfo info;
  info.text = text_of(desc);
  info_ = single_engine("multi_pointwise", "multi_tensor", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(Impl{desc, MultiTensor(context, form)});
}

void MultiPointwise::run(const Stream& stream, const MultiPointwiseTensors& tensors,
                         const std::vector<double>& scalars,
                         const std::vector<std::vector<double>>& place_scalars,
                         const Tensor& workspace) const {
  const MultiPointwiseDesc& d = impl_->desc;
  require_stream(*info_, stream);
  TensorLists lists;
  const auto add = [&](const char* what, const std::vector<std::vector<Tensor>>& given, size_t count) {
    require(given.size() == count, what, given.size(), " lists, the plan has ", count);
    for (const std::vector<Tensor>& list : given) lists.push_back(&list);
  };
  add("changed", tensors.changed, d.changed.size());
  add("inputs", tensors.inputs, d.inputs.size());
  add("outputs", tensors.outputs, d.outputs.size());
  add("singles", tensors.singles, d.singles.size());
  const auto count = [](const char* what, size_t given, size_t expected) {
    require(given == expected, what, given, " of them, the plan has ", expected);
  };
  count("numbers", tensors.numbers.size(), d.numbers.size());
  count("scalars", scalars.size(), static_cast<size_t>(d.scalars));
  count("place_scalars", place_scalars.size(), static_cast<size_t>(d.place_scalars));
  for (size_t k = 0; k < place_scalars.size(); k++)
    require(place_scalars[k].size() == lists[0]->size(), ArgName("place_scalars", k), place_scalars[k].size(),
            " numbers for ", lists[0]->size(), " places");
  DeviceNumbers numbers;
  numbers.others = tensors.numbers;
  const TensorPlaces places = impl_->kernel.check(stream, lists, numbers, {{"workspace", workspace}});
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope(
      stream, info_->text, 0,
      2 * bytes_of(tensors.changed) + bytes_of(tensors.inputs) + bytes_of(tensors.outputs));
  impl_->kernel.run(stream, lists, places, {scalars, place_scalars}, numbers);
}

void multi_pointwise(const Stream& stream, const MultiPointwiseTensors& tensors,
                     const std::vector<double>& scalars,
                     const std::vector<std::vector<double>>& place_scalars, const std::string& body,
                     const Options& options, const Tensor& workspace) {
  const auto dtypes = [](const std::vector<std::vector<Tensor>>& lists) {
    std::vector<DType> result;
    for (const std::vector<Tensor>& list : lists) result.push_back(dtype_of(list));
    return result;
  };
  MultiPointwiseDesc desc{dtypes(tensors.changed),
                          dtypes(tensors.inputs),
                          dtypes(tensors.singles),
                          {},
                          dtypes(tensors.outputs),
                          static_cast<int>(scalars.size()),
                          static_cast<int>(place_scalars.size()),
                          body};
  for (const Tensor& number : tensors.numbers) desc.numbers.push_back(number.dtype());
  cached_plan<MultiPointwise>(stream, "multi_pointwise", desc, options, workspace)
      ->run(stream, tensors, scalars, place_scalars, workspace);
}

}  // namespace dlprim
