// Counting in bins of work-groups' own, and by integer atomics, which are exact in any order: histogram.cl.
// There are no atomics on floats that give the same bits twice: weights are added up in parts alone.
#include <algorithm>

#include "core/gen/expression.hpp"
#include "ops/reduce/histogram_impl.hpp"

namespace dlprim::detail {
namespace {

/// What both engines do: bins that are counted into, in the workspace, are added up.
struct Bins : HistogramImpl {
  Bins(const Context& context, const HistogramProblem& problem, bool wide, const Options& options)
      : p(problem), accumulator(problem.accumulator(wide)), defines(histogram_defines(problem, accumulator)) {
    x.emplace(context, p.x, layout);
    if (p.weights) weights.emplace(context, *p.weights, layout);
    if (p.from_data()) {
      const DType of_ends = p.whole() ? DType::i64 : p.x.dtype == DType::f64 ? DType::f64 : DType::f32;
      ends.emplace(context, EndsDesc{p.x, of_ends}, layout.rest(options));
      ends_at = layout.add(ends->workspace_size());
    }
    Defines last = defines;
    last.set("GROUP", 1).set("LOCAL_BINS", 0).set("COPIES", 1);
    finish = context.state().programs.kernel("histogram", "histogram_finish", last);
  }
  virtual void count(const Stream& stream, const Tensor& x, const Tensor& weights, const Tensor& ends,
                     const Tensor& bins) const = 0;

  void run(const Stream& stream, const HistogramTensors& t, const Tensor& workspace) const override {
    Tensor both;
    if (ends)
      both = ends->run(
          stream, t.x,
          workspace_part(workspace, ends_at, {static_cast<int64_t>(ends->workspace_size())}, DType::u8));
    const Tensor bins = workspace_part(workspace, bins_at, {parts * step}, accumulator);
    count(stream, x->of(stream, t.x, workspace),
          weights ? weights->of(stream, t.weights, workspace) : Tensor(), both, bins);
    Launch launch(stream, finish);
    launch.arg(bins).arg(static_cast<int>(parts)).arg(p.bins()).arg(step);
    launch.arg(t.y).arg(t.y.strides()[0]).run({items_in_groups(p.bins(), 64)}, {64});
  }
  /// Makes room for `parts_` times the bins.
  void take_bins(int64_t parts_, int64_t step_) {
    parts = parts_, step = step_;
    bins_at = layout.add(static_cast<size_t>(parts * step) * size_of(accumulator));
  }
  void bind_range(Launch& launch, const Tensor& both) const {
    if (!p.ranged) {
      launch.arg(0);
      return;
    }
    if (p.whole())
      launch.arg(static_cast<int64_t>(p.range.low)).arg(static_cast<int64_t>(p.range.high)).arg(both);
    else
      launch.real(p.x.dtype, p.range.low).real(p.x.dtype, p.range.high).arg(both);
  }

  HistogramProblem p;
  DType accumulator;
  Defines defines;
  std::optional<RowMajor> x, weights;
  std::optional<Ends> ends;
  Kernel counting, finish;
  int64_t parts = 1, step = 0;
  size_t ends_at = 0, bins_at = 0;
};

/// Weights are added up in f64, whatever they are: one after another, in f32 they lose digits.
struct Parts : Bins {
  Parts(const Context& context, const HistogramProblem& problem, const Options& options)
      : Bins(context, problem, context.device().probes().fp64, options) {
    const int bins = p.bins(), count = p.count();
    // Work-groups have enough to do to be worth bins of their own, which stay in the cache.
    const int64_t units = std::max(1, context.device().facts().compute_units);
    const int64_t groups = std::clamp<int64_t>(count / std::max(16384, bins), 1, 4 * units);
    chunk = static_cast<int>(ceil_div(std::max(count, 1), groups));
    const int64_t copies = bins <= 1024 ? 4 : 1;
    used = ceil_div(std::max(count, 1), chunk);
    take_bins(used * copies, bins + int64_t{1});
    defines.set("GROUP", 1).set("LOCAL_BINS", 0).set("COPIES", copies);
    counting = context.state().programs.kernel("histogram", "histogram_parts", defines);
  }
  void count(const Stream& stream, const Tensor& x_, const Tensor& weights_, const Tensor& both,
             const Tensor& bins) const override {
    Launch launch(stream, counting);
    launch.arg(x_).arg(weights_).arg(bins).arg(p.count()).arg(chunk).arg(p.bins());
    bind_range(launch, both);
    launch.run({static_cast<size_t>(used)}, {1});
  }

  int chunk = 1;
  int64_t used = 1;
};

struct Atomics : Bins {
  Atomics(const Context& context, const HistogramProblem& problem, const Options& options)
      : Bins(context, problem, false, options) {
    constexpr int kMostLocal = 8192, kCopied = 4096;  // bins in local memory: 32 KB; copies: 16 KB
    const DeviceFacts& facts = context.device().facts();
    const int bins = p.bins();
    group = std::min(256, std::max(1, facts.max_work_group));
    int local = 64;
    while (local < bins && local < kMostLocal) local *= 2;
    if (local < bins || static_cast<uint64_t>(local) * 4 > facts.local_memory) local = 0;
    const int copies = local ? std::clamp(kCopied / local, 1, 8) : 1;
    take_bins(1, bins);
    clear.emplace(context, FillDesc{TensorDesc({int64_t{bins}}, DType::i32)});
    defines.set("GROUP", std::max(2, group)).set("LOCAL_BINS", local).set("COPIES", copies);
    counting = context.state().programs.kernel("histogram", "histogram_count", defines);
    groups = std::clamp<int64_t>(ceil_div(p.count(), 16 * group), 1, 8LL * facts.compute_units);
  }
  void count(const Stream& stream, const Tensor& x_, const Tensor& /*weights*/, const Tensor& both,
             const Tensor& bins) const override {
    clear->run(stream, 0, bins);
    Launch launch(stream, counting);
    launch.arg(x_).arg(bins).arg(p.count()).arg(p.bins());
    bind_range(launch, both);
    launch.run({static_cast<size_t>(groups * group)}, {static_cast<size_t>(group)});
  }

  std::optional<Fill> clear;
  int group = 1;
  int64_t groups = 1;
};

template <class Made>
std::unique_ptr<const HistogramImpl> make(const Context& context, const HistogramProblem& p,
                                          const EngineOptions& options) {
  return std::make_unique<Made>(context, p, options);
}

}  // namespace

const HistogramEngine kHistogramParts{"parts", nullptr, make<Parts>};
const HistogramEngine kHistogramAtomics{"atomics", nullptr, make<Atomics>, avoid_on_cpus};

}  // namespace dlprim::detail
