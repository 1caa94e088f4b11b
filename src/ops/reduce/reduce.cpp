// Reductions: validation, the GPU and the CPU engine, the usual accumulators, the call.
#include <algorithm>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/engines.hpp"
#include "core/gen/expression_check.hpp"
#include "core/gen/reduce.hpp"

namespace dlprim {

using namespace detail;

struct Reduce::Impl : EngineImpl {
  Kernel kernel, parts_kernel;
  GeneratedArguments arguments;
  size_t workspace = 0, part_bytes = 0;
  size_t accumulated = 0;  ///< inputs; the others are for `finish`
  int64_t kept = 0, reduced = 0;
  int64_t parts = 1, part = 0;  ///< how many, and reduced elements in each
  int64_t chunk = 0;            ///< outputs a work-item (CPU), or blocks of them
  bool cpu = false;
  DType slot = DType::f32;  ///< as wide as an accumulator in the workspace
  size_t groups = 0, local = 1;
  size_t parts_lanes = 1, parts_rows = 1;
  std::string form_text;  ///< GPU: the kernel's form, for the log and for tests

  size_t workspace_size() const override { return workspace; }
};

namespace {

using Problem = GeneratedProblem<ReduceForm>;

/// The inputs that `accumulate` reads.
std::vector<TensorDesc> accumulated(const Problem& p) {
  return {p.inputs.begin(), p.inputs.end() - p.form.reduction.finishing};
}

/// Inputs behind those are for `finish`.
void mark_finishing(Problem& p) {
  for (size_t i = accumulated(p).size(); i < p.inputs.size(); i++) {
    p.form.operands[i].finishing = true;
    for (const LoopDim& d : p.nest.reduced)
      require(d.strides[i] == 0, ArgName("inputs", i), "shape ", p.inputs[i].shape,
              " has more than an element for an output, though finish reads it");
  }
}

constexpr int kGroupsPerUnit = 8;   // GPU work-groups a compute unit that keep its memory busy
constexpr int kShortRounds = 2;     // of a lane's accesses, up to which it had better have its outputs alone
constexpr int kChunksPerUnit = 4;   // CPU work-groups a compute unit, so that uneven ones balance
constexpr int64_t kCpuPart = 4096;  // reduced elements that are worth a CPU work-group
constexpr int kCpuLanes = 16, kCpuBlock = 32;
constexpr int kGpuLevels = 2, kCpuLevels = 4;  // highest levels have blocks of 2^12 and 2^21 elements a lane
// Reduced elements up to which a CPU's lanes have an output each, gaps or not; and from which on more lanes
// hide the time that an addition takes.
constexpr int64_t kCpuShort = 16, kCpuLong = 512;

/// Splits the reduced elements into parts of a multiple of `unit`, so that about `groups` work-groups exist
/// where `blocks` do already, and the parts' accumulators stay within `limit` bytes.
void split_into_parts(Reduce::Impl& impl, int64_t blocks, int64_t groups, int64_t unit, size_t limit) {
  const int64_t wanted = ceil_div(groups, std::max<int64_t>(blocks, 1));
  const auto room =
      static_cast<int64_t>(std::min<size_t>(limit / std::max<size_t>(impl.part_bytes, 1), INT64_MAX));
  const int64_t most = std::max<int64_t>(std::min(impl.reduced / unit, room), 1);
  impl.part =
      round_up(ceil_div(std::max<int64_t>(impl.reduced, 1), std::clamp<int64_t>(wanted, 1, most)), unit);
  impl.parts = std::max<int64_t>(ceil_div(impl.reduced, impl.part), 1);
}

/// Levels for a lane whose accumulators would take `count` elements in a row: the highest may take any number
/// of blocks, so that a few serve all. Whole numbers do without.
int levels_for(const ReduceForm& form, int64_t count, int most) {
  constexpr int64_t kLongest = 128;
  return !is_floating(form.real) || count <= kLongest ? 0 : most;
}

/// The kernels and arguments, once form and parts are settled.
void finish_impl(Reduce::Impl& impl, const Context& context, const Problem& p, ReduceForm& form) {
  ProgramCache& programs = context.state().programs;
  form.parts = impl.parts > 1;
  form.whole_outputs &= !form.parts;
  const PlanKey key = PlanKey(impl.cpu ? "reduce_cpu" : "reduce").add(form);
  const Reduction& r = form.reduction;
  const std::vector<ExpressionText> expressions = {
      {"accumulate", r.accumulate}, {"finish", r.finish}, {"combine", r.combine}, {"init", r.init}};
  impl.kernel = compiled_expression(
      programs, "reduce", key.bytes(),
      [&] { return impl.cpu ? reduce_cpu_source(form) : reduce_source(form); }, "reduce", expressions);
  if (form.parts) {
    const auto lanes = static_cast<int>(impl.parts_lanes), rows = static_cast<int>(impl.parts_rows);
    impl.parts_kernel = compiled_expression(
        programs, "reduce_parts", PlanKey("reduce_parts").add(form).add(lanes).add(rows).bytes(),
        [&] { return reduce_parts_source(form, lanes, rows); }, "reduce_parts", expressions);
    impl.workspace = static_cast<size_t>(impl.parts) * impl.part_bytes;
  }
  impl.arguments =
      GeneratedArguments(p.inputs, p.outputs, form.scalars, form.real, p.nest, form.reduction.indexed ? 1 : 0,
                         static_cast<size_t>(form.reduction.finishing));
}

std::unique_ptr<Reduce::Impl> start_impl(const Problem& p, bool cpu) {
  auto impl = std::make_unique<Reduce::Impl>();
  impl->accumulated = accumulated(p).size();
  impl->kept = p.nest.kept_count;
  impl->reduced = p.nest.reduced_count;
  impl->slot = slot_bytes(p.form) == 8 ? DType::i64 : DType::f32;
  impl->part_bytes = static_cast<size_t>(impl->kept * p.form.reduction.accumulators) * slot_bytes(p.form);
  impl->cpu = cpu;
  return impl;
}

/// Neighbouring outputs of a lane: their accumulators meet in at most 16 KB of local memory.
int most_outputs(const ReduceForm& form) {
  constexpr uint64_t kMostBytes = 16384 / kGpuGroup;
  for (const int outputs : {8, 4})
    if (static_cast<uint64_t>(outputs * form.reduction.accumulators) * slot_bytes(form) <= kMostBytes)
      return outputs;
  return 1;
}

/// True if a lane's outputs lie side by side in every output: vector_width() says nothing about tensors that
/// step otherwise, as it leaves them to single accesses.
bool outputs_are_neighbours(const std::vector<Operand>& operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const Operand& o) { return !o.output || o.kept == InnerStride::one; });
}

std::unique_ptr<const Reduce::Impl> make_gpu(const Context& context, const Problem& p,
                                             const EngineOptions& options) {
  auto impl = start_impl(p, false);
  ReduceForm form = p.form;
  form.along_reduced = p.nest.reduced_innermost || p.nest.kept.empty();
  form.vector = vector_width(p.form.operands, accumulated(p), p.nest, form.along_reduced);
  if (!form.along_reduced) form.vector = std::min(form.vector, most_outputs(form));
  form.unroll = 4;
  const int64_t target = int64_t{context.device().facts().compute_units} * kGroupsPerUnit;
  if (form.along_reduced) {
    // As few lanes an output as leave each with several accesses in flight: more outputs a group, fewer
    // barriers.
    const int64_t accesses = ceil_div(impl->reduced, form.vector * form.unroll);
    form.lanes_x = accesses >= 256 ? 256 : accesses >= 64 ? 64 : 16;
  } else {
    // As many neighbouring outputs a group as leave enough groups; 16 accesses in a row suit the memory.
    const auto groups_of = [&](int lanes) { return ceil_div(impl->kept, int64_t{lanes} * form.vector); };
    form.lanes_x = 64;
    while (form.lanes_x > 16 && groups_of(form.lanes_x) < target) form.lanes_x /= 2;
    while (form.lanes_x > 8 && groups_of(form.lanes_x / 2) == 1) form.lanes_x /= 2;
    // Few reduced elements: lanes that share outputs would have less to read than their barriers take.
    const auto rounds_of = [&](int lanes) {
      return ceil_div(impl->reduced * lanes, kGpuGroup * form.unroll);
    };
    while (form.lanes_x < kGpuGroup && rounds_of(2 * form.lanes_x) <= kShortRounds &&
           groups_of(2 * form.lanes_x) >= target)
      form.lanes_x *= 2;
    form.whole_outputs = form.vector > 1 && !form.reduction.indexed &&
                         outputs_are_neighbours(form.operands) &&
                         vector_width(p.form.operands, p.tensors(), p.nest, false) >= form.vector;
  }
  form.lanes_y = kGpuGroup / form.lanes_x;
  const int share = form.along_reduced ? form.lanes_x : form.lanes_y;
  const int64_t blocks = ceil_div(impl->kept, form.along_reduced ? form.lanes_y : form.lanes_x * form.vector);
  const int run = form.along_reduced ? form.vector : 1;
  split_into_parts(*impl, blocks, target, int64_t{share} * run * form.unroll, options.workspace_limit);
  form.levels = levels_for(form, ceil_div(std::min(impl->part, impl->reduced), share), kGpuLevels);
  // Many outputs' parts are added up by an item each, neighbouring outputs side by side. Of few outputs many
  // parts are shared by a whole group: combining some accumulators takes half a microsecond.
  constexpr int64_t kManyParts = 128;
  const bool few = impl->kept < kGpuGroup * int64_t{context.device().facts().compute_units};
  impl->parts_lanes = !few ? 1 : impl->parts > kManyParts ? kGpuGroup : 32;
  impl->parts_rows = kGpuGroup / impl->parts_lanes;
  impl->local = kGpuGroup;
  impl->groups = static_cast<size_t>(blocks);
  finish_impl(*impl, context, p, form);
  impl->form_text =
      cat(" along=", form.along_reduced ? "reduced" : "kept", " vector=", form.vector,
          " lanes=", form.lanes_x, 'x', form.lanes_y, " whole=", form.whole_outputs, " parts=", impl->parts);
  return impl;
}

/// How many neighbouring outputs a CPU's lanes have: of many so many that the inputs' largest elements are
/// 256 bytes, as short loops cost more than what they do.
int cpu_block(const ReduceForm& form, int64_t outputs) {
  if (outputs < 4 * kCpuBlock) return kCpuBlock;
  size_t size = 2;
  for (const Operand& o : form.operands)
    if (!o.output && !o.place) size = std::max(size, size_of(o.dtype));
  return 256 / static_cast<int>(size);
}

/// Elements of a part that the first of a CPU's lanes takes.
int64_t longest_chain(const Problem& p, const ReduceForm& form, int64_t part) {
  part = std::max<int64_t>(std::min(part, p.nest.reduced_count), 1);
  if (!form.along_reduced || p.nest.reduced.empty()) return part;
  const int64_t run = std::clamp<int64_t>(p.nest.reduced.back().size, 1, part);
  return ceil_div(part, run) * ceil_div(run, form.lanes_x);
}

std::unique_ptr<const Reduce::Impl> make_cpu(const Context& context, const Problem& p,
                                             const EngineOptions& options) {
  auto impl = start_impl(p, true);
  ReduceForm form = p.form;
  form.along_reduced = p.nest.kept.empty();
  if (!form.along_reduced && p.nest.reduced_innermost)
    form.along_reduced = impl->reduced > kCpuShort || p.nest.kept.back().size < kCpuBlock;
  form.lanes_x = form.along_reduced ? kCpuLanes : cpu_block(form, p.nest.kept.back().size);
  if (form.along_reduced && impl->reduced >= kCpuLong && form.reduction.accumulators == 1)
    form.lanes_x = 4 * kCpuLanes;
  const int64_t groups = int64_t{context.device().facts().compute_units} * kChunksPerUnit;
  int64_t blocks = impl->kept;
  if (form.along_reduced) {
    impl->chunk =
        std::max(ceil_div(impl->kept, groups), std::min(impl->kept, kCpuPart / (impl->reduced + 1) + 1));
    blocks = impl->chunk ? ceil_div(impl->kept, impl->chunk) : 0;
  } else {
    const int64_t inner = p.nest.kept.back().size;
    const int64_t lanes = form.lanes_x;
    blocks = inner ? impl->kept / inner * ceil_div(inner, lanes) : 0;
    impl->chunk =
        std::max(ceil_div(blocks, groups), std::min(blocks, kCpuPart / ((impl->reduced + 1) * lanes) + 1));
    blocks = impl->chunk ? ceil_div(blocks, impl->chunk) : 0;
  }
  split_into_parts(*impl, blocks, groups, kCpuPart, options.workspace_limit);
  form.levels = levels_for(form, longest_chain(p, form, impl->part), kCpuLevels);
  impl->groups = static_cast<size_t>(blocks);
  finish_impl(*impl, context, p, form);
  return impl;
}

/// A tensor of the inputs' common shape whose elements have their index among the reduced ones as offset.
TensorDesc places(const std::vector<TensorDesc>& inputs, const TensorDesc& y) {
  TensorDesc result(y.shape);
  for (size_t i = 0; i < inputs.size(); i++) {
    try {
      result.shape = broadcast_shapes(result.shape, inputs[i].shape);
    } catch (const ValidationError& error) {
      throw renamed(error, ArgName("inputs", i));
    }
  }
  result.strides = contiguous_strides(result.shape);
  int64_t stride = 1;
  for (int d = result.shape.size() - 1; d >= 0; d--) {
    const int at = d - (result.shape.size() - y.shape.size());
    const bool reduced = at < 0 || y.shape[at] != result.shape[d];
    result.strides[d] = reduced ? stride : 0;
    if (reduced) stride *= std::max<int64_t>(result.shape[d], 1);
  }
  return result;
}

/// The dtype whose lowest and highest numbers every output can hold: what a maximum or minimum of nothing is.
DType narrowest(const std::vector<TensorDesc>& outputs) {
  DType least = DType::i64;
  for (const TensorDesc& y : outputs)
    if (size_of(y.dtype) < size_of(least) || (y.dtype == DType::u64 && least == DType::i64)) least = y.dtype;
  return least;
}

constexpr auto kGpu = generated_gpu<Problem, Reduce::Impl>(make_gpu);
constexpr auto kCpu = generated_cpu<Problem, Reduce::Impl>(make_cpu);
constexpr EngineList<Problem, Reduce::Impl> kEngines = {&kGpu, &kCpu};

}  // namespace

Reduction sum_of(const std::string& element, const std::string& finish) {
  return {1, "a0 = 0", "a0 += " + element, "a0 += b0", finish};
}

Reduction max_of(const std::string& element, const std::string& finish) {
  // A comparison with NaN is false, so "not at most" takes NaN in; once in, it stays.
  return {1, "a0 = REAL_LOWEST", "const real v_ = " + element + "; a0 = a0 != a0 || v_ <= a0 ? a0 : v_",
          "a0 = a0 != a0 || b0 <= a0 ? a0 : b0", finish};
}

Reduction min_of(const std::string& element, const std::string& finish) {
  return {1, "a0 = REAL_HIGHEST", "const real v_ = " + element + "; a0 = a0 != a0 || v_ >= a0 ? a0 : v_",
          "a0 = a0 != a0 || b0 >= a0 ? a0 : b0", finish};
}

Reduction welford(const std::string& element, const std::string& finish) {
  // Chan, Golub and LeVeque's pairwise update; counts are exact up to 2^24 in float, and an empty part adds
  // nothing, also where d_ * d_ is infinite.
  return {3, "a0 = 0; a1 = 0; a2 = 0",
          "const real v_ = " + element +
              "; const real d_ = v_ - a1; a0 += 1; a1 += d_ / a0; a2 += d_ * (v_ - a1)",
          "const real n_ = a0 + b0; const real d_ = b1 - a1; const real w_ = n_ > 0 ? b0 / n_ : 0; "
          "a2 += b2 + d_ * w_ * (d_ * a0); a1 += d_ * w_; a0 = n_",
          finish};
}

namespace {

/// Each expression of a reduction has names of its own.
void check_expressions(const Reduction& r, size_t inputs, size_t outputs, int scalars) {
  const auto accumulated = inputs - static_cast<size_t>(r.finishing);
  const ExpressionNames s{'s', 0, static_cast<size_t>(std::max(scalars, 0)), "scalar"},
      a{'a', 0, static_cast<size_t>(r.accumulators), "accumulator"};
  check_expression("init", r.init, {a}, false);
  check_expression("accumulate", r.accumulate, {{'x', 0, accumulated, "input"}, a, s}, false);
  check_expression("combine", r.combine,
                   {a, {'b', 0, static_cast<size_t>(r.accumulators), "partial accumulator"}}, false);
  check_expression("finish", r.finish,
                   {{'x', accumulated, static_cast<size_t>(r.finishing), "finishing input"},
                    {'y', 0, outputs, "output"},
                    a,
                    s},
                   true);
}

}  // namespace

Reduce::Reduce(const Context& context, const std::vector<TensorDesc>& inputs,
               const std::vector<TensorDesc>& outputs, int scalars, const Reduction& reduction,
               const Options& options)
    : Plan(nullptr) {
  require(!inputs.empty(), "inputs", "there is none");
  require(reduction.accumulators >= 1 && reduction.accumulators <= 8, "reduction", reduction.accumulators,
          " accumulators, must be 1 to 8");
  require(reduction.counts >= 0 && reduction.counts <= reduction.accumulators, "reduction", reduction.counts,
          " of ", reduction.accumulators, " accumulators count");
  const int most = reduction.indexed ? 0 : static_cast<int>(inputs.size()) - 1;
  require(reduction.finishing >= 0 && reduction.finishing <= most, "reduction", reduction.finishing, " of ",
          inputs.size(), " inputs are for finish, must be 0 to ", most);
  check_expressions(reduction, inputs.size(), outputs.size(), scalars);
  std::vector<TensorDesc> read = inputs;
  if (reduction.indexed && !outputs.empty()) read.push_back(places(inputs, outputs[0]));
  Problem p{inputs, outputs, make_loop_nest(read, outputs, true), {}};
  p.form.operands = make_operands(read, outputs, p.nest);
  if (reduction.indexed) p.form.operands[inputs.size()].place = true;
  p.form.scalars = scalars;
  p.form.reduction = reduction;
  mark_finishing(p);
  p.form.real = real_type(inputs, outputs);
  p.form.kept_rank = p.nest.kept.size();
  p.form.reduced_rank = p.nest.reduced.size();
  p.form.wide = p.nest.wide;
  if (p.form.real == DType::u64) p.form.limits = DType::u64;
  if (p.nest.reduced_count == 0) p.form.limits = narrowest(outputs);
  require_real(context, p.form.real);
  for (size_t i = 0; i < outputs.size(); i++) require_writable(ArgName("outputs", i), outputs[i]);
  auto info = std::make_shared<PlanInfo>();
  impl_ = choose_engine("reduce", kEngines, context, p, options, *info);
  info->text = cat("op=reduce engine=", info->engine,
                   generated_text(inputs, outputs, "accumulate", reduction.accumulate), impl_->form_text);
  info->bytes = traffic(inputs) + traffic(outputs);
  info_ = info;
}

void Reduce::run(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const std::vector<Scalar>& scalars, const Tensor& workspace) const {
  const Impl& impl = *impl_;
  require_stream(*info_, stream);
  impl.arguments.check(stream, inputs, outputs, scalars);
  for (size_t i = 0; i < outputs.size(); i++)
    for (size_t j = 0; j < inputs.size(); j++)
      if (j < impl.accumulated)
        require_no_overlap(ArgName("outputs", i), outputs[i], ArgName("inputs", j), inputs[j]);
      else
        require_elementwise_alias(outputs[i], i, inputs[j], j);
  for (size_t i = 0; i < outputs.size(); i++)
    require_no_overlap("workspace", workspace, ArgName("outputs", i), outputs[i]);
  for (size_t j = 0; j < inputs.size(); j++)
    require_no_overlap("workspace", workspace, ArgName("inputs", j), inputs[j]);
  if (impl.kept == 0) return;
  Tensor ws = workspace_for(*info_, stream, workspace);
  if (ws.defined()) ws = ws.reinterpret(impl.slot);

  OperatorScope scope(stream, *info_);
  {
    Launch launch(stream, impl.kernel);
    impl.arguments.bind(launch, inputs, outputs, scalars);
    launch.arg(ws);
    for (int64_t n : {impl.kept, impl.reduced, impl.part}) impl.arguments.bind_index(launch, n);
    if (impl.cpu) impl.arguments.bind_index(launch, impl.chunk);
    launch.run({impl.groups * impl.local, static_cast<size_t>(impl.parts)}, {impl.local, 1});
  }
  if (impl.parts == 1) return;
  Launch launch(stream, impl.parts_kernel);
  impl.arguments.bind_finish(launch, inputs, outputs, scalars);
  launch.arg(ws);
  for (int64_t n : {impl.kept, impl.parts}) impl.arguments.bind_index(launch, n);
  const size_t local = impl.parts_lanes * impl.parts_rows;
  const auto groups = static_cast<size_t>(ceil_div(impl.kept, static_cast<int64_t>(impl.parts_rows)));
  launch.run({groups * local}, {local});
}

void reduce(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
            const std::vector<Scalar>& scalars, const Reduction& reduction, const Options& options,
            const Tensor& workspace) {
  PlanKey key("reduce");
  const auto [xs, ys] = describe_tensors(inputs, outputs, key);
  key.add(scalars.size()).add(reduction);
  const auto make = [&, &xs = xs, &ys = ys](const Options& within) {
    return Reduce(stream.context(), xs, ys, static_cast<int>(scalars.size()), reduction, within);
  };
  plan_under<Reduce>(stream, key, make, options, workspace)->run(stream, inputs, outputs, scalars, workspace);
}

}  // namespace dlprim
