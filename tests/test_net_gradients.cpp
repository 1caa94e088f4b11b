// Gradients of nets: against differences of a loss computed in double, and where a value is used more than
// once.
#include <algorithm>
#include <cmath>
#include <map>

#include <dlprim/net.hpp>

#include "cases/conv.hpp"
#include "cases/loss.hpp"
#include "cases/nn.hpp"
#include "cases/pool.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

Values doubles(const Tensor& x) {
  const std::vector<float> values = host_values(x);
  return Values(values.begin(), values.end());
}

std::vector<float> floats(const Values& x) {
  return std::vector<float>(x.begin(), x.end());
}

/// 3 x 3, padding 1, x: [n, c, h, w].
Values conv3x3(const Values& x, int64_t n, int64_t c, int64_t h, int64_t w, const Values& weight,
               const Values& bias) {
  const auto k_count = static_cast<int64_t>(bias.size());
  Values y;
  for (int64_t i = 0; i < n * k_count * h * w; i++) {
    const int64_t q = i % w, p = i / w % h, k = i / w / h % k_count, b = i / w / h / k_count;
    double sum = bias[static_cast<size_t>(k)];
    for (int64_t t = 0; t < c * 9; t++) {
      const int64_t col = q + t % 3 - 1, row = p + t / 3 % 3 - 1, channel = t / 9;
      if (row >= 0 && row < h && col >= 0 && col < w)
        sum += x[static_cast<size_t>(((b * c + channel) * h + row) * w + col)] *
               weight[static_cast<size_t>(k * c * 9 + t)];
    }
    y.push_back(sum);
  }
  return y;
}

Values linear_reference(const Values& x, const Values& weight, const Values& bias) {
  const size_t n = bias.size(), k = weight.size() / n;
  Values y;
  for (size_t b = 0; b < x.size() / k; b++)
    for (size_t j = 0; j < n; j++) {
      double sum = bias[j];
      for (size_t i = 0; i < k; i++) sum += x[b * k + i] * weight[j * k + i];
      y.push_back(sum);
    }
  return y;
}

Values activated(Activation f, Values x) {
  for (double& v : x) v = activation_value(f, v);
  return x;
}

/// A net with every kind of layer that has a gradient, and its loss in double.
struct SmallNet {
  static constexpr int64_t kBatch = 3, kChannels = 2, kSize = 6, kFilters = 3, kClasses = 4;
  std::vector<int32_t> labels{2, 0, 3};
  PoolMode pool;
  Activation f;
  Net net;
  Value x, target, logits, loss;

  SmallNet(PoolMode pool_, Activation f_) : pool(pool_), f(f_), net(stream(), 7) {
    x = net.input({kChannels, kSize, kSize});
    target = net.input({}, DType::i32);
    Value h = net.batch_norm(net.conv(x, ConvLayer(kFilters, 3).pad(1)));
    h = net.activation(h, f);
    h = net.add(h, net.conv(h, ConvLayer(kFilters, 3).pad(1)));
    h = pool == PoolMode::max ? net.max_pool(h, 2) : net.avg_pool(h, 2);
    logits = net.linear(net.flatten(h), kClasses);
    loss = net.cross_entropy(logits, target);
  }

  Tensor labels_tensor() const {
    Tensor t(context(), {kBatch}, DType::i32);
    write(stream(), t, labels);
    return t;
  }
  double reference(const std::map<std::string, Values>& v) const {
    const Shape map{kBatch, kFilters, kSize, kSize};
    Values h = conv3x3(v.at("x"), kBatch, kChannels, kSize, kSize, v.at("conv1.weight"), v.at("conv1.bias"));
    h = batch_norm_reference(h, map, v.at("batch_norm1.weight"), v.at("batch_norm1.bias"), 1e-5).y;
    h = activated(f, h);
    const Values g = conv3x3(h, kBatch, kFilters, kSize, kSize, v.at("conv2.weight"), v.at("conv2.bias"));
    for (size_t i = 0; i < h.size(); i++) h[i] += g[i];
    h = pool_reference(h, map, {pool, {2, 2}}).y;
    h = linear_reference(h, v.at("linear1.weight"), v.at("linear1.bias"));
    ClassLossReference loss;
    loss.shape = {kBatch, kClasses};
    loss.target.assign(labels.begin(), labels.end());
    return loss.loss(h)[0];
  }
};

}  // namespace

TEST_CASE("gradients of a net are the differences of its loss") {
  const auto [pool, f] = GENERATE(table<PoolMode, Activation>({{PoolMode::average, Activation::tanh},
                                                               {PoolMode::average, Activation::sigmoid},
                                                               {PoolMode::max, Activation::relu},
                                                               {PoolMode::max, Activation::relu6}}));
  CAPTURE(name_of(f));
  SmallNet small(pool, f);
  Rng rng(3);
  const Tensor x = device_tensor({3, 2, 6, 6}, reals(3 * 2 * 36, rng));
  std::map<std::string, Values> values{{"x", doubles(x)}};
  for (const Parameter& p : small.net.parameters()) values[p.name] = doubles(p.value);

  Pass pass = small.net.forward(stream(), Mode::training,
                                {{small.x, x}, {small.target, small.labels_tensor()}}, {small.loss});
  CHECK(host_values(pass[small.loss])[0] == Approx(small.reference(values)).epsilon(1e-5));
  pass.backward(small.loss, {small.x});

  std::map<std::string, Values> gradients{{"x", doubles(pass.gradient(small.x))}};
  for (const Parameter& p : small.net.parameters())
    if (p.trained) gradients[p.name] = doubles(p.gradient);
  CHECK(gradients.size() == 9);
  for (const auto& [name, gradient] : gradients) {
    const auto loss_of = [&, which = name](const Values& v) {
      std::map<std::string, Values> changed = values;
      changed[which] = v;
      return small.reference(changed);
    };
    double worst = 0, largest = 0;
    for (size_t i = 0; i < gradient.size(); i++) {
      // Small enough to stay on one side of the kinks of relu and the maximum, for this data.
      const double expected = numeric_gradient(loss_of, values[name], i, 1e-5);
      worst = std::max(worst, std::abs(gradient[i] - expected));
      largest = std::max(largest, std::abs(expected));
    }
    INFO(name);
    CHECK(worst < 2e-5);
    // Otherwise nothing was compared. BatchNorm takes the first bias out again, so its gradient is 0.
    CHECK((name == "conv1.bias" ? largest < 1e-6 : largest > 1e-3));
  }
}

TEST_CASE("gradients of a value used more than once add up") {
  Net net(stream(), 1);
  const Value x = net.input({5});
  const Value twice = net.add(x, x);
  const Value kinks = net.add(net.relu(x), net.relu6(twice));
  const Value y = net.add(net.add(kinks, x), twice);
  const std::vector<float> values{-3, -1, 1, 2, 5, 7, -8, 4, 1, 2};
  const std::vector<float> dy{1, 2, 3, 4, 5, -1, -2, -3, -4, -5};
  const Tensor dy_tensor = device_tensor({2, 5}, dy);
  Pass pass = net.forward(stream(), Mode::training, {{x, device_tensor({2, 5}, values)}}, {y});
  std::vector<float> expected_y, expected_dx;
  for (size_t i = 0; i < values.size(); i++) {
    const float v = values[i], t = 2 * v;
    expected_y.push_back(std::max(v, 0.0f) + std::min(std::max(t, 0.0f), 6.0f) + v + t);
    expected_dx.push_back(dy[i] * ((v > 0) + 2 * (t > 0 && t < 6) + 1 + 2));
  }
  CHECK(host_values(pass[y]) == expected_y);
  pass.backward(y, {x, twice, y}, dy_tensor);
  CHECK(host_values(pass.gradient(x)) == expected_dx);
  CHECK(host_values(pass.gradient(y)) == dy);
  CHECK(host_values(dy_tensor) == dy);  // the caller's tensor is read only
  std::vector<float> expected_twice;
  for (size_t i = 0; i < values.size(); i++)
    expected_twice.push_back(dy[i] * static_cast<float>((2 * values[i] > 0 && 2 * values[i] < 6) + 1));
  CHECK(host_values(pass.gradient(twice)) == expected_twice);
}

TEST_CASE("softmax, global average pooling and strided windows have gradients") {
  Net net(stream(), 1);
  const Value x = net.input({3, 5, 4});
  const Value average = net.flatten(net.global_avg_pool(x));
  const Value y = net.softmax(average);
  CHECK(net.shape(average) == Shape{1, 3});
  Rng rng(5);
  const Tensor data = device_tensor({2, 3, 5, 4}, reals(120, rng));
  const Values dy{1, 0, -1, 0.5, 2, 0};
  Pass pass = net.forward(stream(), Mode::training, {{x, data}}, {y});
  pass.backward(y, {x}, device_tensor({2, 3}, floats(dy)));
  const auto dot = [&](const Values& v) {
    Values means(6, 0.0);
    for (size_t i = 0; i < v.size(); i++) means[i / 20] += v[i] / 20;
    const Values p = softmax_reference(means, {2, 3}, 1, false);
    double sum = 0;
    for (size_t i = 0; i < p.size(); i++) sum += p[i] * dy[i];
    return sum;
  };
  const Values dx = doubles(pass.gradient(x)), at = doubles(data);
  for (size_t i = 0; i < dx.size(); i += 7) CHECK(dx[i] == Approx(numeric_gradient(dot, at, i)).margin(1e-6));
  CHECK(net.shape(net.max_pool(x, 3, 2, 1)) == Shape{1, 3, 3, 2});
  CHECK(net.shape(net.conv(x, ConvLayer(6, 3).pad(1).stride(2).groups(3))) == Shape{1, 6, 3, 2});
}
