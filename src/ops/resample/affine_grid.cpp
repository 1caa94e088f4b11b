// Affine grids: the kernels of affine_grid.cl forward, and backward a generated reduction for each two rows
// of theta, for which the coordinates along each axis are written first, as vectors that broadcast.
#include <dlprim/affine_grid.hpp>

#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<AffineGridDesc> = 3;
template <>
inline constexpr int kFields<AffineGridBackwardDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

DType real_of(const AffineGridDesc& d) {
  return d.theta.dtype == DType::f64 || d.grid.dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// x, y (and z) of the places of a grid, for the reductions: vectors in a workspace.
class Coordinates {
 public:
  Coordinates(const Context& context, const AffineGridDesc& d)
      : axes_(d.theta.shape[1]),
        align_corners_(d.align_corners),
        wide_(context.device().probes().fp64),
        real_(real_of(d)) {
    require_real(context, real_);
    Defines defines;
    defines.set("DTYPE", name_of(real_))
        .set("T", storage_type(real_))
        .set("REAL", wide_ ? "double" : "float");
    ramp_ = context.state().programs.kernel("ramp", "ramp", defines);
    for (int64_t a = 0; a < axes_; a++) {
      sizes_.push_back(d.grid.shape[static_cast<int>(axes_ - a)]);  // x lies along the last of them
      at_.push_back(parts_.add(static_cast<size_t>(sizes_.back()) * size_of(real_)));
    }
  }
  int64_t axes() const { return axes_; }
  WorkspaceParts& parts() { return parts_; }

  /// As they broadcast to [N, H, W] or [N, D, H, W].
  std::vector<TensorDesc> descs() const {
    std::vector<TensorDesc> all;
    for (int a = 0; a < static_cast<int>(axes_); a++) {
      Shape shape = Shape::filled(a + 1, 1);
      shape[0] = sizes_[static_cast<size_t>(a)];
      all.emplace_back(shape, real_);
    }
    return all;
  }
  std::vector<Tensor> write(const Stream& stream, const Tensor& workspace) const {
    std::vector<Tensor> all;
    const std::vector<TensorDesc> as = descs();
    for (size_t a = 0; a < as.size(); a++) {
      const int64_t size = sizes_[a];
      const Tensor vector = workspace_part(workspace, at_[a], {size}, real_);
      const auto count = static_cast<double>(size);
      const double start = size == 1 ? 0 : align_corners_ ? -1 : 1 / count - 1;
      Launch launch(stream, ramp_);
      launch.arg(vector).arg(int64_t{1}).arg(size).arg(std::max<int64_t>(1, size / 2));
      for (double value : {start, -2 * start / std::max(1.0, count - 1), -start}) {
        if (wide_)
          launch.arg(value);
        else
          launch.arg(static_cast<float>(value));
      }
      launch.run({items_in_groups(size, 64)}, {64});
      all.push_back(vector.as_strided(as[a].shape, as[a].strides));
    }
    return all;
  }

 private:
  int64_t axes_;
  bool align_corners_, wide_;
  DType real_;
  Kernel ramp_;
  std::vector<int64_t> sizes_;  ///< along x, y, z
  std::vector<size_t> at_;
  WorkspaceParts parts_;
};

void check(const AffineGridDesc& d, bool backward) {
  const char *theta = backward ? "dtheta" : "theta", *grid = backward ? "dgrid" : "grid";
  require_floating(theta, d.theta, true);
  require_floating(grid, d.grid, true);
  const int rank = d.grid.shape.size();
  require(rank == 4 || rank == 5, grid, "rank ", rank, " must be 4 or 5, [N, H, W, 2] or [N, D, H, W, 3]");
  require(d.grid.shape[rank - 1] == rank - 2, grid, "size ", d.grid.shape[rank - 1],
          " of the last axis must be ", rank - 2);
  require_shape(theta, d.theta, {d.grid.shape[0], rank - 2, rank - 1});
  to_int(grid, 2 * element_count(d.grid.shape) / std::max<int64_t>(1, d.grid.shape[0]));
  if (backward)
    require_writable(theta, d.theta);
  else
    require_writable(grid, d.grid);
}

/// Element (row, column) of all matrices, as it broadcasts to places: [N, 1, 1] or [N, 1, 1, 1].
TensorDesc desc_of_element(const TensorDesc& theta) {
  const int rank = static_cast<int>(theta.shape[1]) + 1;
  TensorDesc desc(Shape::filled(rank, 1), Strides::filled(rank, 1), theta.dtype, false);
  desc.shape[0] = theta.shape[0];
  desc.strides[0] = theta.strides[0];
  return desc;
}
Tensor element(const Tensor& theta, int64_t row, int64_t column) {
  const TensorDesc desc = desc_of_element(theta);
  return theta.as_strided(desc.shape, desc.strides, row * theta.strides()[1] + column * theta.strides()[2]);
}

/// Coordinate a of all places: [N, H, W] or [N, D, H, W].
TensorDesc desc_of_coordinate(const TensorDesc& grid) {
  TensorDesc desc({}, {}, grid.dtype, false);
  for (int i = 0; i + 1 < grid.shape.size(); i++) {
    desc.shape.push_back(grid.shape[i]);
    desc.strides.push_back(grid.strides[i]);
  }
  return desc;
}
Tensor coordinate(const Tensor& grid, int64_t a) {
  const TensorDesc desc = desc_of_coordinate(grid);
  return grid.as_strided(desc.shape, desc.strides, a * grid.strides().back());
}

std::shared_ptr<const PlanInfo> info_of(const char* op, const char* engine, const Context& context,
                                        const AffineGridDesc& d, size_t workspace, const Options& options) {
  PlanInfo info;
  info.text = cat("theta=", brief(d.theta), " grid=", brief(d.grid), " align_corners=", d.align_corners);
  info.flops = 2.0 * static_cast<double>(d.theta.shape[2] * element_count(d.grid.shape));
  info.bytes = traffic({d.theta, d.grid});
  info.workspace = workspace;
  return single_engine(op, engine, "", context, options, std::move(info));
}

/// Inputs: gradients of `rows` coordinates, then the coordinates. Outputs: the rows' elements.
Reduction backward_sums(int64_t rows, int64_t axes) {
  Reduction r;
  r.accumulators = static_cast<int>(rows * (axes + 1));
  for (int64_t i = 0; i < r.accumulators; i++) {
    const int64_t row = i / (axes + 1), a = i % (axes + 1);
    r.init += cat("a", i, " = 0; ");
    r.accumulate += a == axes ? cat("a", i, " += x", row, "; ")
                              : cat("a", i, " = fma((real)x", row, ", (real)x", rows + a, ", a", i, "); ");
    r.combine += cat("a", i, " += b", i, "; ");
    r.finish += cat("y", i, " = a", i, "; ");
  }
  return r;
}

}  // namespace

struct AffineGrid::Impl {
  AffineGridDesc desc;
  bool cpu;
  int64_t places;  ///< of a work-item on a GPU, along W
  Kernel kernel;
};

AffineGrid::AffineGrid(const Context& context, const AffineGridDesc& desc, const Options& options)
    : Plan(nullptr) {
  check(desc, false);
  const DType real = real_of(desc);
  require_real(context, real);
  const TensorDesc &theta = desc.theta, &grid = desc.grid;
  const int64_t axes = theta.shape[1], places = axes == 2 ? 2 : 4;
  const bool cpu =
      options.engine == "auto" ? context.device().kind() == DeviceKind::cpu : options.engine == "cpu";
  // Vectors of 4 elements, of rows and from rows on that are multiples of them.
  const int rank = grid.shape.size();
  bool vectors = grid.strides[rank - 1] == 1 && grid.strides[rank - 2] == axes;
  if (!cpu) {
    vectors = vectors && grid.aligned && grid.shape[rank - 2] % places == 0;
    for (int i = 0; i < rank - 2; i++) vectors = vectors && grid.strides[i] % 4 == 0;
  }
  Defines defines;
  defines.set("AXES", axes).set("PLACES", places).set("VECTORS", vectors);
  defines.set("ALIGN_CORNERS", desc.align_corners).set("REAL", compute_type(real));
  define_type(defines, "THETA", theta.dtype);
  define_type(defines, "GRID", grid.dtype);
  info_ = info_of("affine_grid", cpu ? "cpu" : "direct", context, desc, 0, options);
  impl_ = std::make_shared<const Impl>(
      Impl{desc, cpu, places,
           context.state().programs.kernel("affine_grid", cpu ? "affine_grid_cpu" : "affine_grid", defines)});
}

void AffineGrid::run(const Stream& stream, const Tensor& theta, const Tensor& grid,
                     const Tensor& workspace) const {
  const AffineGridDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require_tensor("theta", theta, stream.context(), d.theta);
  require_tensor("grid", grid, stream.context(), d.grid);
  require_apart({{"grid", grid}, {"workspace", workspace}}, {{"theta", theta}});
  if (grid.numel() == 0) return;
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  const Shape& shape = d.grid.shape;
  const Strides& strides = d.grid.strides;
  const int rank = shape.size();
  const int64_t depth = rank == 5 ? shape[1] : 1, rows = depth * shape[rank - 3], width = shape[rank - 2];
  Launch launch(stream, impl_->kernel);
  launch.arg(theta);
  for (int64_t stride : d.theta.strides) launch.arg(stride);
  launch.arg(grid).arg(strides[0]).arg(rank == 5 ? strides[1] : int64_t{0});
  for (int i = rank - 3; i < rank; i++) launch.arg(strides[i]);
  for (int64_t size : {depth, shape[rank - 3], width}) launch.arg(static_cast<int>(size));
  const auto batch = static_cast<size_t>(shape[0]);
  if (impl_->cpu)
    launch.run({static_cast<size_t>(rows), batch}, {1, 1});
  else
    launch.run({items_in_groups(rows * ceil_div(width, impl_->places), 128), batch}, {128, 1});
}

struct AffineGridBackward::Impl {
  /// A reduction of two rows has up to 8 accumulators, the most there may be.
  static constexpr int64_t kRows = 2;

  AffineGridBackwardDesc desc;
  Coordinates coordinates;
  std::vector<Reduce> kernels;  ///< each for kRows rows of theta, or for what is left
  size_t scratch_at = 0;        ///< of the kernels, one after the other
  Fill zeros;                   ///< of no places
};

AffineGridBackward::AffineGridBackward(const Context& context, const AffineGridBackwardDesc& desc,
                                       const Options& options)
    : Plan(nullptr) {
  const AffineGridDesc forward{desc.dtheta, desc.dgrid, desc.align_corners};
  check(forward, true);
  Impl impl{desc, Coordinates(context, forward), {}, 0, Fill(context, {desc.dtheta})};
  const int64_t axes = impl.coordinates.axes();
  size_t scratch = 0;
  for (int64_t first = 0; first < axes; first += Impl::kRows) {
    const int64_t rows = std::min(Impl::kRows, axes - first);
    std::vector<TensorDesc> inputs(static_cast<size_t>(rows), desc_of_coordinate(desc.dgrid));
    for (const TensorDesc& c : impl.coordinates.descs()) inputs.push_back(c);
    impl.kernels.emplace_back(
        context, inputs,
        std::vector<TensorDesc>(static_cast<size_t>(rows * (axes + 1)), desc_of_element(desc.dtheta)), 0,
        backward_sums(rows, axes));
    scratch = std::max(scratch, impl.kernels.back().workspace_size());
  }
  impl.scratch_at = impl.coordinates.parts().add(scratch);
  info_ = info_of("affine_grid_backward", "generated", context, forward, impl.coordinates.parts().size(),
                  options);
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

void AffineGridBackward::run(const Stream& stream, const Tensor& dgrid, const Tensor& dtheta,
                             const Tensor& workspace) const {
  const AffineGridBackwardDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require_tensor("dgrid", dgrid, stream.context(), d.dgrid);
  require_tensor("dtheta", dtheta, stream.context(), d.dtheta);
  require_apart({{"dtheta", dtheta}, {"workspace", workspace}}, {{"dgrid", dgrid}});
  if (dtheta.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  if (dgrid.numel() == 0) return impl_->zeros.run(stream, 0, dtheta);
  const std::vector<Tensor> places = impl_->coordinates.write(stream, space);
  const int64_t axes = impl_->coordinates.axes();
  int64_t row = 0;
  for (const Reduce& kernel : impl_->kernels) {
    std::vector<Tensor> inputs, outputs;
    for (const int64_t end = std::min(row + Impl::kRows, axes); row < end; row++) {
      inputs.push_back(coordinate(dgrid, row));
      for (int64_t column = 0; column <= axes; column++) outputs.push_back(element(dtheta, row, column));
    }
    inputs.insert(inputs.end(), places.begin(), places.end());
    kernel.run(stream, inputs, outputs, {}, workspace_scratch(space, impl_->scratch_at, kernel));
  }
}

void affine_grid(const Stream& stream, const Tensor& theta, bool align_corners, const Tensor& grid,
                 const Options& options, const Tensor& workspace) {
  require_defined({{"theta", theta}, {"grid", grid}});
  const AffineGridDesc desc{theta, grid, align_corners};
  cached_plan<AffineGrid>(stream, "affine_grid", desc, options, workspace)
      ->run(stream, theta, grid, workspace);
}

void affine_grid_backward(const Stream& stream, const Tensor& dgrid, bool align_corners, const Tensor& dtheta,
                          const Options& options, const Tensor& workspace) {
  require_defined({{"dgrid", dgrid}, {"dtheta", dtheta}});
  const AffineGridBackwardDesc desc{dgrid, dtheta, align_corners};
  cached_plan<AffineGridBackward>(stream, "affine_grid_backward", desc, options, workspace)
      ->run(stream, dgrid, dtheta, workspace);
}

}  // namespace dlprim
