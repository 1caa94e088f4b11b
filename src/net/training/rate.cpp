// Learning rates over time.
#include <algorithm>
#include <cmath>

#include <dlprim/net_training.hpp>

#include "core/check.hpp"

namespace dlprim {

LearningRate LearningRate::cosine(double rate, int64_t warm_up, int64_t updates) {
  LearningRate made;
  made.shape = Shape::cosine;
  made.rate = rate;
  made.warm_up = warm_up;
  made.updates = updates;
  return made;
}

double LearningRate::at(int64_t k) const {
  using detail::require;
  constexpr double kPi = 3.14159265358979323846;
  for (const double number : {rate, last, factor})
    require(std::isfinite(number) && number >= 0, "rate", number, " must be finite and not negative");
  const double share =
      updates > 0 ? std::clamp(static_cast<double>(k) / static_cast<double>(updates), 0.0, 1.0) : 1.0;
  double now = rate;
  switch (shape) {
    case Shape::constant:
      break;
    case Shape::cosine:
      now = last + (rate - last) * 0.5 * (1 + std::cos(kPi * share));
      break;
    case Shape::linear:
      now = rate + (last - rate) * share;
      break;
    case Shape::steps:
      for (int64_t milestone : milestones)
        if (k >= milestone) now *= factor;
      break;
  }
  return k < warm_up ? now * static_cast<double>(k + 1) / static_cast<double>(warm_up) : now;
}

}  // namespace dlprim
