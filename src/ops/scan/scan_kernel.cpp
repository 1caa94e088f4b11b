// The text of scan kernels, and how their rows are split.
#include "ops/scan/scan_kernel.hpp"

#include <algorithm>
#include <cctype>

#include "core/gen/arguments.hpp"
#include "core/gen/engines.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"

namespace dlprim::detail {

struct ScanKernel : EngineImpl {
  Kernel whole;                   ///< PHASE 0
  Kernel totals, before, result;  ///< PHASE 1, scan_totals, PHASE 2
  LoopNest nest;
  std::vector<ScanOperand> operands;
  int64_t n = 1, parts = 1, part = 1;
  int totals_lanes = 1;           ///< that share a row of totals
  int64_t chunk = 0, blocks = 0;  ///< CPU: rows or groups of columns, so many a work-item
  size_t groups = 0, local = 1, state_bytes = 4;
  bool cpu = false;

  size_t workspace_size() const override {
    return parts > 1 ? static_cast<size_t>(parts * nest.kept_count) * state_bytes : 0;
  }
};

namespace {

struct Problem {
  ScanProblem scan;
  LoopNest nest;
  DType real = DType::f32;
  bool along = false;  ///< the axis is innermost
};

/// What of a kernel's text the engines choose.
struct Form {
  int vector = 4;
  bool wide_access = false;
  int lanes_x = 1, lanes_y = 1;
  int totals_lanes = 1;
};

constexpr int kCpuColumns = 32;
constexpr int kGpuColumns = 64;      // work-items of a group, each with a column
constexpr int64_t kCpuPart = 32768;  // elements of a row that are worth a CPU work-group
constexpr int64_t kGpuColumnPart = 64;
constexpr int kTotalsGroup = 64;  // work-items of a group of scan_totals

bool is_pair(ScanState state) {
  return state != ScanState::sum && state != ScanState::product;
}

size_t state_size(const Problem& p) {
  const size_t a = size_of(p.real);
  if (!is_pair(p.scan.state)) return a;
  const bool sum = p.scan.state == ScanState::recurrence || p.scan.state == ScanState::segments;
  const size_t b = sum ? a : p.nest.wide ? 8 : 4;
  return 2 * std::max(a, b);
}

std::string head(const Problem& p, const Form& form, int phase) {
  std::string text = common_head(p.real, p.nest.wide);
  text += cat("#define V ", form.vector, "\n#define VECTOR ", form.wide_access ? 1 : 0, "\n#define LX ",
              form.lanes_x, "\n#define LY ", form.lanes_y, "\n#define LANES ", form.lanes_x,
              "\n#define PHASE ", phase, "\n#define TOTALS_GROUP ", kTotalsGroup, "\n#define TOTALS_LANES ",
              form.totals_lanes, "\n#define KIND ", static_cast<int>(p.scan.state), "\n#define EXCLUSIVE ",
              p.scan.exclusive ? 1 : 0, "\n#define REVERSE ", p.scan.reverse ? 1 : 0, "\n");
  return text;
}

/// Whether the axis' stride is 1 or, without an axis, none.
bool unit(const Problem& p, size_t operand) {
  return p.nest.reduced.empty() || p.nest.reduced[0].strides[operand] == 1;
}

std::string parameters(const Problem& p) {
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
std::string start_of(const Problem& p, const ScanOperand& o) {
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
std::string previous_product(const Problem& p, const std::string& at_next, const char* there,
                             const std::string& from) {
  for (const ScanOperand& o : p.scan.operands)
    if (o.name == "q")
      return cat("const real q = ", there, " ? LOAD_", name_of(o.desc.dtype), "(", from, ", ", at_next,
                 ") : 1;\n");
  return "";
}

std::string gpu_source(const Problem& p, const Form& form, int phase) {
  const ScanState state = p.scan.state;
  std::string base = coordinates("k", p.nest.kept.size(), 'c', 'n'), load, store, vector_load, vector_store;
  size_t operand = 0;
  for (const ScanOperand& o : p.scan.operands) {
    base += cat(o.name, "_p += ", start_of(p, o), ";\n");
    const std::string type = name_of(o.desc.dtype), at = unit(p, operand++) ? "p" : cat("p * ", o.name, "_u");
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

/// The loops of scan_cpu.cl over a row, an array for each operand.
struct RowLoops {
  std::string arrays, read, step, write;
};

RowLoops row_loops(const Problem& p, const std::string& follow, int phase) {
  const ScanState state = p.scan.state;
  const char* after = p.scan.exclusive ? "before" : "after";
  RowLoops loops;
  std::string values;
  size_t operand = 0;
  for (const ScanOperand& o : p.scan.operands) {
    const std::string type = name_of(o.desc.dtype), array = array_of(o);
    const auto at = [&o, contiguous = unit(p, operand++)](const char* place) {
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

std::string cpu_source(const Problem& p, const Form& form, int phase) {
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
    const std::string step = unit(p, operand++) ? "" : cat(" * ", o.name, "_u");
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

std::unique_ptr<ScanKernel> start(const Problem& p, bool cpu) {
  auto kernel = std::make_unique<ScanKernel>();
  kernel->nest = p.nest;
  kernel->operands = p.scan.operands;
  kernel->n = p.nest.reduced_count;
  kernel->state_bytes = state_size(p);
  kernel->cpu = cpu;
  return kernel;
}

/// The axis in parts of a multiple of `unit`, so that there are about `groups` work-groups where `blocks` are
/// already; a part of less than `least` elements is not worth it.
void split(ScanKernel& kernel, int64_t blocks, int64_t groups, int64_t unit, int64_t least, size_t limit) {
  const int64_t room =
      static_cast<int64_t>(limit / kernel.state_bytes) / std::max<int64_t>(kernel.nest.kept_count, 1);
  const int64_t most = std::max<int64_t>(std::min(kernel.n / least, room), 1);
  const int64_t parts = std::clamp<int64_t>(groups / std::max<int64_t>(blocks, 1), 1, most);
  kernel.part = round_up(ceil_div(std::max<int64_t>(kernel.n, 1), parts), unit);
  kernel.parts = ceil_div(std::max<int64_t>(kernel.n, 1), kernel.part);
}

void compile(ScanKernel& kernel, const Context& context, const Problem& p, const Form& form) {
  ProgramCache& programs = context.state().programs;
  const auto source = [&](int phase) {
    return kernel.cpu ? cpu_source(p, form, phase) : gpu_source(p, form, phase);
  };
  if (kernel.parts == 1) {
    kernel.whole = programs.generated("scan", source(0), "scan");
    return;
  }
  kernel.totals_lanes = form.totals_lanes;
  kernel.totals = programs.generated("scan", source(1), "scan");
  kernel.before = programs.generated("scan", source(1), "scan_totals");
  kernel.result = programs.generated("scan", source(2), "scan");
}

std::unique_ptr<const ScanKernel> make_gpu(const Context& context, const Problem& p,
                                           const EngineOptions& options) {
  auto kernel = start(p, false);
  std::vector<Operand> operands;
  std::vector<TensorDesc> tensors;
  for (size_t i = 0; i < p.scan.operands.size(); i++) {
    const ScanOperand& o = p.scan.operands[i];
    operands.push_back({o.name, o.desc.dtype, o.written});
    operands.back().reduced = unit(p, i) ? InnerStride::one : InnerStride::any;
    tensors.push_back(o.desc);
  }
  bool all_unit = p.along;
  for (size_t i = 0; i < tensors.size(); i++) all_unit &= unit(p, i);
  Form form;
  const int width = vector_width(operands, tensors, p.nest, true);
  form.wide_access = all_unit && width > 1 && p.real != DType::f64;
  form.vector = form.wide_access ? width : 4;
  const int64_t units = int64_t{context.device().facts().compute_units};
  int64_t blocks = 0;
  if (p.along) {
    form.lanes_x = 8;
    while (form.lanes_x < kGpuGroup && int64_t{form.lanes_x} * form.vector < kernel->n) form.lanes_x *= 2;
    form.lanes_y = kGpuGroup / form.lanes_x;
    blocks = ceil_div(p.nest.kept_count, form.lanes_y);
    const int64_t tile = int64_t{form.lanes_x} * form.vector;
    split(*kernel, blocks, units * 8, tile, 4 * tile, options.workspace_limit);
  } else {
    form.lanes_y = kGpuColumns;
    blocks = ceil_div(p.nest.kept_count, form.lanes_y);
    split(*kernel, blocks, units * 16, form.vector, kGpuColumnPart, options.workspace_limit);
  }
  // Few rows have as many totals as there are groups, too many for one work-item after the other.
  if (p.nest.kept_count < units * kTotalsGroup) form.totals_lanes = kTotalsGroup;
  kernel->groups = static_cast<size_t>(blocks);
  kernel->local = static_cast<size_t>(form.lanes_x) * static_cast<size_t>(form.lanes_y);
  compile(*kernel, context, p, form);
  return kernel;
}

std::unique_ptr<const ScanKernel> make_cpu(const Context& context, const Problem& p,
                                           const EngineOptions& options) {
  auto kernel = start(p, true);
  Form form;
  form.lanes_x = p.along ? 1 : kCpuColumns;
  const int64_t inner = p.nest.kept.empty() ? 1 : p.nest.kept.back().size;
  kernel->blocks = inner ? p.nest.kept_count / inner * ceil_div(inner, form.lanes_x) : 0;
  const int64_t units = int64_t{context.device().facts().compute_units}, groups = units * 4;
  kernel->chunk = std::max<int64_t>(ceil_div(kernel->blocks, groups), 1);
  // In parts all is read twice, which only pays where cores would have nothing to do.
  split(*kernel, kernel->blocks < units ? kernel->blocks : groups, groups, 1, kCpuPart,
        options.workspace_limit);
  kernel->groups = static_cast<size_t>(ceil_div(kernel->blocks, kernel->chunk));
  compile(*kernel, context, p, form);
  return kernel;
}

constexpr auto kGpu = generated_gpu<Problem, ScanKernel>(make_gpu);
constexpr auto kCpu = generated_cpu<Problem, ScanKernel>(make_cpu);
constexpr EngineList<Problem, ScanKernel> kEngines = {&kGpu, &kCpu};

}  // namespace

std::shared_ptr<const ScanKernel> make_scan_kernel(const Context& context, const ScanProblem& problem,
                                                   const Options& options, PlanInfo& info) {
  Problem p;
  p.scan = problem;
  std::vector<TensorDesc> tensors;
  for (const ScanOperand& o : problem.operands) tensors.push_back(o.desc);
  TensorDesc row(problem.operands[0].desc.shape);
  row.shape[problem.axis] = 1;
  row.strides = contiguous_strides(row.shape);
  p.nest = make_loop_nest(tensors, {row}, true);
  p.real = real_type(tensors, {});
  p.along = p.nest.reduced_innermost || p.nest.kept.empty();
  require_real(context, p.real);
  return choose_engine("scan", kEngines, context, p, options, info);
}

void run_scan_kernel(const ScanKernel& kernel, const Stream& stream, const std::vector<Tensor>& tensors,
                     const Tensor& workspace) {
  const auto bind_index = [&](Launch& launch, int64_t value) {
    if (kernel.nest.wide)
      launch.arg(static_cast<uint64_t>(value));
    else
      launch.arg(static_cast<uint32_t>(value));
  };
  const size_t parts = static_cast<size_t>(kernel.parts);
  const auto launch_scan = [&](const Kernel& program) {
    Launch launch(stream, program);
    for (const Tensor& t : tensors) launch.arg(t);
    for (const LoopDim& d : kernel.nest.kept) {
      bind_index(launch, d.size);
      for (size_t i = 0; i < tensors.size(); i++) bind_index(launch, d.strides[i]);
    }
    for (size_t i = 0; i < tensors.size(); i++)
      bind_index(launch, kernel.nest.reduced.empty() ? 0 : kernel.nest.reduced[0].strides[i]);
    launch.arg(workspace);
    for (int64_t value : {kernel.nest.kept_count, kernel.n, kernel.part}) bind_index(launch, value);
    if (kernel.cpu)
      for (int64_t value : {kernel.chunk, kernel.blocks}) bind_index(launch, value);
    launch.run({kernel.groups * kernel.local, parts}, {kernel.local, 1});
  };
  if (kernel.parts == 1) {
    launch_scan(kernel.whole);
    return;
  }
  launch_scan(kernel.totals);
  {
    Launch launch(stream, kernel.before);
    launch.arg(workspace);
    bind_index(launch, kernel.nest.kept_count);
    bind_index(launch, kernel.parts);
    launch.run({items_in_groups(kernel.nest.kept_count * kernel.totals_lanes, kTotalsGroup)}, {kTotalsGroup});
  }
  launch_scan(kernel.result);
}

}  // namespace dlprim::detail
