// Sums of very many numbers in operators: errors of rounding may grow as the logarithm of how many there are,
// and no faster. Equal numbers are the worst case, as all errors of a plain sum then have one sign.
#include <cmath>

#include <dlprim/class_loss.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/histogram.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/linear.hpp>
#include <dlprim/loss.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/softmax.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kCount = 1000001;
const double kTenth = 0.1f;

Tensor filled(const Shape& shape, float value) {
  const Tensor x(context(), shape);
  fill(stream(), value, x);
  return x;
}

/// Every element of y is `exact`, but for 3 log2(n) half units of rounding, and `more` for what else is
/// rounded. Lanes add up to 128 numbers in a row, and equal numbers err in one direction: 44 half units were
/// seen on a GPU.
void check(const char* what, const Tensor& y, double exact, double n = kCount, double more = 2) {
  double worst = 0;
  for (const float got : host_values(y)) worst = std::fmax(worst, std::fabs(got - exact) / std::fabs(exact));
  INFO(what << " errs by " << worst / 0x1p-24 << " half units");
  CHECK(worst <= (3 * std::log2(n) + more) * 0x1p-24);
}

std::vector<const char*> both(const char* cpu, const char* gpu) {
  if (context().device().kind() == DeviceKind::cpu) return {cpu, gpu};
  return {gpu};
}

}  // namespace

TEST_CASE("long sums: reductions, losses and gradients of biases") {
  const Tensor x = filled({kCount}, 0.1f), zero = filled({kCount}, 0), y(context(), {1});
  reduction(stream(), "sum", x, {}, {y});
  check("sum", y, kTenth * kCount);
  reduction(stream(), "mean", x, {}, {y});
  check("mean", y, kTenth);
  reduction(stream(), "l2", x, {}, {y});
  check("l2", y, kTenth * std::sqrt(static_cast<double>(kCount)));
  const Tensor one(context(), {1});
  loss(stream(), "l1", x, zero, {}, {}, one);
  check("l1 loss", one, kTenth);
  loss(stream(), "mse", x, zero, {}, {LossReduction::sum}, one);
  check("mse loss", one, kTenth * kTenth * kCount);
  const Tensor bias(context(), {3});
  linear_backward_bias(stream(), filled({kCount / 3, 3}, 0.1f), bias);
  check("linear's bias", bias, kTenth * static_cast<double>(kCount / 3));
  conv_backward_bias(stream(), filled({3, 3, 331, 331}, 0.1f), bias);
  check("a convolution's bias", bias, kTenth * 3 * 331 * 331);
}

TEST_CASE("long sums: norms of gradients") {
  const Tensor norm(context(), {1});
  gradient_norm(stream(), {filled({kCount}, 0.1f), filled({7}, 0.1f)}, {NormOrder::two}, norm);
  check("two", norm, kTenth * std::sqrt(static_cast<double>(kCount + 7)));
  gradient_norm(stream(), {filled({kCount}, 0.1f)}, {NormOrder::one}, norm);
  check("one", norm, kTenth * kCount);
}

TEST_CASE("long sums: softmax, logsumexp and cross-entropy") {
  const Tensor x = filled({2, kCount}, 0.25f), y(context(), {2, kCount}), dx(context(), {2, kCount});
  const double n = kCount;
  for (const char* name : both("cpu", "row")) {
    INFO(name);
    Softmax(context(), {x, y}, engine(name)).run(stream(), x, {}, y);
    check("softmax", y, 1 / n, n, 8);
  }
  const Tensor sums(context(), {2, 1});
  logsumexp(stream(), x, 1, sums);
  check("logsumexp", sums, 0.25 + std::log(n), n, 8);
  // dx = p (dy - the sum of dy p) with p of 1 / n: a sum that is wrong by e shows as e / n.
  const Tensor dy = filled({2, kCount}, 0.1f);
  const Tensor p = filled({2, kCount}, static_cast<float>(1 / n));
  softmax_backward(stream(), dy, p, {}, 1, dx);
  double worst = 0;
  for (const float got : host_values(dx)) worst = std::fmax(worst, std::fabs(got * n));
  CHECK(worst <= kTenth * (2 * std::log2(n) + 2) * 0x1p-24);
  const Tensor loss(context(), {1}), target = filled({2, kCount}, static_cast<float>(1 / n));
  cross_entropy(stream(), x, target, {}, {}, loss);
  check("cross-entropy with probabilities", loss,
        std::log(n) * (static_cast<double>(static_cast<float>(1 / n)) * n), n, 8);
}

TEST_CASE("long sums: weights of one bin") {
  const Tensor x(context(), {kCount}, DType::i32), y(context(), {3});
  fill(stream(), 1, x);
  bincount(stream(), x, filled({kCount}, 0.1f), y);
  CHECK(host_values(y)[0] == 0);
  check("bincount", y.slice(0, 1, 2), kTenth * kCount);
}

TEST_CASE("long sums: layer normalisation's gradients of weight and bias") {
  constexpr int64_t kRows = 200003, kLength = 8;
  const Tensor x = filled({kRows, kLength}, 2), dy = filled({kRows, kLength}, 0.1f),
               mean = filled({kRows, 1}, 1), inv_std = filled({kRows, 1}, 1), dx(context(), {kRows, kLength}),
               dweight(context(), {kLength}), dbias(context(), {kLength});
  layer_norm_backward(stream(), dy, x, filled({kLength}, 1), mean, inv_std, 1, dx, dweight, dbias);
  check("weight", dweight, kTenth * kRows, kRows);
  check("bias", dbias, kTenth * kRows, kRows);
}

TEST_CASE("long sums: cumulative sums") {
  for (const Shape& shape : {Shape{kCount}, Shape{300007, 3}, Shape{2, 300007}})
    for (const bool exclusive : {false, true})
      for (const char* by : both("cpu", "gpu")) {
        const int axis = shape[0] > 2 ? 0 : 1;
        const Tensor x = filled(shape, 0.1f), y(context(), shape);
        cumsum(stream(), x, {axis, exclusive}, y, engine(by));
        const std::vector<float> got = host_values(y);
        const int64_t inner = axis == 0 ? element_count(shape) / shape[0] : 1, n = shape[axis];
        double worst = 0;
        for (size_t i = 0; i < got.size(); i++) {
          const int64_t count = static_cast<int64_t>(i) / inner % n + (exclusive ? 0 : 1);
          if (count > 0)
            worst = std::fmax(worst, std::fabs(got[i] / (kTenth * static_cast<double>(count)) - 1));
        }
        INFO(to_string(shape) << (exclusive ? " exclusive " : " ") << by << " errs by " << worst / 0x1p-24
                              << " half units");
        CHECK(worst <= (3 * std::log2(static_cast<double>(n)) + 2) * 0x1p-24);
      }
}
