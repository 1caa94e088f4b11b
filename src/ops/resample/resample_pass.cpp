#include "ops/resample/resample_pass.hpp"

#include <algorithm>

#include "core/gen/arguments.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kNarrow = 4;  // taps that a kernel holds in registers

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

/// Elements that lie together along the inner axis in both tensors and can be moved at once.
int vector_of(const TensorDesc& x, const TensorDesc& y, const ResampleRoles& roles) {
  if (roles.inner.size == 1 || roles.inner.x_stride != 1 || !x.aligned || !y.aligned) return 1;
  const int wanted = size_of(x.dtype) == 2 && size_of(y.dtype) == 2 ? 8 : 4;
  const auto fits = [&](const LoopAxis& axis) {
    return (axis.size == 1 || axis.y_stride % wanted == 0) &&
           (axis.x_size == 1 || axis.x_stride % wanted == 0);
  };
  bool all = roles.inner.size % wanted == 0;
  for (const LoopAxis& axis : roles.mapped) all = all && fits(axis);
  for (const LoopAxis& axis : roles.planes) all = all && fits(axis);
  return all ? wanted : 1;
}

bool is_wide(const TensorDesc& desc) {
  return extent_of(desc) >= (int64_t{1} << 31);
}

}  // namespace

DType resample_real(const TensorDesc& x, const TensorDesc& y) {
  if (x.dtype == DType::i16) return DType::i16;
  return x.dtype == DType::f64 || y.dtype == DType::f64 ? DType::f64 : DType::f32;
}

ResamplePass::ResamplePass(const Context& context, const TensorDesc& x, const TensorDesc& y,
                           const std::vector<MappedAxis>& axes, bool cpu, std::optional<DType> words)
    : real(resample_real(x, y)), cpu_(cpu) {
  const ResampleRoles roles(x, y, axes, cpu_ ? 0 : 256);
  vector_ = cpu_ ? 1 : vector_of(x, y, roles);
  Defines defines;
  define_type(defines, "X", x.dtype);
  define_type(defines, "Y", y.dtype);
  defines.set("REAL", words ? storage_type(real) : compute_type(real)).set("WIDE", is_wide(x) || is_wide(y));
  if (words) defines.set("WORDS", name_of(*words));
  std::vector<int32_t> table;
  std::vector<double> weights;
  bool ragged = false;
  for (int i = 0; i < kMappedAxes; i++) {
    const LoopAxis& axis = roles.mapped[i];
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
  for (const LoopAxis& axis : roles.planes)
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
  const LoopAxis& last = roles.mapped[2];
  const bool packed = roles.inner.size > 1 ? roles.inner.x_stride == 1 && last.x_stride == roles.inner.size
                                           : last.x_stride == 1 || last.x_size == 1;
  defines.set("PACKED", packed).set("Y_PACKED", last.y_stride == roles.inner.size);
  kernel_ = context.state().programs.kernel(cpu_ ? "resample_cpu" : "resample", "resample", defines);
}

void ResamplePass::prepare_gpu(const ResampleRoles& roles) {
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

void ResamplePass::prepare_cpu(const ResampleRoles& roles) {
  const LoopAxis& last = roles.mapped[2];
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

}  // namespace dlprim::detail
