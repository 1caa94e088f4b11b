// Writing by index, engine `local`: groups hold the places of a few columns in local memory, and walk in
// order all elements of these columns. Sums have the bits that `columns` gives, where that serves.
#include <algorithm>

#include "core/gen/expression.hpp"
#include "ops/index/indexing_write.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kTeam = 32;                     ///< TEAM of scatter_local.cl
constexpr int64_t kMostColumns = 4;               ///< of a group: the indices of as many fill 32 bytes
constexpr int64_t kMostParts = 8;                 ///< each part of a column's places walks all indices
constexpr int64_t kMostBytes = int64_t{1} << 15;  ///< of a group's places: several groups fit a compute unit
constexpr int64_t kEnoughGroups = 256;            ///< for `auto`
constexpr int64_t kManyGroups = 1024;             ///< from which on a group has several columns

/// How columns and their places become groups. Parameters: the columns of a group, and the parts of the
/// places.
struct Division {
  Division(const Context& context, const WriteProblem& problem, const WriteLoops& loops,
           const EngineOptions& options) {
    int asked_columns = 0, asked_parts = 0;
    options.request.take("local", {{"columns", &asked_columns}, {"parts", &asked_parts}});
    require(asked_columns >= 0 && asked_columns <= 8 && (asked_columns & (asked_columns - 1)) == 0, "engine",
            "local has 1, 2, 4 or 8 columns, not ", asked_columns);
    require(asked_parts >= 0, "engine", "local has no ", asked_parts, " parts");
    const DeviceFacts& facts = context.device().facts();
    const bool mean = problem.params.reduce == ScatterReduce::mean;
    const auto size = static_cast<int64_t>(size_of(problem.accumulator)) + (mean ? 4 : 0);
    most = std::min(kMostBytes, static_cast<int64_t>(facts.local_memory) / 3 * 2) / size;
    most = std::max<int64_t>(most, 1);
    const int64_t all = std::max<int64_t>(problem.nest.sizes[0], 1);
    columns = std::max(asked_columns, 1);
    places = ceil_div(all, asked_parts ? asked_parts : ceil_div(columns * all, most));
    parts = ceil_div(all, places);
    const auto fits = [&](int64_t next) {
      return next * places <= most && ceil_div(loops.columns, next) * parts >= kManyGroups &&
             next * kTeam <= facts.max_work_group;
    };
    while (!asked_columns && columns < kMostColumns && fits(2 * columns)) columns *= 2;
    // Where two columns do not fit: halves of two use sectors better, which pays for the second walk (1.32
    // instead of 1.61 ms for sums of 8192 bf16 in each of 4096 columns).
    const bool no_room = columns * parts == 1 && 2 * places > most;
    if (!asked_columns && !asked_parts && no_room && loops.columns >= kManyGroups) {
      columns = parts = 2;
      places = ceil_div(all, parts);
    }
    // Members of a team and its neighbours write to different banks.
    pitch = columns == 1 ? places : round_up(places, kTeam) + kTeam / columns;
    groups = ceil_div(loops.columns, columns) * parts;
  }
  int64_t most = 1;  ///< places of all columns of a group
  int64_t columns = 1, parts = 1, places = 1, pitch = 1, groups = 1;
};

/// Loading an element and storing it again gives the same bits.
bool keeps_bits(DType dtype, DType accumulator) {
  if (dtype == DType::f16 || dtype == DType::bf16) return false;  // not those of NaN
  if (is_floating(dtype)) return dtype == accumulator;
  return !is_floating(accumulator);
}

struct Local : WritePlan {
  Local(const Context& context, const WriteProblem& problem, const EngineOptions& options)
      : nest(problem.nest),
        loops(loops_by_table(problem.nest)),
        division(context, problem, loops, options),
        skip(problem.skip),
        sums(static_cast<size_t>(division.columns * division.pitch) * size_of(problem.accumulator)) {
    const bool mean = problem.params.reduce == ScatterReduce::mean;
    marks =
        static_cast<size_t>(division.columns * (mean ? division.pitch : ceil_div(division.places, 32))) * 4;
    const LoopDim &p = loops.p.back(), &w = loops.w.back();
    Defines defines = write_defines(problem, loops);
    defines.set("COLUMNS", division.columns).set("LAST", problem.params.reduce == ScatterReduce::none);
    defines.set("DENSE_ALONG", w.size == 1 || std::abs(p.strides[1]) < std::abs(w.strides[1]));
    defines.set("TABLE_ALONG", std::abs(p.strides[0]) < std::abs(nest.steps[0]));
    defines.set("MARKED", !keeps_bits(problem.table.dtype, problem.accumulator));
    // Compilers for CPUs take seconds over more than one step, and gain nothing.
    defines.set("AHEAD", context.device().kind() == DeviceKind::cpu ? 1 : 4);
    const DType dtype = problem.dense.dtype;
    defines.set("WORD", dtype == DType::f16 ? "ushort" : storage_type(dtype));
    kernel = context.state().programs.kernel("scatter_local", "scatter_local", defines);
  }

  std::string parameters() const override {
    return cat("columns=", division.columns, ",parts=", division.parts);
  }
  void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices, const Tensor& table,
           const Tensor& /*workspace*/) const override {
    Launch launch(stream, kernel);
    launch.arg(dense).arg(table);
    bind_nest(launch, nest, indices, loops.p, loops.w);
    launch.arg(skip);
    for (int64_t value : {loops.walked, loops.columns}) bind_offset(launch, nest.wide, value);
    for (int64_t value : {division.places, division.parts, division.pitch})
      launch.arg(static_cast<int>(value));
    launch.bind(nullptr, sums).bind(nullptr, marks);
    const int64_t group = division.columns * kTeam;
    launch.run({static_cast<size_t>(division.groups * group)}, {static_cast<size_t>(group)});
  }

  IndexNest nest;
  WriteLoops loops;
  Division division;
  int64_t skip;
  size_t sums, marks = 0;  ///< bytes of local memory
  Kernel kernel;
};

std::string refuse(const Context& context, const WriteProblem& problem, const EngineOptions& options) {
  if (problem.nest.indices() != 1) return cat("it takes one index, not ", problem.nest.indices());
  const WriteLoops loops = loops_by_table(problem.nest);
  const Division division(context, problem, loops, options);
  const int64_t places = problem.nest.sizes[0];
  if (division.parts > kMostParts)
    return cat(places, " places of a column are more than ", kMostParts, " groups hold in local memory");
  if (division.columns * division.places > division.most)
    return cat(division.columns, " columns of ", division.places, " places are more than ", division.most);
  return {};
}

std::string avoid(const Context& context, const WriteProblem& problem, const EngineOptions& options) {
  const WriteLoops loops = loops_by_table(problem.nest);
  const Division division(context, problem, loops, options);
  const int64_t places = problem.nest.sizes[0];
  if (context.device().kind() == DeviceKind::cpu) return "a CPU's local memory is no faster";
  if (!std::any_of(loops.p.begin(), loops.p.end(), is_indexed_along))
    return "all columns have one index: sorting it is faster";
  if (loops.walked <= kFewWalked) return cat(loops.walked, " elements of a column are few");
  if (places > kPlacesPerElement * loops.walked)
    return cat(loops.walked, " elements of a column are few for its ", places, " places");
  if (division.groups < kEnoughGroups) return cat(division.groups, " groups are fewer than ", kEnoughGroups);
  return {};
}

}  // namespace

const WriteEngine kWriteLocal{
    "local", refuse,
    [](const Context& context, const WriteProblem& problem, const EngineOptions& options) {
      return std::unique_ptr<const WritePlan>(std::make_unique<const Local>(context, problem, options));
    },
    avoid};

}  // namespace dlprim::detail
