// `dlprim train MODEL DATA`.
#pragma once

#include <string>

#include "model_commands.hpp"

namespace dlprim::cli {

struct TrainModelOptions : ModelOptions {
  TrainModelOptions() { batch = 32; }
  std::string data;                ///< see ImageSets
  std::string out = "dlprim-run";  ///< a folder
  std::string resume;              ///< a checkpoint; empty: from the start
  std::string solver = "adamw", schedule = "cosine";
  double learning_rate = 0;  ///< 0: the solver's usual one
  double weight_decay = 0, label_smoothing = 0, clip = 0;
  int64_t epochs = 5, warm_up = 0, accumulate = 1, size = 0;
  uint64_t seed = 1;
  int64_t shift = 0;
  bool flip = false, recompute = false, skip_bad = false;
};
int run_train_model(const TrainModelOptions& options);

struct TrainOptions;
CLI::App* add_train(CLI::App& app, TrainOptions& options, TrainModelOptions& of_model,
                    const char* device_help);

}  // namespace dlprim::cli
