// Training: the first values of parameters, each solver against its formula in double, what it refuses, and a
// small net that learns, twice the same.
#include <cmath>
#include <functional>
#include <map>

#include <dlprim/solver.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Values = std::vector<double>;

Values doubles(const Tensor& x) {
  const std::vector<float> values = host_values(x);
  return Values(values.begin(), values.end());
}

/// One linear layer without bias, whose gradient in a step is dy^T x: whatever dy says.
struct OneLayer {
  Net net{stream(), 5};
  Value x, y;
  Tensor data = device_tensor({1, 1}, {1});

  OneLayer() {
    x = net.input({1});
    y = net.linear(x, LinearLayer(7).without_bias());
  }
  const Parameter& weight() const { return net.parameters()[0]; }
  void backward(const std::vector<float>& dy) {
    Pass pass = net.forward(stream(), Mode::training, {{x, data}}, {y});
    pass.backward(y, {}, device_tensor({1, 7}, dy));
  }
};

/// Takes `steps` steps of `solver`, and the same by `formula`, which changes one weight (in double) by its
/// gradient; its last argument is the weight's memory. Gives the largest relative difference.
double compare(OneLayer& layer, Solver& solver, int steps,
               const std::function<void(double& w, double g, Values& memory)>& formula) {
  Rng rng(17);
  Values w = doubles(layer.weight().value);
  std::vector<Values> memory(w.size(), Values(4, 0.0));
  for (int step = 0; step < steps; step++) {
    const std::vector<float> dy = reals(7, rng, -2, 2);
    layer.backward(dy);
    CHECK(host_values(layer.weight().gradient) == dy);
    solver.step(stream());
    for (size_t i = 0; i < w.size(); i++) formula(w[i], dy[i], memory[i]);
  }
  return deviation(host_values(layer.weight().value), std::vector<float>(w.begin(), w.end()));
}

}  // namespace

TEST_CASE("parameters start as the seed says") {
  const auto make = [](uint64_t seed) {
    Net net(stream(), seed);
    const Value x = net.input({8, 9, 9});
    const Value h = net.batch_norm(net.conv(x, ConvLayer(16, 3)), {}, "norm");
    net.linear(net.flatten(h), LinearLayer(64).named("head"));
    std::map<std::string, std::vector<float>> values;
    for (const Parameter& p : net.parameters()) values[p.name] = host_values(p.value);
    return values;
  };
  const auto values = make(42);
  CHECK(values.size() == 8);
  CHECK(make(42) == values);
  CHECK(make(43).at("head.weight") != values.at("head.weight"));
  CHECK(values.at("norm.weight") == std::vector<float>(16, 1.0f));
  CHECK(values.at("norm.bias") == std::vector<float>(16, 0.0f));
  CHECK(values.at("norm.running_mean") == std::vector<float>(16, 0.0f));
  CHECK(values.at("norm.running_var") == std::vector<float>(16, 1.0f));
  for (const auto& [name, fan_in] :
       std::map<std::string, double>{{"conv1.weight", 72}, {"head.weight", 784}}) {
    const std::vector<float>& w = values.at(name);
    const double bound = 1 / std::sqrt(fan_in);
    double sum = 0, squares = 0, largest = 0;
    for (float v : w) {
      sum += v;
      squares += static_cast<double>(v) * v;
      largest = std::max(largest, std::abs(static_cast<double>(v)));
    }
    const auto count = static_cast<double>(w.size());
    CHECK(largest <= bound * (1 + 1e-6));
    CHECK(largest > 0.98 * bound);
    CHECK(std::abs(sum / count) < 4 * bound / std::sqrt(3 * count));  // four deviations of the mean
    CHECK(squares / count == Approx(bound * bound / 3).epsilon(0.1));
  }
  CHECK(values.at("conv1.bias") != std::vector<float>(16, 0.0f));
}

TEST_CASE("SGD is its formula") {
  const auto [momentum, decay, nesterov] = GENERATE(table<double, double, bool>(
      {{0, 0, false}, {0, 0.1, false}, {0.9, 0, false}, {0.9, 0.1, false}, {0.5, 0.1, true}}));
  CAPTURE(momentum, decay, nesterov);
  OneLayer layer;
  Sgd solver(layer.net, {0.05, momentum, decay, nesterov});
  const double error =
      compare(layer, solver, 12, [&, m = momentum, d = decay, n = nesterov](double& w, double g, Values& v) {
        g += d * w;
        v[0] = m * v[0] + g;
        w -= 0.05 * (n ? g + m * v[0] : v[0]);
      });
  CHECK(error < 1e-6);
}

TEST_CASE("Adam is its formula") {
  const double decay = GENERATE(0.0, 0.1);
  OneLayer layer;
  AdamOptions options;
  options.learning_rate = 0.03;
  options.beta2 = 0.99;
  options.weight_decay = decay;
  Adam solver(layer.net, options);
  const double error = compare(layer, solver, 12, [&](double& w, double g, Values& v) {
    double &m = v[0], &s = v[1], &t = v[2];
    t += 1;
    g += decay * w;
    m = 0.9 * m + 0.1 * g;
    s = 0.99 * s + 0.01 * g * g;
    w -= 0.03 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(s / (1 - std::pow(0.99, t))) + 1e-8);
  });
  CHECK(error < 2e-6);
}

TEST_CASE("AdamW, RMSprop and Adagrad reach a net's parameters") {
  OneLayer decayed;
  AdamOptions adam;
  adam.learning_rate = 0.03;
  adam.weight_decay = 0.5;
  adam.decoupled = adam.amsgrad = true;
  Adam adamw(decayed.net, adam);
  CHECK(compare(decayed, adamw, 6, [&](double& w, double g, Values& v) {
          double &m = v[0], &s = v[1], &t = v[2], &most = v[3];
          t += 1;
          w *= 1 - 0.03 * 0.5;
          m = 0.9 * m + 0.1 * g;
          s = 0.999 * s + 0.001 * g * g;
          most = std::max(most, s);
          w -= 0.03 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(most / (1 - std::pow(0.999, t))) + 1e-8);
        }) < 2e-6);
  OneLayer scaled;
  RmsPropOptions options;
  options.momentum = 0.5;
  RmsProp rmsprop(scaled.net, options);
  CHECK(compare(scaled, rmsprop, 6, [&](double& w, double g, Values& v) {
          v[0] = 0.99 * v[0] + 0.01 * g * g;
          v[1] = 0.5 * v[1] + g / (std::sqrt(v[0]) + 1e-8);
          w -= 0.01 * v[1];
        }) < 2e-6);
  OneLayer summed;
  Adagrad adagrad(summed.net);
  CHECK(compare(summed, adagrad, 6, [&](double& w, double g, Values& v) {
          v[0] += g * g;
          w -= 0.01 * g / (std::sqrt(v[0]) + 1e-10);
        }) < 2e-6);
}

TEST_CASE("Adam's first step is the learning rate, however small the gradient") {
  OneLayer layer;
  Adam solver(layer.net);
  const Values before = doubles(layer.weight().value);
  layer.backward({1e-3f, -1e-3f, 5, -5, 1, 1e3f, 0});
  solver.step(stream());
  const Values after = doubles(layer.weight().value);
  const Values signs{1, -1, 1, -1, 1, 1, 0};
  for (size_t i = 0; i < signs.size(); i++)
    CHECK(before[i] - after[i] == Approx(1e-3 * signs[i]).epsilon(1e-3));
}

TEST_CASE("the learning rate may change between steps") {
  OneLayer layer;
  Sgd solver(layer.net, {0.5});
  double rate = 0.5;
  for (double next : {0.25, 0.0, 2.0}) {
    CHECK(solver.learning_rate() == rate);
    const Values before = doubles(layer.weight().value);
    layer.backward(std::vector<float>(7, 1.0f));
    solver.step(stream());
    CHECK(before[3] - doubles(layer.weight().value)[3] == Approx(rate).epsilon(1e-5));
    solver.set_learning_rate(rate = next);
  }
}

TEST_CASE("solvers refuse what makes no sense") {
  OneLayer layer;
  const auto sgd = [&](double rate, double momentum, double decay, bool nesterov) {
    return error_of<ValidationError>([&] { Sgd(layer.net, {rate, momentum, decay, nesterov}); });
  };
  CHECK(sgd(-1, 0, 0, false) == "learning_rate: -1 must be finite and not negative");
  CHECK(sgd(NAN, 0, 0, false) == "learning_rate: nan must be finite and not negative");
  CHECK(sgd(0.1, 1, 0, false) == "momentum: 1 must be in [0, 1)");
  CHECK(sgd(0.1, -0.5, 0, false) == "momentum: -0.5 must be in [0, 1)");
  CHECK(sgd(0.1, 0.5, -1, false) == "weight_decay: -1 must be finite and not negative");
  CHECK(sgd(0.1, 0, 0, true) == "nesterov: needs a momentum above 0");
  const auto adam = [&](auto change) {
    AdamOptions options;
    change(options);
    return error_of<ValidationError>([&] { Adam(layer.net, options); });
  };
  CHECK(adam([](AdamOptions& o) { o.beta1 = 1; }) == "beta1: 1 must be in [0, 1)");
  CHECK(adam([](AdamOptions& o) { o.beta2 = NAN; }) == "beta2: nan must be in [0, 1)");
  CHECK(adam([](AdamOptions& o) { o.epsilon = INFINITY; }) == "epsilon: inf must be finite and not negative");
  CHECK(adam([](AdamOptions& o) { o.weight_decay = -1; }) ==
        "weight_decay: -1 must be finite and not negative");
  Adam solver(layer.net);
  CHECK(error_of<ValidationError>([&] { solver.set_learning_rate(INFINITY); }) ==
        "learning_rate: inf must be finite and not negative");
  CHECK(error_of<ValidationError>([&] { solver.step(stream()); }) ==
        "net: no parameter has a gradient: Pass::backward comes before Solver::step");
  const Context foreign(context().device());
  CHECK(error_of<ValidationError>([&] { solver.step(Stream(foreign)); }) ==
        "stream: belongs to another context than the net");
}

namespace {

/// Images of 8 x 8 with a bright square in one of four corners, under noise: the corner is the label.
struct Corners {
  std::vector<float> images;
  std::vector<int32_t> labels;
  explicit Corners(int64_t count, uint64_t seed) {
    Rng rng(seed);
    for (int64_t i = 0; i < count; i++) {
      const auto label = static_cast<int32_t>(rng.integer(0, 3));
      labels.push_back(label);
      for (int64_t p = 0; p < 64; p++) {
        const bool bright = p / 32 == label / 2 && p % 8 / 4 == label % 2;
        images.push_back(static_cast<float>(rng.real(-1, 1) + (bright ? 0.7 : 0.0)));
      }
    }
  }
};

struct Trained {
  std::vector<float> losses;
  double accuracy = 0;
  std::vector<std::vector<unsigned char>> weights;
};

Trained train(uint64_t seed, bool adam) {
  const Corners data(160, 1), test(100, 2);
  Net net(stream(), seed);
  const Value x = net.input({1, 8, 8}), t = net.input({}, DType::i32);
  Value h = net.relu(net.batch_norm(net.conv(x, ConvLayer(4, 3).pad(1).without_bias())));
  h = net.dropout(net.flatten(net.max_pool(h, 2)), 0.2);
  const Value logits = net.linear(h, 4), loss = net.cross_entropy(logits, t),
              correct = net.count_correct(logits, t);
  std::unique_ptr<Solver> solver;
  if (adam)
    solver = std::make_unique<Adam>(net, AdamOptions{0.01});
  else
    solver = std::make_unique<Sgd>(net, SgdOptions{0.1, 0.9});
  const auto feeds = [&](const Corners& from, int64_t begin, int64_t count) {
    const auto b = static_cast<std::ptrdiff_t>(begin), e = static_cast<std::ptrdiff_t>(begin + count);
    Tensor labels(context(), {count}, DType::i32);
    write(stream(), labels, std::vector<int32_t>(from.labels.begin() + b, from.labels.begin() + e));
    const std::vector<float> images(from.images.begin() + 64 * b, from.images.begin() + 64 * e);
    return std::vector<Feed>{{x, device_tensor({count, 1, 8, 8}, images)}, {t, labels}};
  };
  Trained result;
  for (int step = 0; step < 20; step++) {  // batches of 48, 48, 48 and 16
    const int64_t begin = step % 4 * 48, count = std::min<int64_t>(48, 160 - begin);
    Pass pass = net.forward(stream(), Mode::training, feeds(data, begin, count), {loss});
    pass.backward(loss);
    solver->step(stream());
    result.losses.push_back(host_values(pass[loss])[0]);
  }
  const Pass pass = net.forward(stream(), Mode::evaluation, feeds(test, 0, 100), {correct});
  result.accuracy = host_values(pass[correct])[0] / 100;
  for (const Parameter& p : net.parameters()) result.weights.push_back(host_bytes(p.value));
  return result;
}

}  // namespace

TEST_CASE("a small net learns, and the same seed gives the same bits") {
  const bool adam = GENERATE(true, false);
  CAPTURE(adam);
  const Trained first = train(3, adam);
  CHECK(first.losses.front() > 1.0);  // ln 4 is 1.39
  CHECK(first.losses.back() < 0.5 * first.losses.front());
  CHECK(first.accuracy > 0.8);  // by chance 0.25
  const Trained again = train(3, adam), other = train(4, adam);
  CHECK(again.weights == first.weights);
  CHECK(again.losses == first.losses);
  CHECK(other.weights != first.weights);
}
