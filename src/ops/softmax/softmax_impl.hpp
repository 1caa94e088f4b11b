// What the engines of softmax and its relatives share: the problem as they see it, and the implementation
// they make.
#pragma once

#include <optional>

#include <dlprim/softmax.hpp>

#include "core/engine.hpp"

namespace dlprim::detail {

enum class SoftmaxKind : uint8_t { softmax, log_softmax, logsumexp };

struct SoftmaxProblem {
  SoftmaxKind kind = SoftmaxKind::softmax;
  bool backward = false;  ///< of softmax and log-softmax
  int axis = 0;           ///< not negative
  TensorDesc x;           ///< backward: of dy
  TensorDesc y;           ///< backward: of the operator's result, an input
  TensorDesc dx;          ///< backward only
  std::optional<TensorDesc> mask;

  const TensorDesc& written() const { return backward ? dx : y; }
  /// 0: none, 1: a truth for each element, 2: to be added.
  int mask_form() const { return !mask ? 0 : mask->dtype == DType::boolean ? 1 : 2; }
  /// f64 or f32.
  DType real() const;
};

struct SoftmaxTensors {
  Tensor x, y, dx, mask;
};

struct SoftmaxImpl : EngineImpl {
  /// Everything is checked; what is written has elements, `workspace` is as large as was asked for.
  virtual void run(const Stream& stream, const SoftmaxTensors& t, const Tensor& workspace) const = 0;
};

using SoftmaxEngine = Engine<SoftmaxProblem, SoftmaxImpl>;
extern const SoftmaxEngine kSoftmaxRow, kSoftmaxCpu, kSoftmaxGenerated;

}  // namespace dlprim::detail
