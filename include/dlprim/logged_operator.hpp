// LoggedOperator: an operator made again of the line that the log has of it, on tensors of its own, to be
// measured or looked at alone.
//
//   const LoggedOperator op(stream, "op=gemm engine=cpu m=64 n=64 k=64 dtype=f32 a=mk b=kn");
//   op.run();
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>

namespace dlprim {

/// The names of the operators that can be made again; the lines of others do not say all of their problem.
DLPRIM_API std::vector<std::string> logged_operators();
/// What a line has as engine=; empty if it has none. Throws ValidationError if it is no line of an operator.
DLPRIM_API std::string logged_engine(const std::string& line);

class DLPRIM_API LoggedOperator {
 public:
  /// `line`: as the log prints it, also with what was measured, or "dlprim: " in front. Neither that nor its
  /// engine counts: `options` choose one. Fields that are left out are as operators have them if nobody says
  /// otherwise: dtype f32, row-major, no epilogue. What lines do not say is assumed: element 0 of a tensor
  /// lies on a 16-byte boundary, weights of a normalisation have x's dtype, indices are i64, parameters of
  /// expressions are 1. The operands hold whole numbers from -2 to 2. Throws
  /// ValidationError, with the line in its text: no operator, one that cannot be made again, fields that are
  /// missing, unknown or wrong; and what plans throw.
  LoggedOperator(const Stream& stream, const std::string& line, const Options& options = {});

  /// Options::engine that makes its plan again.
  const std::string& engine() const noexcept;
  /// Enqueues it once. Throws what its plan's run() does.
  void run() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace dlprim
