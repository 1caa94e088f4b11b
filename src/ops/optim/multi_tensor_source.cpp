// The text of multi_tensor.cl's kernels.
#include <algorithm>
#include <set>

#include "core/gen/expression.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"
#include "core/text.hpp"
#include "ops/optim/multi_tensor.hpp"

namespace dlprim::detail {
namespace {

bool has_elements(const TensorList& list) {
  return !list.single;
}

/// Declares what is stored and not loaded.
std::string results_text(const MultiTensorForm& form) {
  std::set<std::string> known = {""};
  std::string text;
  for (const TensorList& list : form.lists) known.insert(list.load);
  for (const TensorList& list : form.lists)
    if (known.insert(list.store).second) text += cat("real ", list.store, ";\n");
  return text;
}

/// The loads, the body and the stores of element `index`.
std::string element_text(const MultiTensorForm& form, const char* index) {
  std::string loads, stores;
  for (size_t k = 0; k < form.lists.size(); k++) {
    const TensorList& list = form.lists[k];
    if (!has_elements(list)) continue;
    const char* type = name_of(list.dtype);
    if (!list.load.empty())
      loads += cat("real ", list.load, " = LOAD_", type, "(list", k, "_p, ", index, ");\n");
    if (!list.store.empty())
      stores += cat("STORE_", type, "(list", k, "_p, ", index, ", ", list.store, ");\n");
  }
  return cat(loads, results_text(form), form.body, '\n', stores);
}

/// The slots of the loop over V elements at a time.
struct VectorTexts {
  std::string values, load, body, store;
  explicit VectorTexts(const MultiTensorForm& form) {
    std::string results;
    for (size_t k = 0; k < form.lists.size(); k++) {
      const TensorList& list = form.lists[k];
      if (!has_elements(list)) continue;
      const char* type = name_of(list.dtype);
      values += cat("real X", k, "[ROUNDS][V];\n");
      if (!list.load.empty()) {
        load += cat("VLOAD_", type, "(list", k, "_p, at, X", k, "[r]);\n");
        body += cat("real ", list.load, " = X", k, "[r][e];\n");
      }
      if (list.store.empty()) continue;
      results += cat('X', k, "[r][e] = ", list.store, ";\n");
      store += cat("VSTORE_", type, "(list", k, "_p, at, X", k, "[r]);\n");
    }
    body += cat(results_text(form), form.body, '\n', results);
  }
};

/// The parameters that the form has, how a group finds the elements of its place, and the numbers that all of
/// them take.
struct PlaceTexts {
  std::string parameters, choose;
  PlaceTexts(const MultiTensorForm& form, size_t buffers) {
    for (size_t b = 0; b < buffers; b++) parameters += cat("__global char* buffer_", b, ",\n");
    for (size_t n = 0; n < form.numbers.size(); n++) {
      const TensorNumber& number = form.numbers[n];
      parameters += cat("__global const ", storage_type(number.dtype), "* n", n, "_p, long n", n, "_o,\n");
      choose +=
          cat("const real ", number.load, " = LOAD_", name_of(number.dtype), "(n", n, "_p, n", n, "_o);\n");
    }
    for (int s = 0; s < form.scalars; s++) parameters += cat("real s", s, ",\n");
    for (int s = 0; s < form.place_scalars; s++)
      choose += cat("const real s", form.scalars + s, " = table.scalar[", s, " * PLACES + place];\n");
    std::string aligned = "const int aligned = 1";
    for (size_t k = 0; k < form.lists.size(); k++) {
      const TensorList& list = form.lists[k];
      const char* type = storage_type(list.dtype);
      choose += cat("__global char* start_", k, " = buffer_0;\nswitch (table.buffer[", k,
                    " * PLACES + place]) {\n");
      for (size_t b = 1; b < buffers; b++)
        choose += cat("case ", b, ": start_", k, " = buffer_", b, "; break;\n");
      choose += "}\n";
      const std::string first = cat("FIRST(", k, ", ", type, ", start_", k, ")");
      if (list.single) {
        choose += cat("const real ", list.load, " = LOAD_", name_of(list.dtype), "(", first, ", 0);\n");
        continue;
      }
      choose += cat("__global ", type, "* list", k, "_p = ", first, " + begin;\n");
      aligned += cat(" && IS_ALIGNED(", k, ", ", type, ')');
    }
    choose += aligned + ";\n";
  }
};

/// The loop of a CPU. Sums go into lanes, so that they become vector instructions too.
std::string cpu_loop(const MultiTensorForm& form) {
  if (!form.sums)
    return cat("INDEPENDENT_ROUNDS\nfor (int i = 0; i < count; i++) {\n", element_text(form, "i"), "}\n");
  return cat("int i = 0;\nfor (; i + LANES <= count; i += LANES)\n  for (int e = 0; e < LANES; e++) {\n",
             element_text(form, "i + e"), "}\nfor (const int e = 0; i < count; i++) {\n",
             element_text(form, "i"), "}\n");
}

}  // namespace

std::string multi_tensor_source(const MultiTensorForm& form, DType real, const TableSize& table, bool cpu) {
  const VectorTexts vector(form);
  const PlaceTexts place(form, table.buffers);
  const auto moved = std::count_if(form.lists.begin(), form.lists.end(), has_elements);
  const std::string head =
      common_head(real, false) + special_head({form.body}) + quotient_head({form.body}, real) +
      (cpu ? choice_head(form.body, real) : "") +
      cat("#define V 4\n#define LOCAL ", cpu ? 1 : 256, "\n#define ROUNDS ", moved <= 2 ? 4 : 2,
          "\n#define LISTS ", table.lists, "\n#define PLACES ", table.places, "\n#define BUFFERS ",
          table.buffers, "\n#define PLACE_SCALARS ", table.scalars, "\n#define PADDING ",
          table.bytes() - table.buffer() - table.lists * table.places, '\n');
  return fill_slots(kernel_source("multi_tensor"), {{"HEAD", head},
                                                    {"PARAMETERS", place.parameters},
                                                    {"CHOOSE", place.choose},
                                                    {"CPU", cpu_loop(form)},
                                                    {"VALUES", vector.values},
                                                    {"LOAD", vector.load},
                                                    {"BODY", vector.body},
                                                    {"STORE", vector.store},
                                                    {"REST", element_text(form, "i")},
                                                    {"FINISH", form.finish + "\n"}});
}

}  // namespace dlprim::detail
