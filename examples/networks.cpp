// Five image networks through Net: an inference and some training steps of each, with times and losses, on
// random images of ten brightnesses. Whatever is wrong (the number of parameters, an output, a loss, a
// gradient) is said, and the program exits with 1. Links dlprim::net.
//
//   example_networks [--device NAME] [--batch 64] [--image 224] [--steps 3] [alexnet resnet18 ...]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/solver.hpp>

#include "networks/alexnet.hpp"
#include "networks/mobilenet.hpp"
#include "networks/resnet.hpp"
#include "networks/vgg.hpp"

using namespace dlprim;

namespace {

constexpr int64_t kClasses = 1000;

struct Network {
  const char* name;
  Value (*build)(Net& net, Value images);
  int64_t parameters;    ///< that are trained, for images of any size
  double learning_rate;  ///< Adam's; networks without BatchNorm want a smaller one
};

constexpr Network kNetworks[] = {{"alexnet", networks::alexnet, 61100840, 1e-4},
                                 {"resnet18", networks::resnet18, 11689512, 1e-3},
                                 {"resnet50", networks::resnet50, 25557032, 1e-3},
                                 {"vgg16", networks::vgg16, 138357544, 1e-4},
                                 {"mobilenet_v2", networks::mobilenet_v2, 3504872, 1e-3}};

struct Arguments {
  std::string device;
  int64_t batch = 0, image = 0, steps = 3;  ///< 0: by the kind of device
  std::vector<std::string> names;
};

int64_t number(const std::string& option, const std::string& text, int64_t least) {
  size_t used = 0;
  int64_t value = -1;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {  // no number, or too large: as if it were too small
  }
  if (used != text.size() || value < least)
    throw std::invalid_argument(option + ": '" + text + "' must be a number from " + std::to_string(least));
  return value;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; i++) {
    const std::string option = argv[i];
    if (option.rfind("--", 0) != 0) {
      const bool known = std::any_of(std::begin(kNetworks), std::end(kNetworks),
                                     [&](const Network& network) { return option == network.name; });
      if (!known) throw std::invalid_argument("no network '" + option + "'");
      a.names.push_back(option);
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument(option + ": needs a value");
    const std::string value = argv[++i];
    if (option == "--device")
      a.device = value;
    else if (option == "--batch")
      a.batch = number(option, value, 2);  // two images must be told apart
    else if (option == "--image")
      a.image = number(option, value, 1);
    else if (option == "--steps")
      a.steps = number(option, value, 2);  // a loss must fall
    else
      throw std::invalid_argument("no option '" + option + "'");
  }
  return a;
}

struct Data {
  Tensor images, labels;
};

/// Image i is noise around one of ten brightnesses, and that is its label.
Data make_data(const Stream& stream, int64_t batch, int64_t size) {
  std::mt19937 random(1);
  const auto elements = static_cast<size_t>(3 * size * size);
  std::vector<float> pixels(static_cast<size_t>(batch) * elements);
  std::vector<int32_t> labels(static_cast<size_t>(batch));
  for (size_t i = 0; i < labels.size(); i++) {
    labels[i] = static_cast<int32_t>(i % 10);
    const float brightness = 0.3f * (static_cast<float>(labels[i]) - 4.5f);
    for (size_t k = 0; k < elements; k++)
      pixels[i * elements + k] = brightness + 2.0f * static_cast<float>(random()) / 4294967296.0f - 1.0f;
  }
  const Data data{Tensor(stream, {batch, 3, size, size}), Tensor(stream, {batch}, DType::i32)};
  write(stream, data.images, pixels);
  write(stream, data.labels, labels);
  return data;
}

std::string text(float value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%g", value);
  return digits;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what);
}

/// From Net's first weights, uniform in +-1/sqrt(fan-in), to He's, sqrt(6) as wide: with those the signal
/// reaches the end of VGG. The last layer stays as it is: logits need not be large.
void widen_weights(const Stream& stream, const Net& net) {
  for (const Parameter& p : net.parameters())
    if (p.value.rank() > 1 && p.name != "classifier.weight")
      pointwise(stream, {p.value}, {p.value}, {std::sqrt(6.0)}, "y0 = s0 * x0");
}

void check_parameters(const Net& net, int64_t expected) {
  int64_t count = 0;
  for (const Parameter& p : net.parameters())
    if (p.trained) count += p.value.numel();
  if (count != expected) fail(std::to_string(count) + " parameters, must be " + std::to_string(expected));
}

/// Every class of every image has a finite number, and the first two images have different ones: by more than
/// rounding.
void check_logits(const Stream& stream, const Tensor& logits, int64_t batch) {
  if (logits.shape() != Shape{batch, kClasses})
    fail("inference gave " + logits.describe() + ", must be " + to_string({batch, kClasses}));
  const std::vector<float> values = read<float>(stream, logits);
  float largest = 0, difference = 0;
  for (size_t i = 0; i < values.size(); i++) {
    const size_t image = i / kClasses;
    if (!std::isfinite(values[i]))
      fail("inference gave " + text(values[i]) + " for image " + std::to_string(image));
    if (image > 0) continue;
    largest = std::max(largest, std::abs(values[i]));
    difference = std::max(difference, std::abs(values[i] - values[i + kClasses]));
  }
  if (!(difference > 1e-4f * largest))
    fail("inference gave two images the same logits, but for " + text(difference) + " of " + text(largest));
}

/// A largest magnitude that is finite and above 0, of every parameter.
void check_gradients(const Stream& stream, const Net& net, int64_t step) {
  std::vector<Parameter> trained;
  for (const Parameter& p : net.parameters())
    if (p.trained) trained.push_back(p);
  const Tensor largest(stream, {static_cast<int64_t>(trained.size())});
  for (size_t i = 0; i < trained.size(); i++) {
    const Tensor& gradient = trained[i].gradient;
    if (!gradient.defined()) fail(trained[i].name + " has no gradient in step " + std::to_string(step));
    const auto place = static_cast<int64_t>(i);
    reduction(stream, "linf", gradient.reshape({gradient.numel()}), {}, {largest.slice(0, place, place + 1)});
  }
  const std::vector<float> values = read<float>(stream, largest);
  for (size_t i = 0; i < trained.size(); i++)
    if (!std::isfinite(values[i]) || values[i] == 0)
      fail("the gradient of " + trained[i].name + " has the largest magnitude " + text(values[i]) +
           " in step " + std::to_string(step));
}

/// Milliseconds from here until the device is done with f().
template <class F>
double milliseconds(const Stream& stream, const F& f) {
  stream.finish();
  const auto start = std::chrono::steady_clock::now();
  f();
  stream.finish();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void run(const Stream& stream, const Network& network, const Data& data, int64_t steps) {
  const Shape& shape = data.images.shape();
  Net net(stream, /*seed=*/1);
  const Value images = net.input({shape[1], shape[2], shape[3]}), labels = net.input({}, DType::i32);
  const Value logits = network.build(net, images), loss = net.cross_entropy(logits, labels);
  check_parameters(net, network.parameters);
  widen_weights(stream, net);

  AdamOptions options;
  options.learning_rate = network.learning_rate;
  Adam solver(net, options);
  double first = 0, later = INFINITY;
  std::vector<float> losses;
  for (int64_t step = 1; step <= steps; step++) {
    Tensor value;
    const double time = milliseconds(stream, [&] {
      Pass pass = net.forward(stream, Mode::training, {{images, data.images}, {labels, data.labels}}, {loss});
      pass.backward(loss);
      solver.step(stream);
      value = pass[loss];
    });
    if (step == 1)
      first = time;
    else
      later = std::min(later, time);
    losses.push_back(read<float>(stream, value)[0]);
    if (!std::isfinite(losses.back()))
      fail("the loss of step " + std::to_string(step) + " is " + text(losses.back()));
    check_gradients(stream, net, step);
  }
  Tensor inferred;
  const auto infer = [&] {
    inferred = net.forward(stream, Mode::evaluation, {{images, data.images}}, {logits})[logits];
  };
  infer();  // compiles
  const double inference = milliseconds(stream, infer);
  check_logits(stream, inferred, shape[0]);

  std::printf("%-12s %9lld parameters  first step %8.1f ms  later %7.1f ms  inference %7.1f ms  losses",
              network.name, static_cast<long long>(network.parameters), first, later, inference);
  for (float value : losses) std::printf(" %.4f", value);
  std::printf("\n");
  std::fflush(stdout);
  if (!(losses.back() < losses.front()))
    fail("the loss went from " + text(losses.front()) + " to " + text(losses.back()));
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = parse(argc, argv);
  const Context context(Device::find(arguments.device));
  const Stream stream(context);
  const bool cpu = context.device().kind() == DeviceKind::cpu;
  const int64_t batch = arguments.batch ? arguments.batch : cpu ? 4 : 64;
  const int64_t image = arguments.image ? arguments.image : cpu ? 64 : 224;
  const Data data = make_data(stream, batch, image);
  std::printf("%s, batches of %lld images of %lld x %lld\n", context.device().name().c_str(),
              static_cast<long long>(batch), static_cast<long long>(image), static_cast<long long>(image));
  bool good = true;
  for (const Network& network : kNetworks) {
    const auto& names = arguments.names;
    if (!names.empty() && std::find(names.begin(), names.end(), network.name) == names.end()) continue;
    try {
      run(stream, network, data, arguments.steps);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", network.name, error.what());
      good = false;
    }
  }
  return good ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "example_networks: %s\n", error.what());
  return 1;
}
