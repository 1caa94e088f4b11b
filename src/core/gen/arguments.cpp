// Checking and binding what generated kernels take.
#include "core/gen/arguments.hpp"

#include "core/check.hpp"
#include "core/composed.hpp"

namespace dlprim::detail {

GeneratedArguments::GeneratedArguments(const std::vector<TensorDesc>& inputs,
                                       const std::vector<TensorDesc>& outputs, int scalars, DType real,
                                       const LoopNest& nest, size_t places, size_t finishing)
    : inputs_(inputs),
      outputs_(outputs),
      scalars_(static_cast<size_t>(scalars)),
      places_(places),
      finishing_(finishing),
      real_(real),
      nest_(nest) {}

void GeneratedArguments::check(const Stream& stream, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, const std::vector<Scalar>& scalars) const {
  require(inputs.size() == inputs_.size(), "inputs", inputs.size(), " tensors, the plan has ",
          inputs_.size());
  require(outputs.size() == outputs_.size(), "outputs", outputs.size(), " tensors, the plan has ",
          outputs_.size());
  require(scalars.size() == scalars_, "scalars", scalars.size(), " numbers, the plan has ", scalars_);
  for (size_t i = 0; i < inputs.size(); i++)
    require_tensor(ArgName("inputs", i), inputs[i], stream.context(), inputs_[i]);
  for (size_t i = 0; i < outputs.size(); i++) {
    require_tensor(ArgName("outputs", i), outputs[i], stream.context(), outputs_[i]);
    for (size_t j = 0; j < i; j++)
      require(!memory_overlaps(outputs[i], outputs[j]), ArgName("outputs", i), "shares memory with outputs[",
              j, "]");
  }
  for (size_t i = 0; i < scalars.size(); i++)
    require(takes(real_, scalars[i]), ArgName("scalars", i), scalars[i].real(),
            " is no 64-bit integer, and every tensor is one");
}

void GeneratedArguments::bind_index(Launch& launch, int64_t value) const {
  if (nest_.wide)
    launch.arg(static_cast<uint64_t>(value));
  else
    launch.arg(static_cast<uint32_t>(value));
}

/// Sizes, then the strides of tensors [first, last).
void GeneratedArguments::bind_dims(Launch& launch, const std::vector<LoopDim>& dims, size_t first,
                                   size_t last) const {
  for (const LoopDim& d : dims) bind_index(launch, d.size);
  for (size_t t = first; t < last; t++)
    for (const LoopDim& d : dims) bind_index(launch, d.strides[t]);
}

void GeneratedArguments::bind(Launch& launch, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& outputs, const std::vector<Scalar>& scalars) const {
  bind_kept(launch, 0, inputs, outputs, scalars);
  bind_dims(launch, nest_.reduced, 0, inputs_.size() + places_);
}

void GeneratedArguments::bind_finish(Launch& launch, const std::vector<Tensor>& inputs,
                                     const std::vector<Tensor>& outputs,
                                     const std::vector<Scalar>& scalars) const {
  const size_t xs = inputs_.size() + places_;
  bind_kept(launch, xs - finishing_, inputs, outputs, scalars);
}

void GeneratedArguments::bind_kept(Launch& launch, size_t first, const std::vector<Tensor>& inputs,
                                   const std::vector<Tensor>& outputs,
                                   const std::vector<Scalar>& scalars) const {
  for (size_t i = first; i < inputs.size(); i++) launch.arg(inputs[i]);
  for (const Tensor& y : outputs) launch.arg(y);
  for (const Scalar& s : scalars) {
    if (is_floating(real_))
      launch.real(real_, s.real());
    else if (real_ == DType::u64)
      launch.arg(s.modulo_2_64());
    else
      launch.arg(s.whole());
  }
  bind_dims(launch, nest_.kept, first, inputs_.size() + places_ + outputs_.size());
}

void require_elementwise_alias(const Tensor& y, size_t i, const Tensor& x, size_t j) {
  require(!memory_overlaps(y, x) || same_elements(y, x), ArgName("outputs", i), "overlaps inputs[", j,
          "] without being the same elements");
}

std::string generated_text(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs,
                           const char* what, const std::string& expression) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); i++) text += cat(" x", i, "=", brief(inputs[i]));
  for (size_t i = 0; i < outputs.size(); i++) text += cat(" y", i, "=", brief(outputs[i]));
  text += cat(" ", what, "=");
  for (char c : expression) {
    if (c > ' ' && c != '%')
      text += c;
    else
      text += c == '%' ? "%25" : "%20";
  }
  return text;
}

bool takes(DType dtype, const Scalar& value) {
  if (is_floating(dtype) || dtype == DType::boolean) return true;
  return dtype == DType::u64 ? value.fits_64_bits() : value.fits_i64();
}

void require_real(const Context& context, DType real) {
  require(real != DType::f64 || context.device().probes().fp64, "dtype", "f64 on ", context.device().name(),
          ", which has no double arithmetic");
}

std::pair<std::vector<TensorDesc>, std::vector<TensorDesc>> describe_tensors(
    const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, PlanKey& key) {
  const auto describe = [&](const char* what, const std::vector<Tensor>& tensors) {
    std::vector<TensorDesc> descs;
    for (size_t i = 0; i < tensors.size(); i++) {
      require(tensors[i].defined(), ArgName(what, i), "is not defined");
      descs.emplace_back(tensors[i]);
    }
    key.add(descs);
    return descs;
  };
  auto xs = describe("inputs", inputs);
  auto ys = describe("outputs", outputs);
  return {std::move(xs), std::move(ys)};
}

}  // namespace dlprim::detail
