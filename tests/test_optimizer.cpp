// Optimizers and what is done to gradients, against PyTorch's formulas as plain loops in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include <dlprim/gradients.hpp>
#include <dlprim/optimizer.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Values = std::vector<double>;
const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// One weight's step by the formulas of torch.optim. `v` are its states, in the optimizer's order.
void step_reference(const OptimizerDesc& d, const OptimizerStep& s, double factor, double& w, double g,
                    double* v) {
  g *= factor;
  if (d.maximize) g = -g;
  const double t = static_cast<double>(s.step);
  if (!d.decoupled) g += s.weight_decay * w;
  switch (d.method) {
    case OptimizerMethod::sgd:
      if (d.momentum) {
        v[0] = s.step == 1 ? g : s.momentum * v[0] + (1 - s.dampening) * g;
        g = d.nesterov ? g + s.momentum * v[0] : v[0];
      }
      w -= s.learning_rate * g;
      break;
    case OptimizerMethod::adam: {
      if (d.decoupled) w -= s.learning_rate * s.weight_decay * w;
      v[0] = s.beta1 * v[0] + (1 - s.beta1) * g;
      v[1] = s.beta2 * v[1] + (1 - s.beta2) * g * g;
      double second = v[1];
      if (d.amsgrad) second = v[2] = std::max(v[2], v[1]);
      const double denominator = std::sqrt(second) / std::sqrt(1 - std::pow(s.beta2, t)) + s.epsilon;
      w -= s.learning_rate / (1 - std::pow(s.beta1, t)) * v[0] / denominator;
      break;
    }
    case OptimizerMethod::rmsprop: {
      v[0] = s.alpha * v[0] + (1 - s.alpha) * g * g;
      double spread = v[0];
      if (d.centered) {
        v[1] = s.alpha * v[1] + (1 - s.alpha) * g;
        spread -= v[1] * v[1];
      }
      double change = g / (std::sqrt(spread) + s.epsilon);
      if (d.momentum) {
        double& buffer = v[d.centered ? 2 : 1];
        buffer = s.momentum * buffer + change;
        change = buffer;
      }
      w -= s.learning_rate * change;
      break;
    }
    case OptimizerMethod::adagrad:
      v[0] += g * g;
      w -= s.learning_rate / (1 + (t - 1) * s.rate_decay) * g / (std::sqrt(v[0]) + s.epsilon);
      break;
  }
}

/// The sizes of a small net's parameters: more than a launch takes, odd, empty, single, longer than a chunk.
std::vector<Shape> shapes_of(size_t count) {
  std::vector<Shape> shapes = {{3, 5}, {1}, {0, 4}, {64, 3, 2, 2}, {}, {7}, {1, 4099}};
  while (shapes.size() < count) shapes.push_back({static_cast<int64_t>(shapes.size() % 9) + 1});
  shapes.resize(count);
  return shapes;
}

/// Where a list's tensors lie.
enum class Lies : uint8_t { apart, together, unaligned };

struct List {
  std::vector<Tensor> tensors;
  std::vector<Guarded> memory;

  List(const std::vector<Shape>& shapes, DType dtype, Lies lies, double value, Rng* rng = nullptr) {
    int64_t total = 0;
    for (const Shape& shape : shapes) total += element_count(shape);
    if (lies == Lies::together) memory.emplace_back(Shape{total}, dtype);
    int64_t at = 0;
    for (const Shape& shape : shapes) {
      const int64_t count = element_count(shape);
      if (lies == Lies::together) {
        tensors.push_back(memory[0].tensor().slice(0, at, at + count).reshape(shape));
      } else {
        memory.emplace_back(shape, dtype, lies == Lies::unaligned ? 65 : 64);
        tensors.push_back(memory.back().tensor());
      }
      at += count;
      if (rng)
        fill_from(tensors.back(), *rng, value);
      else
        fill(stream(), value, tensors.back());
    }
  }
  static void fill_from(const Tensor& x, Rng& rng, double scale) {
    copy(stream(), device_tensor(x.shape(), reals(x.numel(), rng, -scale, scale)), x);
  }
  Values values() const {
    Values all;
    for (const Tensor& x : tensors)
      if (x.dtype() == DType::f64)
        for (double v : read<double>(stream(), x)) all.push_back(v);
      else
        for (float v : host_values(x)) all.push_back(v);
    return all;
  }
  bool intact() const {
    return std::all_of(memory.begin(), memory.end(), [](const Guarded& g) { return g.intact(); });
  }
};

OptimizerStep numbers() {
  OptimizerStep s;
  s.learning_rate = 0.05;
  s.weight_decay = 0.1;
  s.momentum = 0.9;
  s.dampening = 0.25;
  s.beta2 = 0.99;
  s.alpha = 0.9;
  s.rate_decay = 0.01;
  return s;
}

/// The largest difference from the reference after a few steps, relative to 1 + |w|.
double error_after_steps(const OptimizerDesc& d, Lies lies, size_t count, OptimizerStep s,
                         double factor = 1) {
  if (!d.momentum) s.momentum = s.dampening = 0;
  const std::vector<Shape> shapes = shapes_of(count);
  const DType real = d.w == DType::f64 ? DType::f64 : DType::f32;
  Rng rng(11);
  const List w(shapes, d.w, lies, 2, &rng), dw(shapes, d.dw, lies, 1, &rng);
  const List master(d.master ? shapes : std::vector<Shape>{}, DType::f32, lies, 0);
  for (size_t i = 0; i < master.tensors.size(); i++) copy(stream(), w.tensors[i], master.tensors[i]);
  std::vector<List> states;
  OptimizerTensors tensors{w.tensors, dw.tensors, master.tensors, {}};
  for (int k = 0; k < Optimizer::states(d); k++) {
    states.emplace_back(shapes, real, lies, 0);
    tensors.states.push_back(states.back().tensors);
  }
  Values expected = w.values();
  std::vector<std::array<double, 3>> memory(expected.size());
  for (s.step = 1; s.step <= 5; s.step++) {
    for (const Tensor& x : dw.tensors) List::fill_from(x, rng, s.step % 2 ? 1 : 0.1);
    optimize(stream(), d, s, tensors);
    const Values g = dw.values();
    for (size_t i = 0; i < g.size(); i++) step_reference(d, s, factor, expected[i], g[i], memory[i].data());
  }
  CHECK(w.intact());
  CHECK(dw.intact());
  for (const List& list : states) CHECK(list.intact());
  if (d.master)  // w is the master rounded
    for (size_t i = 0; i < count; i++) {
      const Tensor rounded = cast(stream(), master.tensors[i], d.w);
      CHECK(host_bytes(w.tensors[i]) == host_bytes(rounded));
    }
  const Values result = d.master ? master.values() : w.values();
  if (d.w == DType::f64) {
    double worst = 0;
    for (size_t i = 0; i < result.size(); i++)
      worst = std::fmax(worst, std::fabs(result[i] - expected[i]) / (1 + std::fabs(expected[i])));
    return worst;
  }
  return deviation(std::vector<float>(result.begin(), result.end()), expected);
}

OptimizerDesc desc_of(OptimizerMethod method, const std::function<void(OptimizerDesc&)>& change = {}) {
  OptimizerDesc d;
  d.method = method;
  if (change) change(d);
  return d;
}

const std::vector<OptimizerDesc> kMethods = {
    desc_of(OptimizerMethod::sgd),
    desc_of(OptimizerMethod::sgd, [](OptimizerDesc& d) { d.momentum = true; }),
    desc_of(OptimizerMethod::sgd, [](OptimizerDesc& d) { d.momentum = d.nesterov = d.maximize = true; }),
    desc_of(OptimizerMethod::adam),
    desc_of(OptimizerMethod::adam, [](OptimizerDesc& d) { d.decoupled = d.amsgrad = true; }),
    desc_of(OptimizerMethod::rmsprop),
    desc_of(OptimizerMethod::rmsprop, [](OptimizerDesc& d) { d.centered = d.momentum = true; }),
    desc_of(OptimizerMethod::rmsprop, [](OptimizerDesc& d) { d.momentum = d.maximize = true; }),
    desc_of(OptimizerMethod::adagrad)};

Tensor number(double value) {
  return device_tensor({1}, {static_cast<float>(value)});
}
double value_of(const Tensor& x) {
  return static_cast<double>(host_values(x)[0]);
}

// Five steps of a dozen operations each, of quotients by roots that are up to ten times as sensitive: 40
// units.
constexpr double kTolerance = 40 * 0x1p-24;
/// RMSprop divides even the first gradients by their own size: where g and the weight decay nearly cancel, or
/// with `centered` v and a^2, what rounding left of them counts in full.
double tolerance_of(const OptimizerDesc& d) {
  return d.method != OptimizerMethod::rmsprop ? kTolerance : (d.centered ? 20 : 5) * kTolerance;
}

}  // namespace

TEST_CASE("optimizers are PyTorch's formulas") {
  for (size_t i = 0; i < kMethods.size(); i++)
    for (Lies lies : {Lies::apart, Lies::together, Lies::unaligned}) {
      CAPTURE(i, static_cast<int>(lies));
      CHECK(error_after_steps(kMethods[i], lies, lies == Lies::unaligned ? 7 : 45, numbers()) <
            tolerance_of(kMethods[i]));
    }
}

TEST_CASE("optimizers of 16-bit weights with master copies") {
  for (OptimizerDesc d : {kMethods[1], kMethods[3]}) {
    for (DType dtype : {DType::f16, DType::bf16})
      for (DType gradient : {dtype, DType::f32}) {
        d.w = dtype, d.dw = gradient, d.master = true;
        CHECK(error_after_steps(d, Lies::apart, 9, numbers()) < kTolerance);
      }
    // Without master copies each step rounds: half a unit of 2^-7, at most 6 of them.
    d.w = d.dw = DType::bf16, d.master = false;
    CHECK(error_after_steps(d, Lies::apart, 9, numbers()) < 6 * 0x1p-8);
  }
}

TEST_CASE("optimizers of f64 have a double's error") {
  if (!has_doubles()) return;
  for (size_t i = 0; i < kMethods.size(); i++)
    for (Lies lies : {Lies::apart, Lies::together, Lies::unaligned}) {
      CAPTURE(i, static_cast<int>(lies));
      OptimizerDesc d = kMethods[i];
      d.w = d.dw = DType::f64;
      CHECK(error_after_steps(d, lies, 9, numbers()) < tolerance_of(d) * 0x1p-29);
    }
}

TEST_CASE("a step's factor, scale and flag lie on the device", "[small]") {
  OptimizerStep s = numbers();
  s.factor = number(0.25);
  s.scale = number(2);
  s.found_inf = number(0);
  CHECK(error_after_steps(kMethods[3], Lies::apart, 7, s, 0.125) < kTolerance);
  const Tensor w = device_tensor({3}, {1, 2, 3}), dw = device_tensor({3}, {1, 5, 7}),
               v = device_tensor({3}, {4, 5, 6});
  s.found_inf = number(1);
  optimize(stream(), kMethods[1], s, {{w}, {dw}, {}, {{v}}});
  CHECK(host_values(w) == std::vector<float>{1, 2, 3});
  CHECK(host_values(v) == std::vector<float>{4, 5, 6});
}

TEST_CASE("an optimizer's step on channels-last weights, of nothing, and twice the same", "[small]") {
  Rng rng(5);
  const Shape shape{2, 3, 4, 5};
  const auto last = [&](const std::vector<float>& values) {
    const Tensor x = Tensor(context(), {2, 4, 5, 3}).permute({0, 3, 1, 2});
    write(stream(), x, values);
    return x;
  };
  const std::vector<float> w = reals(120, rng), g = reals(120, rng);
  const Tensor w0 = device_tensor(shape, w), w1 = last(w), w2 = last(w);
  OptimizerStep s = numbers();
  s.momentum = s.dampening = 0;
  const OptimizerDesc sgd;
  optimize(stream(), sgd, s, {{w0}, {device_tensor(shape, g)}, {}, {}});
  optimize(stream(), sgd, s, {{w1}, {last(g)}, {}, {}});
  optimize(stream(), sgd, s, {{w2}, {last(g)}, {}, {}});
  Values stepped;
  for (size_t i = 0; i < w.size(); i++)
    stepped.push_back(w[i] - s.learning_rate * (g[i] + s.weight_decay * w[i]));
  CHECK(deviation(host_values(w0), stepped) <= 0x1p-22);
  CHECK(host_bytes(w0) == host_bytes(w1));
  CHECK(host_bytes(w1) == host_bytes(w2));
  optimize(stream(), sgd, s, {});
  optimize(stream(), sgd, s, {{Tensor(context(), {0, 3})}, {Tensor(context(), {0, 3})}, {}, {}});
}

TEST_CASE("moving averages of weights", "[small]") {
  Rng rng(6);
  const std::vector<Shape> shapes = shapes_of(20);
  const List averages(shapes, DType::f32, Lies::apart, 1, &rng),
      w(shapes, DType::bf16, Lies::unaligned, 1, &rng);
  Values expected = averages.values();
  const Values target = w.values();
  update_averages(stream(), w.tensors, 0.75, averages.tensors);
  for (size_t i = 0; i < expected.size(); i++) expected[i] = 0.75 * expected[i] + 0.25 * target[i];
  const Values result = averages.values();
  CHECK(deviation(std::vector<float>(result.begin(), result.end()), expected) < 2 * 0x1p-24);
  CHECK(averages.intact());
  update_averages(stream(), {}, 0.5, {});
  CHECK(error_of<ValidationError>([&] { update_averages(stream(), {}, 0.5, averages.tensors); }) ==
        "w: 0 tensors, of averages there are 20");
  CHECK(error_of<ValidationError>([&] { update_averages(stream(), {}, 1.5, {}); }) ==
        "decay: 1.5 must be in [0, 1]");
}

TEST_CASE("more tensors and more buffers than a launch takes") {
  // Launches take some hundred tensors of at most 48 buffers; the long ones are several work-groups with
  // rests.
  std::vector<Shape> shapes = shapes_of(260);
  shapes[1] = {2, 3500};
  shapes[2] = {4097};
  const auto list = [&](double value) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < shapes.size(); i++) {
      tensors.emplace_back(context(), shapes[i]);
      const auto bytes = static_cast<size_t>(tensors.back().bytes());
      if (i % 3 == 1 && bytes > 0)
        tensors.back() =
            Tensor::wrap(context(), cl::Buffer(context().cl(), CL_MEM_READ_WRITE, bytes), shapes[i]);
      fill(stream(), value + static_cast<double>(i), tensors.back());
    }
    return tensors;
  };
  const std::vector<Tensor> averages = list(1), w = list(5);
  update_averages(stream(), w, 0.75, averages);
  for (size_t i = 0; i < shapes.size(); i++) {
    const std::vector<float> values = host_values(averages[i]);
    CHECK(values == std::vector<float>(values.size(), static_cast<float>(i) + 2));
  }
}

TEST_CASE("norms of many gradients, and clipping by them") {
  for (NormOrder order : {NormOrder::one, NormOrder::two, NormOrder::infinity})
    for (DType dtype : {DType::f32, DType::f16})
      for (size_t count : {size_t{0}, size_t{1}, size_t{90}}) {
        CAPTURE(static_cast<int>(order), dlprim::name_of(dtype), count);
        Rng rng(7);
        const List dw(shapes_of(count), dtype, Lies::unaligned, 3, &rng);
        double norm = 0;
        for (double v : dw.values()) {
          const double a = std::abs(v);
          norm =
              order == NormOrder::infinity ? std::max(norm, a) : norm + (order == NormOrder::two ? a * a : a);
        }
        if (order == NormOrder::two) norm = std::sqrt(norm);
        const Guarded result({1}), factor({1}), again({1});
        gradient_norm(stream(), dw.tensors, {order, 2}, result.tensor(), factor.tensor());
        gradient_norm(stream(), dw.tensors, {order}, again.tensor());
        // Sums of some thousand terms in lanes of at most 64.
        CHECK(value_of(result.tensor()) == Approx(norm).epsilon(64 * 0x1p-24));
        CHECK(value_of(factor.tensor()) == Approx(std::min(1.0, 2 / (norm + 1e-6))).epsilon(70 * 0x1p-24));
        CHECK(host_bytes(result.tensor()) == host_bytes(again.tensor()));
        CHECK((result.intact() && factor.intact()));
        Values expected = dw.values();
        for (double& v : expected) v *= std::min(1.0, 2 / (norm + 1e-6));
        clip_gradients_by_norm(stream(), {order, 2}, dw.tensors, result.tensor());
        const Values clipped = dw.values();
        CHECK(deviation(std::vector<float>(clipped.begin(), clipped.end()), expected) <
              (dtype == DType::f16 ? 0x1p-11 : 70 * 0x1p-24));
        CHECK(dw.intact());
      }
}

TEST_CASE("norms and clipping of special values", "[small]") {
  const Tensor norm = number(0), factor = number(0);
  const auto put = [&](double special, NormOrder order) {
    gradient_norm(stream(),
                  {device_tensor({3}, {1, static_cast<float>(special), -2}), device_tensor({1}, {3})},
                  {order, 1}, norm, factor);
    return std::pair(value_of(norm), value_of(factor));
  };
  for (NormOrder order : {NormOrder::one, NormOrder::two, NormOrder::infinity}) {
    CHECK(put(-kInf, order) == std::pair(kInf, 0.0));
    CHECK(std::isnan(put(kNan, order).first));
    CHECK(std::isnan(value_of(factor)));
  }
  const auto bound = static_cast<float>(0.5);
  const Tensor g = device_tensor({6}, {1, -1, 0.25f, -0.0f, INFINITY, -INFINITY});
  clip_gradients_by_value(stream(), 0.5, {g});
  CHECK(host_values(g) == std::vector<float>{bound, -bound, 0.25f, -0.0f, bound, -bound});
  const Tensor nan = device_tensor({1}, {NAN});
  clip_gradients_by_value(stream(), 0.5, {nan});
  CHECK(std::isnan(host_values(nan)[0]));
}

TEST_CASE("the loss's scale: gradients divided, infinities found, growth and backoff", "[small]") {
  const Tensor scale = number(8), found = number(5), steps(context(), {1}, DType::i32);
  fill(stream(), 0, steps);
  const LossScaling scaling{4, 0.25, 2};
  const std::vector<Tensor> good = {device_tensor({5}, {8, 16, -4, 0, 1}, DType::f16),
                                    device_tensor({2}, {24, 32}, DType::f16)};
  unscale_gradients(stream(), scale, good, found);
  CHECK(value_of(found) == 0);
  CHECK(host_values(good[0]) == std::vector<float>{1, 2, -0.5f, 0, 0.125f});
  CHECK(host_values(good[1]) == std::vector<float>{3, 4});
  update_loss_scale(stream(), found, scaling, scale, steps);
  CHECK((value_of(scale) == 8 && value_of(steps) == 1));
  update_loss_scale(stream(), found, scaling, scale, steps);
  CHECK((value_of(scale) == 32 && value_of(steps) == 0));
  update_loss_scale(stream(), found, scaling, scale, steps);
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    unscale_gradients(stream(), scale, {device_tensor({3}, {1, 2, 3}), device_tensor({2}, {bad, 1})}, found);
    CHECK(value_of(found) == 1);
  }
  update_loss_scale(stream(), found, scaling, scale, steps);
  CHECK((value_of(scale) == 8 && value_of(steps) == 0));
  fill(stream(), 2e38, scale);
  fill(stream(), 0, found);
  for (int i = 0; i < 2; i++) update_loss_scale(stream(), found, scaling, scale, steps);
  CHECK(value_of(scale) == static_cast<double>(2e38f));
  unscale_gradients(stream(), scale, {}, found);
  CHECK(value_of(found) == 0);
}

TEST_CASE("optimizers refuse what does not fit", "[small]") {
  const Tensor w = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), dw = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto refusal = [](const OptimizerDesc& d, const OptimizerTensors& t, const OptimizerStep& s = {}) {
    return error_of<ValidationError>([&] { optimize(stream(), d, s, t); });
  };
  const OptimizerDesc sgd;
  CHECK(refusal(sgd, {{w}, {}, {}, {}}) == "dw: 0 tensors, of w there are 1");
  CHECK(refusal(sgd, {{w}, {{}}, {}, {}}) == "dw[0]: is not defined");
  CHECK(refusal(sgd, {{w}, {dw.reshape({6})}, {}, {}}) == "dw[0]: shape [6] must be [2, 3]");
  CHECK(refusal(sgd, {{w}, {w}, {}, {}}).find("w[0]") != std::string::npos);
  CHECK(refusal(sgd, {{w.slice(1, 0, 2)}, {dw.slice(1, 0, 2)}, {}, {}}) == "w[0]: strides [3, 1] leave gaps");
  CHECK(refusal(sgd, {{w}, {dw}, {}, {{dw}}}) == "states: 1 lists must be 0");
  CHECK(refusal(sgd, {{w}, {dw}, {w}, {}}) == "master: is given, but the description has none");
  CHECK(refusal(kMethods[3], {{w}, {dw}, {}, {}}) == "states: 0 lists must be 2");
  OptimizerStep s;
  s.learning_rate = -1;
  CHECK(refusal(sgd, {{w}, {dw}, {}, {}}, s) == "learning_rate: -1 must be finite and not negative");
  s = {};
  s.step = 0;
  CHECK(refusal(sgd, {{w}, {dw}, {}, {}}, s) == "step: 0 must be 1 or more");
  s = {};
  s.beta1 = 1;
  CHECK(refusal(sgd, {{w}, {dw}, {}, {}}, s) == "beta1: 1 must be in [0, 1)");
  s = {};
  s.momentum = 0.9;
  CHECK(refusal(sgd, {{w}, {dw}, {}, {}}, s) ==
        "momentum: 0.9 has no effect: OptimizerDesc::momentum is not set");
  CHECK(refusal(desc_of(OptimizerMethod::rmsprop, [](OptimizerDesc&) {}), {{w}, {dw}, {}, {{w}}}, s) ==
        "momentum: 0.9 has no effect: OptimizerDesc::momentum is not set");
  optimize(stream(), desc_of(OptimizerMethod::adam, [](OptimizerDesc&) {}), s, {{}, {}, {}, {{}, {}}});
  s = {};
  s.dampening = 0.5;
  CHECK(refusal(sgd, {{w}, {dw}, {}, {}}, s) ==
        "dampening: 0.5 has no effect: OptimizerDesc::momentum is not set");
  s = {};
  s.found_inf = w;
  CHECK(refusal(sgd, {{w}, {dw}, {}, {}}, s) == "found_inf: has 6 elements, must have one");
  const auto described = [&](OptimizerMethod method, const std::function<void(OptimizerDesc&)>& change) {
    return refusal(desc_of(method, change), {});
  };
  CHECK(described(OptimizerMethod::adam, [](OptimizerDesc& d) { d.nesterov = true; }) ==
        "nesterov: does not go with adam");
  CHECK(described(OptimizerMethod::sgd, [](OptimizerDesc& d) { d.nesterov = true; }) ==
        "nesterov: needs momentum");
  CHECK(described(OptimizerMethod::sgd, [](OptimizerDesc& d) { d.master = true; }) ==
        "master: w is f32, must be f16 or bf16");
  CHECK(described(OptimizerMethod::sgd, [](OptimizerDesc& d) { d.dw = DType::i32; }) ==
        "dw: dtype i32 is not floating");
  CHECK(described(OptimizerMethod::sgd, [](OptimizerDesc& d) { d.w = DType::f64; }) ==
        "dw: dtype f32 stands beside f64");
  CHECK(error_of<ValidationError>([&] {
          clip_gradients_by_norm(stream(), {NormOrder::two, -1}, {w}, number(0));
        }) == "max_norm: -1 must not be negative");
  CHECK(error_of<ValidationError>([&] { gradient_norm(stream(), {w}, {NormOrder::two}, {}); }) ==
        "norm: is not defined");
  const GradientNorm small(context(), {DType::f32, NormOrder::two, 1, 6});
  CHECK(error_of<ValidationError>([&] {
          small.run(stream(), {w, dw}, 1, number(0), {});
        }) == "dw: 2 tensors of 12 elements, the plan is for 1 of 6");
  CHECK(host_values(w) == std::vector<float>{1, 2, 3, 4, 5, 6});
}
