// Resampling: tables of taps, the roles of axes, and the launches of resample.cl and resample_cpu.cl. Tables
// are made once, on the host, and live in a buffer of the plan.
#include "ops/resample/resample.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "core/gen/arguments.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/resample/resample.h"

namespace {

constexpr int kMapped = 3;        // axes that a pass maps at most
constexpr int64_t kNarrow = 4;    // taps that a kernel holds in registers
constexpr int64_t kProduct = 36;  // taps of an element above which axes are taken one by one

AxisTaps identity(int64_t size) {
  AxisTaps taps;
  taps.source_size = size;
  for (int64_t i = 0; i < size; i++) {
    taps.source.push_back(static_cast<int32_t>(i));
    taps.end_place();
  }
  return taps;
}

/// An axis as a pass sees it.
struct Axis {
  int64_t size = 1, x_size = 1, x_stride = 0, y_stride = 0;
  AxisTaps taps = identity(1);
};

/// A device buffer with `values`; of one element if there are none.
template <class T>
cl::Buffer buffer_of(const Context& context, std::vector<T> values) {
  if (values.empty()) values.push_back(T{});
  cl_int code = CL_SUCCESS;
  const cl_mem memory = clCreateBuffer(context.cl()(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                       values.size() * sizeof(T), values.data(), &code);
  cl_check(code, "clCreateBuffer");
  return cl::Buffer(memory);
}

/// The axes of a pass in their roles.
struct Roles {
  Axis mapped[kMapped];      // by steps in y, the smallest last
  Axis inner;                // not mapped, and neighbours in y
  std::vector<Axis> planes;  // the others, outermost first

  Roles(const TensorDesc& x, const TensorDesc& y, const std::vector<MappedAxis>& axes, int64_t lanes);
  int64_t count() const {
    int64_t product = 1;
    for (const Axis& axis : planes) product *= axis.size;
    return product;
  }

 private:
  void merge_planes();
  void widen_inner();
};

bool by_steps(const Axis& a, const Axis& b) {
  return a.y_stride > b.y_stride;
}

Roles::Roles(const TensorDesc& x, const TensorDesc& y, const std::vector<MappedAxis>& axes, int64_t lanes) {
  std::vector<Axis> along;
  for (int i = 0; i < y.shape.size(); i++) {
    Axis axis{y.shape[i], x.shape[i], x.strides[i], y.strides[i], identity(1)};
    const auto found =
        std::find_if(axes.begin(), axes.end(), [&](const MappedAxis& mapped) { return mapped.axis == i; });
    if (found != axes.end()) {
      axis.taps = found->taps;
      along.push_back(axis);
    } else if (axis.size > 1 && axis.y_stride == 1) {
      inner = axis;
    } else if (axis.size != 1) {
      planes.push_back(axis);
    }
  }
  std::stable_sort(planes.begin(), planes.end(), by_steps);
  merge_planes();
  widen_inner();
  const auto places = [&] {
    int64_t product = inner.size;
    for (const Axis& axis : along) product *= axis.size;
    return product;
  };
  // Few places: neighbours from another axis fill the lanes.
  while (along.size() < kMapped && !planes.empty() && places() < lanes && planes.back().size < 65536) {
    planes.back().taps = identity(planes.back().size);
    along.push_back(planes.back());
    planes.pop_back();
  }
  std::stable_sort(along.begin(), along.end(), by_steps);
  std::copy(along.rbegin(), along.rend(), std::make_reverse_iterator(mapped + kMapped));
  if (planes.empty()) planes.emplace_back();
}

void Roles::merge_planes() {
  std::vector<Axis> merged;
  for (const Axis& axis : planes) {
    if (!merged.empty() && merged.back().x_stride == axis.size * axis.x_stride &&
        merged.back().y_stride == axis.size * axis.y_stride) {
      const int64_t size = merged.back().size * axis.size;
      merged.back() = axis;
      merged.back().size = merged.back().x_size = size;
    } else {
      merged.push_back(axis);
    }
  }
  planes = merged;
}

/// Takes planes in whose elements lie behind each other; not all of them: a row of the CPU form is one
/// work-group's.
void Roles::widen_inner() {
  constexpr int64_t kEnough = 4096;
  while (inner.size > 1 && inner.size < kEnough && !planes.empty() && planes.back().y_stride == inner.size &&
         planes.back().x_stride == inner.size * inner.x_stride) {
    inner.size = inner.x_size = inner.size * planes.back().size;
    planes.pop_back();
  }
}

/// The taps of an axis in a kernel's order: with `narrow` places beside each other, tap by tap, -1 where
/// there is none; else where each place's begin, and all of them.
void put_taps(const AxisTaps& taps, bool narrow, std::vector<int32_t>& table, std::vector<double>& weights) {
  if (!narrow) {
    table.insert(table.end(), taps.first.begin(), taps.first.end());
    table.insert(table.end(), taps.source.begin(), taps.source.end());
    weights.insert(weights.end(), taps.weight.begin(), taps.weight.end());
    return;
  }
  const auto size = static_cast<size_t>(taps.size());
  for (int32_t k = 0; k < std::max<int64_t>(taps.width(), 1); k++)
    for (size_t o = 0; o < size; o++) {
      const int32_t at = taps.first[o] + k;
      const bool is = at < taps.first[o + 1];
      table.push_back(is ? taps.source[static_cast<size_t>(at)] : -1);
      if (!taps.weight.empty()) weights.push_back(is ? taps.weight[static_cast<size_t>(at)] : 0);
    }
}

/// The longest run of places with one tap each whose sources are neighbours as they are: [begin, end) from
/// `source` on.
struct Run {
  int32_t begin = 0, end = 0, source = 0;
  explicit Run(const AxisTaps& taps) {
    if (!taps.weight.empty()) return;
    const auto size = static_cast<int32_t>(taps.size());
    const auto at = [&](int32_t o) {
      const auto i = static_cast<size_t>(o);
      return taps.first[i] + 1 == taps.first[i + 1] ? taps.source[static_cast<size_t>(taps.first[i])] : -1;
    };
    for (int32_t o = 0; o < size;) {
      const int32_t start = o++;
      if (at(start) < 0) continue;
      while (o < size && at(o) == at(o - 1) + 1) o++;
      if (o - start > end - begin) begin = start, end = o, source = at(start);
    }
  }
};

}  // namespace

int64_t AxisTaps::width() const {
  int32_t most = 0;
  for (size_t o = 0; o + 1 < first.size(); o++) most = std::max(most, first[o + 1] - first[o]);
  return most;
}

bool AxisTaps::ragged() const {
  const int64_t most = width();
  for (size_t o = 0; o + 1 < first.size(); o++)
    if (first[o + 1] - first[o] != most) return true;
  return false;
}

AxisTaps transposed(const AxisTaps& taps) {
  struct Place {
    int32_t place;
    double weight;
  };
  std::vector<std::vector<Place>> places(static_cast<size_t>(taps.source_size));
  for (size_t o = 0; o + 1 < taps.first.size(); o++)
    for (auto k = static_cast<size_t>(taps.first[o]); k < static_cast<size_t>(taps.first[o + 1]); k++) {
      std::vector<Place>& of = places[static_cast<size_t>(taps.source[k])];
      const double weight = taps.weight.empty() ? 1 : taps.weight[k];
      // Several taps of a place may be one element, at a border.
      if (!of.empty() && of.back().place == static_cast<int32_t>(o))
        of.back().weight += weight;
      else
        of.push_back({static_cast<int32_t>(o), weight});
    }
  AxisTaps result;
  result.source_size = taps.size();
  for (const std::vector<Place>& of : places) {
    for (const Place& place : of) {
      result.source.push_back(place.place);
      if (!taps.weight.empty()) result.weight.push_back(place.weight);
    }
    result.end_place();
  }
  return result;
}

struct ResamplePass {
  /// Of i16 if elements of dtype `words` are moved as they are.
  ResamplePass(const Context& context, const TensorDesc& x, const TensorDesc& y,
               const std::vector<MappedAxis>& axes, bool cpu, std::optional<DType> words);
  void run(const Stream& stream, const Tensor& x, const Tensor& y, double fill, const Tensor& scratch) const;

  size_t scratch = 0;  ///< bytes
  DType real = DType::f32;

 private:
  void prepare_gpu(const Roles& roles);
  void prepare_cpu(const Roles& roles);

  Kernel kernel_;
  cl::Buffer table_, weights_, levels_;
  ResampleAxes axes_{};
  ResampleRows rows_{};  ///< of the CPU
  bool cpu_ = false;
  int vector_ = 1, planes_ = 1, count_ = 1;
  size_t global_[2] = {0, 0}, local_[2] = {1, 1};
};

namespace {

DType real_of(const TensorDesc& x, const TensorDesc& y) {
  if (x.dtype == DType::i16) return DType::i16;
  return x.dtype == DType::f64 || y.dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// Whether elements of 16 bits come to their places unchanged.
bool moves_words(const ResampleProblem& p) {
  const auto chooses = [](const MappedAxis& axis) {
    return axis.taps.width() <= 1 && axis.taps.weight.empty();
  };
  return p.x.dtype == p.y.dtype && size_of(p.x.dtype) == 2 &&
         std::all_of(p.axes.begin(), p.axes.end(), chooses);
}

/// Elements that lie together along the inner axis in both tensors and can be moved at once.
int vector_of(const TensorDesc& x, const TensorDesc& y, const Roles& roles) {
  if (roles.inner.size == 1 || roles.inner.x_stride != 1 || !x.aligned || !y.aligned) return 1;
  const int wanted = size_of(x.dtype) == 2 && size_of(y.dtype) == 2 ? 8 : 4;
  const auto fits = [&](const Axis& axis) {
    return (axis.size == 1 || axis.y_stride % wanted == 0) &&
           (axis.x_size == 1 || axis.x_stride % wanted == 0);
  };
  bool all = roles.inner.size % wanted == 0;
  for (const Axis& axis : roles.mapped) all = all && fits(axis);
  for (const Axis& axis : roles.planes) all = all && fits(axis);
  return all ? wanted : 1;
}

bool is_wide(const TensorDesc& desc) {
  return extent_of(desc) >= (int64_t{1} << 31);
}

}  // namespace

ResamplePass::ResamplePass(const Context& context, const TensorDesc& x, const TensorDesc& y,
                           const std::vector<MappedAxis>& axes, bool cpu, std::optional<DType> words)
    : real(real_of(x, y)), cpu_(cpu) {
  const Roles roles(x, y, axes, cpu_ ? 0 : 256);
  vector_ = cpu_ ? 1 : vector_of(x, y, roles);
  Defines defines;
  define_type(defines, "X", x.dtype);
  define_type(defines, "Y", y.dtype);
  defines.set("REAL", words ? storage_type(real) : compute_type(real)).set("WIDE", is_wide(x) || is_wide(y));
  if (words) defines.set("WORDS", name_of(*words));
  std::vector<int32_t> table;
  std::vector<double> weights;
  bool ragged = false;
  for (int i = 0; i < kMapped; i++) {
    const Axis& axis = roles.mapped[i];
    const bool narrow = axis.taps.width() <= kNarrow;
    axes_.size[i] = to_int("y", axis.size);
    axes_.x[i] = axis.x_stride, axes_.y[i] = axis.y_stride;
    axes_.table[i] = to_int("x", static_cast<int64_t>(table.size()));
    axes_.weights[i] = to_int("x", static_cast<int64_t>(weights.size()));
    put_taps(axis.taps, narrow, table, weights);
    defines.set(cat("TAPS", i), narrow ? std::max<int64_t>(axis.taps.width(), 1) : 0);
    defines.set(cat("WEIGHTED", i), !axis.taps.weight.empty());
    ragged = ragged || (narrow && (axis.taps.ragged() || axis.taps.width() == 0));
  }
  defines.set("RAGGED", ragged).set("LEVELS", static_cast<int64_t>(roles.planes.size()));
  std::vector<int64_t> levels;
  for (const Axis& axis : roles.planes)
    levels.insert(levels.end(), {axis.size, axis.x_stride, axis.y_stride});
  if (element_count(y.shape) == 0) return;
  count_ = to_int("y", roles.count());
  table_ = buffer_of(context, std::move(table));
  levels_ = buffer_of(context, std::move(levels));
  weights_ = real == DType::f64 ? buffer_of(context, std::move(weights))
                                : buffer_of(context, std::vector<float>(weights.begin(), weights.end()));
  axes_.inner = to_int("x", roles.inner.size / vector_);
  axes_.x_inner = roles.inner.x_stride;
  if (cpu_)
    prepare_cpu(roles);
  else
    prepare_gpu(roles);
  defines.set("V", vector_).set("PLANES", planes_).set("INNER", roles.inner.size > 1);
  const Axis& last = roles.mapped[2];
  const bool packed = roles.inner.size > 1 ? roles.inner.x_stride == 1 && last.x_stride == roles.inner.size
                                           : last.x_stride == 1 || last.x_size == 1;
  defines.set("PACKED", packed).set("Y_PACKED", last.y_stride == roles.inner.size);
  kernel_ = context.state().programs.kernel(cpu_ ? "resample_cpu" : "resample", "resample", defines);
}

void ResamplePass::prepare_gpu(const Roles& roles) {
  const int64_t lanes = to_int("y", int64_t{axes_.size[0]} * axes_.size[1] * axes_.size[2] * axes_.inner);
  const int64_t count = roles.count();
  // What a lane finds out about its place serves several planes, where there is enough for every unit as
  // well.
  planes_ = lanes * count >= (int64_t{1} << 20) && count >= 4   ? 4
            : lanes * count >= (int64_t{1} << 19) && count >= 2 ? 2
                                                                : 1;
  int64_t across = 256;
  while (across > 32 && across / 2 >= lanes) across /= 2;
  local_[0] = static_cast<size_t>(across);
  local_[1] = static_cast<size_t>(256 / across);
  global_[0] = items_in_groups(lanes, across);
  global_[1] = items_in_groups(ceil_div(count, planes_), 256 / across);
}

void ResamplePass::prepare_cpu(const Roles& roles) {
  const Axis& last = roles.mapped[2];
  const int64_t rows = roles.count() * axes_.size[0] * axes_.size[1];
  const int64_t row = std::max<int64_t>({last.size * axes_.inner, last.x_size * axes_.inner, 1});
  constexpr int64_t kElements = 8192,
                    kGroups = 256;  // of a work-group; of a launch: each has a row of scratch
  const int64_t block =
      std::max(ceil_div(rows, kGroups), std::min(ceil_div(kElements, row), ceil_div(rows, 8)));
  global_[0] = static_cast<size_t>(ceil_div(rows, block));
  global_[1] = 1;
  const int x_row = to_int("x", round_up(std::max<int64_t>(last.x_size, 1) * axes_.inner, 16));
  scratch = global_[0] * static_cast<size_t>(x_row) * size_of(real);
  const Run run(last.taps);
  rows_ = {block, count_, x_row, to_int("x", last.x_size), run.begin, run.end, run.source};
}

void ResamplePass::run(const Stream& stream, const Tensor& x, const Tensor& y, double fill,
                       const Tensor& scratch_memory) const {
  if (y.numel() == 0) return;
  const Context& context = stream.context();
  Launch launch(stream, kernel_);
  launch.arg(x).arg(y);
  launch.arg(Tensor::wrap(context, table_, {1}, DType::i32));
  launch.arg(Tensor::wrap(context, weights_, {1}, real));
  launch.arg(Tensor::wrap(context, levels_, {1}, DType::i64));
  launch.arg(axes_).real(real, fill);
  if (cpu_)
    launch.arg(scratch_memory).arg(rows_);
  else
    launch.arg(count_)
        .arg(divisor_of(axes_.inner))
        .arg(divisor_of(axes_.size[1]))
        .arg(divisor_of(axes_.size[2]));
  launch.run({global_[0], global_[1]}, {local_[0], local_[1]});
}

namespace {

/// `shape` without gaps, its axes in the order of `like`'s steps.
TensorDesc dense(const Shape& shape, const Strides& like, DType dtype) {
  std::vector<int> order(static_cast<size_t>(shape.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return like[a] > like[b]; });
  Strides strides = shape;
  int64_t step = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = step;
    step *= std::max<int64_t>(shape[*axis], 1);
  }
  return {shape, strides, dtype, true};
}

/// The axes that each pass maps.
std::vector<std::vector<MappedAxis>> split(std::vector<MappedAxis> axes, bool cpu) {
  int64_t product = 1;
  for (const MappedAxis& axis : axes) product *= std::max<int64_t>(axis.taps.width(), 1);
  // The axis first that leaves least to be done.
  const auto growth = [](const MappedAxis& axis) {
    return static_cast<double>(axis.taps.size()) /
           static_cast<double>(std::max<int64_t>(axis.taps.source_size, 1));
  };
  const bool one_by_one = !cpu && product > kProduct;
  if (one_by_one || axes.size() > kMapped)
    std::stable_sort(axes.begin(), axes.end(),
                     [&](const MappedAxis& a, const MappedAxis& b) { return growth(a) < growth(b); });
  std::vector<std::vector<MappedAxis>> passes(1);
  for (MappedAxis& axis : axes) {
    if (passes.back().size() == (one_by_one ? 1 : kMapped)) passes.emplace_back();
    passes.back().push_back(std::move(axis));
  }
  return passes;
}

}  // namespace

Resample::Resample(const Context& context, ResampleProblem problem, bool cpu) {
  std::optional<DType> words;
  // A CPU would convert each element there and back.
  if (cpu && moves_words(problem)) {
    words = problem.x.dtype;
    problem.x.dtype = problem.y.dtype = DType::i16;
  }
  const DType real = real_of(problem.x, problem.y);
  const auto passes = split(problem.axes, cpu);
  WorkspaceParts parts;
  TensorDesc source = problem.x;
  for (size_t i = 0; i < passes.size(); i++) {
    const bool last = i + 1 == passes.size();
    Step step;
    step.result = problem.y;
    if (!last) {
      Shape shape = source.shape;
      for (const MappedAxis& axis : passes[i]) shape[axis.axis] = axis.taps.size();
      step.result = dense(shape, problem.y.strides, real);
      step.result_at = parts.add(static_cast<size_t>(element_count(shape)) * size_of(real));
    }
    step.pass = std::make_shared<const ResamplePass>(context, source, step.result, passes[i], cpu, words);
    step.scratch_at = parts.add(step.pass->scratch);
    source = step.result;
    steps_.push_back(std::move(step));
  }
  workspace_ = parts.size();
}

void Resample::run(const Stream& stream, const Tensor& x, const Tensor& y, double fill,
                   const Tensor& workspace) const {
  Tensor source = x;
  for (const Step& step : steps_) {
    const TensorDesc& of = step.result;
    Tensor result = y;
    if (&step != &steps_.back()) result = workspace_part(workspace, step.result_at, of.shape, of.dtype);
    if (result.defined()) {  // else it has no elements
      const ResamplePass& pass = *step.pass;
      const Tensor scratch = workspace_part(
          workspace, step.scratch_at, {static_cast<int64_t>(pass.scratch / size_of(pass.real))}, pass.real);
      pass.run(stream, source, result.as_strided(of.shape, of.strides), fill, scratch);
    }
    source = result;
  }
}

namespace {

// Each form runs on every device, and is the better one on its own kind.
template <bool cpu>
std::unique_ptr<const Resample> make(const Context& context, const ResampleProblem& p, const EngineOptions&) {
  return std::make_unique<const Resample>(context, p, cpu);
}

constexpr Engine<ResampleProblem, Resample> kDirect{"direct", nullptr, make<false>, avoid_on_cpus},
    kCpu{"cpu", nullptr, make<true>};
constexpr EngineList<ResampleProblem, Resample> kEngines = {&kDirect, &kCpu};

}  // namespace

std::shared_ptr<const Resample> choose_resample(const char* op, const Context& context,
                                                const ResampleProblem& problem, const Options& options,
                                                PlanInfo& info) {
  require_real(context, real_of(problem.x, problem.y));
  return choose_engine(op, kEngines, context, problem, options, info);
}

void run_resample(const PlanInfo& info, const Resample& resample, const Stream& stream, const Named& x,
                  const TensorDesc& x_desc, const Named& y, const TensorDesc& y_desc, double fill,
                  const Tensor& workspace) {
  require_stream(info, stream);
  require_tensor(x.name, x.tensor, stream.context(), x_desc);
  require_tensor(y.name, y.tensor, stream.context(), y_desc);
  require_apart({y, {"workspace", workspace}}, {x});
  if (y.tensor.numel() == 0) return;
  const Tensor space = workspace_for(info, stream, workspace);
  const OperatorScope scope(stream, info);
  resample.run(stream, x.tensor, y.tensor, fill, space);
}

}  // namespace dlprim::detail
