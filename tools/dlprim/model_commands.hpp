// The subcommands on models in files: info, explain, run, predict, eval, check, trace, bench, convert.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "input_file.hpp"

namespace CLI {
class App;
}

namespace dlprim::cli {

struct ModelOptions {
  std::string model;    ///< a file, ONNX or JSON, or a network's name
  std::string weights;  ///< of the latter, a safetensors file; empty: random ones
  int64_t batch = 0;    ///< the open first size of inputs; 0: left open
  std::string device;
  std::vector<std::string> inputs, shapes, without;
  std::string pixels;             ///< of pictures; empty: guessed
  std::string math = "standard";  ///< as MathMode
  std::string dtype = "f32";      ///< what products compute in
  bool json = false;

  DType precision() const { return parse_dtype(dtype); }
  std::optional<Pixels> pixels_choice() const {
    return pixels.empty() ? std::nullopt : std::optional<Pixels>(parse_pixels(pixels));
  }
};

struct RunModelOptions : ModelOptions {
  int64_t top = -1;    ///< so many of the largest numbers of each row of outputs; -1: see top_of
  std::string labels;  ///< a file, a line for each
  std::string save;    ///< a folder for outputs, .npy
};
struct PredictOptions : ModelOptions {
  std::vector<std::string> paths;  ///< pictures, and folders of such
  std::vector<std::string> save;   ///< files that end in .csv or .json
  std::string labels;              ///< a file, a line for each class
  int64_t top = 1, size = 0;
};
struct EvalModelOptions : ModelOptions {
  std::string data;  ///< see ImageSets
  int64_t size = 0;
  bool skip_bad = false;
};
struct CheckModelOptions : ModelOptions {
  std::string expect;   ///< .npz: outputs (and inputs) by name
  std::string against;  ///< a device
  double rtol = 1e-3, atol = 1e-5;
};
struct TraceModelOptions : ModelOptions {
  std::string out, svg;  ///< files; empty: none
  bool train = false;    ///< a step of training, not a run
  int64_t top = 10;      ///< rows of each table
};
struct BenchModelOptions : ModelOptions {
  std::string operator_line;    ///< an operator in place of a model; empty: the model
  std::string engine = "auto";  ///< of it; "line": the line's
  double seconds = 3;
  bool train = false;  ///< steps of training, not runs
};

struct ConvertModelOptions : ModelOptions {
  std::string out;  ///< .json; the weights' file has the same name
  bool force = false;
};

/// Each gives the program's exit code.
int run_networks(const ModelOptions& options);
int run_info(const ModelOptions& options);
int run_explain(const ModelOptions& options);
int run_model(const RunModelOptions& options);
/// 1 if a picture could not be read.
int run_predict(const PredictOptions& options);
int run_eval_model(const EvalModelOptions& options);
int run_check(const CheckModelOptions& options);
int run_trace(const TraceModelOptions& options);
int run_bench(const BenchModelOptions& options);
/// Of an operator.
int run_operator_bench(const BenchModelOptions& options);
int run_convert(const ConvertModelOptions& options);

/// Adds MODEL and --weights.
void add_model(CLI::App* command, ModelOptions& options);
/// Adds what says how numbers are computed: passes, math, dtypes, pixels.
void add_numbers(CLI::App* command, ModelOptions& options);
/// Adds `predict` and `eval`; gives what runs the one that was parsed, or null.
std::function<std::function<int()>()> add_picture_commands(CLI::App& app, const char* device_help);
/// Adds the other subcommands; gives what runs the one that was parsed, or null.
std::function<std::function<int()>()> add_model_commands(CLI::App& app, const char* device_help);

}  // namespace dlprim::cli
