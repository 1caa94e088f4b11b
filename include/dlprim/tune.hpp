// Tuning: which engine, with which parameters, is fastest for a problem on this very device. Measured answers
// are kept in the user's database, which every later program of the user looks into before the tables that
// come with the library (docs/tuning.md). Options::tune = TuneMode::measure does by itself what tune() does.
//
// A problem is a line as in bench/shapes: "gemm m=512 n=512 k=64 a=n b=t dtype=f16".
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/dtype.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>

namespace dlprim {

/// A problem as tables know it: what the choice of an engine depends on, and nothing else. Problems that are
/// equal but for their sizes can be near each other.
struct TuneProblem {
  std::string op;  ///< "gemm"
  DType dtype = DType::f32, result = DType::f32;
  MathMode math = MathMode::standard;                  ///< standard where the operator makes no difference
  std::string form;                                    ///< how tensors lie in memory, in the operator's words
  std::vector<std::pair<std::string, int64_t>> sizes;  ///< names and values, in the operator's order

  friend bool operator==(const TuneProblem& a, const TuneProblem& b) {
    return a.op == b.op && a.dtype == b.dtype && a.result == b.result && a.math == b.math &&
           a.form == b.form && a.sizes == b.sizes;
  }
};

/// An engine as Options::engine takes it, with the time of one run.
struct TunedEngine {
  std::string engine;
  double microseconds = 0;
};

/// See TuneResult::spread.
constexpr double kUnsteady = 0.1;

struct TuneResult {
  TuneProblem problem;
  TunedEngine best;
  TunedEngine second;  ///< empty if nothing else served
  /// What "auto" chose before, measured with the others. 0 microseconds if it was the plain engine, `naive`,
  /// where that is not measured: convolution's never is if another one serves, GEMM's only for small
  /// products.
  TunedEngine before;
  std::vector<std::string> struck_out;  ///< "ENGINE: reason" of candidates that failed or were wrong
  bool exhaustive = false;              ///< all candidates were measured
  /// How far the median of the best engine's turns lies above its fastest, as a share: to 0.02 on an idle
  /// device. Above kUnsteady other work took part, and the choice may be wrong.
  double spread = 0;
  bool stored = false;  ///< in the user's database; false: in this context alone
};

/// Called before each step of a measurement; what it throws passes through, and nothing is stored.
using TuneProgress = std::function<void(const std::string& engine, int step, int steps)>;

/// The operators that tune() knows.
DLPRIM_API std::vector<std::string> tuned_operators();
/// A curated list of problems for the device: about a dozen, or (`full`) all that the library's tables hold.
/// Throws ValidationError for an operator that is not tuned.
DLPRIM_API std::vector<std::string> tuning_problems(const Context& context, const std::string& op, bool full);
/// What a line says. Throws ValidationError if that is no problem, or none for the device.
DLPRIM_API TuneProblem tune_problem(const Context& context, const std::string& problem);
/// Measures the candidates and keeps the best. Throws ValidationError (a line that says no problem),
/// OutOfMemory (no room for the operands), DeviceError. `mode`: TuneMode::measure or exhaustive.
DLPRIM_API TuneResult tune(const Context& context, const std::string& problem,
                           const TuneProgress& progress = {}, TuneMode mode = TuneMode::measure);

/// The user's database: $DLPRIM_TUNE_DB (empty: none), or tuning.sqlite in the folder of compiled programs.
struct TuneDatabase {
  std::string path;    ///< empty: none
  std::string reason;  ///< why it is not used, empty if it is
};
/// Opens it, as the context's first look-up does.
DLPRIM_API TuneDatabase tune_database(const Context& context);

/// Measurements in the form of the repository's files tuning/*/*.json.
DLPRIM_API std::string tuning_json(const Context& context, const std::vector<TuneResult>& results);

}  // namespace dlprim
