// What every operator's plan has in common. A plan is an operator made ready for one problem: the engine is
// chosen, the kernels are compiled; run() only binds arguments and enqueues.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>

#include <dlprim/export.hpp>

namespace dlprim {

/// What fp32 arithmetic may be replaced by.
enum class MathMode : uint8_t {
  strict,    ///< error no larger than a plain fp32 multiply-add chain's
  standard,  ///< also Winograd F(4x4)
  tf32       ///< also 10-bit mantissas in products
};

struct Options {
  /// "auto", or an engine's name. An engine asked for by name that cannot serve throws ValidationError with
  /// its reason; it never falls back.
  std::string engine = "auto";
  /// Most bytes of workspace that an engine may ask for.
  size_t workspace_limit = size_t{1} << 30;
  /// Only engines that give the same bits for the same input.
  bool deterministic = true;
  MathMode math = MathMode::standard;
};

namespace detail {
struct PlanInfo;
}

class DLPRIM_API Plan {
 public:
  /// The engine that serves.
  const std::string& engine() const noexcept;
  /// Bytes of the workspace that run() takes; it may be left out, then the pool provides it.
  size_t workspace_size() const noexcept;
  /// Every engine of the operator, one a line: the chosen one, and for the others their refusal or rank.
  std::string explain() const;

 protected:
  explicit Plan(std::shared_ptr<const detail::PlanInfo> info) : info_(std::move(info)) {}
  std::shared_ptr<const detail::PlanInfo> info_;
};

}  // namespace dlprim
