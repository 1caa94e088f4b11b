// The text of reduction kernels.
#include "core/gen/reduce.hpp"

#include <map>

#include "core/check.hpp"
#include "core/gen/pointwise.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"

namespace dlprim::detail {
namespace {

/// A line per accumulator, with every '#' replaced by its number and '@' by its type.
std::string each_accumulator(const ReduceForm& form, const std::string& pattern) {
  const Reduction& r = form.reduction;
  std::string text;
  for (int a = 0; a < r.accumulators; a++)
    for (char c : pattern + "\n")
      text += c == '#'   ? std::to_string(a)
              : c == '@' ? std::string(a < r.accumulators - r.counts ? "real" : "INDEX")
                         : std::string(1, c);
  return text;
}

std::string init(const ReduceForm& form) {
  return statement("init", form.reduction.init);
}

std::string combine_with(const ReduceForm& form, const std::string& source) {
  return each_accumulator(form, "const @ b# = " + source + ";") +
         statement("combine", form.reduction.combine);
}

/// The slots in which blocks of a lane's accumulators (number `lane`) meet in levels.
std::map<std::string, std::string> with_levels(const ReduceForm& form, const std::string& lane,
                                               const std::string& lanes,
                                               std::map<std::string, std::string> slots) {
  const std::string mine = cat("A#[", lane, "]");
  const std::string clear =
      each_accumulator(form, "@ a#;") + init(form) + each_accumulator(form, "S#[at] = a#;");
  slots["LEVELS"] = each_accumulator(form, cat("@ S#[LEVELS * ", lanes, "];"));
  slots["INIT_LEVEL"] = clear;
  slots["FOLD"] = each_accumulator(form, "@ a# = S#[at];") + combine_with(form, mine) +
                  each_accumulator(form, "S#[at] = a#;");
  slots["RAISE"] = each_accumulator(form, mine + " = S#[at];") + clear;
  slots["COLLECT_LEVEL"] = each_accumulator(form, cat("@ a# = ", mine, ";")) + combine_with(form, "S#[at]") +
                           each_accumulator(form, mine + " = a#;");
  return slots;
}

/// Where output `o` has the element at coordinates c0, c1, ...
std::string kept_offset(const ReduceForm& form, const Operand& o) {
  return offset(o, form.kept_rank, form.kept_rank, 'c', 't');
}

/// Outputs computed from a0, a1, ... for the one `neighbour` places along the innermost dimension from
/// coordinates c0, c1, ..., and stored, or put into arrays for store_words().
std::string finish(const ReduceForm& form, const std::string& neighbour) {
  const auto index_of = [&](const Operand& o) {
    return form.kept_rank ? inner_index(o.kept, neighbour, cat(o.name, "_t", form.kept_rank - 1)) : "0";
  };
  std::string text = "{\n";
  for (const Operand& o : form.operands)
    if (o.finishing)
      text += cpu_load(o, cat(o.name, "_p + ", o.name, "_o + ", kept_offset(form, o), ", ", index_of(o)));
  text += declare_outputs(form.operands) + statement("finish", form.reduction.finish);
  for (const Operand& o : form.operands) {
    if (!o.output) continue;
    const std::string type = name_of(o.dtype), number = o.name.substr(1), at = index_of(o);
    text += form.whole_outputs ? cat("Y", number, "[", neighbour, "] = ", o.name, ";\n")
                               : cat("STORE_", type, "(", o.name, "_p + ", o.name, "_o + ",
                                     kept_offset(form, o), ", ", at, ", ", o.name, ");\n");
  }
  return text + "}\n";
}

std::string output_arrays(const ReduceForm& form) {
  std::string text;
  for (const Operand& o : form.operands)
    if (o.output && form.whole_outputs)
      text += cat(compute_type(o.dtype), " Y", o.name.substr(1), "[OUTPUTS];\n");
  return text;
}

std::string store_words(const ReduceForm& form) {
  std::string text;
  for (const Operand& o : form.operands)
    if (o.output && form.whole_outputs)
      text += cat("VSTORE_", name_of(o.dtype), "(", o.name, "_p + ", o.name, "_o, ", kept_offset(form, o),
                  ", Y", o.name.substr(1), ");\n");
  return text;
}

/// Quotients are rounded correctly in what finishes a result. Welford's updates divide for each element, and
/// gain nothing from that.
std::string parts_head(const ReduceForm& form, bool finishes) {
  return common_head(form.real, form.wide, form.limits) +
         (finishes ? quotient_head({form.reduction.finish}, form.real) : "") +
         cat("#define SLOT ", slot_bytes(form) == 8 ? "ulong" : "uint", "\n");
}

std::string head(const ReduceForm& form) {
  return parts_head(form, !form.parts) +
         special_head({form.reduction.accumulate, form.reduction.combine, form.reduction.finish}) +
         cat("#define ALONG_R ", form.along_reduced ? 1 : 0, "\n#define PARTS ", form.parts ? 1 : 0,
             "\n#define LEVELS ", form.levels, "\n");
}

std::string parameters(const ReduceForm& form) {
  return parameter_list(form.operands, form.scalars, form.kept_rank, form.reduced_rank);
}

std::string pointer_of(const Operand& o) {
  return cat("__global const ", storage_type(o.dtype), "* ", o.name);
}

std::vector<Operand> memory_operands(const ReduceForm& form) {
  std::vector<Operand> operands;
  for (const Operand& o : form.operands)
    if (!o.place && !o.finishing) operands.push_back(o);
  return operands;
}

std::string reduced_step(const Operand& o, size_t rank) {
  return cat(o.name, "_u", rank - 1);
}

}  // namespace

size_t slot_bytes(const ReduceForm& form) {
  const bool wide_counts = form.wide && form.reduction.counts > 0;
  return wide_counts ? 8 : size_of(form.real);
}

std::string reduce_source(const ReduceForm& form) {
  std::string base = coordinates("first", form.kept_rank, 'c', 'n');
  std::string arrays, load = coordinates("i", form.reduced_rank, 'd', 'm');
  const std::string load_output = each_accumulator(form, "@ a# = A#[v];");
  const std::string store_output = each_accumulator(form, "A#[v] = a#;");
  for (const Operand& o : form.operands) {
    if (o.output || o.finishing) continue;
    const std::string at = offset(o, form.reduced_rank, form.reduced_rank, 'd', 'u');
    const size_t rank = form.along_reduced ? form.reduced_rank : form.kept_rank;
    const std::string step = rank == 0            ? "0"
                             : form.along_reduced ? reduced_step(o, rank)
                                                  : cat(o.name, "_t", rank - 1);
    if (o.place) {
      arrays += "INDEX P[U * V];\n";
      load += cat("for (int v = 0; v < V; v++) P[u * V + v] = ", at,
                  form.along_reduced && step != "0" ? " + v * " + step : "", ";\n");
      continue;
    }
    base +=
        cat(o.name, "_p += ", o.name, "_o + ", offset(o, form.kept_rank, form.kept_rank, 'c', 't'), ";\n");
    arrays += cat(compute_type(o.dtype), " X", o.name.substr(1), "[U * V];\n");
    load += gpu_load(o, at, form.along_reduced ? o.reduced : o.kept, step, form.vector);
  }
  const std::string sizes = cat("#define V ", form.vector, "\n#define U ", form.unroll, "\n#define LX ",
                                form.lanes_x, "\n#define LY ", form.lanes_y, "\n#define BLOCK ", kGpuBlock,
                                "\n#define LEVEL_BITS ", kLevelBits, "\n");
  return fill_slots(
      kernel_source("reduce"),
      with_levels(
          form, "v", "OUTPUTS",
          {{"HEAD", head(form) + sizes},
           {"PARAMETERS", parameters(form)},
           {"ACCUMULATORS", each_accumulator(form, "@ A#[OUTPUTS];")},
           {"SHARED", each_accumulator(form, "__local @ L#[OUTPUTS * LX * LY];")},
           {"INIT", each_accumulator(form, "@ a#;") + init(form) + store_output},
           {"BASE", base},
           {"ARRAYS", arrays},
           {"LOAD", load},
           {"ACCUMULATE", inputs_from_arrays(memory_operands(form)) +
                              (form.reduction.indexed ? "const INDEX index = P[e];\n" : "") + load_output +
                              statement("accumulate", form.reduction.accumulate) + store_output},
           {"PUBLISH", each_accumulator(form, "L#[v * (LX * LY) + item] = A#[v];")},
           {"COMBINE", load_output + combine_with(form, "L#[other]") + store_output},
           {"PARTIAL", each_accumulator(form, "PART(@, #, p) = A#[v];")},
           {"WHERE", coordinates("first", form.kept_rank, 'c', 'n') + output_arrays(form)},
           {"FINISH", each_accumulator(form, "const @ a# = A#[v];") + finish(form, "v")},
           {"STORE", store_words(form)}}));
}

std::string reduce_cpu_source(const ReduceForm& form) {
  const size_t kept = form.kept_rank, reduced = form.reduced_rank;
  const std::string load_lanes = each_accumulator(form, "@ a# = A#[l];");
  const std::string store_lanes = each_accumulator(form, "A#[l] = a#;");
  std::string base, position, row, loads, row_loads, collect;
  const std::string inner = kept ? cat("n", kept - 1) : "1";
  const std::string blocks =
      cat("const INDEX blocks = (", inner, " + LANES - 1) / LANES, all = kept / ", inner, " * blocks;\n");
  std::string block =
      cat("const INDEX c = block % blocks * LANES;\nconst int lanes = (int)min((INDEX)LANES, ", inner,
          " - c);\nconst INDEX k_first = block / blocks * ", inner, " + c;\n");
  base = coordinates("k", kept, 'c', 'n');
  block += coordinates("k_first", kept, 'c', 'n');
  position = row = coordinates("r", reduced, 'd', 'm');
  position += reduced ? cat("INDEX run = min(m", reduced - 1, " - d", reduced - 1, ", end - r);\n")
                      : "INDEX run = end - r;\n";
  for (const Operand& o : form.operands) {
    if (o.output || o.finishing) continue;
    if (o.place) {
      const std::string at = cat("const INDEX first_ = ", offset(o, reduced, reduced, 'd', 'u'), ";\n");
      position += at;
      row += at;
      loads += cat("const INDEX index = first_",
                   reduced ? " + " + inner_index(o.reduced, "j + l", reduced_step(o, reduced)) : "", ";\n");
      row_loads += "const INDEX index = first_;\n";
      continue;
    }
    const std::string start =
        cat(pointer_of(o), "_b = ", o.name, "_p + ", o.name, "_o + ", offset(o, kept, kept, 'c', 't'), ";\n");
    base += start;
    block += start;
    const std::string at =
        cat(pointer_of(o), "_q = ", o.name, "_b + ", offset(o, reduced, reduced, 'd', 'u'), ";\n");
    position += at;
    row += at;
    const Staged array(o);
    if (reduced && o.reduced == InnerStride::any) {
      collect += array.declared("PIECE") +
                 array.copied("run", inner_index(o.reduced, "j", reduced_step(o, reduced)));
      loads += cpu_load(o, array.element("j + l"));
    } else {
      loads += cpu_load(o, cat(o.name, "_q, ", reduced && o.reduced == InnerStride::one ? "j + l" : "0"));
    }
    const std::string step = cat(o.name, "_t", kept ? kept - 1 : 0);
    if (kept && o.kept == InnerStride::any) {
      row += array.declared("LANES") + array.copied("lanes", inner_index(o.kept, "j", step));
      row_loads += cpu_load(o, array.element("l"));
    } else {
      row_loads += cpu_load(o, cat(o.name, "_q, ", kept ? inner_index(o.kept, "l", step) : "0"));
    }
  }
  const std::string accumulate =
      load_lanes + statement("accumulate", form.reduction.accumulate) + store_lanes;
  if (!collect.empty()) collect = "run = min(run, (INDEX)PIECE);\n" + collect;
  const std::string sizes = cat("#define LANES ", form.lanes_x, "\n#define BLOCK ", kCpuBlockLength,
                                "\n#define LEVEL_BITS ", kLevelBits, "\n");
  return fill_slots(
      kernel_source("reduce_cpu"),
      with_levels(form, "l", "LANES",
                  {{"HEAD", head(form) + sizes},
                   {"PARAMETERS", parameters(form)},
                   {"ACCUMULATORS", each_accumulator(form, "@ A#[LANES];")},
                   {"BASE", base},
                   {"INIT", each_accumulator(form, "@ a#;") + init(form) + store_lanes},
                   {"POSITION", position},
                   {"COLLECT", collect},
                   {"ACCUMULATE", loads + accumulate},
                   {"COMBINE", load_lanes + combine_with(form, "A#[other]") + store_lanes},
                   {"BLOCKS", blocks},
                   {"BLOCK", block},
                   {"ROW", row},
                   {"ACCUMULATE_ROW", row_loads + accumulate},
                   {"PARTIAL", each_accumulator(form, "PART(@, #, p) = A#[l];")},
                   {"FINISH", each_accumulator(form, "const @ a# = A#[l];") + finish(form, "l")}}));
}

std::string reduce_parts_source(const ReduceForm& form, int lanes_x, int lanes_y) {
  const std::string sizes = cat("#define LX ", lanes_x, "\n#define LY ", lanes_y, "\n");
  return fill_slots(kernel_source("reduce_parts"),
                    {{"HEAD", parts_head(form, true) + sizes},
                     {"PARAMETERS", parameter_list(form.operands, form.scalars, form.kept_rank, 0, false)},
                     {"ACCUMULATORS", each_accumulator(form, "@ a#;\n__local @ L#[LX * LY];") + init(form)},
                     {"COMBINE_PART", combine_with(form, "PART(@, #, q)")},
                     {"PUBLISH", each_accumulator(form, "L#[item] = a#;")},
                     {"COMBINE", combine_with(form, "L#[other]")},
                     {"FINISH", coordinates("k", form.kept_rank, 'c', 'n') + finish(form, "0")}});
}

}  // namespace dlprim::detail
