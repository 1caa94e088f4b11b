// What the engines `cpu` and `cpu_last` share.
#pragma once

#include <algorithm>
#include <utility>

#include "core/constants.hpp"
#include "core/launch.hpp"
#include "ops/conv/conv_axes.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/conv/conv_phases.hpp"
#include "ops/gemm/gemm_cpu_tiles.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_cpu.h"

/// What is computed with.
inline DType conv_real(const ConvProblem& p) {
  return p.dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// Whether the result holds fewer bits than a sum that more blocks of k follow.
inline bool conv_sums_apart(const ConvProblem& p) {
  return size_of(p.result_dtype) < sizeof(float);
}

/// Whether a pixel of the target sees the source's of the same place and no other.
inline bool is_pointwise(const ConvProblem& p) {
  return p.taps() == 1 && p.pad == Spatial{0, 0, 0} && p.stride == Spatial{1, 1, 1} && p.x_space == p.y_space;
}

/// The same problem with planes that are one long row, if it is pointwise and their pixels are evenly spaced.
inline ConvProblem in_one_row(ConvProblem p) {
  const std::optional<int64_t> x = even_stride(p.x, p.x_space), y = even_stride(p.y, p.y_space);
  if (!is_pointwise(p) || !x || !y) return p;
  p.x = {p.x[0], p.x[1], 0, 0, *x}, p.y = {p.y[0], p.y[1], 0, 0, *y};
  p.x_space = p.y_space = {1, 1, static_cast<int>(p.x_pixels())};
  return p;
}

/// Backward filter of a pointwise problem in one group, with x and y in each other's place: it gives dw
/// transposed. Kernels pack the two in different ways.
inline ConvProblem exchanged(ConvProblem p) {
  std::swap(p.c, p.k), std::swap(p.x, p.y), std::swap(p.w[0], p.w[1]);
  std::swap(p.x_extent, p.y_extent), std::swap(p.x_aligned, p.y_aligned);
  p.w_row_major = false;
  return p;
}

/// A pass of forward or backward data, and its part of the packed w.
struct ConvCpuPass {
  ConvPass at;
  int k;           ///< steps of the sum
  int64_t packed;  ///< where its part begins
  GemmCpuShare share;
};

/// The part of the packed w from `first` on.
inline Tensor packed_from(const Tensor& x, int64_t first) {
  return first == 0 ? x : x.slice(0, first, x.numel());
}

/// w as forward and backward data have it, packed: in the workspace, or kept if it is constant.
class ConvCpuWeights {
 public:
  /// `count`: numbers of all passes.
  ConvCpuWeights(const ConvProblem& p, int64_t count, WorkspaceParts& workspace)
      : shape_{count}, real_(conv_real(p)), constant_(p.constant_w) {
    if (!constant_) at_ = workspace.add(static_cast<size_t>(count) * size_of(real_));
  }
  /// What the packed numbers depend on: panels of `unit` rows or columns, `kc` steps of k at a time, and what
  /// each pass takes of w.
  void keep_as(const Context& context, const char* kernel, const ConvProblem& p, int unit, int kc,
               const std::vector<ConvCpuPass>& passes);
  /// What `pack` writes of w.
  template <class Pack>
  Tensor packed(const Stream& stream, const Tensor& w, const Tensor& workspace, const Pack& pack) const {
    if (shape_[0] == 0) return {};
    const Tensor room = constant_ ? Tensor() : workspace_part(workspace, at_, shape_, real_);
    return constants_.filled(stream, w, room, shape_, real_, pack);
  }
  void forget_constants() const { constants_.forget(); }

 private:
  Shape shape_;
  DType real_;
  bool constant_;
  size_t at_ = 0;
  Constants constants_;
};

/// What the kernels find a pixel's source by.
inline CpuShape cpu_shape(int channels, const Spatial& source, const ConvPass& pass) {
  return {channels,
          sizes_of(source),
          sizes_of(pass.pixels()),
          sizes_of(pass.window()),
          sizes_of(pass.source_step),
          sizes_of(pass.pad()),
          sizes_of(pass.dilation())};
}
/// The same of backward filter.
inline CpuShape cpu_shape(int channels, const ConvProblem& p) {
  return {channels,           sizes_of(p.x_space), sizes_of(p.y_space), sizes_of(p.w_space),
          sizes_of(p.stride), sizes_of(p.pad),     sizes_of(p.dilation)};
}

/// Of w as a pass has it.
inline CpuFilter cpu_filter(const ConvProblem& p, const ConvPass& pass) {
  const std::array<int, 5> s = narrow(pass.w_strides(p.w));
  const bool data = p.direction == ConvDirection::backward_data;
  return {p.group_k() * s[0], s[data ? 1 : 0], s[data ? 0 : 1], s[2], s[3], s[4]};
}

inline void ConvCpuWeights::keep_as(const Context& context, const char* kernel, const ConvProblem& p,
                                    int unit, int kc, const std::vector<ConvCpuPass>& passes) {
  if (!constant_) return;
  PlanKey form(kernel);
  form.add(p.dtype).add(p.direction).add(p.groups).add(p.group_c()).add(p.group_k()).add(unit).add(kc);
  form.add(p.w_row_major);
  for (const ConvCpuPass& pass : passes) {
    const CpuFilter w = cpu_filter(p, pass.at);
    form.add(pass.k).add(pass.packed).add(pass.at.window());
    for (const ConvPhase& axis : pass.at.axes) form.add(axis.last);
    for (const int stride : {w.g, w.target, w.source, w.d, w.h, w.w}) form.add(stride);
  }
  constants_ = Constants(context, form);
}

/// conv_parts_for(), or some more parts, so that work-groups come to much the same number for each unit.
inline ConvParts conv_cpu_parts_for(int64_t k, int64_t block, int64_t tiles, const Device& device,
                                    int64_t results, int64_t room) {
  const ConvParts least = conv_parts_for(k, block, tiles, device, results, room);
  const int64_t units = std::max(1, device.facts().compute_units);
  const int64_t most = std::min(ceil_div(k, block), room / std::max<int64_t>(1, results));
  ConvParts best = least;
  int64_t best_time = -1;
  for (int64_t count = least.count; count <= std::min(most, least.count + units); count++) {
    const int64_t steps = ceil_div(ceil_div(k, block), count) * block;
    const int64_t time = ceil_div(tiles * ceil_div(k, steps), units) * steps;
    if (best_time >= 0 && time >= best_time) continue;
    best_time = time;
    best = {static_cast<int>(ceil_div(k, steps)), static_cast<int>(steps)};
  }
  return best;
}

/// How backward filter is shared out.
struct ConvCpuFilterShare {
  GemmCpuShare share;
  ConvParts parts;
};
/// A work-group takes all rows, so that what it gathers is gathered once. There is room for so many numbers.
inline ConvCpuFilterShare conv_cpu_filter_share(const ConvProblem& p, const GemmCpuTiles& tiles,
                                                const Device& device, int64_t room) {
  const ConvGemm g = conv_gemm(p);
  const int64_t strips = std::max<int64_t>(1, ceil_div(g.n, tiles.nr()));
  const int64_t blocks = ceil_div(strips * tiles.nr(), tiles.nc);
  const GemmCpuShare share{static_cast<int>(ceil_div(strips, blocks) * tiles.nr()),
                           static_cast<int>(round_up(std::max<int64_t>(1, g.m), tiles.mr))};
  return {share, conv_cpu_parts_for(g.k, tiles.kc, blocks * p.groups, device, p.groups * g.m * g.n, room)};
}

/// Of an engine for tensors whose channels are last.
inline std::string refuse_channels_apart(const ConvProblem& p) {
  const std::pair<const char*, int64_t> steps[] = {{"x", p.c > 1 ? p.x[1] : 1}, {"y", p.k > 1 ? p.y[1] : 1}};
  for (const auto& [name, step] : steps)
    if (step != 1) return cat(name, "'s channels are ", step, " elements apart, not side by side");
  return {};
}

/// Each phase of backward data is a launch.
inline std::string refuse_many_phases(const ConvProblem& p) {
  constexpr int64_t most = 64;
  int64_t phases = 1;
  for (size_t i = 0; i < 3; i++) phases *= ConvAxis(p, i).phases;
  return phases > most ? cat(phases, " phases of backward data exceed ", most) : std::string();
}

}  // namespace dlprim::detail
