#include "ops/scan/scan_source.hpp"

#include <algorithm>
#include <cctype>

#include "core/gen/expression.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"

namespace dlprim::detail {
namespace {

bool is_pair(ScanState state) {
  return state != ScanState::sum && state != ScanState::product;
}

std::string head(const ScanNest& p, const ScanForm& form, int phase) {
  std::string text = common_head(p.real, p.nest.wide);
  text += cat("#define V ", form.vector, "\n#define VECTOR ", form.wide_access ? 1 : 0, "\n#define LX ",
              form.lanes_x, "\n#define LY ", form.lanes_y, "\n#define LANES ", form.lanes_x,
              "\n#define PHASE ", phase, "\n#define TOTALS_GROUP ", kTotalsGroup, "\n#define TOTALS_LANES ",
              form.totals_lanes, "\n#define KIND ", static_cast<int>(p.scan.state), "\n#define EXCLUSIVE ",
              p.scan.exclusive ? 1 : 0, "\n#define REVERSE ", p.scan.reverse ? 1 : 0, "\n");
  return text;
}

std::string parameters(const ScanNest& p) {
  std::string text;
  for (const ScanOperand& o : p.scan.operands)
    text += cat("__global ", o.written ? "" : "const ", storage_type(o.desc.dtype), "* ", o.name, "_p, long ",
                o.name, "_o,\n");
  for (size_t d = 0; d < p.nest.kept.size(); d++) {
    text += cat("INDEX n", d, ", ");
    for (const ScanOperand& o : p.scan.operands) text += cat("INDEX ", o.name, "_t", d, ", ");
  }
  for (const ScanOperand& o : p.scan.operands) text += cat("INDEX ", o.name, "_u, ");
  return text + "\n";
}

/// "x_o + c0 * x_t0 + c1 * x_t1": where the row at these coordinates starts.
std::string start_of(const ScanNest& p, const ScanOperand& o) {
  std::string text = o.name + "_o";
  for (size_t d = 0; d < p.nest.kept.size(); d++) text += cat(" + c", d, " * ", o.name, "_t", d);
  return text;
}

/// The array in which a work-item holds an operand's elements: "X".
std::string array_of(const ScanOperand& o) {
  return std::string(1, static_cast<char>(std::toupper(static_cast<unsigned char>(o.name[0]))));
}

/// What an operand holds at `place` of the axis, from what is read there.
std::string read_value(ScanState state, const ScanOperand& o, const std::string& value, const char* place) {
  return state == ScanState::segments && o.name == "x" ? cat(value, " != ", place) : value;
}

/// What is written, in terms of the state and of what is read: `x` and `g`.
std::string value_of(ScanState state, const ScanOperand& o, const std::string& at, const char* x,
                     const char* g) {
  if (o.name == "i") return at + ".b";
  if (state == ScanState::recurrence) return cat("(", g, " + ", at, ".b) * q");
  if (state == ScanState::segments) return cat(x, " != 0 ? 0 : ", g, " + ", at, ".b");
  return cat("RESULT(", at, ")");
}

/// The product of what lies before in the products' direction, which is behind in the scan's.
std::string previous_product(const ScanNest& p, const std::string& at_next, const char* there,
                             const std::string& from) {
  for (const ScanOperand& o : p.scan.operands)
    if (o.name == "q")
      return cat("const real q = ", there, " ? LOAD_", name_of(o.desc.dtype), "(", from, ", ", at_next,
                 ") : 1;\n");
  return "";
}

/// The loops of scan_cpu.cl over a row, an array for each operand.
struct RowLoops {
  std::string arrays, read, step, write;
};

RowLoops row_loops(const ScanNest& p, const std::string& follow, int phase) {
  const ScanState state = p.scan.state;
  const char* after = p.scan.exclusive ? "before" : "after";
  RowLoops loops;
  std::string values;
  size_t operand = 0;
  for (const ScanOperand& o : p.scan.operands) {
    const std::string type = name_of(o.desc.dtype), array = array_of(o);
    const auto at = [&o, contiguous = unit_along_axis(p, operand++)](const char* place) {
      return cat(o.name, "_b, ", place, contiguous ? "" : cat(" * (OFFSET)", o.name, "_u"));
    };
    if (o.written && phase == 1) continue;
    loops.arrays += cat(o.name == "i" ? "INDEX " : "real ", array, "[PIECE];\n");
    if (o.written) {
      values += cat(array, "[j] = ", value_of(state, o, after, "x", "g"), ";\n");
      loops.write += cat("STORE_", type, "(", at("p"), ", ", array, "[j]);\n");
      continue;
    }
    loops.step += cat("const real ", o.name, " = ", array, "[j];\n");
    loops.read += cat(array, "[j] = ");
    if (o.name == "q")
      loops.read +=
          cat("t + (INDEX)j + 1 < n ? LOAD_", type, "(", at("(REVERSE ? p - 1 : p + 1)"), ") : 1;\n");
    else
      loops.read += cat(read_value(state, o, cat("LOAD_", type, "(", at("p"), ")"), "p"), ";\n");
  }
  loops.step += follow + values;
  return loops;
}

}  // namespace

size_t scan_state_size(const ScanNest& p) {
  const size_t a = size_of(p.real);
  if (!is_pair(p.scan.state)) return a;
  const bool sum = p.scan.state == ScanState::recurrence || p.scan.state == ScanState::segments;
  const size_t b = sum ? a : p.nest.wide ? 8 : 4;
  return 2 * std::max(a, b);
}

bool unit_along_axis(const ScanNest& p, size_t operand) {
  return p.nest.reduced.empty() || p.nest.reduced[0].strides[operand] == 1;
}

std::string scan_gpu_source(const ScanNest& p, const ScanForm& form, int phase) {
  const ScanState state = p.scan.state;
  std::string base = coordinates("k", p.nest.kept.size(), 'c', 'n'), load, store, vector_load, vector_store;
  size_t operand = 0;
  for (const ScanOperand& o : p.scan.operands) {
    base += cat(o.name, "_p += ", start_of(p, o), ";\n");
    const std::string type = name_of(o.desc.dtype),
                      at = unit_along_axis(p, operand++) ? "p" : cat("p * ", o.name, "_u");
    if (o.name == "q") {
      const std::string next = cat("PLACE(t + v + 1) * ", o.name, "_u");
      const std::string previous = previous_product(p, next, "t + v + 1 < n", "q_p");
      store = previous + store;
      vector_store = "";
    } else if (o.written) {
      const std::string value = value_of(state, o, "Y[v]", "X[v]", "G[v]");
      store += cat("STORE_", type, "(", o.name, "_p, ", at, ", ", value, ");\n");
      vector_store +=
          cat("for (int v = 0; v < V; v++) {\n",
              previous_product(p, "PLACE(t + v + 1) * q_u", "t + v + 1 < n", "q_p"),
              "T[REVERSE ? V - 1 - v : v] = ", value, ";\n}\nVSTORE_", type, "(", o.name, "_p, at, T);\n");
    } else {
      const std::string one = cat("LOAD_", type, "(", o.name, "_p, ", at, ")");
      load += cat(array_of(o), "[v] = ", read_value(state, o, one, "p"), ";\n");
      // Places need all of their bits until they are compared.
      const bool places = state == ScanState::segments && o.name == "x";
      vector_load += cat(places ? "{\nlong T[V];\n" : "", "VLOAD_", type, "(", o.name,
                         "_p, at, T);\nfor (int v = 0; v < V; v++) ", array_of(o),
                         "[v] = ", read_value(state, o, "T[REVERSE ? V - 1 - v : v]", "PLACE(t + v)"), ";\n",
                         places ? "}\n" : "");
    }
  }
  return fill_slots(kernel_source("scan"), {{"HEAD", head(p, form, phase)},
                                            {"PARAMETERS", parameters(p)},
                                            {"BASE", base},
                                            {"LOAD", load},
                                            {"VECTOR_LOAD", vector_load},
                                            {"STORE", store},
                                            {"VECTOR_STORE", vector_store}});
}

std::string scan_cpu_source(const ScanNest& p, const ScanForm& form, int phase) {
  const size_t rank = p.nest.kept.size();
  std::string base, position, loads, stores;
  if (rank > 0)
    base =
        cat("const INDEX across = (n", rank - 1, " + LANES - 1) / LANES;\nconst INDEX k = block / across * n",
            rank - 1, " + block % across * LANES;\nconst int lanes = (int)min((INDEX)LANES, n", rank - 1,
            " - block % across * LANES);\n", coordinates("k", rank, 'c', 'n'));
  else
    base = "const INDEX k = block;\nconst int lanes = 1;\n";
  size_t operand = 0;
  for (const ScanOperand& o : p.scan.operands) {
    const std::string type = name_of(o.desc.dtype);
    const std::string pointer =
        cat("__global ", o.written ? "" : "const ", storage_type(o.desc.dtype), "* ", o.name);
    const bool beside = rank == 0 || p.nest.kept.back().strides[operand] == 1;
    const std::string lane = beside ? "l" : cat("l * ", o.name, "_t", rank - 1);
    base += cat(pointer, "_b = ", o.name, "_p + ", start_of(p, o), ";\n");
    const std::string step = unit_along_axis(p, operand++) ? "" : cat(" * ", o.name, "_u");
    if (o.name == "q") {
      position += cat(pointer, "_q = q_b + (last ? 0 : REVERSE ? p - 1 : p + 1)", step, ";\n");
      loads += previous_product(p, lane, "!last", "q_q");
      continue;
    }
    position += cat(pointer, "_q = ", o.name, "_b + p", step, ";\n");
    if (o.written) {
      const std::string value = value_of(p.scan.state, o, p.scan.exclusive ? "before" : "after", "x", "g");
      stores += cat("STORE_", type, "(", o.name, "_q, ", lane, ", ", value, ");\n");
    } else {
      const std::string one = cat("LOAD_", type, "(", o.name, "_q, ", lane, ")");
      loads += cat("const real ", o.name, " = ", read_value(p.scan.state, o, one, "p"), ";\n");
    }
  }
  const std::string follow =
      "struct State before = carry[l], after = before, own;\n"
      "set_state(&own, x, GRADIENT, p);\nfollow(&after, &own);\ncarry[l] = after;\n";
  const RowLoops row = row_loops(p, follow, phase);
  const std::vector<ScanOperand>& operands = p.scan.operands;
  const bool halves = std::any_of(operands.begin(), operands.end(),
                                  [](const ScanOperand& o) { return o.desc.dtype == DType::f16; });
  const std::string pieces = cat("#define IN_PIECES ", form.lanes_x == 1 && halves ? 1 : 0, "\n");
  return fill_slots(kernel_source("scan_cpu"), {{"HEAD", head(p, form, phase) + pieces},
                                                {"PARAMETERS", parameters(p)},
                                                {"BASE", base},
                                                {"ARRAYS", row.arrays},
                                                {"READ", row.read},
                                                {"STEP", row.step},
                                                {"WRITE", row.write},
                                                {"POSITION", position},
                                                {"BODY", loads + follow + (phase == 1 ? "" : stores)}});
}

}  // namespace dlprim::detail
