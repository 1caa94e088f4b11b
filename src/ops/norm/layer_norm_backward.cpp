// Layer and RMS normalisation, backward: a kernel that reads each row once, for dx and for the partial sums
// of dweight and dbias, and an engine of generated kernels for every strides.
#include <dlprim/layer_norm.hpp>
#include <dlprim/pointwise.hpp>

#include <algorithm>
#include <array>
#include <climits>

#include "core/gen/arguments.hpp"
#include "ops/norm/layer_norm_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<LayerNormBackwardDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

struct Problem {
  LayerNormBackwardDesc desc;
  Shape normalized;
  TensorDesc row;  ///< of mean and inv_std
  int64_t rows = 0, length = 0;
  DType real() const { return row.dtype; }
  bool center() const { return !desc.rms; }
  bool columns() const { return desc.dweight || desc.dbias; }
};

struct Tensors {
  Tensor dy, x, weight, mean, inv_std, dx, dweight, dbias, workspace;
};

/// dweight and dbias out of what a kernel added up, or out of dy and x.
class Columns {
 public:
  Columns() = default;
  /// Of the tensors.
  Columns(const Context& context, const Problem& p, const Options& options) {
    NamedInputs in;
    const std::string dy = in.add(p.desc.dy);
    std::vector<std::string> terms;
    if (p.desc.dweight) {
      x_ = true, center_ = p.center();
      const std::string x = in.add(p.desc.x), inv_std = in.add(p.row);
      const std::string apart = center_ ? cat("(", x, " - ", in.add(p.row), ")") : x;
      terms.push_back(cat(dy, " * (", apart, " * ", inv_std, ")"));
    }
    if (p.desc.dbias) terms.push_back(dy);
    make(context, p, in.descs, terms, options);
  }
  /// Of [kind][part][length] in the workspace.
  Columns(const Context& context, const Problem& p, int64_t parts, const Options& options) : parts_(parts) {
    if (parts > 1) part_.push_back(parts);
    for (int64_t size : p.normalized) part_.push_back(size);
    const int kinds = (p.desc.dweight ? 1 : 0) + (p.desc.dbias ? 1 : 0);
    std::vector<TensorDesc> inputs(static_cast<size_t>(kinds), TensorDesc(part_, p.real()));
    for (TensorDesc& part : inputs) part.aligned = false;
    std::vector<std::string> terms = {"x0", "x1"};
    terms.resize(inputs.size());
    make(context, p, inputs, terms, options);
  }

  size_t workspace_size() const { return reduce_ ? reduce_->workspace_size() : 0; }

  void run(const Stream& stream, const Tensors& t, size_t sums_at, size_t scratch_at, DType real) const {
    std::vector<Tensor> inputs, outputs;
    for (const Tensor* w : {&t.dweight, &t.dbias})
      if (w->defined()) outputs.push_back(*w);
    if (outputs[0].numel() == 0) return;
    if (parts_ > 0) {
      const size_t bytes = static_cast<size_t>(element_count(part_)) * size_of(real);
      for (size_t i = 0; i < outputs.size(); i++)
        inputs.push_back(workspace_part(t.workspace, sums_at + i * bytes, part_, real));
    } else {
      inputs = {t.dy};
      if (x_) inputs.insert(inputs.end(), {t.x, t.inv_std});
      if (center_) inputs.push_back(t.mean);
    }
    reduce_->run(stream, inputs, outputs, {}, workspace_scratch(t.workspace, scratch_at, *reduce_));
  }

 private:
  void make(const Context& context, const Problem& p, const std::vector<TensorDesc>& inputs,
            const std::vector<std::string>& terms, const Options& options) {
    std::vector<TensorDesc> outputs;
    for (const auto* w : {&p.desc.dweight, &p.desc.dbias})
      if (*w) outputs.push_back(**w);
    Reduction sums;
    sums.accumulators = static_cast<int>(terms.size());
    for (size_t i = 0; i < terms.size(); i++) {
      sums.init += cat("a", i, " = 0; ");
      sums.accumulate += cat("a", i, " += ", terms[i], "; ");
      sums.combine += cat("a", i, " += b", i, "; ");
      sums.finish += cat("y", i, " = a", i, "; ");
    }
    reduce_.emplace(context, inputs, outputs, 0, sums, options);
  }

  std::optional<Reduce> reduce_;
  bool x_ = false, center_ = false;
  int64_t parts_ = 0;
  Shape part_;
};

struct BackwardImpl : EngineImpl {
  virtual void run(const Stream& stream, const Tensors& t) const = 0;
};

// The row kernels: norm_rows_backward.cl and norm_rows_backward_cpu.cl.

struct Rows : BackwardImpl {
  Kernel kernel;
  Columns columns;
  bool cpu = false, fused = false, has_columns = false;
  DType real = DType::f32;
  int64_t dy_row = 0, x_row = 0, dx_row = 0, rows = 0, length = 0, chunk = 1, sums = 0;
  size_t groups = 0, local = 1, scratch_at = 0, size = 0;

  size_t workspace_size() const override { return size; }
  void run(const Stream& stream, const Tensors& t) const override {
    if (has_columns && !fused) columns.run(stream, t, 0, scratch_at, real);  // dx may take dy's place
    if (fused || t.dx.defined()) {
      Launch launch(stream, kernel);
      launch.arg(t.dy).arg(dy_row).arg(t.x).arg(x_row).arg(t.weight).arg(t.mean).arg(t.inv_std);
      launch.arg(t.dx).arg(dx_row).arg(workspace_part(t.workspace, 0, {sums}, real));
      launch.arg(static_cast<int>(rows)).arg(static_cast<int>(length));
      if (cpu) launch.arg(static_cast<int>(chunk));
      launch.run({groups * local}, {local});
    }
    if (fused) columns.run(stream, t, 0, scratch_at, real);
  }
};

/// Distances between the rows of dy, x and dx; none if they are no rows.
std::optional<std::array<int64_t, 3>> distances(const Problem& p) {
  const int split = p.desc.x.shape.size() - p.desc.axes;
  const auto dy = row_distance(p.desc.dy, split), x = row_distance(p.desc.x, split);
  const auto dx = p.desc.dx ? row_distance(*p.desc.dx, split) : std::optional<int64_t>(0);
  if (!dy || !x || !dx) return {};
  return std::array<int64_t, 3>{*dy, *x, *dx};
}

std::string refuse_rows(const Context&, const Problem& p, const Options&) {
  if (!distances(p)) return "dy, x or dx is not made of rows at equal distances";
  if (p.desc.weight && !is_row_major(*p.desc.weight)) return "weight has gaps";
  return too_many(p.rows, p.length);
}

Defines defines_of(const Problem& p, bool fused) {
  const LayerNormBackwardDesc& d = p.desc;
  Defines defines;
  define_dtype(defines, "X", d.x.dtype);
  define_dtype(defines, "Y", d.dy.dtype);
  define_dtype(defines, "W", d.weight ? d.weight->dtype : DType::f32);
  define_dtype(defines, "DX", d.dx ? d.dx->dtype : DType::f32);
  defines.set("REAL", compute_type(p.real())).set("CENTER", p.center()).set("WEIGHT", d.weight && d.dx);
  defines.set("DX", d.dx.has_value()).set("DWEIGHT", fused && d.dweight).set("DBIAS", fused && d.dbias);
  return defines;
}

std::unique_ptr<Rows> start(const Context& context, const Problem& p, bool fused) {
  require_real(context, p.real());
  auto impl = std::make_unique<Rows>();
  const auto between = *distances(p);
  impl->dy_row = between[0], impl->x_row = between[1], impl->dx_row = between[2];
  impl->rows = p.rows, impl->length = p.length, impl->real = p.real();
  impl->fused = fused;
  impl->has_columns = p.columns();
  return impl;
}

/// The second step, once `groups` says how many parts the first leaves behind.
void add_columns(Rows& impl, const Context& context, const Problem& p, const Options& options) {
  if (!impl.has_columns) return;
  WorkspaceParts parts;
  if (impl.fused) {
    impl.sums =
        static_cast<int64_t>(impl.groups) * p.length * ((p.desc.dweight ? 1 : 0) + (p.desc.dbias ? 1 : 0));
    parts.add(static_cast<size_t>(impl.sums) * size_of(p.real()));
    impl.columns = Columns(context, p, static_cast<int64_t>(impl.groups), parts.rest(options));
  } else {
    impl.columns = Columns(context, p, options);
  }
  impl.scratch_at = parts.add(impl.columns.workspace_size());
  impl.size = parts.size();
}

constexpr int kHeld = 16;        // elements of x, dy and both sums, each, in a GPU work-item's registers
constexpr int kHeldDoubles = 8;  // more of them do not stay there

/// With sums of columns a work-item needs up to 128 registers, which halves the largest group.
RowLanes lanes_of(const Context& context, const Problem& p, bool fused) {
  const LayerNormBackwardDesc& d = p.desc;
  const auto between = *distances(p);
  const int vector =
      row_vector(p.length, {&d.dy, &d.x, d.dx ? &*d.dx : nullptr, d.weight ? &*d.weight : nullptr},
                 {between[0], between[1], between[2]});
  return row_lanes(p.length, vector, p.real() == DType::f64 ? kHeldDoubles : kHeld,
                   std::min(context.device().facts().max_work_group, fused ? 512 : 1024));
}

std::string refuse_gpu(const Context& context, const Problem& p, const Options& options) {
  const std::string reason = refuse_rows(context, p, options);
  if (!reason.empty()) return reason;
  if (!lanes_of(context, p, !p.desc.dx).held) return cat("rows of ", p.length, " do not fit into registers");
  return {};
}

/// Parts of the columns' sums that are short enough, where `together` rows go to a part's lanes: a lane's sum
/// is of at most kLongest rows, unless the workspace has no room.
int64_t parts_for(const Problem& p, int64_t together, const Options& options) {
  constexpr int64_t kLongest = 128;
  const auto bytes = static_cast<size_t>(2 * p.length) * size_of(p.real());
  const auto room = static_cast<int64_t>(
      std::min<size_t>(options.workspace_limit / 2 / std::max<size_t>(bytes, 1), INT_MAX));
  return std::min(ceil_div(p.rows, kLongest * together), room);
}

std::unique_ptr<const BackwardImpl> make_gpu(const Context& context, const Problem& p,
                                             const Options& options) {
  const bool fused = p.columns() && lanes_of(context, p, true).held;
  auto impl = start(context, p, fused);
  const RowLanes form = lanes_of(context, p, fused);
  Defines defines = defines_of(p, fused);
  defines.set("LX", form.lanes).set("LY", form.together).set("V", form.vector).set("U", form.unroll);
  defines.set("SUMMED", cat(compute_type(p.real()), 2));
  impl->kernel = context.state().programs.kernel("norm_rows_backward", "norm_rows_backward", defines);
  impl->local = static_cast<size_t>(form.lanes) * static_cast<size_t>(form.together);
  int64_t groups = ceil_div(p.rows, form.together);
  // Groups that keep the memory busy; each leaves a part behind.
  constexpr int64_t kItemsPerUnit = 1024;
  if (fused) {
    const int64_t busy =
        context.device().facts().compute_units * kItemsPerUnit / static_cast<int64_t>(impl->local);
    groups =
        std::clamp<int64_t>(groups, 1, std::max<int64_t>({busy, parts_for(p, form.together, options), 1}));
  }
  impl->groups = static_cast<size_t>(groups);
  add_columns(*impl, context, p, options);
  return impl;
}

std::unique_ptr<const BackwardImpl> make_cpu(const Context& context, const Problem& p,
                                             const Options& options) {
  constexpr int kChunksPerUnit = 4;
  auto impl = start(context, p, p.columns());
  impl->cpu = true;
  impl->kernel = context.state().programs.kernel("norm_rows_backward_cpu", "norm_rows_backward",
                                                 defines_of(p, impl->fused));
  const int64_t parts = std::max<int64_t>(context.device().facts().compute_units * kChunksPerUnit,
                                          impl->fused ? parts_for(p, 1, options) : 0);
  impl->chunk = std::max<int64_t>(ceil_div(p.rows, parts), 1);
  impl->groups = static_cast<size_t>(std::max<int64_t>(ceil_div(p.rows, impl->chunk), impl->fused ? 1 : 0));
  add_columns(*impl, context, p, options);
  return impl;
}

// Generated kernels: sums of each row, then dx; sums of columns.

struct Generated : BackwardImpl {
  std::optional<Reduce> sums;
  std::optional<Pointwise> finish;
  std::optional<Columns> columns;
  TensorDesc row;
  bool center = true, weight = false;
  double share = 0;
  size_t level_at = 0, slope_at = 0, scratch_at = 0, size = 0;

  size_t workspace_size() const override { return size; }
  void run(const Stream& stream, const Tensors& t) const override {
    if (columns) columns->run(stream, t, 0, scratch_at, row.dtype);  // before dx, which may take dy's place
    if (!finish || t.dx.numel() == 0) return;
    const Tensor level = center ? workspace_part(t.workspace, level_at, row.shape, row.dtype) : Tensor();
    const Tensor slope = workspace_part(t.workspace, slope_at, row.shape, row.dtype);
    std::vector<Tensor> inputs = {t.dy, t.x, t.inv_std}, outputs = {slope};
    if (center) inputs.push_back(t.mean), outputs.push_back(level);
    if (weight) inputs.push_back(t.weight);
    sums->run(stream, inputs, outputs, {share}, workspace_scratch(t.workspace, scratch_at, *sums));
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    finish->run(stream, inputs, {t.dx}, {});
  }
};

std::unique_ptr<const BackwardImpl> make_generated(const Context& context, const Problem& p,
                                                   const Options& options) {
  auto impl = std::make_unique<Generated>();
  const LayerNormBackwardDesc& d = p.desc;
  impl->row = p.row;
  impl->center = p.center();
  impl->weight = d.weight.has_value();
  impl->share = 1 / static_cast<double>(std::max<int64_t>(p.length, 1));
  WorkspaceParts parts;
  if (d.dx) {
    const auto bytes = static_cast<size_t>(traffic({p.row}));
    impl->slope_at = parts.add(bytes), impl->level_at = parts.add(p.center() ? bytes : 0);
  }
  const Options rest = parts.rest(options);
  size_t scratch = 0;
  if (p.columns()) {
    impl->columns.emplace(context, p, rest);
    scratch = impl->columns->workspace_size();
  }
  if (d.dx) {
    NamedInputs in;
    std::string g = in.add(d.dy), normal = in.add(d.x);
    const std::string inv_std = in.add(p.row);
    if (p.center()) normal = cat("(", normal, " - ", in.add(p.row), ")");
    normal = cat("(", normal, " * ", inv_std, ")");
    if (d.weight) g = cat("(", g, " * ", in.add(*d.weight), ")");
    Reduction sums;
    sums.accumulators = p.center() ? 2 : 1;
    sums.init = "a0 = 0", sums.combine = "a0 += b0", sums.finish = "y0 = s0 * a0";
    sums.accumulate = cat("a0 += ", g, " * ", normal);
    std::vector<TensorDesc> outputs = {TensorDesc(p.row.shape, p.real())};
    if (p.center()) {
      sums.init += "; a1 = 0", sums.combine += "; a1 += b1", sums.finish += "; y1 = s0 * a1";
      sums.accumulate += cat("; a1 += ", g);
      outputs.push_back(outputs[0]);
    }
    impl->sums.emplace(context, in.descs, outputs, 1, sums, rest);
    scratch = std::max(scratch, impl->sums->workspace_size());
    const std::string slope = in.add(outputs[0]), level = p.center() ? " - " + in.add(outputs[0]) : "";
    impl->finish.emplace(context, in.descs, std::vector<TensorDesc>{*d.dx}, 0,
                         cat("y0 = ", inv_std, " * (", g, level, " - ", normal, " * ", slope, ")"));
  }
  impl->scratch_at = parts.add(scratch);
  impl->size = parts.size();
  return impl;
}

Problem check(const LayerNormBackwardDesc& d) {
  require_floating("dy", d.dy, true);
  require_floating("x", d.x, true);
  require_shape("dy", d.dy, d.x.shape);
  Problem p;
  p.desc = d;
  p.normalized = normalized_shape(d.x.shape, d.axes);
  require_affine("weight", d.weight, p.normalized);
  require_affine("dweight", d.dweight, p.normalized);
  require_affine("dbias", d.dbias, p.normalized);
  require_affine("dx", d.dx, d.x.shape);
  require(d.dx || d.dweight || d.dbias, "dx", "no gradient is wanted");
  if (d.dx) require_writable("dx", *d.dx);
  if (d.dweight) require_writable("dweight", *d.dweight);
  if (d.dbias) require_writable("dbias", *d.dbias);
  const bool wide = d.x.dtype == DType::f64 || d.dy.dtype == DType::f64;
  p.row = TensorDesc(statistics_shape(d.x.shape, d.axes), wide ? DType::f64 : DType::f32);
  p.row.aligned = false;  // the caller's may be views
  p.rows = element_count(p.row.shape);
  p.length = element_count(p.normalized);
  return p;
}

}  // namespace

struct LayerNormBackward::Impl {
  std::shared_ptr<const BackwardImpl> engine;
  TensorDesc statistics;
};

LayerNormBackward::LayerNormBackward(const Context& context, const LayerNormBackwardDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  const Problem p = check(desc);
  const Engine<Problem, BackwardImpl> gpu = {"rows", refuse_gpu, make_gpu},
                                      cpu = {"cpu", refuse_rows, make_cpu};
  const Engine<Problem, BackwardImpl> generated = {
      "generated", [](const Context&, const Problem&, const Options&) { return std::string(); },
      make_generated};
  std::vector<Engine<Problem, BackwardImpl>> engines = {gpu, cpu, generated};
  // The CPU's kernel would leave a GPU idle, and is not chosen there.
  engines = context.device().kind() == DeviceKind::cpu ? decltype(engines){cpu, generated, gpu}
                                                       : decltype(engines){gpu, generated, cpu};
  PlanInfo made;
  const char* op = desc.rms ? "rms_norm_backward" : "layer_norm_backward";
  auto impl = std::make_shared<Impl>();
  impl->engine = choose_engine(op, engines, context, p, options, made);
  impl->statistics = p.row;
  made.text =
      cat("op=", op, " engine=", made.engine, " dy=", brief(desc.dy), " x=", brief(desc.x),
          " weight=", desc.weight.has_value(), " dx=", desc.dx.has_value(),
          " dweight=", desc.dweight.has_value(), " dbias=", desc.dbias.has_value(), " axes=", desc.axes);
  made.flops = 12 * static_cast<double>(element_count(desc.x.shape));
  made.bytes = traffic({desc.dy, desc.x}) + (desc.dx ? traffic({*desc.dx}) : 0);
  info_ = std::make_shared<const PlanInfo>(std::move(made));
  impl_ = std::move(impl);
}

void LayerNormBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& dx,
                            const Tensor& dweight, const Tensor& dbias, const Tensor& workspace) const {
  require_stream(*info_, stream);
  const Context& context = stream.context();
  require_tensor("dy", dy, context, desc_.dy);
  require_tensor("x", x, context, desc_.x);
  require_optional("weight", weight, context, desc_.weight);
  require_optional("mean", mean, context, desc_.rms ? std::nullopt : std::make_optional(impl_->statistics));
  require_tensor("inv_std", inv_std, context, impl_->statistics);
  require_optional("dx", dx, context, desc_.dx);
  require_optional("dweight", dweight, context, desc_.dweight);
  require_optional("dbias", dbias, context, desc_.dbias);
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_apart({{"dx", dx}, {"dweight", dweight}, {"dbias", dbias}, {"workspace", workspace}},
                {{"x", x}, {"weight", weight}, {"mean", mean}, {"inv_std", inv_std}});
  require_apart({{"dweight", dweight}, {"dbias", dbias}, {"workspace", workspace}}, {{"dy", dy}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->engine->run(stream, {dy, x, weight, mean, inv_std, dx, dweight, dbias, space});
}

namespace {

void backward(const Stream& stream, const Tensors& t, int axes, bool rms, const Options& options) {
  require_defined({{"dy", t.dy}, {"x", t.x}, {"inv_std", t.inv_std}});
  const LayerNormBackwardDesc desc{
      t.dy, t.x, described(t.weight), described(t.dx), described(t.dweight), described(t.dbias), axes, rms};
  cached_plan<LayerNormBackward>(stream, "layer_norm_backward", desc, options, t.workspace)
      ->run(stream, t.dy, t.x, t.weight, t.mean, t.inv_std, t.dx, t.dweight, t.dbias, t.workspace);
}

}  // namespace

void layer_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& inv_std, int axes, const Tensor& dx,
                         const Tensor& dweight, const Tensor& dbias, const Options& options,
                         const Tensor& workspace) {
  backward(stream, {dy, x, weight, mean, inv_std, dx, dweight, dbias, workspace}, axes, false, options);
}

void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       const Tensor& inv_std, int axes, const Tensor& dx, const Tensor& dweight,
                       const Options& options, const Tensor& workspace) {
  backward(stream, {dy, x, weight, {}, inv_std, dx, dweight, {}, workspace}, axes, true, options);
}

}  // namespace dlprim
