// Plans for expressions: the key, the text, the run.
#include "expression.hpp"

#include <cstring>
#include <string>

#include <dlprim/elementwise.hpp>
#include <dlprim/pointwise.hpp>

#include "plans.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

/// Reads what common_dtype() gives, or Undefined where that throws.
struct Peek : at::TensorIteratorBase {
  static at::ScalarType common_type(const at::TensorIteratorBase& iter) { return iter.*&Peek::common_dtype_; }
};

/// The dtype that the expression is computed in.
at::ScalarType common_type(const Row& row, const at::TensorIteratorBase& iter) {
  if (row.of_output) return iter.dtype(0);
  const at::ScalarType common = Peek::common_type(iter);
  return common != at::ScalarType::Undefined ? common : iter.input_dtype(0);
}

const char* c_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return "double";
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16:
      return "float";
    case at::kLong:
      return "long";
    default:
      return "int";
  }
}

/// Whether a scalar of dlprim's, which has the widest type among the tensors, is floating.
bool scalars_float(const at::TensorIteratorBase& iter, uint32_t on_host) {
  for (int i = 0; i < iter.ntensors(); i++)
    if (!(on_host >> i & 1) && c10::isFloatingType(iter.dtype(i))) return true;
  return false;
}

/// Scalar k of the kernel, in the common type. Where all tensors are integers a floating number comes as its
/// bits.
std::string scalar_text(int k, at::ScalarType common, bool floats) {
  const std::string s = "s" + std::to_string(k);
  if (floats || !c10::isFloatingType(common)) return std::string("(") + c_type(common) + ")" + s;
  return common == at::kDouble ? "as_double(" + s + ")" : "as_float((int)" + s + ")";
}

/// The inputs of the iterator, some of which are numbers on the CPU, and the scalars, which follow those.
std::string body_of(const Row& row, const at::TensorIteratorBase& iter, at::ScalarType common,
                    uint32_t on_host, size_t scalars) {
  TORCH_INTERNAL_ASSERT(iter.noutputs() == 1);
  const bool floats = scalars_float(iter, on_host);
  std::vector<std::string> inputs, numbers;
  int tensor = 0, scalar = 0;
  for (int i = 1; i < iter.ntensors(); i++)
    inputs.push_back(on_host >> i & 1 ? scalar_text(scalar++, common, floats)
                                      : std::string("(") + c_type(common) + ")x" + std::to_string(tensor++));
  for (size_t i = 0; i < scalars; i++) numbers.push_back(scalar_text(scalar++, common, floats));
  return body_of(row, common, inputs, numbers);
}

/// An integer as the dtype holds it.
int64_t wrapped(int64_t value, at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return value != 0;
    case at::kByte:
      return static_cast<uint8_t>(value);
    case at::kChar:
      return static_cast<int8_t>(value);
    case at::kShort:
      return static_cast<int16_t>(value);
    case at::kInt:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

/// A number of floating common dtype as the kernel takes it.
dlprim::Scalar floating(double value, at::ScalarType common, bool floats) {
  if (floats) return value;
  int64_t bits = 0;
  if (common == at::kDouble) {
    std::memcpy(&bits, &value, sizeof value);
  } else {
    const auto single = static_cast<float>(value);
    std::memcpy(&bits, &single, sizeof single);
  }
  return bits;
}

dlprim::Scalar kernel_scalar(const at::Scalar& value, at::ScalarType common, bool floats) {
  if (c10::isFloatingType(common)) return floating(value.toDouble(), common, floats);
  return wrapped(value.isFloatingPoint() ? static_cast<int64_t>(value.toDouble()) : value.toLong(), common);
}

/// An operand that is one number on the CPU.
dlprim::Scalar host_scalar(const at::OperandInfo& op, at::ScalarType common, bool floats) {
  const at::ScalarType type = op.tensor_base().scalar_type();
  if (!c10::isFloatingType(common)) return wrapped(c10::fetch_and_cast<int64_t>(type, op.data), common);
  double value = c10::fetch_and_cast<double>(type, op.data);
  if (common == at::kHalf) value = static_cast<float>(c10::Half(static_cast<float>(value)));
  if (common == at::kBFloat16) value = static_cast<float>(c10::BFloat16(static_cast<float>(value)));
  return floating(value, common, floats);
}

}  // namespace

std::string body_of(const Row& row, at::ScalarType common, c10::ArrayRef<std::string> inputs,
                    c10::ArrayRef<std::string> scalars) {
  static constexpr const char* kInputs[3][3] = {{"x"}, {"a", "b"}, {"x", "a", "b"}};
  static constexpr const char* kScalars[] = {"p", "q", "r", "t"};
  TORCH_INTERNAL_ASSERT(!inputs.empty() && inputs.size() <= 3 && scalars.size() <= std::size(kScalars));
  const dlprim::ElementwiseFunction* listed = row.name ? &dlprim::elementwise_function(row.name) : nullptr;
  const std::string type = std::string("const ") + c_type(common) + " ";
  std::string text;
  for (size_t i = 0; i < inputs.size(); i++)
    text += type + kInputs[inputs.size() - 1][i] + " = " + inputs[i] + "; ";
  for (size_t i = 0; i < scalars.size(); i++)
    text += type + (listed ? listed->parameters[i].name.c_str() : kScalars[i]) + " = " + scalars[i] + "; ";
  if (row.before) text += row.before + std::string("; ");
  if (common == at::kBool && row.bool_text) return text + "y0 = " + row.bool_text;
  if (c10::isIntegralType(common, true) && row.integer_text) return text + "y0 = " + row.integer_text;
  if (!listed) return text + "y0 = " + row.text;
  return text + (listed->let.empty() ? "" : listed->let + "; ") + "y0 = " + listed->result;
}

void run_pointwise(const Row& row, at::TensorIteratorBase& iter, c10::ArrayRef<at::Scalar> scalars) {
  if (iter.numel() == 0) return;
  Device& on = device(iter.device(0).index());
  const at::ScalarType common = common_type(row, iter);
  Key key = Key::of(reinterpret_cast<intptr_t>(&row), common);
  const uint32_t on_host = key.add_operands(iter);

  // Their memory is used again from call to call.
  thread_local std::vector<dlprim::Tensor> inputs, outputs;
  thread_local std::vector<dlprim::Scalar> values;
  const auto clear = [] { inputs.clear(), outputs.clear(), values.clear(); };
  clear();
  const bool floats = scalars_float(iter, on_host);
  outputs.push_back(operand(iter, 0));
  for (int i = 1; i < iter.ntensors(); i++) {
    if (on_host >> i & 1)
      values.push_back(host_scalar(iter.operand(i), common, floats));
    else
      inputs.push_back(operand(iter, i));
  }
  for (const at::Scalar& scalar : scalars) values.push_back(kernel_scalar(scalar, common, floats));

  run_plan<dlprim::Pointwise>(
      on, key,
      [&] {
        const std::vector<dlprim::TensorDesc> xs(inputs.begin(), inputs.end()),
            ys(outputs.begin(), outputs.end());
        return dlprim::Pointwise(on.context, xs, ys, static_cast<int>(values.size()),
                                 body_of(row, iter, common, on_host, scalars.size()));
      },
      [&](const dlprim::Pointwise& plan, const dlprim::Stream& stream) {
        plan.run(stream, inputs, outputs, values);
      });
  clear();
}

}  // namespace ocl
