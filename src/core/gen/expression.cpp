// The parts of text that all generated kernels have.
#include "core/gen/expression.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include "core/check.hpp"
#include "core/kernel_source.hpp"

namespace dlprim::detail {
namespace {

InnerStride form_of(const std::vector<LoopDim>& dims, size_t tensor) {
  if (dims.empty()) return InnerStride::one;
  const int64_t stride = dims.back().strides[tensor];
  return stride == 1 ? InnerStride::one : stride == 0 ? InnerStride::zero : InnerStride::any;
}

const char* lowest(DType integer) {
  switch (integer) {
    case DType::i8:
      return "CHAR_MIN";
    case DType::i16:
      return "SHRT_MIN";
    case DType::i32:
      return "INT_MIN";
    case DType::i64:
      return "LONG_MIN";
    default:
      return "0";
  }
}

const char* highest(DType integer) {
  switch (integer) {
    case DType::i8:
      return "CHAR_MAX";
    case DType::u8:
      return "UCHAR_MAX";
    case DType::i16:
      return "SHRT_MAX";
    case DType::i32:
      return "INT_MAX";
    case DType::i64:
      return "LONG_MAX";
    case DType::u16:
      return "USHRT_MAX";
    case DType::u32:
      return "UINT_MAX";
    case DType::u64:
      return "ULONG_MAX";
    default:
      return "1";
  }
}

}  // namespace

DType real_type(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs) {
  DType real = DType::i64;
  for (const auto* list : {&inputs, &outputs})
    for (const TensorDesc& t : *list) {
      if (t.dtype == DType::f64) return DType::f64;
      if (is_floating(t.dtype)) real = DType::f32;
      // Not for an output alone: what is signed in between would lose its sign.
      const bool decides = list == &inputs || inputs.empty();
      if (t.dtype == DType::u64 && decides && real == DType::i64) real = DType::u64;
    }
  return real;
}

const char* storage_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f16:
      return "half";
    case DType::bf16:
      return "ushort";
    case DType::f64:
      return "double";
    case DType::i8:
      return "char";
    case DType::i16:
      return "short";
    case DType::i32:
      return "int";
    case DType::i64:
      return "long";
    case DType::u16:
      return "ushort";
    case DType::u32:
      return "uint";
    case DType::u64:
      return "ulong";
    default:
      return "uchar";
  }
}

const char* compute_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return "float";
    case DType::f64:
      return "double";
    case DType::i64:
    case DType::u32:
      return "long";
    case DType::u64:
      return "ulong";
    default:
      return "int";
  }
}

void define_type(Defines& defines, const std::string& name, DType dtype) {
  defines.set(name + "_DTYPE", name_of(dtype)).set(name + "_T", storage_type(dtype));
}

std::vector<Operand> make_operands(const std::vector<TensorDesc>& inputs,
                                   const std::vector<TensorDesc>& outputs, const LoopNest& nest) {
  std::vector<Operand> operands;
  const auto add = [&](const std::string& name, DType dtype, bool output) {
    const size_t t = operands.size();
    operands.push_back({name, dtype, output, form_of(nest.kept, t), form_of(nest.reduced, t)});
  };
  for (size_t i = 0; i < inputs.size(); i++) add(cat("x", i), inputs[i].dtype, false);
  for (size_t i = 0; i < outputs.size(); i++) add(cat("y", i), outputs[i].dtype, true);
  return operands;
}

int vector_width(const std::vector<Operand>& operands, const std::vector<TensorDesc>& tensors,
                 const LoopNest& nest, bool along_reduced) {
  const std::vector<LoopDim>& along = along_reduced ? nest.reduced : nest.kept;
  const std::vector<LoopDim>& across = along_reduced ? nest.kept : nest.reduced;
  if (along.empty()) return 1;
  int64_t distances = along.back().size;  // a number that has no more factors of two than any of them
  size_t widest = 0;
  for (size_t t = 0; t < tensors.size(); t++) {
    if ((along_reduced ? operands[t].reduced : operands[t].kept) != InnerStride::one) continue;
    if (!tensors[t].aligned) return 1;
    widest = std::max(widest, size_of(tensors[t].dtype));
    for (size_t d = 0; d + 1 < along.size(); d++) distances |= along[d].strides[t];
    for (const LoopDim& d : across) distances |= d.strides[t];
  }
  if (widest > 4 || distances % 4 != 0) return 1;
  return widest > 0 && widest <= 2 && distances % 8 == 0 ? 8 : 4;
}

std::string common_head(DType real, bool wide, DType limits) {
  std::string text = cat("#define INDEX ", wide ? "ulong" : "uint", "\n#define OFFSET ",
                         wide ? "long" : "int", "\n#define REAL ", compute_type(real), "\n");
  if (!is_floating(real))
    text += cat("#define INTEGER_REAL\n#define REAL_LOWEST ", lowest(limits), "\n#define REAL_HIGHEST ",
                highest(limits), "\n");
  else
    text += "#define REAL_LOWEST (-INFINITY)\n#define REAL_HIGHEST INFINITY\n";
  if (real == DType::f64) text += "#define DOUBLE_REAL\n";
  if (real == DType::u64) text += "#define UNSIGNED_REAL\n";
  return text;
}

std::string special_head(std::initializer_list<std::string> expressions) {
  static const std::pair<std::regex, const char*> families[] = {
      {std::regex("\\b(log_gamma|digamma|trigamma|polygamma|zeta|erf_inverse)\\s*\\("), "SPECIAL"},
      {std::regex("\\bbessel_i[01]e?\\s*\\("), "BESSEL"},
      {std::regex("\\b(chebyshev_[tuvw]|hermite_he?|laguerre_l|legendre_p)\\s*\\("), "ORTHOGONAL"}};
  std::string head;
  for (const auto& [names, macro] : families)
    if (std::any_of(expressions.begin(), expressions.end(), [&, &called = names](const std::string& text) {
          return std::regex_search(text, called);
        }))
      head += cat("#define ", macro, "\n");
  return head;
}

std::string quotient_head(std::initializer_list<std::string> expressions, DType real) {
  static const std::regex quotient("/|\\bsqrt\\b");
  const bool any = std::any_of(expressions.begin(), expressions.end(),
                               [](const std::string& text) { return std::regex_search(text, quotient); });
  return any && real == DType::f32 ? kRoundedQuotients : "";
}

std::string choice_head(const std::string& expression, DType real) {
  static const std::regex choice("[?]|&&|[|][|]|\\bif\\b"), call("\\b([a-z]\\w*)\\s*\\(");
  // Those of math_cpu.cl and intrinsics.cl, operators, and what C has parentheses for.
  static const std::set<std::string, std::less<>> ours = {
      "acos",      "acosh",      "asin", "asinh", "atan",  "atan2",  "atanh",     "ceil",
      "copysign",  "cosh",       "erf",  "erfc",  "exp",   "exp2",   "expm1",     "fabs",
      "floor",     "fma",        "fmax", "fmin",  "for",   "gelu",   "gelu_tanh", "hardsigmoid",
      "hardswish", "hypot",      "if",   "isinf", "isnan", "log",    "log10",     "log1p",
      "log2",      "normal_cdf", "pow",  "relu",  "relu6", "return", "rint",      "round",
      "sigmoid",   "silu",       "sinh", "sqrt",  "tanh",  "trunc",  "while"};
  static const std::set<std::string, std::less<>> of_float = {"cos", "sin", "tan"};
  if (!std::regex_search(expression, choice)) return "";
  for (std::sregex_iterator at(expression.begin(), expression.end(), call), end; at != end; ++at) {
    const std::string name = (*at)[1];
    if (!ours.count(name) && !(real == DType::f32 && of_float.count(name)))
      return "#define CALLS_AND_CHOICES\n";
  }
  return "";
}

std::string parameter_list(const std::vector<Operand>& operands, int scalars, size_t kept_rank,
                           size_t reduced_rank, bool inputs_too) {
  std::string text;
  for (const Operand& o : operands)
    if (!o.place && (o.output || inputs_too || o.finishing))
      text += cat("__global ", o.output ? "" : "const ", storage_type(o.dtype), "* ", o.name, "_p, long ",
                  o.name, "_o,\n");
  for (int i = 0; i < scalars; i++) text += cat("real s", i, i + 1 < scalars ? ", " : ",\n");
  const auto numbers = [&](size_t rank, char size, char stride, bool outputs_too) {
    if (rank == 0) return;
    for (size_t d = 0; d < rank; d++) text += cat("INDEX ", size, d, ", ");
    text += "\n";
    for (const Operand& o : operands) {
      if (o.output ? !outputs_too : !inputs_too && !o.finishing) continue;
      for (size_t d = 0; d < rank; d++) text += cat("INDEX ", o.name, "_", stride, d, ", ");
      text += "\n";
    }
  };
  numbers(kept_rank, 'n', 't', true);
  if (inputs_too) numbers(reduced_rank, 'm', 'u', false);
  return text;
}

std::string coordinates(const std::string& index, size_t rank, char coordinate, char size) {
  if (rank == 0) return "";
  if (rank == 1) return cat("const INDEX ", coordinate, "0 = ", index, ";\n");
  std::string text = cat("INDEX ", coordinate, "_rest = ", index, ";\n");
  for (size_t d = rank - 1; d > 0; d--)
    text += cat("const INDEX ", coordinate, d, " = ", coordinate, "_rest % ", size, d, ";\n", coordinate,
                "_rest /= ", size, d, ";\n");
  return text + cat("const INDEX ", coordinate, "0 = ", coordinate, "_rest;\n");
}

std::string offset(const Operand& operand, size_t rank, size_t full_rank, char coordinate, char stride) {
  const InnerStride inner = stride == 't' ? operand.kept : operand.reduced;
  std::string text;
  for (size_t d = 0; d < rank; d++) {
    const bool innermost = d + 1 == full_rank;
    if (innermost && inner == InnerStride::zero) continue;
    if (!text.empty()) text += " + ";
    text += cat(coordinate, d);
    if (!innermost || inner == InnerStride::any) text += cat(" * ", operand.name, "_", stride, d);
  }
  return text.empty() ? "0" : text;
}

std::string statement(const char* argument, const std::string& text) {
  std::string line = text;
  for (char& c : line)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  require(line.find_first_not_of(" ;") != std::string::npos, argument, "the expression is empty");
  require(line.find_first_of("#\\\"") == std::string::npos && line.find("//") == std::string::npos &&
              line.find("/*") == std::string::npos,
          argument, "'", text, "' holds a preprocessor line, a comment, a quote or a backslash");
  return line + ";\n";
}

}  // namespace dlprim::detail
