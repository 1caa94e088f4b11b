// The kernels of scans (scan.cl, scan_cpu.cl): how rows go to work-groups, the kernel's text, and its
// arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"

namespace dlprim::detail {

/// As scan_state.cl numbers them.
enum class ScanState : int { sum, product, maximum, minimum, recurrence, segments };

/// A tensor of the kernel. What is read: x, and of the recurrence g and the products q; of segments the
/// places x, whose run ends where they are the element's own, and g. Written: y, or y and i.
struct ScanOperand {
  std::string name;
  TensorDesc desc;
  bool written = false;
};

struct ScanProblem {
  ScanState state = ScanState::sum;
  bool exclusive = false, reverse = false;
  int axis = 0;
  std::vector<ScanOperand> operands;
};

/// An engine's kernels for a problem: `cpu` or `gpu`.
struct ScanKernel;
std::shared_ptr<const ScanKernel> make_scan_kernel(const Context& context, const ScanProblem& problem,
                                                   const Options& options, PlanInfo& info);
/// Tensors in the order of the problem's operands.
void run_scan_kernel(const ScanKernel& kernel, const Stream& stream, const std::vector<Tensor>& tensors,
                     const Tensor& workspace);

}  // namespace dlprim::detail
