// The subcommands of the `dlprim` program. main.cpp reads the options and calls these; each prints to stdout,
// gives the exit code back and throws dlprim::Error for what the user has to know.
#pragma once

#include <cstdint>
#include <string>

#include <dlprim/error.hpp>

namespace dlprim::cli {

/// What was asked for does not exist or says nothing. The program exits with 2.
class BadInput : public Error {
 public:
  using Error::Error;
};

/// `dlprim devices`: a table, or with `json` a line of JSON for each device, of what the OpenCL loader offers
/// and what the probes found. 2 if no device works.
int run_devices(bool json);
/// How to get an OpenCL device: printed before the program exits with 2 because there is none.
std::string no_device_advice();

struct TrainOptions {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string device;  ///< see Device::find
  std::string out = "dlprim-run";
  std::string solver = "adam";
  int64_t epochs = 5;
  int64_t batch = 128;
  uint64_t seed = 1;
  double learning_rate = 0;  ///< 0: the solver's usual one
};
int run_train(const TrainOptions& options);

struct EvalOptions {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string device;
  std::string weights;
  int64_t batch = 500;
};
int run_eval(const EvalOptions& options);

struct TuneOptions {
  std::string device;
  std::string op = "gemm";
  bool quick = false, full = false;  ///< neither: quick
  std::string shapes;                ///< a file of problems instead
  bool exhaustive = false;
  std::string out;  ///< for JSON; empty: none
};
/// 130 if Ctrl-C ended it early.
int run_tune(const TuneOptions& options);

struct ReadOptions {
  std::string picture;  ///< PNG or JPEG
  std::string models;   ///< a folder, see load_text_models
  std::string device;
  std::string save;      ///< for the picture with boxes, PNG; empty: none
  bool upright = false;  ///< no line stands upside down
  bool json = false;
};
int run_read(const ReadOptions& options);

}  // namespace dlprim::cli
