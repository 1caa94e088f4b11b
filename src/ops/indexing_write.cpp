// Writing by index, deterministically. `columns` walks what may meet one after the other, one work-item for
// each column that nothing else writes; `sorted` brings together what meets by sorting, and folds it in
// parts.
#include <algorithm>
#include <numeric>

#include <dlprim/copy.hpp>

#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"
#include "ops/indexing.hpp"

namespace dlprim::detail {
namespace {

const char* operation_of(ScatterReduce reduce) {
  switch (reduce) {
    case ScatterReduce::none:
      return "last";
    case ScatterReduce::sum:
      return "sum";
    case ScatterReduce::prod:
      return "prod";
    case ScatterReduce::mean:
      return "mean";
    case ScatterReduce::min:
      return "smallest";  // min and max are macros of some compilers
    case ScatterReduce::max:
      return "largest";
  }
  throw ValidationError("reduce", cat("number ", static_cast<int>(reduce), " does not exist"));
}

/// What a fold starts from, as an expression in C.
std::string identity_of(ScatterReduce reduce, DType dtype) {
  if (reduce == ScatterReduce::prod) return "1";
  if (reduce != ScatterReduce::min && reduce != ScatterReduce::max) return "0";
  const bool min = reduce == ScatterReduce::min;
  switch (dtype) {
    case DType::i8:
      return min ? "CHAR_MAX" : "CHAR_MIN";
    case DType::u8:
      return min ? "UCHAR_MAX" : "0";
    case DType::i16:
      return min ? "SHRT_MAX" : "SHRT_MIN";
    case DType::i32:
      return min ? "INT_MAX" : "INT_MIN";
    case DType::i64:
      return min ? "LONG_MAX" : "LONG_MIN";
    case DType::boolean:
      return min ? "1" : "0";
    default:
      return min ? "INFINITY" : "(-INFINITY)";
  }
}

int64_t size_of_dims(const std::vector<LoopDim>& dims) {
  int64_t count = 1;
  for (const LoopDim& dim : dims) count *= dim.size;
  return count;
}

bool is_indexed_along(const LoopDim& dim) {
  return std::any_of(dim.strides.begin() + 2, dim.strides.end(), [](int64_t stride) { return stride != 0; });
}

/// Rounding at every step costs accuracy, and a mean has to count.
bool folds_in_place(DType dtype, ScatterReduce reduce) {
  if (reduce == ScatterReduce::mean) return false;
  const bool rounds = reduce == ScatterReduce::sum || reduce == ScatterReduce::prod;
  return !rounds || (dtype != DType::f16 && dtype != DType::bf16);
}

DType accumulator_of(DType table, DType dense) {
  if (table == DType::f64 || dense == DType::f64) return DType::f64;
  if (is_floating(table) || is_floating(dense)) return DType::f32;
  return table == DType::i64 || dense == DType::i64 ? DType::i64 : DType::i32;
}

constexpr int64_t kManyColumns = 16384;  // from which on GPUs walk columns: as many work-items keep them busy

}  // namespace

void IndexWrite::divide(bool sorted) {
  p_.clear();
  w_.clear();
  for (const LoopDim& dim : nest_.dims)
    (dim.strides[0] == 0 || (sorted && is_indexed_along(dim)) ? w_ : p_).push_back(dim);
  const LoopDim one{1, std::vector<int64_t>(2 + nest_.indices(), 0)};
  if (p_.empty()) p_.push_back(one);
  if (w_.empty()) w_.push_back(one);
  columns_ = size_of_dims(p_);
  walked_ = size_of_dims(w_);
}

std::string IndexWrite::refuse_columns(const TensorDesc& table, const ScatterParams& params) const {
  if (params.reduce == ScatterReduce::mean) return "a mean needs counts";
  if (!folds_in_place(table.dtype, params.reduce))
    return cat("sums in ", name_of(table.dtype), " would lose bits");
  return {};
}

std::string IndexWrite::refuse_sorted(const TensorDesc& dense) const {
  constexpr int64_t kMost = (int64_t{1} << 32) - 2;
  if (largest_key_ > kMost) return cat(largest_key_, " places in the table are more than 2^32 - 2");
  if (extent_of(dense) > kMost) return cat("elements reach ", extent_of(dense), " far, more than 2^32 - 2");
  if (walked_ >= int64_t{1} << 31) return cat(walked_, " elements to sort are more than 2^31 - 1");
  return {};
}

IndexWrite::IndexWrite(const Context& context, IndexNest nest, const TensorDesc& dense,
                       const TensorDesc& table, const ScatterParams& params, int64_t skip,
                       const Options& options)
    : nest_(std::move(nest)), skip_(skip), accumulator_(accumulator_of(table.dtype, dense.dtype)) {
  const EngineRequest request(options);
  require(request.automatic() || request.names("columns") || request.names("sorted"), "engine",
          "there is no engine '", options.engine, "'");
  require_real(context, accumulator_);
  divide(true);
  int64_t reach = 0;
  unit_ = 0;
  for (const LoopDim& dim : w_) {
    reach += (dim.size - 1) * dim.strides[0];
    if (dim.size > 1) unit_ = std::gcd(unit_, dim.strides[0]);
  }
  for (size_t k = 0; k < nest_.indices(); k++) {
    reach += std::max<int64_t>(nest_.sizes[k] - 1, 0) * nest_.steps[k];
    if (nest_.sizes[k] > 1) unit_ = std::gcd(unit_, nest_.steps[k]);
  }
  unit_ = std::max<int64_t>(unit_, 1);
  largest_key_ = reach / unit_;
  divide(false);
  const bool cpu = context.device().kind() == DeviceKind::cpu;
  const std::string no_columns = refuse_columns(table, params), no_sorted = refuse_sorted(dense);
  if (request.automatic())
    sorted_ = !no_columns.empty() || (!cpu && columns_ < kManyColumns && walked_ > 16 && no_sorted.empty());
  else
    sorted_ = request.names("sorted");
  const std::string& refusal = sorted_ ? no_sorted : no_columns;
  require(refusal.empty(), "engine", sorted_ ? "sorted" : "columns", " refused: ", refusal);
  divide(sorted_);

  Defines defines = nest_defines(nest_, p_.size(), w_.size());
  defines.set("OPERATION", operation_of(params.reduce)).set("ACC", storage_type(accumulator_));
  defines.set("DTYPE", name_of(table.dtype)).set("T", storage_type(table.dtype));
  defines.set("S_DTYPE", name_of(dense.dtype)).set("S", storage_type(dense.dtype));
  defines.set("IDENTITY", identity_of(params.reduce, table.dtype)).set("FLOATING", is_floating(accumulator_));
  defines.set("MEAN", params.reduce == ScatterReduce::mean);
  defines.set("RESETS", !params.include_self && params.reduce != ScatterReduce::none);
  defines.set("INCLUDE_SELF", params.include_self && params.reduce != ScatterReduce::none);
  if (sorted_)
    make_sorted(context, std::move(defines));
  else
    make_columns(context, std::move(defines));
  require(workspace_ <= options.workspace_limit, "workspace_limit", options.workspace_limit,
          ", but sorted needs ", workspace_, " bytes");
}

void IndexWrite::make_columns(const Context& context, Defines defines) {
  const std::vector<int64_t>& inner = p_.back().strides;
  const bool cpu = context.device().kind() == DeviceKind::cpu;
  const bool rows = !is_indexed_along(p_.back());
  defines.set("ROWS", rows && cpu).set("UNIT", inner[0] == 1 && inner[1] == 1);
  defines.set("WALK_INNER", !cpu || (!rows && w_.back().size > 1 && w_.back().strides[1] < inner[1]));
  defines.set("INNER", cat("p", p_.size() - 1));
  columns_kernel_ = context.state().programs.kernel("scatter_columns", "scatter_columns", defines);
  local_[0] = cpu ? 1 : 64;
  // Of narrow rows several are one group's, since each group walks all indices.
  chunk_ = cpu ? cpu_chunk(context, columns_, rows ? 64 : 16) : 1;
}

void IndexWrite::make_sorted(const Context& context, Defines defines) {
  ProgramCache& programs = context.state().programs;
  keys_kernel_ = programs.kernel("scatter_sorted", "scatter_keys", defines);
  chunks_kernel_ = programs.kernel("scatter_sorted", "scatter_chunks", defines);
  combine_kernel_ = programs.kernel("scatter_sorted", "scatter_combine", defines);
  rows_ = columns_ >= 64 ? 32 : 16;
  chunks_ = ceil_div(walked_, rows_);
  sort_ = SortPairs(context, walked_, bits_of(static_cast<uint64_t>(largest_key_) + 1));
  const auto most = static_cast<int64_t>(std::min<size_t>(256, chunks_kernel_.max_work_group()));
  size_t across = 1;
  while (static_cast<int64_t>(across) < columns_ && static_cast<int64_t>(across) < most) across *= 2;
  local_[0] = across;
  local_[1] = static_cast<size_t>(std::max<int64_t>(1, most / static_cast<int64_t>(across)));
  WorkspaceParts parts;
  const size_t bytes = static_cast<size_t>(walked_) * 4;
  keys_at_ = parts.add(bytes);
  values_at_ = parts.add(bytes);
  sorted_keys_at_ = parts.add(bytes);
  sorted_values_at_ = parts.add(bytes);
  sort_at_ = parts.add(sort_.workspace_size());
  parts_at_ = parts.add(static_cast<size_t>(2 * chunks_ * columns_) * size_of(accumulator_));
  workspace_ = parts.size();
}

void require_start(const Stream& stream, const Tensor& x, const Tensor& y) {
  if (!x.defined()) return;
  require_context("x", x, stream.context());
  require_dtype("x", x, y.dtype());
  require_shape("x", x, y.shape());
  require_same_or_apart({"y", y}, {"x", x});
}

void start_from(const Stream& stream, const Tensor& x, const Tensor& y) {
  if (!x.defined())
    fill(stream, y, 0);
  else if (!same_elements(x, y) || x.buffer()() != y.buffer()())
    copy(stream, x, y);
}

void IndexWrite::run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices,
                     const Tensor& table, const Tensor& workspace) const {
  if (nest_.count == 0 || table.numel() == 0) return;
  if (sorted_) return run_sorted(stream, dense, indices, table, workspace);
  Launch launch(stream, columns_kernel_);
  launch.arg(dense).arg(table);
  bind_nest(launch, nest_, indices, p_, w_);
  launch.arg(skip_);
  for (int64_t value : {walked_, columns_, chunk_}) bind_offset(launch, nest_.wide, value);
  launch.run({items_in_groups(ceil_div(columns_, chunk_), static_cast<int64_t>(local_[0]))}, {local_[0]});
}

void IndexWrite::run_sorted(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices,
                            const Tensor& table, const Tensor& workspace) const {
  const auto part = [&](size_t at) { return workspace_part(workspace, at, {walked_}, DType::i32); };
  const Tensor keys = part(keys_at_), values = part(values_at_), sorted_keys = part(sorted_keys_at_),
               sorted_values = part(sorted_values_at_);
  const auto outside = static_cast<uint32_t>(largest_key_ + 1);
  Launch make_keys(stream, keys_kernel_);
  make_keys.arg(keys).arg(values);
  bind_nest(make_keys, nest_, indices, p_, w_);
  make_keys.arg(skip_);
  for (int64_t value : {walked_, unit_}) bind_offset(make_keys, nest_.wide, value);
  make_keys.arg(outside).run({items_in_groups(walked_, 64)}, {64});
  sort_.run(stream, keys, values, sorted_keys, sorted_values,
            workspace_part(workspace, sort_at_, {static_cast<int64_t>(sort_.workspace_size())}, DType::u8));

  const Tensor parts = workspace_part(workspace, parts_at_, {2 * chunks_ * columns_}, accumulator_);
  const size_t down = items_in_groups(chunks_, static_cast<int64_t>(local_[1]));
  for (const Kernel* kernel : {&chunks_kernel_, &combine_kernel_}) {
    Launch launch(stream, *kernel);
    launch.arg(sorted_keys).arg(sorted_values).arg(dense).arg(table).arg(parts);
    bind_nest(launch, nest_, indices, p_, w_);
    launch.arg(static_cast<int>(walked_));
    bind_offset(launch, nest_.wide, columns_);
    launch.arg(static_cast<int>(rows_)).arg(static_cast<int>(chunks_));
    bind_offset(launch, nest_.wide, unit_);
    launch.arg(outside);
    launch.run({items_in_groups(columns_, static_cast<int64_t>(local_[0])), down}, {local_[0], local_[1]});
  }
}

}  // namespace dlprim::detail
