// Pointwise and reduction work as networks have it, for tests (at a small batch) and benchmarks (at a large
// one).
#pragma once

#include <string>
#include <vector>

#include <dlprim/pointwise.hpp>

namespace dlprim::cases {

struct PointwiseCase {
  std::string name;
  std::vector<Shape> inputs;
  Shape output;
  std::string body;  ///< of a pointwise case; empty for a reduction
  Reduction reduction;
  double (*element)(double x0, double x1) = nullptr;  ///< what `body` computes

  bool reduces() const { return body.empty(); }
  /// Bytes of all f32 tensors, each counted once.
  double bytes() const;
  /// The operator on tensors of these shapes.
  void run(const Stream& stream, const std::vector<Tensor>& inputs, const Tensor& output) const;
  /// The same in double, from row-major inputs.
  std::vector<double> reference(const std::vector<std::vector<float>>& inputs) const;
};

/// Copy, broadcast addition, an activation, row, channel and column reductions over `batch` images.
std::vector<PointwiseCase> pointwise_cases(int64_t batch);

}  // namespace dlprim::cases
