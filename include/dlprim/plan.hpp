// What every operator's plan has in common. A plan is an operator made ready for one problem: the engine is
// chosen, the kernels are compiled; run() only binds arguments and enqueues.
//
// A constructor throws ValidationError (descriptions, parameters, options), BuildError, DeviceError and
// OutOfMemory. A run() throws ValidationError for tensors that are not as described, are of another context,
// or share memory where that is not allowed; OutOfMemory; DeviceError. A call, such as gemm(), throws what
// both do. Each leaves all tensors as they were, but for DeviceError and OutOfMemory between two kernels of
// one operator.
//
// A workspace is scratch memory: any tensor of the context with at least workspace_size() contiguous bytes
// from a 16-byte boundary on, which shares no memory with the other tensors. Its contents before and after a
// run mean nothing. One that is left out comes from the context's pool; where workspace_size() is 0, one that
// is given stays unused. A call that is given one takes a plan that needs no more than it has.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Where "auto" takes its engine from, before engines' own predictions. See tune.hpp.
enum class TuneMode : uint8_t {
  /// From the user's database and the tables that come with the library, if they know this problem or one
  /// near it.
  table,
  /// The first time that a problem is not in the user's database, candidates are measured on the device; that
  /// takes seconds, and memory for operands. The best goes into the database. Then as `table`. What goes
  /// wrong on the way is a line in the log, no error.
  measure,
  /// As `measure`, with all parameters that engines know instead of a choice of them, each measured three
  /// times as long; a problem that was only measured is measured again. Minutes for each problem.
  exhaustive
};

/// What becomes of what was in an output before.
enum class Write : uint8_t {
  replace,  ///< y = result
  add       ///< y = y + result, rounded once
};

/// How an engine is chosen. Each gives the same bits for the same input on the same device, always.
struct Options {
  /// "auto", or an engine's name, with parameters of its own or without: "naive", "fma:tm=64,parts=4". An
  /// engine asked for by name that cannot serve throws ValidationError with its reason; it never falls back.
  std::string engine = "auto";
  /// Most bytes of workspace that an engine may ask for.
  size_t workspace_limit = size_t{1} << 30;
  MathMode math = MathMode::standard;
  TuneMode tune = TuneMode::table;
  /// What serialize() of a plan gave, perhaps in another process: the plan becomes that one, with its engine,
  /// parameters and options; nothing is looked up, predicted or measured. Of the other options only
  /// workspace_limit counts, and `engine` has to be "auto". For Gemm and convolution. ValidationError if the
  /// text is damaged, or of another version of the library, device (its name, its platform's, its compute
  /// units), operator or description. The driver may be another: kernels are compiled or come from the binary
  /// cache.
  std::string plan;
};

namespace detail {
struct PlanInfo;
}

class DLPRIM_API Plan {
 public:
  /// The engine that serves.
  const std::string& engine() const noexcept;
  /// What Options::engine has to be to get this engine with these parameters: "fma", "fma:tm=64,parts=4".
  const std::string& request() const noexcept;
  /// Bytes of the workspace that run() takes, at most Options::workspace_limit.
  size_t workspace_size() const noexcept;
  /// Every engine of the operator, one a line: the chosen one and what chose it (a row of which table, a
  /// prediction, its place), and for the others why they refuse or avoid the problem, or their prediction.
  std::string explain() const;

  /// The library's own part; not for users.
  const detail::PlanInfo& info() const noexcept { return *info_; }

 protected:
  explicit Plan(std::shared_ptr<const detail::PlanInfo> info) : info_(std::move(info)) {}
  /// The plan as lines of text that Options::plan takes. It holds the choice, not the compiled kernels.
  std::string serialize() const;
  std::shared_ptr<const detail::PlanInfo> info_;
};

}  // namespace dlprim
