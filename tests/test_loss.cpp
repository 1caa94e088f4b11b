// Losses that go element by element, against the list in cases/loss.cpp.
#include <dlprim/loss.hpp>

#include <cmath>
#include <limits>

#include "cases/loss.hpp"
#include "catch.hpp"
#include "core/text.hpp"

using namespace dlprim;
using namespace dlprim::test;
using dlprim::detail::cat;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr LossReduction kReductions[] = {LossReduction::none, LossReduction::sum, LossReduction::mean,
                                         LossReduction::batch_mean};

struct Operands {
  Shape shape;
  Values x, target, weight, pos_weight;
  double parameter = 1;
  const LossReference* reference = nullptr;

  double term(size_t i, double xi, double ti) const {
    const auto w = [&](const Values& of) { return of.empty() ? 1 : of[i % of.size()]; };
    return reference->f(xi, ti, w(weight), w(pos_weight), parameter);
  }
  double factor(LossReduction reduction) const {
    return reduction == LossReduction::mean         ? 1 / static_cast<double>(x.size())
           : reduction == LossReduction::batch_mean ? 1 / static_cast<double>(shape[0])
                                                    : 1;
  }
};

/// Sums of `terms` terms of size up to 10, each with an error of a few units; the dtype's rounding of what is
/// stored.
double tolerance(size_t terms, DType dtype) {
  return (32 + static_cast<double>(terms)) * 0x1p-23 + storage_roundoff(dtype);
}

/// Forward and backward of one function. Weights broadcast along all axes but the last.
void check(const std::string& name, LossReduction reduction, Placing placing, DType dtype, bool weighted) {
  const LossFunction& f = loss_function(name);
  const std::string text = cat(name, " reduction ", static_cast<int>(reduction), " ", name_of(placing), " ",
                               name_of(dtype), weighted ? " weighted" : "");
  if (!is_selected(text)) return;
  INFO(again(text));
  Operands o{{5, 3, 7}, {}, {}, {}, {}, 1, &loss_reference(name)};
  const LossReference& r = *o.reference;
  Rng rng(7);
  const int64_t count = element_count(o.shape);
  const Tensor x = placed(placing, o.shape, reals(count, rng, r.x_low, r.x_high), dtype);
  const Tensor target = placed(placing, o.shape, reals(count, rng, r.target_low, r.target_high), dtype);
  LossParams params{reduction};
  if (!f.parameters.empty()) params.parameters = {o.parameter = 0.75};
  std::vector<Tensor> weights;
  if (weighted)
    for (size_t i = 0; i < f.weights.size(); i++) {
      weights.push_back(device_tensor({7}, reals(7, rng, 0.5, 2)));
      (i ? o.pos_weight : o.weight) = values_of(weights.back());
    }
  o.x = values_of(x);
  o.target = values_of(target);

  const bool none = reduction == LossReduction::none;
  const Guarded y(none ? o.shape : Shape{1}, DType::f32, 37), second(y.tensor().shape(), DType::f32, 37);
  loss(stream(), name, x, target, weights, params, y.tensor());
  loss(stream(), name, x, target, weights, params, second.tensor());
  Values expected(none ? o.x.size() : 1, 0.0);
  for (size_t i = 0; i < o.x.size(); i++)
    expected[none ? i : 0] += o.term(i, o.x[i], o.target[i]) * o.factor(reduction);
  CHECK(deviation(host_values(y.tensor()), expected) <= tolerance(none ? 1 : o.x.size(), DType::f32));
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(second.tensor()));

  const Tensor dy = device_tensor(y.tensor().shape(), reals(y.tensor().numel(), rng));
  const Strides strides = strides_in(placing, o.shape);
  const Guarded dx(o.shape, strides, dtype, 37), dtarget(o.shape, strides, dtype, 37);
  loss_backward(stream(), name, dy, x, target, weights, params, dx.tensor(), dtarget.tensor());
  const Values slopes = values_of(dy);
  Values expected_dx, expected_dtarget;
  for (size_t i = 0; i < o.x.size(); i++) {
    const double scale = slopes[none ? i : 0] * o.factor(reduction), step = 1e-5;
    const double xi = o.x[i], ti = o.target[i];
    expected_dx.push_back(scale * (o.term(i, xi + step, ti) - o.term(i, xi - step, ti)) / (2 * step));
    expected_dtarget.push_back(scale * (o.term(i, xi, ti + step) - o.term(i, xi, ti - step)) / (2 * step));
  }
  // A difference over a kink is off by its step over the distance between operands; none is as near as 2^-16.
  CHECK(deviation(host_values(dx.tensor()), expected_dx) <= tolerance(1, dtype) + 1e-6);
  CHECK(deviation(host_values(dtarget.tensor()), expected_dtarget) <= tolerance(1, dtype) + 1e-6);
  CHECK(dx.intact());
  CHECK(dtarget.intact());
}

/// One value and one gradient of x, nothing reduced.
std::pair<float, float> at(const std::string& name, float x, float target,
                           const std::vector<double>& parameters = {}) {
  const Guarded y({1}), dx({1});
  const Tensor a = device_tensor({1}, {x}), b = device_tensor({1}, {target});
  const LossParams params{LossReduction::none, scalars(parameters)};
  loss(stream(), name, a, b, {}, params, y.tensor());
  loss_backward(stream(), name, device_tensor({1}, {1}), a, b, {}, params, dx.tensor());
  return {host_values(y.tensor())[0], host_values(dx.tensor())[0]};
}

}  // namespace

TEST_CASE("losses: all of them, with every reduction", "[small]") {
  for (const LossFunction& f : loss_functions())
    check(f.name, LossReduction::mean, Placing::row_major, DType::f32, true);
  for (LossReduction reduction : kReductions)
    check("bce_with_logits", reduction, Placing::row_major, DType::f32, true);
}

TEST_CASE("losses in other dtypes and forms of memory", "[small]") {
  check("bce_with_logits", LossReduction::mean, Placing::gaps, DType::f16, true);
  check("smooth_l1", LossReduction::none, Placing::channels_last, DType::bf16, false);
}

TEST_CASE("mse is exact on small integers, and a double's error on doubles", "[small]") {
  Rng rng(1);
  const int64_t n = 10007;
  const std::vector<float> x = integers(n, rng), t = integers(n, rng);
  double sum = 0;
  for (size_t i = 0; i < x.size(); i++) sum += (x[i] - t[i]) * (x[i] - t[i]);
  const Guarded y({1});
  loss(stream(), "mse", device_tensor({n}, x), device_tensor({n}, t), {}, {LossReduction::sum}, y.tensor());
  CHECK(host_values(y.tensor())[0] == sum);
  if (!has_doubles()) return;
  const Guarded wide({1}, DType::f64);
  loss(stream(), "mse", device_tensor({n}, x, DType::f64), device_tensor({n}, t), {}, {}, wide.tensor());
  double mean = 0;
  read(stream(), wide.tensor(), &mean, sizeof mean);
  CHECK(std::fabs(mean - sum / n) <= 1e-14 * mean);
}

TEST_CASE("losses of special values are PyTorch's", "[small]") {
  CHECK(at("bce", 0, 1) == std::pair(100.0f, -1e12f));  // logarithms end at -100, the variance at 1e-12
  CHECK(at("bce", 1, 0) == std::pair(100.0f, 1e12f));
  CHECK(at("bce", 1, 1) == std::pair(0.0f, 0.0f));
  CHECK(at("bce_with_logits", 1000, 1) == std::pair(0.0f, 0.0f));
  CHECK(at("bce_with_logits", -1000, 1) == std::pair(1000.0f, -1.0f));
  CHECK(at("kl_div", -1, 0) == std::pair(0.0f, -0.0f));
  CHECK(at("l1", 2, 2) == std::pair(0.0f, 0.0f));
  CHECK(at("l1", kNan, 2).second == 0);
  CHECK(at("smooth_l1", 3, 3, {0}) == std::pair(0.0f, 0.0f));  // beta 0 is l1
  CHECK(at("smooth_l1", 3, 1, {0}) == std::pair(2.0f, 1.0f));
  CHECK(at("smooth_l1", kInf, 1) == std::pair(kInf, 1.0f));
  CHECK(at("huber", -kInf, 1, {2}) == std::pair(kInf, -2.0f));
  CHECK(at("huber", 3, 1, {2}) == std::pair(2.0f, 2.0f));
  CHECK(at("soft_margin", 1000, -1) == std::pair(1000.0f, 1.0f));
  for (const char* name : {"l1", "huber", "bce", "bce_with_logits", "soft_margin"}) {
    INFO(name);
    CHECK(std::isnan(at(name, kNan, 0.5f).first));
    CHECK(std::isnan(at(name, 0.5f, kNan).first));
  }
}

TEST_CASE("losses of nothing", "[small]") {
  const Tensor x(context(), {0, 3}), dx(context(), {0, 3});
  const Guarded y({1});
  loss(stream(), "mse", x, x, {}, {LossReduction::sum}, y.tensor());
  CHECK(host_values(y.tensor())[0] == 0);
  loss(stream(), "mse", x, x, {}, {}, y.tensor());
  CHECK(std::isnan(host_values(y.tensor())[0]));
  loss_backward(stream(), "mse", y.tensor(), x, x, {}, {}, dx);
}

TEST_CASE("losses in eight dimensions, and gradients in place", "[small]") {
  const Shape shape{1, 2, 1, 2, 1, 2, 1, 2};
  Rng rng(4);
  const std::vector<float> a = integers(16, rng), b = integers(16, rng);
  const Tensor x = device_tensor(shape, a), target = device_tensor(shape, b);
  loss_backward(stream(), "mse", device_tensor({1}, {2}), x, target, {}, {LossReduction::sum}, x, target);
  std::vector<float> expected, turned;
  for (size_t i = 0; i < a.size(); i++) {
    expected.push_back(4 * (a[i] - b[i]));
    turned.push_back(-expected.back());
  }
  CHECK(host_values(x) == expected);
  CHECK(deviation(host_values(target), turned) == 0);
}

TEST_CASE("losses refuse bad input", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), t = device_tensor({2, 3}, {0, 0, 0, 0, 0, 0}),
               y = device_tensor({1}, {0});
  const auto refused = [&](const char* name, const Tensor& a, const Tensor& b, const Tensor& to,
                           const LossParams& params = {}, const std::vector<Tensor>& weights = {}) {
    return error_of<ValidationError>([&] { loss(stream(), name, a, b, weights, params, to); });
  };
  CHECK(refused("mean", x, t, y) == "function: there is no loss 'mean'");
  CHECK(refused("mse", x, {}, y) == "target: is not defined");
  CHECK(refused("mse", x, t.slice(1, 0, 2), y) == "target: shape [2, 2] must be [2, 3]");
  CHECK(refused("mse", x, t, t) == "y: shape [2, 3] must be [1]");
  CHECK(refused("mse", x, t, y, {LossReduction::none}) == "y: shape [1] must be [2, 3]");
  CHECK(refused("huber", x, t, y, {LossReduction::sum, {1, 2}}) ==
        "parameters: huber takes 1 or none, not 2");
  CHECK(refused("mse", x, t, y, {LossReduction::sum}, {x}) == "weights: mse has 0, not 1");
  CHECK(refused("bce", x, t, y, {LossReduction::sum}, {device_tensor({2}, {1, 1})}) ==
        "weights[0]: shape [2] does not broadcast to x's [2, 3]");
  CHECK(refused("mse", x, t, x.reshape({6}).slice(0, 0, 1)) == "y: shares memory with x");
  CHECK(error_of<ValidationError>([&] { loss_backward(stream(), "mse", y, x, t, {}, {}, {}); }) ==
        "dx: no gradient is wanted");
  CHECK(error_of<ValidationError>([&] { loss_backward(stream(), "mse", y, x, t, {}, {}, x, x); }) ==
        "dx: shares memory with dtarget");
}
