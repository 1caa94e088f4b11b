// Losses of classes, the negative log-likelihood and cross-entropy, against plain loops in double.
#include <dlprim/class_loss.hpp>
#include <dlprim/rehearsal.hpp>

#include <cmath>
#include <limits>
#include <thread>

#include "cases/loss.hpp"
#include "catch.hpp"
#include "core/text.hpp"

using namespace dlprim;
using namespace dlprim::test;
using dlprim::detail::cat;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Case {
  Shape shape;
  bool from_logits = true, probabilities = false, weighted = false;
  double smoothing = 0;
  LossReduction reduction = LossReduction::mean;
  Placing placing = Placing::row_major;
  DType dtype = DType::f32, target_dtype = DType::i32;
  int64_t padding = 37;  // of dx; 64 leaves it aligned
  double range = 4;      // logits lie in [-range, range]
};

std::string text_of(const Case& c, const std::string& engine) {
  return cat(c.from_logits ? "cross_entropy " : "nll_loss ", engine, " ", name_of(c.dtype),
             to_string(c.shape), " ", name_of(c.placing), c.probabilities ? " probabilities" : "",
             c.weighted ? " weighted" : "", " smoothing ", c.smoothing, " reduction ",
             static_cast<int>(c.reduction), " target ", name_of(c.target_dtype));
}

Shape without_classes(const Shape& shape) {
  Shape rows{shape[0]};
  for (int i = 2; i < shape.size(); i++) rows.push_back(shape[i]);
  return rows;
}

/// exp's and log's few units, and the rounding of sums of so many terms.
double tolerance(int64_t terms, DType dtype) {
  return (32 + static_cast<double>(terms)) * 0x1p-23 + storage_roundoff(dtype);
}

struct Tensors {
  Tensor x, target, weight;
  ClassLossReference reference;
};

Tensors tensors_of(const Case& c) {
  Rng rng(13);
  Tensors t;
  t.reference = {c.shape, {}, {}, {}, {c.reduction, 2, c.smoothing}, c.from_logits};
  const int64_t count = element_count(c.shape);
  t.x = placed(c.placing, c.shape, reals(count, rng, -c.range, c.from_logits ? c.range : 0), c.dtype);
  const Shape rows = without_classes(c.shape);
  if (c.probabilities) {
    t.target = placed(c.placing, c.shape, reals(count, rng, 0, 1), DType::f32);
    t.reference.probabilities = values_of(t.target);
  } else {
    // Class 2 is to be ignored; some are none.
    std::vector<float> classes;
    for (int64_t i = 0; i < element_count(rows); i++)
      classes.push_back(static_cast<float>(rng.integer(0, c.shape[1] - 1 + (i % 5 == 4))));
    t.reference.target.assign(classes.begin(), classes.end());
    t.target = placed(c.placing, rows, classes, c.target_dtype);
  }
  if (c.weighted) {
    t.weight = placed(Placing::gaps, {c.shape[1]}, reals(c.shape[1], rng, 0.5, 2), DType::f32);
    t.reference.weight = values_of(t.weight);
  }
  return t;
}

void check(const Case& c, const std::string& by) {
  const std::string text = text_of(c, by);
  if (!is_selected(text)) return;
  INFO(again(text));
  const Tensors t = tensors_of(c);
  const ClassLossReference& r = t.reference;
  const bool none = c.reduction == LossReduction::none;
  const Shape loss_shape = none ? without_classes(c.shape) : Shape{1};
  const Guarded loss(loss_shape, DType::f32, 37), second(loss_shape, DType::f32, 37);
  ClassLossDesc desc{t.x, t.target, loss.tensor(), {}, r.params};
  if (c.weighted) desc.weight = TensorDesc(t.weight);
  const auto forward = [&](const Guarded& to) {
    if (c.from_logits)
      CrossEntropy(context(), desc, engine(by)).run(stream(), t.x, t.target, t.weight, to.tensor());
    else
      NllLoss(context(), desc, engine(by)).run(stream(), t.x, t.target, t.weight, to.tensor());
  };
  forward(loss);
  forward(second);
  const Values x = values_of(t.x);
  const int64_t terms = c.shape[1] + (none ? 0 : element_count(loss_shape));
  CHECK(deviation(host_values(loss.tensor()), r.loss(x)) <= tolerance(terms, DType::f32));
  CHECK(loss.intact());
  CHECK(host_bytes(loss.tensor()) == host_bytes(second.tensor()));

  Rng rng(17);
  const Tensor dloss = device_tensor(loss_shape, reals(element_count(loss_shape), rng, 0.5, 2));
  const Guarded dx(c.shape, strides_in(c.placing, c.shape), c.dtype, c.padding);
  if (c.from_logits)
    CrossEntropyBackward(context(), {dloss, t.x, t.target, dx.tensor(), desc.weight, r.params}, engine(by))
        .run(stream(), dloss, t.x, t.target, t.weight, dx.tensor());
  else
    NllLossBackward(context(), {dloss, t.target, dx.tensor(), desc.weight, r.params}, engine(by))
        .run(stream(), dloss, t.target, t.weight, dx.tensor());
  CHECK(deviation(host_values(dx.tensor()), r.gradient(x, values_of(dloss))) <=
        tolerance(c.shape[1], c.dtype));
  CHECK(dx.intact());
}

Tensor targets(const std::vector<float>& values, DType dtype = DType::i64) {
  return device_tensor({static_cast<int64_t>(values.size())}, values, dtype);
}

}  // namespace

TEST_CASE("nll_loss in every form", "[small]") {
  for (LossReduction reduction : {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
    check({{7, 5}, false, false, false, 0, reduction}, "direct");
    if (reduction == LossReduction::mean)
      check({{3, 5, 2, 3}, false, false, true, 0, reduction, Placing::channels_last, DType::bf16, DType::i64},
            "direct");
  }
  check({{1, 1}, false}, "direct");
  check({{1500, 10}, false, false, true, 0, LossReduction::mean, Placing::gaps, DType::f16, DType::u8},
        "direct");
  check({{2, 3, 2, 2, 2, 2, 2, 2}, false, false, false, 0, LossReduction::none, Placing::gaps}, "direct");
}

TEST_CASE("cross_entropy with every kind of target and reduction", "[small]") {
  for (const char* by : {"row", "cpu"})
    for (LossReduction reduction : {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
      check({{7, 5}, true, false, false, 0, reduction}, by);
      if (reduction != LossReduction::sum) check({{7, 5}, true, false, true, 0.25, reduction}, by);
      if (reduction != LossReduction::none) check({{7, 5}, true, true, true, 0.25, reduction}, by);
    }
}

TEST_CASE("cross_entropy in other dtypes, shapes and forms of memory", "[small]") {
  for (const char* by : {"row", "cpu"}) {
    check({{3, 5, 2, 3}, true, false, true, 0.5, LossReduction::mean}, by);
    check({{3, 5, 2, 3}, true, true, false, 0, LossReduction::none, Placing::channels_last}, by);
    check({{3, 16}, true, false, false, 0, LossReduction::mean, Placing::row_major, DType::f16, DType::i64},
          by);
    check({{3, 8}, true, true, false, 0.5, LossReduction::mean, Placing::row_major, DType::bf16}, by);
    check({{3, 7}, true, false, false, 0, LossReduction::sum, Placing::gaps, DType::bf16, DType::u8}, by);
    check({{1, 1}}, by);
    // In eight launches: none has gradients that are all small.
    Case parts{{2, 3, 2, 2, 2, 2, 2, 2}, true, false, false, 0, LossReduction::none, Placing::gaps};
    parts.range = 1;
    check(parts, by);
  }
}

TEST_CASE("cross_entropy of rows that start anywhere goes in vectors", "[small]") {
  Case c{{5, 1031}};
  c.padding = 64;
  check(c, "row");
  c.shape = {3, 1027}, c.dtype = DType::bf16, c.weighted = true;
  check(c, "row");
}

TEST_CASE("cross_entropy: a rehearsal asks for no program that the operator does not use", "[small]") {
  const Context own(context().device());  // with no program in memory
  const Stream stream(own);
  const Tensor x(stream, {6, 10}), target(stream, {6}, DType::i32), loss(stream, {6});
  fill(stream, 0.5, x);
  fill(stream, 1, target);
  const auto run = [&] { cross_entropy(stream, x, target, {}, {LossReduction::none}, loss, engine("row")); };
  const auto made = [&] { return own.program_stats().built + own.program_stats().from_disk; };
  const uint64_t before = made();
  std::thread([&] {
    const Rehearsal rehearsal;
    run();
    const bool beside = !own.device().facts().builds_in_one_thread;
    while (beside && made() == before) std::this_thread::yield();
  }).join();  // what has begun to build beside it is waited for
  run();
  stream.finish();
  CHECK(made() == before + 1);
}

TEST_CASE("cross_entropy of long rows") {
  Case odd{{3, 40001}};
  odd.padding = 64;
  check(odd, "row");
  for (const char* by : {"row", "cpu"}) {
    check({{2, 40000}, true, false, true, 0.125}, by);
    check({{2, 1000, 3}}, by);
    check({{3, 1000}, true, false, false, 0, LossReduction::none}, by);
  }
}

TEST_CASE("losses of classes leave out targets that are no class", "[small]") {
  const Tensor x = device_tensor({4, 2}, {-1, -2, -3, -4, -5, -6, kNan, kNan});
  const Guarded loss({1}), d({4, 2});
  const Tensor t = targets({0, 1, -100, 2}), none = targets({-1, 2, 3, -7});
  nll_loss(stream(), x, t, {}, {}, loss.tensor());
  CHECK(host_values(loss.tensor()) == std::vector<float>{2.5f});
  nll_loss_backward(stream(), device_tensor({1}, {3}), t, {}, {}, d.tensor());
  CHECK(host_values(d.tensor()) == std::vector<float>{-1.5f, 0, 0, -1.5f, 0, 0, 0, 0});
  nll_loss(stream(), x, none, {}, {}, loss.tensor());
  CHECK(std::isnan(host_values(loss.tensor())[0]));
  nll_loss_backward(stream(), device_tensor({1}, {3}), none, {}, {}, d.tensor());
  CHECK(host_values(d.tensor()) == std::vector<float>(8, 0.0f));
  nll_loss(stream(), x, none, {}, {LossReduction::sum}, loss.tensor());
  CHECK(host_values(loss.tensor())[0] == 0);

  const Tensor last = targets({0, -100, -100, -100});
  for (const char* by : {"row", "cpu"}) {
    INFO(by);
    CrossEntropy(context(), {x, last, loss.tensor()}, engine(by)).run(stream(), x, last, {}, loss.tensor());
    CHECK(host_values(loss.tensor())[0] == Approx(std::log1p(std::exp(-1.0))));
    CrossEntropyBackward(context(), {loss.tensor(), x, last, d.tensor()}, engine(by))
        .run(stream(), loss.tensor(), x, last, {}, d.tensor());
    const std::vector<float> gradient = host_values(d.tensor());
    CHECK(gradient[0] == Approx(-std::log1p(std::exp(-1.0)) / (1 + std::exp(1.0))));
    CHECK(gradient[1] == Approx(-gradient[0]));
    for (size_t i = 2; i < 8; i++) CHECK(gradient[i] == 0);
  }
}

TEST_CASE("cross_entropy of logits beyond exp's range", "[small]") {
  const Tensor x = device_tensor({4, 3}, {1000, 0, -1000, -kInf, 2, 3, 1, kNan, 2, 1, kInf, 2});
  const Tensor t = targets({1, 1, 0, 0});
  for (const char* by : {"row", "cpu"}) {
    INFO(by);
    const Guarded loss({4});
    const ClassLossDesc desc{x, t, loss.tensor(), {}, {LossReduction::none}};
    CrossEntropy(context(), desc, engine(by)).run(stream(), x, t, {}, loss.tensor());
    const Values expected = {1000, std::log1p(std::exp(1.0)), kNan, kNan};
    CHECK(deviation(host_values(loss.tensor()), expected) <= tolerance(3, DType::f32));
  }
}

TEST_CASE("losses of classes: gradients agree with finite differences", "[small]") {
  for (bool from_logits : {false, true}) {
    const Case c{{3, 4, 2}, from_logits, false, true, from_logits ? 0.3 : 0};
    const Tensors t = tensors_of(c);
    const ClassLossParams& params = t.reference.params;
    const Guarded dx(c.shape);
    const Tensor dloss = device_tensor({1}, {2});
    if (from_logits)
      cross_entropy_backward(stream(), dloss, t.x, t.target, t.weight, params, dx.tensor());
    else
      nll_loss_backward(stream(), dloss, t.target, t.weight, params, dx.tensor());
    const auto f = [&](const Values& v) { return 2 * t.reference.loss(v)[0]; };
    const std::vector<float> gradient = host_values(dx.tensor());
    for (size_t i = 0; i < gradient.size(); i++)
      CHECK(gradient[i] == Approx(numeric_gradient(f, values_of(t.x), i)).margin(1e-6));
  }
}

TEST_CASE("losses of classes in double, in place, and of no rows", "[small]") {
  const Tensor x = device_tensor({2, 2}, {0, 1, 2, 4}), t = targets({0, 1});
  const Tensor y(context(), {1});
  cross_entropy(stream(), x, t, {}, {}, y);
  const double expected = (std::log1p(std::exp(1.0)) + std::log1p(std::exp(-2.0))) / 2;
  CHECK(host_values(y)[0] == Approx(expected));
  cross_entropy_backward(stream(), device_tensor({1}, {1}), x, t, {}, {}, x);
  const double first = 0.5 / (1 + std::exp(-1.0)), second = 0.5 / (1 + std::exp(2.0));
  CHECK(deviation(host_values(x), {-first, first, second, -second}) <= tolerance(2, DType::f32));

  const Tensor empty(context(), {0, 3}), no_targets(context(), {0}, DType::i32);
  const Guarded loss({1});
  for (bool from_logits : {false, true}) {
    from_logits ? cross_entropy(stream(), empty, no_targets, {}, {}, loss.tensor())
                : nll_loss(stream(), empty, no_targets, {}, {}, loss.tensor());
    CHECK(std::isnan(host_values(loss.tensor())[0]));
    CHECK(loss.intact());
  }
  nll_loss_backward(stream(), device_tensor({1}, {1}), no_targets, {}, {}, empty);
  if (!has_doubles()) return;
  const Tensor wide = device_tensor({2, 2}, {0, 1, 2, 4}, DType::f64);
  const Guarded result({1}, DType::f64);
  cross_entropy(stream(), wide, t, {}, {}, result.tensor());
  double value = 0;
  read(stream(), result.tensor(), &value, sizeof value);
  CHECK(std::fabs(value - expected) < 1e-15);
}

TEST_CASE("losses of classes refuse bad input", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), t = targets({0, 1}, DType::i32);
  const Tensor loss = device_tensor({1}, {0});
  const auto refused = [&](const Tensor& p, const Tensor& target, const Tensor& y,
                           const ClassLossParams& params = {}, const Tensor& weight = {}) {
    return error_of<ValidationError>([&] { nll_loss(stream(), p, target, weight, params, y); });
  };
  CHECK(refused(x, {}, loss) == "target: is not defined");
  CHECK(refused(x, targets({0, 1}, DType::f32), loss) == "target: dtype f32 must be i32, i64 or u8");
  CHECK(refused(x, targets({0}, DType::i32), loss) == "target: shape [1] must be [2]");
  CHECK(refused(t, t, loss) == "x: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(refused(x.slice(0, 0, 1).reshape({3}), t, loss) == "x: rank 1 must be 2 or more, shape is [3]");
  CHECK(refused(x, t, x.reshape({6}).slice(0, 0, 1)) == "loss: shares memory with x");
  CHECK(refused(x, t, x) == "loss: shape [2, 3] must be [1]");
  CHECK(refused(x, t, loss, {LossReduction::none}) == "loss: shape [1] must be [2]");
  CHECK(refused(x, t, loss, {LossReduction::batch_mean}) == "reduction: batch_mean is not for classes");
  CHECK(refused(x, t, loss, {LossReduction::mean, -100, 0.5}) == "label_smoothing: 0.5 is for cross-entropy");
  CHECK(refused(x, t, loss, {}, device_tensor({2}, {1, 1})) == "weight: shape [2] must be [3]");
  const auto smoothed = [&](double smoothing) {
    return error_of<ValidationError>([&] {
      cross_entropy(stream(), x, t, {}, {LossReduction::mean, -100, smoothing}, loss);
    });
  };
  CHECK(smoothed(1.5) == "label_smoothing: 1.5 must lie in [0, 1]");
  CHECK(error_of<ValidationError>([&] { cross_entropy_backward(stream(), loss, x, t, {}, {}, t); }) ==
        "dx: dtype i32 must be f32, f16 or bf16");
  CHECK(host_values(loss)[0] == 0);
}
