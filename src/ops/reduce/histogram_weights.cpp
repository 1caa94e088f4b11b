// Counting with weights on GPUs: they are added exactly, as integers (histogram_exact.cl), or scattered by
// sorting.
#include <algorithm>

#include <dlprim/gather.hpp>

#include "core/gen/expression.hpp"
#include "ops/reduce/histogram_impl.hpp"

namespace dlprim::detail {
namespace {

struct Exact : HistogramImpl {
  static constexpr int64_t kMostBins = 1 << 20;  // of 136 bytes or 264

  Exact(const Context& context, const HistogramProblem& problem, const EngineOptions& options)
      : p(problem), x(context, p.x, layout), weights(context, *p.weights, layout) {
    const DeviceFacts& facts = context.device().facts();
    int bits = 16, halves = 0, narrow = 0;
    options.request.take("exact", {{"halves", &halves}, {"narrow", &narrow}});
    if (narrow || p.count() > 1 << 24) bits = 8, words = 33;
    while (group > facts.max_work_group) group /= 2;
    const int64_t rounded = round_up(p.bins(), 64);
    const bool local = static_cast<uint64_t>(rounded * words) * 8 <= facts.local_memory;
    sums_at = layout.add(static_cast<size_t>(sums()) * 8);
    clear.emplace(context, FillDesc{TensorDesc({sums()}, DType::i64)});
    Defines defines = histogram_defines(p, p.accumulator(false));
    defines.set("BITS", bits).set("GROUP", group).set("LOCAL_BINS", local ? rounded : 0);
    defines.set("HALVES", halves);
    const auto kernel = [&](const char* name) {
      return context.state().programs.kernel("histogram_exact", name, defines);
    };
    if (p.count() > 0) adding = kernel("histogram_exact_sums");
    finish = kernel("histogram_exact_finish");
    const int64_t most = 8LL * facts.compute_units;
    groups = std::clamp<int64_t>(ceil_div(p.count(), 16 * group), 1, most);
  }
  int64_t sums() const { return int64_t{p.bins()} * words; }

  void run(const Stream& stream, const HistogramTensors& t, const Tensor& workspace) const override {
    const Tensor all = workspace_part(workspace, sums_at, {sums()}, DType::i64);
    clear->run(stream, 0, all);
    if (p.count() > 0) {
      Launch launch(stream, adding);
      launch.arg(x.of(stream, t.x, workspace)).arg(weights.of(stream, t.weights, workspace));
      launch.arg(all).arg(p.count()).arg(p.bins());
      launch.run({static_cast<size_t>(groups * group)}, {static_cast<size_t>(group)});
    }
    Launch launch(stream, finish);
    launch.arg(all).arg(p.bins()).arg(t.y).arg(t.y.strides()[0]);
    launch.run({items_in_groups(p.bins(), 64)}, {64});
  }

  HistogramProblem p;
  RowMajor x, weights;
  std::optional<Fill> clear;
  Kernel adding, finish;
  int words = 17, group = 256;  ///< words: 64-bit integers of a bin
  int64_t groups = 1;
  size_t sums_at = 0;
};

std::string refuse_exact(const Context&, const HistogramProblem& p, const EngineOptions&) {
  if (p.accumulator(false) == DType::f64) return "takes no f64";
  if (p.bins() > Exact::kMostBins) return cat(p.bins(), " bins are more than ", Exact::kMostBins);
  return {};
}

struct Sorted : HistogramImpl {
  Sorted(const Context& context, const HistogramProblem& problem, const Options& options)
      : p(problem), weights(context, *p.weights, layout) {
    if (p.count() == 0) {
      zeros.emplace(context, FillDesc{p.y});
      return;
    }
    const TensorDesc places(p.x.shape, DType::i32), in_a_row(Shape{p.count()}, DType::i32);
    to_places.emplace(context, std::vector<TensorDesc>{p.x}, std::vector<TensorDesc>{places}, 1,
                      "y0 = x0 < 0 || x0 >= s0 ? s0 : x0");
    places_at = layout.add(static_cast<size_t>(p.count()) * 4);
    const bool aligned = weights.copies() || p.weights->aligned;
    const TensorDesc src(Shape{p.count()}, {1}, p.weights->dtype, aligned);
    scatter.emplace(context, ScatterDesc{{}, in_a_row, src, p.y, 0, {ScatterReduce::sum, true}},
                    layout.rest(options));
    scratch_at = layout.add(scatter->workspace_size());
  }
  void run(const Stream& stream, const HistogramTensors& t, const Tensor& workspace) const override {
    if (zeros) return zeros->run(stream, 0, t.y);
    const Tensor places = workspace_part(workspace, places_at, p.x.shape, DType::i32);
    to_places->run(stream, {t.x}, {places}, {static_cast<double>(p.bins())});
    const Tensor src = weights.of(stream, t.weights, workspace);
    scatter->run(stream, {}, places.as_strided({p.count()}, {1}), src.as_strided({p.count()}, {1}), t.y,
                 workspace_scratch(workspace, scratch_at, *scatter));
  }

  HistogramProblem p;
  RowMajor weights;
  std::optional<Pointwise> to_places;
  std::optional<Scatter> scatter;
  std::optional<Fill> zeros;  ///< where there is nothing to count
  size_t places_at = 0, scratch_at = 0;
};

template <class Made>
std::unique_ptr<const HistogramImpl> make(const Context& context, const HistogramProblem& p,
                                          const EngineOptions& options) {
  return std::make_unique<Made>(context, p, options);
}

}  // namespace

const HistogramEngine kHistogramExact{"exact", refuse_exact, make<Exact>, avoid_on_cpus};
const HistogramEngine kHistogramSorted{"sorted", nullptr, make<Sorted>, avoid_on_cpus};

}  // namespace dlprim::detail
