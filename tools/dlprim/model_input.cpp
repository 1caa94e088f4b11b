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
    throw ValidationError("input", "'" + name + "' is no input of the model ('dlprim info' lists them)");
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
Shape sizes_of(const Model::Port& port, const std::map<std::string, Shape>& asked,
               std::vector<std::string>& notes) {
  if (const auto found = asked.find(port.name); found != asked.end()) return found->second;
  Shape shape;
  bool guessed = !port.shape;
  for (const Dimension& d : port.shape.value_or(std::vector<Dimension>())) {
    shape.push_back(d.size < 0 ? 1 : d.size);
    guessed = guessed || d.size < 0;
  }
  if (guessed)
    notes.push_back("input '" + port.name + "' is " + describe(port) + ": " + to_string(shape) +
                    " is taken; --shape says another");
  return shape;
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
  std::map<std::string, Shape> asked;
  for (const std::string& text : shapes) {
    const auto [name, sizes] = split_name(ports, text);
    asked[name] = parse_shape(sizes);
  }
  HostTensors tensors;
  std::map<std::string, bool> random;
  for (const std::string& text : inputs) {
    if (ends_with(text, ".npz") && text.find('=') == std::string::npos) {
      HostTensors archive = read_npz(text);
      for (const Model::Port& port : ports)
        if (const auto found = archive.find(port.name); found != archive.end())
          tensors[port.name] = found->second;
      continue;
    }
    const auto [name, source] = split_name(ports, text);
    if (source == "random") {
      random[name] = true;
      continue;
    }
    const auto port =
        std::find_if(ports.begin(), ports.end(), [&of = name](const Model::Port& p) { return p.name == of; });
    const auto shape = asked.find(name);
    tensors[name] =
        read_input(source, *port, shape == asked.end() ? std::nullopt : std::optional<Shape>(shape->second),
                   pixels, notes);
  }
  for (const Model::Port& port : ports) {
    if (tensors.count(port.name)) continue;
    tensors[port.name] = random_tensor(port, sizes_of(port, asked, notes));
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
      options(options_of(options_)) {}

Model::Tensors ModelRun::feeds() const {
  return to_device(stream, inputs);
}

Model::Tensors to_device(const Stream& stream, const HostTensors& tensors) {
  Model::Tensors on_device;
  for (const auto& [name, host] : tensors) on_device[name] = dlprim::to_device(stream, host);
  return on_device;
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
