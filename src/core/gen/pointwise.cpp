// The text of pointwise kernels.
#include "core/gen/pointwise.hpp"

#include <regex>

#include "core/check.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"

namespace dlprim::detail {
namespace {

/// "c1 * x0_t1 + c2": the operand's offset at the coordinates of element i.
std::string full_offset(const Operand& o, size_t rank) {
  return offset(o, rank, rank, 'c', 't');
}

/// In braces, so that its own names may be any.
std::string body_block(const PointwiseForm& form) {
  return "{\n" + statement("body", form.body) + "}\n";
}

std::string inner_stride(const Operand& o, size_t rank) {
  return cat(o.name, "_t", rank - 1);
}

}  // namespace

std::string array_name(const Operand& o) {
  return cat(o.output ? 'Y' : 'X', o.name.substr(1));
}

Staged::Staged(const Operand& operand)
    : operand_(operand),
      name_(array_name(operand)),
      word_(operand.dtype == DType::f16 ? "ushort" : storage_type(operand.dtype)) {}

std::string Staged::declared(const char* length) const {
  return cat(word_, " ", name_, "[", length, "];\n");
}

std::string Staged::copied(const char* count, const std::string& at) const {
  const std::string memory =
      cat("((__global ", operand_.output ? "" : "const ", word_, "*)", operand_.name, "_q)[", at, "]");
  const std::string array = name_ + "[j]";
  return cat("SCALAR_ROUNDS\nfor (INDEX j = 0; j < (INDEX)", count, "; j++) ",
             operand_.output ? memory : array, " = ", operand_.output ? array : memory, ";\n");
}

std::string Staged::element(const std::string& j) const {
  return cat("(__private ", operand_.output ? "" : "const ", storage_type(operand_.dtype), "*)", name_, ", ",
             j);
}

std::string cpu_load(const Operand& o, const std::string& element) {
  return cat("const ", compute_type(o.dtype), " ", o.name, " = LOAD_", name_of(o.dtype), "(", element,
             ");\n");
}

std::string gpu_load(const Operand& o, const std::string& at, InnerStride inner, const std::string& step,
                     int vector) {
  const std::string array = array_name(o), type = name_of(o.dtype);
  if (vector == 1) return cat(array, "[u] = LOAD_", type, "(", o.name, "_p, ", at, ");\n");
  if (inner == InnerStride::one)
    return cat("VLOAD_", type, "(", o.name, "_p, ", at, ", ", array, " + u * V);\n");
  if (inner == InnerStride::zero)
    return cat("{\n  const ", compute_type(o.dtype), " same_ = LOAD_", type, "(", o.name, "_p, ", at,
               ");\n  for (int v = 0; v < V; v++) ", array, "[u * V + v] = same_;\n}\n");
  return cat("for (int v = 0; v < V; v++) ", array, "[u * V + v] = LOAD_", type, "(", o.name, "_p, ", at,
             " + v * ", step, ");\n");
}

std::string inputs_from_arrays(const std::vector<Operand>& operands) {
  std::string text;
  for (const Operand& o : operands)
    if (!o.output) text += cat("const ", compute_type(o.dtype), " ", o.name, " = ", array_name(o), "[e];\n");
  return text;
}

std::string declare_outputs(const std::vector<Operand>& operands) {
  std::string text;
  for (const Operand& o : operands)
    if (o.output) text += cat(compute_type(o.dtype), " ", o.name, ";\n");
  return text;
}

std::string inner_index(InnerStride inner, const std::string& j, const std::string& stride) {
  if (inner == InnerStride::one) return j;
  return inner == InnerStride::zero ? "0" : cat("(OFFSET)(", j, ") * (OFFSET)", stride);
}

std::string pointwise_source(const PointwiseForm& form) {
  std::string arrays, load, store, body = inputs_from_arrays(form.operands) + declare_outputs(form.operands);
  load = store = coordinates("i", form.rank, 'c', 'n');
  body += body_block(form);
  for (const Operand& o : form.operands) {
    const std::string at = full_offset(o, form.rank);
    arrays += cat(compute_type(o.dtype), " ", array_name(o), "[U * V];\n", o.name, "_p += ", o.name, "_o;\n");
    if (!o.output) {
      load += gpu_load(o, at, o.kept, inner_stride(o, form.rank), form.vector);
      continue;
    }
    body += cat(array_name(o), "[e] = ", o.name, ";\n");
    if (form.vector == 1)
      store += cat("STORE_", name_of(o.dtype), "(", o.name, "_p, ", at, ", ", array_name(o), "[u]);\n");
    else if (o.kept == InnerStride::one)
      store += cat("VSTORE_", name_of(o.dtype), "(", o.name, "_p, ", at, ", ", array_name(o), " + u * V);\n");
    else
      store += cat("for (int v = 0; v < V; v++) STORE_", name_of(o.dtype), "(", o.name, "_p, ", at, " + v * ",
                   inner_stride(o, form.rank), ", ", array_name(o), "[u * V + v]);\n");
  }
  const std::string head =
      common_head(form.real, form.wide) + special_head({form.body}) + quotient_head({form.body}, form.real) +
      cat("#define V ", form.vector, "\n#define U ", form.unroll, "\n#define LOCAL ", form.local, "\n");
  return fill_slots(kernel_source("pointwise"),
                    {{"HEAD", head},
                     {"PARAMETERS", parameter_list(form.operands, form.scalars, form.rank, 0)},
                     {"ARRAYS", arrays},
                     {"LOAD", load},
                     {"BODY", body},
                     {"STORE", store}});
}

std::string pointwise_cpu_source(const PointwiseForm& form) {
  const size_t inner = form.rank - 1;
  std::string position = coordinates("i", form.rank, 'c', 'n');
  position += cat("const INDEX run = min(n", inner, " - c", inner, ", end - i);\n");
  std::string collect, loads, stores, spread;
  // Where an operand has gaps, compilers make no vectors of a loop with calls in it, and slow ones of a loop
  // over elements smaller than words.
  static const std::regex call("[a-z0-9_]\\s*\\(");
  const bool calls = std::regex_search(form.body, call);
  bool staged = false;
  for (const Operand& o : form.operands) {
    position += cat("__global ", o.output ? "" : "const ", storage_type(o.dtype), "* ", o.name,
                    "_q = ", o.name, "_p + ", o.name, "_o + ", full_offset(o, form.rank), ";\n");
    const std::string at = inner_index(o.kept, "j", inner_stride(o, form.rank));
    std::string element = cat(o.name, "_q, ", at);
    if (o.kept == InnerStride::any && (calls || size_of(o.dtype) < 4)) {
      const Staged array(o);
      element = array.element("j");
      staged = true;
      collect += array.declared("LENGTH");
      (o.output ? spread : collect) += array.copied("length", at);
    }
    if (o.output)
      stores += cat("STORE_", name_of(o.dtype), "(", element, ", ", o.name, ");\n");
    else
      loads += cpu_load(o, element);
  }
  static const std::regex quick("\\b(sin|cos|tan|fmod|trunc_rest)\\s*\\(");
  const std::string head = common_head(form.real, form.wide) + special_head({form.body}) +
                           choice_head(form.body, form.real),
                    define = cat(std::regex_search(form.body, quick) ? "#define QUICK\n" : "",
                                 staged ? "#define STAGED\n" : "");
  return fill_slots(kernel_source("pointwise_cpu"),
                    {{"HEAD", head + define},
                     {"PARAMETERS", parameter_list(form.operands, form.scalars, form.rank, 0)},
                     {"POSITION", position},
                     {"COLLECT", collect},
                     {"SPREAD", spread},
                     {"BODY", loads + declare_outputs(form.operands) + body_block(form)},
                     {"STORES", stores}});
}

}  // namespace dlprim::detail
