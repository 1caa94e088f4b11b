#include "ops/conv/conv_phases.hpp"

#include <algorithm>
#include <numeric>

namespace dlprim::detail {

ConvAxis::ConvAxis(const ConvProblem& p, size_t axis)
    : backward(p.direction == ConvDirection::backward_data),
      target((backward ? p.x_space : p.y_space)[axis]),
      source((backward ? p.y_space : p.x_space)[axis]),
      taps(p.w_space[axis]),
      stride(p.stride[axis]),
      phases(backward ? std::max(1, std::min(stride, target)) : 1),
      step(stride / std::gcd(stride, p.dilation[axis])),
      pad(p.pad[axis]),
      dilation(p.dilation[axis]) {}

ConvPhase ConvAxis::phase(int index) const {
  if (!backward) return {0, target, taps, -pad, dilation};
  const int candidates = std::min(step, taps);
  int tap = 0;
  while (tap < candidates && (index + pad - tap * dilation) % stride != 0) tap++;
  const int met = tap < candidates ? (taps - tap + step - 1) / step : 0, apart = step * dilation / stride;
  return {index, (target - index + stride - 1) / stride,
          met,   (index + pad - tap * dilation) / stride - (met - 1) * apart,
          apart, tap + (met - 1) * step,
          step};
}

Tensor ConvPass::of_target(const Tensor& x) const {
  Tensor result = x;
  for (size_t i = 0; x.defined() && i < 3; i++)
    if (axes[i].first > 0) result = result.slice(2 + static_cast<int>(i), axes[i].first, axes[i].first + 1);
  return result;
}

Tensor ConvPass::of_w(const Tensor& w) const {
  Tensor result = w;
  for (size_t i = 0; i < 3; i++)
    if (axes[i].last > 0) result = result.slice(2 + static_cast<int>(i), axes[i].last, axes[i].last + 1);
  return result;
}

ConvStrides ConvPass::target_strides(const ConvStrides& strides) const {
  ConvStrides result = strides;
  for (size_t i = 0; i < 3; i++) result[2 + i] *= target_step[i];
  return result;
}

ConvStrides ConvPass::w_strides(const ConvStrides& strides) const {
  ConvStrides result = strides;
  for (size_t i = 0; i < 3; i++) result[2 + i] *= -axes[i].step;
  return result;
}

std::vector<ConvPass> conv_passes(const ConvProblem& p) {
  const ConvAxis axes[3] = {{p, 0}, {p, 1}, {p, 2}};
  std::vector<ConvPass> passes;
  for (int d = 0; d < axes[0].phases; d++)
    for (int h = 0; h < axes[1].phases; h++)
      for (int w = 0; w < axes[2].phases; w++) {
        ConvPass pass{{axes[0].phase(d), axes[1].phase(h), axes[2].phase(w)}, {}, {}};
        for (size_t i = 0; i < 3; i++) {
          pass.source_step[i] = axes[i].source_step();
          pass.target_step[i] = axes[i].backward ? axes[i].stride : 1;
        }
        if (pass.count() > 0) passes.push_back(pass);
      }
  return passes;
}

bool sees_padding(const ConvProblem& p) {
  for (size_t i = 0; i < 3; i++) {
    const ConvAxis axis(p, i);
    for (int j = 0; j < axis.phases; j++) {
      const ConvPhase phase = axis.phase(j);
      if (phase.count <= 0 || phase.taps == 0) continue;
      const int64_t first = phase.lower, last = first + int64_t{phase.count - 1} * axis.source_step() +
                                                int64_t{phase.taps - 1} * phase.dilation;
      if (first < 0 || last >= axis.source) return true;
    }
  }
  return false;
}

}  // namespace dlprim::detail
