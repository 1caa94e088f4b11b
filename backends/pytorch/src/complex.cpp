// The way of an operator whose arguments are complex: a kernel of its own; or, where it moves or adds up
// elements, the operator itself on real and on imaginary parts; or on which of them are not 0.
#include "complex.hpp"

#include <unordered_set>

#include <ATen/Functions.h>

#include "fallback.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

using torch::jit::Stack;

bool is_complex_here(const at::Tensor& t) {
  return t.defined() && t.is_complex() && t.device().type() == kOcl &&
         computes(home_of(t), c10::toRealValueType(t.scalar_type()));
}

/// Calls f(tensor) for every tensor of an argument, which becomes what that returns.
template <class F>
c10::IValue replaced(const c10::IValue& value, const F& f) {
  if (value.isTensor()) return f(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(f(t));
    return list;
  }
  if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList() &&
      !value.isSymIntList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& item : value.toListRef())
      list.push_back(item.isTensor() ? std::optional<at::Tensor>(f(item.toTensor())) : std::nullopt);
    return list;
  }
  return value;
}

bool any_complex(const Stack& stack, size_t first) {
  bool found = false;
  for (size_t i = first; i < stack.size() && !found; i++)
    replaced(stack[i], [&](const at::Tensor& t) {
      found = found || is_complex_here(t);
      return t;
    });
  return found;
}

enum class Part : uint8_t { real, imaginary };

at::Tensor part_of(const at::Tensor& t, Part part) {
  return at::view_as_real(t.resolve_conj()).select(-1, part == Part::real ? 0 : 1);
}

at::Scalar part_of(const at::Scalar& s, Part part) {
  if (!s.isComplex()) return part == Part::real ? s : at::Scalar(0.0);
  const c10::complex<double> z = s.toComplexDouble();
  return part == Part::real ? z.real() : z.imag();
}

bool is_scalar(const c10::Argument& argument) {
  return argument.type()->kind() == c10::TypeKind::NumberType;
}

/// Operators that are linear in their complex arguments. A scalar named alpha is a factor, which must be
/// real.
const std::unordered_set<std::string>& linear_operators() {
  static const auto* const names = new std::unordered_set<std::string>{"aten::index",
                                                                       "aten::_index_put_impl_",
                                                                       "aten::index_select",
                                                                       "aten::gather",
                                                                       "aten::scatter",
                                                                       "aten::scatter_add",
                                                                       "aten::index_add",
                                                                       "aten::index_copy",
                                                                       "aten::index_fill_",
                                                                       "aten::masked_fill_",
                                                                       "aten::masked_select",
                                                                       "aten::masked_scatter_",
                                                                       "aten::flip",
                                                                       "aten::roll",
                                                                       "aten::tril",
                                                                       "aten::triu",
                                                                       "aten::take",
                                                                       "aten::put_",
                                                                       "aten::sum",
                                                                       "aten::mean",
                                                                       "aten::cumsum",
                                                                       "aten::trace",
                                                                       "aten::constant_pad_nd",
                                                                       "aten::unfold_backward",
                                                                       "aten::embedding_dense_backward"};
  return *names;
}

/// Operators that ask of numbers whether they are 0.
const std::unordered_set<std::string>& truth_operators() {
  static const auto* const names = new std::unordered_set<std::string>{
      "aten::nonzero",       "aten::any",         "aten::all",        "aten::logical_not",
      "aten::count_nonzero", "aten::logical_and", "aten::logical_or", "aten::logical_xor"};
  return *names;
}

/// The operator on one part of all complex arguments.
Stack call_part(const c10::OperatorHandle& op, const Stack& arguments, Part part) {
  const std::vector<c10::Argument>& schema = op.schema().arguments();
  Stack stack;
  for (size_t i = 0; i < arguments.size(); i++) {
    const c10::IValue& value = arguments[i];
    if (is_scalar(schema[i]) && schema[i].name() != "alpha")
      stack.emplace_back(part_of(value.toScalar(), part));
    else if (schema[i].name() == "dtype" && value.isInt() &&
             c10::isComplexType(static_cast<at::ScalarType>(value.toInt())))
      stack.emplace_back(
          static_cast<int64_t>(c10::toRealValueType(static_cast<at::ScalarType>(value.toInt()))));
    else
      stack.push_back(replaced(
          value, [&](const at::Tensor& t) { return t.defined() && t.is_complex() ? part_of(t, part) : t; }));
  }
  op.callBoxed(&stack);
  return stack;
}

/// True if both parts can be computed alone: no factor is complex, and no result gets other sizes.
bool separates(const c10::OperatorHandle& op, const Stack& arguments) {
  const std::vector<c10::Argument>& schema = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); i++) {
    if (schema[i].name() == "alpha" && arguments[i].isComplexDouble()) return false;
    if (schema[i].name() == "reduce" && arguments[i].isString()) return false;
    if (schema[i].name() == "self" && arguments[i].isTensor() && !arguments[i].toTensor().is_complex())
      return false;
  }
  return true;
}

void run_parts(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size(), first = stack->size() - count;
  const Stack arguments(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  const std::vector<c10::Argument>& returns = op.schema().returns();
  TORCH_INTERNAL_ASSERT(returns.size() == 1);
  const Stack real = call_part(op, arguments, Part::real),
              imaginary = call_part(op, arguments, Part::imaginary);
  stack->resize(first);
  if (returns[0].alias_info()) {  // the argument of that name
    for (size_t i = 0; i < count; i++) {
      const c10::AliasInfo* written = op.schema().arguments()[i].alias_info();
      if (!written || !written->isWrite()) continue;
      stack->push_back(arguments[i]);
      return;
    }
    TORCH_INTERNAL_ASSERT(false);
  }
  stack->emplace_back(at::complex(real[0].toTensor(), imaginary[0].toTensor()));
}

void run_truths(const c10::OperatorHandle& op, Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  for (size_t i = first; i < stack->size(); i++)
    (*stack)[i] = replaced((*stack)[i],
                           [](const at::Tensor& t) { return t.defined() && t.is_complex() ? t.ne(0) : t; });
  op.callBoxed(stack);
}

const ComplexKernels& kernels() {
  static const auto* const all = [] {
    auto* const to = new ComplexKernels;
    add_complex_elementwise(*to);
    add_complex_products(*to);
    return to;
  }();
  return *all;
}

}  // namespace

bool run_complex(const c10::OperatorHandle& op, Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  if (!any_complex(*stack, first)) return false;
  if (const c10::KernelFunction* kernel = kernels().find(op.operator_name())) {
    const c10::DeviceGuard guard(*[&] {
      std::optional<c10::Device> where;
      for (size_t i = first; i < stack->size(); i++)
        replaced((*stack)[i], [&](const at::Tensor& t) {
          if (!where && t.defined() && t.device().type() == kOcl) where = t.device();
          return t;
        });
      return where;
    }());
    kernel->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
    return true;
  }
  const std::string& name = op.operator_name().name;
  if (truth_operators().count(name)) {
    run_truths(op, stack);
    return true;
  }
  const Stack arguments(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  if (!linear_operators().count(name) || !separates(op, arguments)) return false;
  run_parts(op, stack);
  return true;
}

void fill_complex(const at::Tensor& self, const at::Scalar& value) {
  part_of(self, Part::real).fill_(part_of(value, Part::real));
  part_of(self, Part::imaginary).fill_(part_of(value, Part::imaginary));
}

void convert_complex(const at::Tensor& src, const at::Tensor& dst) {
  if (src.is_complex() && dst.is_complex()) {
    at::view_as_real(dst).copy_(at::view_as_real(src));
  } else if (dst.is_complex()) {
    part_of(dst, Part::real).copy_(src);
    part_of(dst, Part::imaginary).zero_();
  } else {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
    dst.copy_(part_of(src, Part::real));
  }
}

}  // namespace ocl
