// Nets: the two modes, batches that change, what a pass keeps, and everything that is refused. Gradients are
// in test_net_gradients.cpp, memory that runs out in test_net_failures.cpp.
#include <algorithm>
#include <cmath>

#include <dlprim/net.hpp>

#include "cases/conv.hpp"
#include "cases/nn.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

std::vector<float> floats(const Values& x) {
  return std::vector<float>(x.begin(), x.end());
}

const Parameter& parameter(const Net& net, const std::string& name) {
  for (const Parameter& p : net.parameters())
    if (p.name == name) return p;
  throw std::runtime_error("no parameter " + name);
}

Tensor labels_tensor(const std::vector<int32_t>& labels) {
  Tensor t(context(), {static_cast<int64_t>(labels.size())}, DType::i32);
  write(stream(), t, labels);
  return t;
}

/// A small image network with a loss.
struct SmallNet {
  static constexpr int64_t kClasses = 4;
  std::vector<int32_t> labels{2, 0, 3};
  Net net;
  Value x, target, logits, loss;

  SmallNet() : net(stream(), 7) {
    x = net.input({2, 6, 6});
    target = net.input({}, DType::i32);
    Value h = net.relu(net.batch_norm(net.conv(x, ConvLayer(3, 3).pad(1))));
    logits = net.linear(net.flatten(net.max_pool(h, 2)), kClasses);
    loss = net.cross_entropy(logits, target);
  }
};

}  // namespace

TEST_CASE(
    "a first pass is rehearsed: its programs are asked for before it, backward's too, and nothing else "
    "happens") {
  const Context own(context().device());  // with no program in memory
  const Stream stream(own);
  Net net(stream, 7);
  const Value x = net.input({2, 6, 6}), target = net.input({}, DType::i32);
  const Value h = net.dropout(net.relu(net.batch_norm(net.conv(x, ConvLayer(3, 3).pad(1)), {}, "bn")));
  const Value loss = net.cross_entropy(net.linear(net.flatten(net.max_pool(h, 2)), 4), target);
  const Tensor images(stream, {3, 2, 6, 6}), labels(stream, {3}, DType::i32);
  fill(stream, 0.5, images);
  fill(stream, 1, labels);
  const auto made = [&] { return own.program_stats().built + own.program_stats().from_disk; };
  const uint64_t before = made(), reused = own.program_stats().reused;

  Pass pass = net.forward(stream, Mode::training, {{x, images}, {target, labels}}, {loss});
  for (const Parameter& p : net.parameters()) CHECK(!p.gradient.defined());
  const std::vector<float> mean = read<float>(stream, parameter(net, "bn.running_mean").value);
  pass.backward(loss);
  stream.finish();
  // Whoever computes finds each program there or on its way, so none is made without being found.
  CHECK(made() > before);
  CHECK(own.program_stats().reused - reused >= made() - before);

  // A second pass of the kind is not rehearsed. Statistics move by one batch's share each time.
  const uint64_t all = made();
  Pass again = net.forward(stream, Mode::training, {{x, images}, {target, labels}}, {loss});
  const std::vector<float> twice = read<float>(stream, parameter(net, "bn.running_mean").value);
  CHECK(made() == all);
  for (size_t i = 0; i < mean.size(); i++) CHECK(twice[i] == Approx(1.9f * mean[i]));
}

TEST_CASE("training records BatchNorm's statistics, evaluation uses them") {
  Net net(stream(), 1);
  const Value x = net.input({2, 3});
  BatchNormParams params;
  params.momentum = 0.25;
  const Value y = net.batch_norm(x, params, "bn");
  Rng rng(9);
  const Values data = [&] {
    const std::vector<float> values = reals(4 * 6, rng, 1, 5);
    return Values(values.begin(), values.end());
  }();
  const Tensor tensor = device_tensor({4, 2, 3}, floats(data));
  const auto batch = batch_norm_reference(data, {4, 2, 3}, {1, 1}, {0, 0}, params.epsilon);

  const Pass training = net.forward(stream(), Mode::training, {{x, tensor}}, {y});
  CHECK(deviation(host_values(training[y]), floats(batch.y)) < 1e-5);
  Values mean, variance;
  for (size_t c = 0; c < 2; c++) {
    mean.push_back(0.25 * batch.mean[c]);
    variance.push_back(0.75 + 0.25 * batch.unbiased[c]);
  }
  CHECK(deviation(host_values(parameter(net, "bn.running_mean").value), floats(mean)) < 1e-6);
  CHECK(deviation(host_values(parameter(net, "bn.running_var").value), floats(variance)) < 1e-6);

  std::vector<float> expected;
  for (size_t i = 0; i < data.size(); i++) {
    const size_t c = i / 3 % 2;
    expected.push_back(static_cast<float>((data[i] - mean[c]) / std::sqrt(variance[c] + params.epsilon)));
  }
  for (int repeat = 0; repeat < 2; repeat++) {
    const Pass evaluation = net.forward(stream(), Mode::evaluation, {{x, tensor}}, {y});
    CHECK(deviation(host_values(evaluation[y]), expected) < 1e-5);
  }
}

TEST_CASE("dropout drops in training only, and backward drops the same") {
  Net net(stream(), 4);
  const Value x = net.input({1000});
  const Value y = net.dropout(x, 0.25);
  const std::vector<float> ones(2000, 1.0f);
  const Tensor data = device_tensor({2, 1000}, ones);
  const Pass evaluation = net.forward(stream(), Mode::evaluation, {{x, data}}, {y});
  CHECK(host_values(evaluation[y]) == ones);

  std::vector<std::vector<float>> runs;
  for (int run = 0; run < 2; run++) {
    Pass pass = net.forward(stream(), Mode::training, {{x, data}}, {y});
    runs.push_back(host_values(pass[y]));
    const auto dropped = std::count(runs.back().begin(), runs.back().end(), 0.0f);
    CHECK(dropped > 400);  // 500 expected, deviation 19
    CHECK(dropped < 600);
    CHECK(std::count(runs.back().begin(), runs.back().end(), 1 / 0.75f) == 2000 - dropped);
    pass.backward(y, {x}, device_tensor({2, 1000}, ones));
    CHECK(host_values(pass.gradient(x)) == runs.back());
  }
  CHECK(runs[0] != runs[1]);
}

TEST_CASE("the batch size may change from pass to pass") {
  SmallNet small;
  Rng rng(11);
  const std::vector<float> data = reals(5 * 72, rng);
  const Tensor five = device_tensor({5, 2, 6, 6}, data);
  const auto logits_of = [&](const Tensor& batch) {
    const Pass pass = small.net.forward(stream(), Mode::evaluation, {{small.x, batch}}, {small.logits});
    return host_values(pass[small.logits]);
  };
  const std::vector<float> all = logits_of(five);
  CHECK(all.size() == 5 * SmallNet::kClasses);
  std::vector<float> pieces;
  for (const auto& [begin, end] : {std::pair{0, 1}, std::pair{1, 3}, std::pair{3, 5}})
    for (float v : logits_of(five.slice(0, begin, end))) pieces.push_back(v);
  CHECK(deviation(pieces, all) < 1e-5);

  for (int64_t batch : {5, 1, 2}) {
    Pass pass = small.net.forward(
        stream(), Mode::training,
        {{small.x, five.slice(0, 0, batch)},
         {small.target, labels_tensor(std::vector<int32_t>(static_cast<size_t>(batch), 1))}},
        {small.loss});
    pass.backward(small.loss);
    for (const Parameter& p : small.net.parameters())
      if (p.trained) {
        REQUIRE(p.gradient.shape() == p.value.shape());
        for (float g : host_values(p.gradient)) REQUIRE(std::isfinite(g));
      }
  }
}

TEST_CASE("feeds may be views") {
  SmallNet small;
  Rng rng(12);
  const std::vector<float> nhwc = reals(2 * 36 * 2, rng);
  const Tensor packed = device_tensor({2, 6, 6, 2}, nhwc);
  const Tensor view = packed.permute({0, 3, 1, 2});
  const auto logits_of = [&](const Tensor& batch) {
    const Pass pass = small.net.forward(stream(), Mode::evaluation, {{small.x, batch}}, {small.logits});
    return host_values(pass[small.logits]);
  };
  CHECK(logits_of(view) == logits_of(contiguous(stream(), view)));
}

TEST_CASE("activations are released as soon as nobody needs them") {
  Net net(stream(), 1);
  const Value x = net.input({4, 16, 16});
  Value h = x;
  for (int i = 0; i < 6; i++) h = net.relu(net.conv(h, ConvLayer(4, 3).pad(1)));
  const Value y = net.linear(net.flatten(h), 1);
  const Tensor data = device_tensor({4, 4, 16, 16}, std::vector<float>(4 * 1024, 0.5f));
  const Tensor dy = device_tensor({4, 1}, std::vector<float>(4, 1.0f));
  const uint64_t map = 4 * 1024 * sizeof(float);
  const auto allocated = [] { return context().memory_stats().allocated; };
  const uint64_t start = allocated();
  {
    const Pass evaluation = net.forward(stream(), Mode::evaluation, {{x, data}}, {y});
    CHECK(allocated() - start < map / 2);  // y alone is left
    Pass training = net.forward(stream(), Mode::training, {{x, data}}, {y});
    CHECK(allocated() - start > 6 * map);  // every relu's output is needed again
    training.backward(y, {}, dy);
    CHECK(allocated() - start < map);  // gradients of weights
  }
  const uint64_t after_one = allocated();
  for (int i = 0; i < 3; i++) {
    Pass training = net.forward(stream(), Mode::training, {{x, data}}, {y});
    training.backward(y, {}, dy);
  }
  CHECK(allocated() == after_one);
}

TEST_CASE("right answers are counted by the first of the largest logits") {
  const DType dtype = GENERATE(DType::u8, DType::i32, DType::i64);
  Net net(stream(), 1);
  const Value x = net.input({3}), t = net.input({}, dtype);
  const Value correct = net.count_correct(x, t);
  const float nan = NAN, inf = INFINITY;
  // Right: rows 0, 1 (first of equals), 3, 6. Wrong: 2 (second of equals), 4, 5 (NaN).
  const std::vector<float> logits{1,  2, 3, 5, 5,   1,   4,   4,    0,   -1, -9,
                                  -2, 0, 1, 0, nan, nan, nan, -inf, inf, 0};
  const std::vector<float> labels{2, 0, 1, 0, 0, 0, 1};
  const Pass pass =
      net.forward(stream(), Mode::evaluation,
                  {{x, device_tensor({7, 3}, logits)}, {t, device_tensor({7}, labels, dtype)}}, {correct});
  CHECK(host_values(pass[correct]) == std::vector<float>{4});
}

TEST_CASE("a pass may outlive its net") {
  Pass pass = [] {
    Net net(stream(), 1);
    const Value x = net.input({2});
    Pass made = net.forward(stream(), Mode::training, {{x, device_tensor({1, 2}, {1, 2})}}, {x});
    CHECK(host_values(made[x]) == std::vector<float>{1, 2});
    return made;
  }();
  CHECK(error_of<ValidationError>([&] { pass[Value()]; }) == "output: is no value: it is empty");
}

TEST_CASE("layers refuse what does not fit and leave the net as it was") {
  Net net(stream(), 1), other(stream(), 1);
  const Value x = net.input({3, 8, 8}, DType::f32, "image"), flat = net.input({5}),
              label = net.input({}, DType::i32);
  const Value bytes = net.input({4}, DType::u8);
  CHECK(refusal([&] { net.conv(flat, ConvLayer(4, 3)); }) ==
        "x: 'input1' has rank 2 with its batch axis, must have 4");
  CHECK(refusal([&] { net.conv(x, ConvLayer(0, 3)); }) == "filters: 0 must be above 0");
  CHECK(refusal([&] { net.conv(x, ConvLayer(4, 0)); }) == "kernel: 0 x 0 must be above 0");
  CHECK(refusal([&] { net.conv(x, ConvLayer(4, 3).groups(2)); }) == "groups: 2 does not divide 3 channels");
  CHECK(refusal([&] { net.conv(x, ConvLayer(4, 3).groups(0)); }) == "groups: 0 does not divide 3 channels");
  CHECK(refusal([&] { net.conv(x, ConvLayer(4, 9)); }) ==
        "w: window of 9 along H (9 taps, dilation 1) does not fit into the padded input's 8");
  ConvLayer fused(4, 3);
  fused.params.activation = Activation::relu;
  CHECK(refusal([&] { net.conv(x, fused); }) ==
        "activation: relu must be identity: add the activation as a layer");
  CHECK(refusal([&] { net.linear(x, 3); }) == "x: 'image' has rank 4 with its batch axis, must have 2");
  CHECK(refusal([&] { net.linear(flat, 0); }) == "features: 0 must be above 0");
  CHECK(refusal([&] { net.linear(flat, LinearLayer(3).named("image")); }) ==
        "name: 'image' is taken by another layer");
  CHECK(refusal([&] { net.batch_norm(label); }) == "x: 'input2' is i32, must be f32");
  CHECK(refusal([&] { net.relu(bytes); }) == "x: 'input3' is u8, must be f32");
  CHECK(refusal([&] { net.max_pool(x, 9); }) ==
        "x: size 8 along H with padding 0 and 0 has no room for a window of 9");
  CHECK(refusal([&] { net.dropout(x, 1.5); }) == "p: 1.5 must be in [0, 1]");
  CHECK(refusal([&] { net.dropout(x, NAN); }) == "p: nan must be in [0, 1]");
  CHECK(refusal([&] { net.add(x, net.global_avg_pool(x)); }) ==
        "b: shape [1, 3, 1, 1] must be that of a, [1, 3, 8, 8]");
  CHECK(refusal([&] { net.cross_entropy(flat, flat); }) == "labels: 'input1' is f32, must be u8, i32 or i64");
  CHECK(refusal([&] { net.cross_entropy(flat, bytes); }) ==
        "labels: 'input3' has rank 2 with its batch axis, must have 1");
  CHECK(refusal([&] { net.activation(x, Activation::silu); }) ==
        "f: the gradient of silu cannot be told from its result");
  CHECK(refusal([&] { net.relu(Value()); }) == "x: is no value: it is empty");
  CHECK(refusal([&] { net.relu(other.input({3})); }) == "x: is a value of another net");
  BatchNormParams endless;
  endless.epsilon = INFINITY;
  CHECK(refusal([&] { net.batch_norm(x, endless); }) == "epsilon: inf must be finite and above 0");
  CHECK(refusal([&] { net.input({3, 0}); }) == "shape: [3, 0] has a size below 1");
  CHECK(net.parameters().empty());
}

TEST_CASE("passes refuse what does not fit") {
  SmallNet small;
  const Net& net = small.net;
  const Tensor x(context(), {3, 2, 6, 6}), target = labels_tensor(small.labels);
  const auto refusal = [&](const std::vector<Feed>& feeds, const std::vector<Value>& outputs) {
    return error_of<ValidationError>([&] { net.forward(stream(), Mode::training, feeds, outputs); });
  };
  CHECK(refusal({{small.x, x}}, {small.loss}) == "feeds: input 'input2' is missing");
  CHECK(refusal({{small.x, x}, {small.x, x}}, {small.logits}) == "feeds: 'input1' is fed twice");
  CHECK(refusal({{small.logits, x}}, {small.logits}) == "feeds: 'linear1' is not an input");
  CHECK(refusal({{small.x, Tensor()}}, {small.logits}) == "feeds: 'input1' is undefined");
  CHECK(refusal({{small.x, target}}, {small.logits}) == "feeds: 'input1' is i32[3], must be f32");
  CHECK(refusal({{small.x, Tensor(context(), {3, 2, 6, 7})}}, {small.logits}) ==
        "feeds: 'input1' is f32[3, 2, 6, 7], one sample of it is [1, 2, 6, 6]");
  CHECK(refusal({{small.x, Tensor(context(), {0, 2, 6, 6})}}, {small.logits}) ==
        "feeds: 'input1' is f32[0, 2, 6, 6]: the batch is empty");
  CHECK(refusal({{small.x, x}, {small.target, labels_tensor({1, 2})}}, {small.loss}) ==
        "feeds: 'input2' is a batch of 2, 'input1' of 3");
  CHECK(refusal({}, {}) == "outputs: is empty: nothing to compute");
  const Context foreign(context().device());
  CHECK(refusal({{small.x, Tensor(foreign, {3, 2, 6, 6})}}, {small.logits}) ==
        "feeds: 'input1' lives in another context");
  CHECK(error_of<ValidationError>([&] { net.forward(Stream(foreign), Mode::training, {}, {small.loss}); }) ==
        "stream: belongs to another context than the net");

  const std::vector<Feed> feeds{{small.x, x}, {small.target, target}};
  fill(stream(), 0.5, x);
  Pass evaluation = net.forward(stream(), Mode::evaluation, feeds, {small.loss});
  CHECK(error_of<ValidationError>([&] { evaluation.backward(small.loss); }) ==
        "pass: ran in evaluation mode: there is nothing to differentiate by");
  Pass pass = net.forward(stream(), Mode::training, feeds, {small.loss, small.logits});
  CHECK(error_of<ValidationError>([&] { pass[small.x]; }) ==
        "output: 'input1' was not asked for in forward()");
  CHECK(error_of<ValidationError>([&] { pass.backward(small.x); }) ==
        "output: 'input1' was not asked for in forward()");
  CHECK(error_of<ValidationError>([&] { pass.backward(small.logits); }) ==
        "output: 'linear1' has shape [3, 4]: only one number can be differentiated without a dy");
  CHECK(error_of<ValidationError>([&] { pass.backward(small.logits, {}, x); }) ==
        "dy: is f32[3, 2, 6, 6], must be f32[3, 4]");
  CHECK(error_of<ValidationError>([&] { pass.backward(small.loss, {small.target}); }) ==
        "kept: 'input2' has no gradient in this pass");
  pass.backward(small.loss, {small.x});  // the refusals have spent nothing
  CHECK(error_of<ValidationError>([&] { pass.backward(small.loss); }) == "pass: backward() has run already");
  CHECK(error_of<ValidationError>([&] { pass.gradient(small.logits); }) ==
        "kept: 'linear1' has no gradient: backward() was not told to keep it, or nothing flows back to it");
}

TEST_CASE("what has no gradient says so, and what the loss does not reach has none") {
  Net net(stream(), 1);
  const Value x = net.input({3}), t = net.input({}, DType::i32);
  const Value used = net.linear(x, 3), unused = net.linear(x, 3);
  const Value loss = net.cross_entropy(used, t), correct = net.count_correct(used, t);
  const std::vector<Feed> feeds{{x, device_tensor({2, 3}, {1, 2, 3, 4, 5, 6})}, {t, labels_tensor({0, 1})}};
  Pass pass = net.forward(stream(), Mode::training, feeds, {loss, correct, unused});
  pass.backward(loss);
  CHECK(parameter(net, "linear1.weight").gradient.defined());
  CHECK_FALSE(parameter(net, "linear2.weight").gradient.defined());
  const auto gradient = [&] { return host_values(parameter(net, "linear1.weight").gradient); };
  const std::vector<float> before = gradient();
  Pass second = net.forward(stream(), Mode::training, feeds, {loss, correct});
  CHECK(error_of<ValidationError>([&] { second.backward(correct); }) ==
        "count_correct1: count_correct has no gradient");
  CHECK(gradient() == before);
  second.backward(loss);  // the refusal has spent nothing
  CHECK(gradient() == before);
}

TEST_CASE("the summary names layers, shapes and numbers of parameters") {
  SmallNet small;
  const std::string text = small.net.summary();
  for (const char* part :
       {"conv1            [N, 3, 6, 6]", "             57\n", "batch_norm1", "max_pool1        [N, 3, 3, 3]",
        "cross_entropy1   [1]", "linear1          [N, 4]"}) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }
  Net named(stream(), 1);
  const std::string name(200, 'n');
  named.linear(named.input({2}), LinearLayer(3).named(name));
  CHECK(named.summary().find("\n" + name + " [N, 3]                          9\n") != std::string::npos);
}
