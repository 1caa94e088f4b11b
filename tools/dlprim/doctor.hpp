// `dlprim doctor`: does a device compute right, each time? What runs are small problems whose results are
// known.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <dlprim/engines_off.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>

#include "commands.hpp"

namespace CLI {
class App;
}

namespace dlprim::cli {

/// A problem of an operator family whose right result is known.
struct ExactCase {
  std::string family, name;  ///< "gemm", "f32 67 x 130 x 96"
  /// Makes the inputs, runs the operator, and gives its outputs.
  std::function<std::vector<Tensor>(const Stream&, const Options&)> run;
  std::vector<std::vector<double>> expected;  ///< the elements of each output
  /// The most that an element may be off, as a share of the largest expected one; 0: exact. The case says
  /// why.
  double bound = 0;
  /// What a plan of it says of its engines (Plan::explain); empty: it has one.
  std::function<std::string(const Context&)> explain;
};
/// The families in the order of src/ops, each with a few cases. Those that the device has no dtype for are
/// left out.
std::vector<ExactCase> exact_cases(const Device& device);

/// One case by one engine.
struct CaseResult {
  std::string family, name;
  std::string op,
      engine;  ///< as the log has them; of what threw before it ran, the family and what was asked for
  bool automatic = false;  ///< nobody asked for the engine
  int64_t runs = 0, wrong = 0;
  std::string failure;  ///< of the first wrong run: what was wrong
};

/// What was measured: "copy", 12.3, "GB/s".
struct DoctorTime {
  std::string what;
  double value = 0;
  std::string unit;
};

struct Diagnosis {
  std::vector<std::pair<std::string, std::string>> facts;  ///< of the device, the driver and the program
  std::vector<CaseResult> results;
  std::vector<DoctorTime> times;
  std::vector<EngineOff> off_before, switched_off;  ///< the record as it was found, and what came to it
  std::vector<std::string> troubles;                ///< what is wrong beyond engines that can be switched off

  int64_t wrong() const;  ///< results with a wrong run
};

struct DoctorOptions {
  std::string device;
  std::string out = "dlprim-doctor";  ///< .html and .json are added
  std::vector<std::string> families;  ///< empty: all
  int64_t runs = 3;
  bool keep = false;   ///< engines stay as they are
  bool reset = false;  ///< all engines on again, and nothing else
  bool json = false;
};

/// Runs all cases `runs` times, by each engine, and compares: with what is right, and with the first run, bit
/// for bit. `say` is told of each case. A wrong engine is switched off (unless `keep`) if another one of the
/// operator is right.
Diagnosis diagnose(const Device& device, const DoctorOptions& options,
                   const std::function<void(const std::string& text, size_t done, size_t all)>& say);

/// The report, complete in itself.
std::string doctor_html(const Diagnosis& diagnosis);
std::string doctor_json(const Diagnosis& diagnosis);

/// 0 if all was right, 1 if anything was wrong.
int run_doctor(const DoctorOptions& options);
CLI::App* add_doctor(CLI::App& app, DoctorOptions& options, const char* device_help);

}  // namespace dlprim::cli
