// What a model is fed from the command line: files, or random numbers of the model's shapes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>

#include "input_file.hpp"
#include "model_commands.hpp"
#include "waiting.hpp"

namespace dlprim::cli {

/// The model of a command: read from its file, or made by its name. `fixed`: open sizes are as --batch says,
/// and those of a network by name, unless its inputs are given, those that it was made for. `classes`: of a
/// network by name.
NetGraph load_graph(const ModelOptions& options, bool fixed = true, int64_t classes = 1000);

/// By names of inputs.
using HostTensors = std::map<std::string, HostTensor>;

/// `inputs`: "name=FILE" (see read_input), "name=random", or without "name=" for the only input, or
/// "FILE.npz" with several (and with outputs, which are not read); `shapes`: "name=1x3x224x224", or without
/// "name=". An input that nothing is said of is random. Sizes that are not known are 1. Each guess is a line
/// in `notes`. Throws ValidationError, Error.
HostTensors gather_inputs(const Model& model, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& shapes, std::optional<Pixels> pixels,
                          std::vector<std::string>& notes);

/// The same of a command's options; guesses are told on the standard error.
HostTensors gather_inputs(const Model& model, const ModelOptions& options);

/// What a command runs a model with.
struct ModelRun {
  /// `measures`: the stream's queue measures device time.
  ModelRun(const Model& model, const ModelOptions& options, bool measures = false);
  /// The inputs, on the device.
  Model::Tensors feeds() const;

  HostTensors inputs;
  Device device;
  Context context;
  Stream stream;
  Options options;
  Waiting waiting;  ///< tells of compilation
};
Options options_of(const ModelOptions& options);

/// All of them on the device.
Model::Tensors to_device(const Stream& stream, const HostTensors& tensors);

/// "'x', 'mask'"
std::string names_of(const std::vector<Model::Port>& ports);
/// "f32[1, 3, 224, 224]"
std::string describe(DType dtype, const Shape& shape);
/// The same of an input or output: sizes by name, "?" where they are open.
std::string describe(const Model::Port& port);

}  // namespace dlprim::cli
