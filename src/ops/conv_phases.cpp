#include "ops/conv_phases.hpp"

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
  return {index, (target - index + stride - 1) / stride, met,
          (index + pad - tap * dilation) / stride - (met - 1) * apart, apart};
}

void ConvAxis::bind(Launch& launch) const {
  launch.arg(target).arg(source).arg(taps).arg(stride).arg(phases).arg(step).arg(pad).arg(dilation);
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
