// Element by element: functions of the library's list, expressions, conversions.
#include <dlprim/copy.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/host.hpp"

namespace dlprim::detail {
namespace {

Shape broadcast_inputs(const NodeStep& step) {
  Shape shape = step.shape(0);
  for (int k = 1; k < step.input_count(); k++) shape = broadcast_shapes(shape, step.shape(k));
  return shape;
}

/// The attribute "dtype", that of the input "like", or what inputs from `first` on have in common.
DType result_dtype(const NodeStep& step, int first) {
  if (step.has("dtype")) return parse_dtype(step.text("dtype"));
  if (step.has("like")) return step.dtype(static_cast<int>(step.integer("like", 0)));
  DType dtype = step.dtype(first);
  for (int k = first + 1; k < step.input_count(); k++) dtype = joined(dtype, step.dtype(k));
  return dtype;
}

std::vector<Tensor> inputs_of(NodeStep& step) {
  std::vector<Tensor> inputs;
  for (int k = 0; k < step.input_count(); k++) inputs.push_back(step.x(k));
  return inputs;
}

std::vector<Scalar> scalars_of(const NodeStep& step, const char* name) {
  std::vector<Scalar> scalars;
  for (double number : step.numbers(name)) scalars.emplace_back(number);
  return scalars;
}

/// The input that y lies as: the first of its shape with channels last, if one is so.
const Tensor& model_of(NodeStep& step) {
  for (int k = 0; k < step.input_count(); k++)
    if (step.shape(k) == step.out(0).shape && is_channels_last(step.x(k))) return step.x(k);
  return step.x(0);
}

void infer_elementwise(NodeStep& step) {
  const ElementwiseFunction& f = elementwise_function(elementwise_function_of(step));
  require(f.inputs.size() == static_cast<size_t>(step.input_count()), "inputs", step.input_count(), " of '",
          f.name, "', must be ", f.inputs.size());
  const DType dtype = f.truth ? DType::boolean : result_dtype(step, f.name == "where" ? 1 : 0);
  step.output(0, dtype, broadcast_inputs(step));
}
void run_elementwise(NodeStep& step) {
  const DType dtype = step.out(0).dtype;
  const bool truth = elementwise_function(elementwise_function_of(step)).truth;
  const bool whole_of_floating = !is_floating(dtype) && !truth && step.any_floating();
  const Tensor y =
      whole_of_floating ? step.scratch(step.out(0).shape, DType::f32) : step.y_as(0, model_of(step));
  dlprim::elementwise(step.stream, elementwise_function_of(step), inputs_of(step),
                      scalars_of(step, "parameters"), y, step.options);
  if (whole_of_floating) copy(step.stream, y, step.y(), step.options);
}

/// body: an expression of dlprim/pointwise.hpp with one output; scalars: its s0, s1, ...; slope: of one
/// input, the expression of the gradient, in which x0 is dy and x1 the input; 0: there is none.
void infer_pointwise(NodeStep& step) {
  step.output(0, result_dtype(step, 0), broadcast_inputs(step));
}
void run_pointwise(NodeStep& step) {
  dlprim::pointwise(step.stream, inputs_of(step), {step.y_as(0, model_of(step))}, scalars_of(step, "scalars"),
                    step.text("body"), step.options);
}

/// dtype: what elements become; or the dtype of input 1.
void infer_cast(NodeStep& step) {
  step.output(0, step.has(1) ? step.dtype(1) : parse_dtype(step.text("dtype")), step.shape(0));
}
void run_cast(NodeStep& step) {
  if (step.out(0).dtype == step.dtype(0)) return step.set(0, step.x(0));
  copy(step.stream, step.x(0), step.y_as(0, step.x(0)), step.options);
}

constexpr NodeKind kKinds[] = {
    {"elementwise", 1, 5, infer_elementwise, run_elementwise, elementwise_on_host},
    {"pointwise", 1, 16, infer_pointwise, run_pointwise},
    {"cast", 1, 2, infer_cast, run_cast, cast_on_host},
};

}  // namespace

KindList elementwise_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
