#include "ops/conv/conv_nv_few.hpp"

#include <utility>
#include <vector>

#include <dlprim/pointwise.hpp>

#include "ops/conv/conv_axes.hpp"
#include "ops/conv/conv_inner.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_nv_few.h"

namespace {

constexpr int kFewBytes = 16;     ///< of a pixel's channels
constexpr int kLeastBytes = 16;   ///< of a row's taps, or other engines waste less
constexpr int kMostTaps = 1024;   ///< in a row
constexpr int kMostColumns = 64;  ///< channels of a block

bool is_filter(const ConvProblem& p) {
  return p.direction == ConvDirection::backward_filter;
}

const char* element_of(const ConvProblem& p) {
  return size_of(p.dtype) == 2 ? "ushort" : "uint";
}

Tensor view(const Tensor& memory, const Spatial& space, int64_t images, int64_t channels,
            const ConvStrides& s, int64_t offset = 0) {
  return memory.as_strided({images, channels, space[0], space[1], space[2]}, {s[0], s[1], s[2], s[3], s[4]},
                           offset);
}

/// Elements of a padded pixel, pixels of a padded row.
struct Padded {
  explicit Padded(const ConvProblem& p) {
    const auto unit = static_cast<int64_t>(16 / size_of(p.dtype));
    while (pixel < p.c || p.stride[2] * pixel % unit != 0) pixel *= 2;
    width = int64_t{p.y_space[2] - 1} * p.stride[2] + p.w_space[2];
    while (width * pixel % unit != 0) width++;
  }
  int64_t pixel = 1, width = 0;
};

/// x and w as the other convolution has them.
class Rows : public ConvImpl {
 public:
  Rows(const Context& context, const ConvProblem& p, const EngineOptions& options, MakeConv make)
      : p_(p), rows_(*conv_nv_rows(p, options)), padded_(p) {
    const auto bytes = size_of(p.dtype);
    x_at_ = parts_.add(static_cast<size_t>(rows_.x_extent) * bytes);
    w_at_ = parts_.add(static_cast<size_t>(rows_.w_extent) * size_of(w_dtype()));
    inner_.emplace(context, rows_, options, make, parts_);
    static constexpr const char* kWords[] = {"", "", "ushort", "", "uint", "", "", "", "uint2"};
    const size_t word = static_cast<size_t>(padded_.pixel) * bytes;
    Defines defines;
    defines.set("ELEMENT", element_of(p)).set("PIXEL", static_cast<int>(padded_.pixel));
    defines.set("WORD", word == 16 ? "uint4" : kWords[word]);
    pack_ = context.state().programs.kernel("conv_nv_few", "conv_nv_pixels", defines);
    if (!is_filter(p)) return;
    copied_.emplace(context, std::vector<TensorDesc>{{w_shape(), w_view(), w_dtype(), false}},
                    std::vector<TensorDesc>{{w_shape(), strides_of(p.w), p.result_dtype, p.w_aligned}}, 0,
                    "y0 = x0");
  }

  size_t workspace_size() const override { return parts_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor x = workspace_part(workspace, x_at_, {rows_.x_extent}, p_.dtype);
    const Tensor w = workspace_part(workspace, w_at_, {rows_.w_extent}, w_dtype());
    pack(stream, t.x, p_.x, {p_.n, p_.x_space[0], p_.x_space[1], p_.x_space[2]}, p_.pad[2], padded_.width, x);
    if (!is_filter(p_))
      pack(stream, t.w, p_.w, {p_.k, p_.w_space[0], p_.w_space[1], p_.w_space[2]}, 0, p_.w_space[2], w);
    const Tensor x_rows = view(x, rows_.x_space, p_.n, rows_.c, rows_.x);
    const Tensor w_rows = view(w, rows_.w_space, p_.k, rows_.c, rows_.w);
    inner_->run(stream, {x_rows, w_rows, t.y, t.with}, workspace);
    if (copied_) copied_->run(stream, {w.as_strided(w_shape(), w_view())}, {t.w}, {});
  }

 private:
  DType w_dtype() const { return is_filter(p_) ? p_.result_dtype : p_.dtype; }
  Shape w_shape() const { return {p_.k, p_.c, p_.w_space[0], p_.w_space[1], p_.w_space[2]}; }
  /// dw in the padded one.
  Strides w_view() const { return {rows_.w[0], 1, rows_.w[2], rows_.w[3], padded_.pixel}; }
  static Strides strides_of(const ConvStrides& s) { return {s[0], s[1], s[2], s[3], s[4]}; }

  /// `sizes`: images, depth, height, width.
  void pack(const Stream& stream, const Tensor& from, const ConvStrides& strides,
            const std::array<int, 4>& sizes, int pad, int64_t width, const Tensor& to) const {
    const int rows = sizes[0] * sizes[1] * sizes[2];
    Launch launch(stream, pack_);
    launch.arg(p_.c);
    bind_divisor(launch, sizes[1]);
    bind_divisor(launch, sizes[2]);
    launch.arg(sizes[3]).arg(pad).arg(static_cast<int>(width)).arg(rows).arg(from);
    for (int64_t stride : strides) launch.arg(stride);
    launch.arg(to);
    launch.run({items_in_groups(width, 64), items_in_groups(rows, 4)}, {64, 4});
  }

  const ConvProblem p_, rows_;
  const Padded padded_;
  WorkspaceParts parts_;
  std::optional<ConvInner> inner_;
  std::optional<Pointwise> copied_;
  size_t x_at_ = 0, w_at_ = 0;
  Kernel pack_;
};

int floor_div(int a, int b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

BlockAxis block_axis(const ConvProblem& p, size_t axis) {
  BlockAxis x{};
  x.stride = p.stride[axis], x.apart = x.stride == 1 ? p.dilation[axis] : 1;
  x.pad = p.pad[axis], x.dilation = p.dilation[axis], x.w_taps = p.w_space[axis];
  const int first = x.pad - (x.w_taps - 1) * x.dilation, last = x.pad + x.stride - 1;
  x.lower = floor_div(first + x.stride - 1, x.stride);
  x.taps = (floor_div(last, x.stride) - x.lower) / x.apart + 1;
  return x;
}

class Blocks : public ConvImpl {
 public:
  Blocks(const Context& context, const ConvProblem& p, const EngineOptions& options, MakeConv make)
      : p_(p), blocks_(*conv_nv_blocks(p, options)) {
    w_at_ = parts_.add(static_cast<size_t>(blocks_.w_extent) * size_of(p.dtype));
    y_at_ = parts_.add(static_cast<size_t>(blocks_.y_extent) * size_of(p.result_dtype));
    inner_.emplace(context, blocks_, options, make, parts_);
    pack_ = context.state().programs.kernel("conv_nv_few", "conv_nv_block_weights",
                                            Defines().set("ELEMENT", element_of(p)));
    plan_copies(context);
  }

  size_t workspace_size() const override { return parts_.size(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor w = workspace_part(workspace, w_at_, {blocks_.w_extent}, p_.dtype);
    const Tensor y = workspace_part(workspace, y_at_, {blocks_.y_extent}, p_.result_dtype);
    Launch launch(stream, pack_);
    launch.arg(p_.k).arg(p_.c).arg(f_step()).arg(c_step());
    for (size_t i = 0; i < 3; i++) launch.arg(block_axis(p_, i));
    launch.arg(t.w).arg(long_strides_of(p_.w)).arg(w);
    launch.run({items_in_groups(p_.k, 64), items_in_groups(blocks_.k * blocks_.taps(), 4)}, {64, 4});
    const Tensor w_blocks = view(w, blocks_.w_space, blocks_.k, blocks_.c, blocks_.w);
    const Tensor y_blocks = view(y, blocks_.y_space, p_.n, blocks_.k, blocks_.y);
    inner_->run(stream, {t.y, w_blocks, y_blocks, t.with}, workspace);
    for (const Copy& copy : copies_)
      copy.plan.run(stream, {y.as_strided(copy.shape, copy.from, copy.from_at)},
                    {t.x.as_strided(copy.shape, copy.to, copy.to_at)}, {});
  }

 private:
  /// Of the blocks' result to dx.
  struct Copy {
    Shape shape;
    Strides from, to;
    int64_t from_at, to_at;
    Pointwise plan;
  };

  int phases() const { return p_.stride[0] * p_.stride[1] * p_.stride[2]; }
  bool channels_last() const { return p_.x[1] == 1; }
  // Columns lie as dx's memory does.
  int f_step() const { return channels_last() ? p_.c : 1; }
  int c_step() const { return channels_last() ? 1 : phases(); }

  /// One if all blocks lie within dx, else one for each pixel of a block.
  void plan_copies(const Context& context) {
    bool whole = true;
    for (size_t i = 0; i < 3; i++) whole &= p_.x_space[i] % p_.stride[i] == 0;
    if (whole) {
      Shape shape{p_.n, p_.c};
      Strides from{blocks_.y[0], c_step()}, to{p_.x[0], p_.x[1]};
      int step = phases();
      for (size_t i = 0; i < 3; i++) {
        step /= p_.stride[i];
        if (p_.x_space[i] == 1) continue;
        shape.push_back(blocks_.y_space[i]);
        from.push_back(blocks_.y[2 + i]);
        to.push_back(p_.x[2 + i] * p_.stride[i]);
        if (p_.stride[i] == 1) continue;
        shape.push_back(p_.stride[i]);
        from.push_back(int64_t{step} * f_step());
        to.push_back(p_.x[2 + i]);
      }
      add_copy(context, shape, from, to, 0, 0);
      return;
    }
    for (int f = 0; f < phases(); f++) {
      const Spatial at{f / (p_.stride[1] * p_.stride[2]), f / p_.stride[2] % p_.stride[1], f % p_.stride[2]};
      Shape shape{p_.n, p_.c};
      Strides from{blocks_.y[0], c_step()}, to{p_.x[0], p_.x[1]};
      int64_t to_at = 0;
      for (size_t i = 0; i < 3; i++) {
        shape.push_back((p_.x_space[i] - at[i] + p_.stride[i] - 1) / p_.stride[i]);
        from.push_back(blocks_.y[2 + i]);
        to.push_back(p_.x[2 + i] * p_.stride[i]);
        to_at += p_.x[2 + i] * at[i];
      }
      if (element_count(shape) > 0) add_copy(context, shape, from, to, int64_t{f} * f_step(), to_at);
    }
  }

  void add_copy(const Context& context, const Shape& shape, const Strides& from, const Strides& to,
                int64_t from_at, int64_t to_at) {
    copies_.push_back({shape, from, to, from_at, to_at,
                       Pointwise(context, {TensorDesc{shape, from, p_.result_dtype, false}},
                                 {TensorDesc{shape, to, p_.result_dtype, false}}, 0, "y0 = x0")});
  }

  const ConvProblem p_, blocks_;
  WorkspaceParts parts_;
  std::optional<ConvInner> inner_;
  std::vector<Copy> copies_;
  size_t w_at_ = 0, y_at_ = 0;
  Kernel pack_;
};

}  // namespace

std::optional<ConvProblem> conv_nv_rows(const ConvProblem& p, const Options& options) {
  const auto bytes = static_cast<int>(size_of(p.dtype));
  if (p.direction == ConvDirection::backward_data || p.groups != 1 || p.c * bytes > kFewBytes) return {};
  if (p.dilation[2] != 1 || p.w_space[2] == 1 || p.w_space[2] > kMostTaps || p.y_space[2] == 0) return {};
  if (p.c * p.w_space[2] * bytes < kLeastBytes) return {};
  // In parts, f32 would be taken apart once for each tap that sees it.
  if (is_filter(p) && p.dtype == DType::f32 && options.math != MathMode::tf32) return {};
  const Padded padded(p);
  ConvProblem rows = p;
  rows.c = p.w_space[2] * static_cast<int>(padded.pixel);
  rows.x_space[2] = p.y_space[2], rows.w_space[2] = 1;
  rows.stride[2] = 1, rows.pad[2] = 0;
  const int64_t row = padded.width * padded.pixel, plane = row * p.x_space[1], w_row = rows.c,
                w_plane = w_row * p.w_space[1];
  rows.x = {plane * p.x_space[0], 1, plane, row, p.stride[2] * padded.pixel};
  rows.w = {w_plane * p.w_space[0], 1, w_plane, w_row, 0};
  rows.x_extent = rows.x[0] * p.n, rows.w_extent = rows.w[0] * p.k;
  rows.x_aligned = rows.w_aligned = true;
  rows.w_row_major = false, rows.constant_w = false;
  return rows;
}

std::unique_ptr<const ConvImpl> make_conv_nv_rows(const Context& context, const ConvProblem& problem,
                                                  const EngineOptions& options, MakeConv make) {
  return std::make_unique<Rows>(context, problem, options, make);
}

std::optional<ConvProblem> conv_nv_blocks(const ConvProblem& p, const Options&) {
  const int64_t phases = int64_t{p.stride[0]} * p.stride[1] * p.stride[2];
  if (p.direction != ConvDirection::backward_data || p.groups != 1 || p.has_epilogue()) return {};
  if (phases == 1 || phases * p.c > kMostColumns) return {};
  ConvProblem blocks = p;
  blocks.direction = ConvDirection::forward;
  blocks.c = p.k, blocks.k = static_cast<int>(phases) * p.c;
  blocks.x = p.y, blocks.x_space = p.y_space, blocks.x_extent = p.y_extent, blocks.x_aligned = p.y_aligned;
  for (size_t i = 0; i < 3; i++) {
    if (p.stride[i] > 1 && p.dilation[i] > 1) return {};
    const BlockAxis axis = block_axis(p, i);
    blocks.w_space[i] = axis.taps;
    blocks.y_space[i] = (p.x_space[i] + p.stride[i] - 1) / p.stride[i];
    blocks.stride[i] = 1, blocks.pad[i] = -axis.lower, blocks.dilation[i] = axis.apart;
  }
  const Spatial &t = blocks.w_space, &s = blocks.y_space;
  const int64_t k = p.k, columns = blocks.k;
  blocks.w = {k * t[0] * t[1] * t[2], 1, k * t[1] * t[2], k * t[2], k};
  blocks.y = {columns * s[0] * s[1] * s[2], 1, columns * s[1] * s[2], columns * s[2], columns};
  blocks.w_extent = blocks.w[0] * columns, blocks.y_extent = blocks.y[0] * p.n;
  blocks.w_aligned = blocks.y_aligned = true;
  blocks.w_row_major = false, blocks.constant_w = false;
  return blocks;
}

std::unique_ptr<const ConvImpl> make_conv_nv_blocks(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options, MakeConv make) {
  return std::make_unique<Blocks>(context, problem, options, make);
}

}  // namespace dlprim::detail
