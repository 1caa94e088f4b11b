#include "model_input.hpp"

#include <algorithm>
#include <iostream>
#include <random>

#include <dlprim/net_host.hpp>

#include "device_choice.hpp"
#include "npy.hpp"

namespace dlprim::cli {
namespace {

/// "name=rest", or the name of the only input.
std::pair<std::string, std::string> split_name(const std::vector<Model::Port>& ports,
                                               const std::string& text) {
  const size_t at = text.find('=');
  const std::string name =
      at == std::string::npos ? (ports.size() == 1 ? ports[0].name : "") : text.substr(0, at);
  if (at == std::string::npos && ports.size() != 1)
    throw ValidationError("input", "'" + text +
                                       "' must begin with the name of an input and '=': the model has " +
                                       std::to_string(ports.size()) + " inputs");
  const bool known =
      std::any_of(ports.begin(), ports.end(), [&](const Model::Port& p) { return p.name == name; });
  if (!known)
    throw ValidationError("input",
                          "'" + name + "' is no input of the model; its inputs are " + names_of(ports));
  return {name, at == std::string::npos ? text : text.substr(at + 1)};
}

Shape parse_shape(const std::string& text) {
  Shape shape;
  size_t at = 0;
  while (at < text.size()) {
    size_t used = 0;
    int64_t size = -1;
    try {
      size = std::stoll(text.substr(at), &used);
    } catch (const std::exception&) {
      used = 0;
    }
    at += used;
    if (used == 0 || size < 0 || (at < text.size() && text[at] != 'x' && text[at] != ','))
      throw ValidationError("shape", "'" + text + "' must be sizes such as 1x3x224x224");
    shape.push_back(size);
    at++;
  }
  return shape;
}

/// The sizes of an input: as asked, or as the model says, with 1 where it does not.
Shape sizes_of(const Model::Port& port, const InputForm& form, std::vector<std::string>& notes) {
  if (form.shape) return *form.shape;
  Shape shape;
  for (const int64_t size : known_sizes(port, form)) shape.push_back(size < 0 ? 1 : size);
  bool open = !port.shape;
  for (const Dimension& d : port.shape.value_or(std::vector<Dimension>())) open = open || d.size < 0;
  if (open)
    notes.push_back("input '" + port.name + "' is " + describe(port) + ": " + to_string(shape) + " is taken" +
                    (form.images ? ", with the sizes of pictures from the model's file" : "") +
                    "; --shape says another");
  return shape;
}

/// What an archive holds for the model's inputs. Outputs may be in it too, for 'dlprim check'.
void take_archive(const std::string& path, const Model& model, HostTensors& tensors) {
  const std::vector<Model::Port> inputs = model.inputs(), outputs = model.outputs();
  for (const auto& [name, tensor] : read_npz(path)) {
    const auto named = [&of = name](const Model::Port& p) { return p.name == of; };
    if (std::any_of(inputs.begin(), inputs.end(), named)) {
      tensors[name] = tensor;
    } else if (std::none_of(outputs.begin(), outputs.end(), named)) {
      throw ValidationError("input", "'" + path + "' has an array '" + name +
                                         "', which is no input or output of the model; its inputs are " +
                                         names_of(inputs) + ", its outputs " + names_of(outputs));
    }
  }
}

/// Floats in [0, 1), integers 0 to 9, truths; the same in every run.
HostTensor random_tensor(const Model::Port& port, const Shape& shape) {
  const DType dtype = port.dtype.value_or(DType::f32);
  std::mt19937 source(1);
  std::vector<double> numbers(static_cast<size_t>(element_count(shape)));
  for (double& x : numbers)
    x = is_floating(dtype)        ? (source() >> 8) * 0x1p-24
        : dtype == DType::boolean ? source() & 1
                                  : source() % 10;
  return host_tensor(dtype, shape, numbers);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

HostTensors gather_inputs(const Model& model, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& shapes, std::optional<Pixels> pixels,
                          std::vector<std::string>& notes) {
  const std::vector<Model::Port> ports = model.inputs();
  std::map<std::string, InputForm> forms;
  for (const Model::Port& port : ports) forms[port.name].pixels = pixels;
  if (!ports.empty()) forms[ports[0].name].images = image_input(model.graph());
  for (const std::string& text : shapes) {
    const auto [name, sizes] = split_name(ports, text);
    forms[name].shape = parse_shape(sizes);
  }
  HostTensors tensors;
  std::map<std::string, bool> random;
  for (const std::string& text : inputs) {
    if (ends_with(text, ".npz") && text.find('=') == std::string::npos) {
      take_archive(text, model, tensors);
      continue;
    }
    const auto [name, source] = split_name(ports, text);
    if (source == "random") {
      random[name] = true;
      continue;
    }
    const auto port =
        std::find_if(ports.begin(), ports.end(), [&of = name](const Model::Port& p) { return p.name == of; });
    tensors[name] = read_input(source, *port, forms[name], notes);
  }
  for (const Model::Port& port : ports) {
    if (tensors.count(port.name)) continue;
    tensors[port.name] = random_tensor(port, sizes_of(port, forms[port.name], notes));
    if (!random.count(port.name))
      notes.push_back("input '" + port.name + "' is not given: random numbers are taken");
  }
  return tensors;
}

HostTensors gather_inputs(const Model& model, const ModelOptions& options) {
  std::vector<std::string> notes;
  HostTensors inputs = gather_inputs(model, options.inputs, options.shapes, options.pixels_choice(), notes);
  for (const std::string& note : notes) std::cerr << note << std::endl;
  return inputs;
}

Options options_of(const ModelOptions& options) {
  Options result;
  result.math = options.math == "tf32"       ? MathMode::tf32
                : options.math == "standard" ? MathMode::standard
                                             : MathMode::strict;
  return result;
}

ModelRun::ModelRun(const Model& model, const ModelOptions& options_, bool measures)
    : inputs(gather_inputs(model, options_)),
      device(choose_device(options_.device)),
      context(device),
      stream(measures ? profiling_stream(context) : Stream(context)),
      options(options_of(options_)),
      waiting(compiling()) {}

Model::Tensors ModelRun::feeds() const {
  return to_device(stream, inputs);
}

Model::Tensors to_device(const Stream& stream, const HostTensors& tensors) {
  Model::Tensors on_device;
  for (const auto& [name, host] : tensors) on_device[name] = dlprim::to_device(stream, host);
  return on_device;
}

std::string names_of(const std::vector<Model::Port>& ports) {
  std::string names;
  for (const Model::Port& port : ports) names += (names.empty() ? "'" : ", '") + port.name + "'";
  return names.empty() ? "none" : names;
}

std::string describe(DType dtype, const Shape& shape) {
  return name_of(dtype) + to_string(shape);
}

std::string describe(const Model::Port& port) {
  std::string text = port.dtype ? name_of(*port.dtype) : "?";
  if (!port.shape) return text + "[...]";
  text += "[";
  for (size_t i = 0; i < port.shape->size(); i++) {
    const Dimension& d = (*port.shape)[i];
    text += (i ? ", " : "") + (d.size >= 0 ? std::to_string(d.size) : d.symbol.empty() ? "?" : d.symbol);
  }
  return text + "]";
}

}  // namespace dlprim::cli
