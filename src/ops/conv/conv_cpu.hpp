// What the engines `cpu` and `cpu_last` share.
#pragma once

#include <algorithm>
#include <utility>

#include "core/launch.hpp"
#include "ops/conv/conv_parts.hpp"
#include "ops/conv/conv_phases.hpp"
#include "ops/gemm/gemm_cpu_tiles.hpp"

namespace dlprim::detail {

/// What is computed with.
inline DType conv_real(const ConvProblem& p) {
  return p.dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// Whether the result holds fewer bits than a sum that more blocks of k follow.
inline bool conv_sums_apart(const ConvProblem& p) {
  return size_of(p.result_dtype) < sizeof(float);
}

template <class Numbers>
void bind_each(Launch& launch, const Numbers& of_axes) {
  for (auto number : of_axes) launch.arg(number);
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
