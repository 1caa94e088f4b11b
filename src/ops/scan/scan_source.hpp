// The text of scan kernels: fills the slots of scan.cl and scan_cpu.cl.
#pragma once

#include <string>

#include "core/gen/loop_nest.hpp"
#include "ops/scan/scan_kernel.hpp"

namespace dlprim::detail {

/// A problem and its loops.
struct ScanNest {
  ScanProblem scan;
  LoopNest nest;
  DType real = DType::f32;
  bool along = false;  ///< the axis is innermost
};

/// What of a kernel's text the engines choose.
struct ScanForm {
  int vector = 4;
  bool wide_access = false;
  int lanes_x = 1, lanes_y = 1;
  int totals_lanes = 1;
};

constexpr int kTotalsGroup = 64;  ///< work-items of a group of scan_totals

/// Bytes of what a scan carries from element to element.
size_t scan_state_size(const ScanNest& p);
/// Whether the operand's stride along the axis is 1 or, without an axis, none.
bool unit_along_axis(const ScanNest& p, size_t operand);
/// Phase 0 is a whole scan; 1 finds the totals of parts, 2 scans with what lies before each.
std::string scan_gpu_source(const ScanNest& p, const ScanForm& form, int phase);
std::string scan_cpu_source(const ScanNest& p, const ScanForm& form, int phase);

}  // namespace dlprim::detail
