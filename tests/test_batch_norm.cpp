// Batch normalisation: training, inference and the backward direction against the references.
#include <dlprim/batch_norm.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "cases/norm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Everything that a training step takes and gives.
struct Step {
  Shape shape;
  Placing placing;
  DType dtype;
  int64_t channels;
  Tensor x, dy, weight, bias, running_mean, running_var;
  Guarded y, mean, inv_std, dx, dweight, dbias;

  /// Nothing is aligned, unless `padding` is a multiple of 16.
  Step(const Shape& shape_, Placing placing_, DType dtype_, double offset = 0, double spread = 1,
       int64_t padding = 37)
      : shape(shape_),
        placing(placing_),
        dtype(dtype_),
        channels(shape_[1]),
        y(shape, strides_in(placing, shape), dtype, padding),
        mean({channels}, DType::f32, padding),
        inv_std({channels}, DType::f32, padding),
        dx(shape, strides_in(placing, shape), dtype, padding),
        dweight({channels}, DType::f32, padding),
        dbias({channels}, DType::f32, padding) {
    Rng rng(31);
    const int64_t count = element_count(shape);
    const auto given = [&](Placing where, const Shape& size, const std::vector<float>& values, DType type) {
      const Tensor misaligned = placed(where, size, values, type);
      if (padding % 16 != 0) return misaligned;
      const Tensor t = Guarded(size, strides_in(where, size), type, padding).tensor();
      copy(stream(), misaligned, t);
      return t;
    };
    x = given(placing, shape, reals(count, rng, offset - spread, offset + spread), dtype);
    dy = given(placing, shape, reals(count, rng), dtype);
    const auto channel = [&](double low, double high) {
      return given(Placing::row_major, {channels}, reals(channels, rng, low, high), DType::f32);
    };
    weight = channel(0.5, 2), bias = channel(-1, 1), running_mean = channel(-1, 1),
    running_var = channel(0.5, 2);
  }

  /// y and the statistics that training saved, of values around 0.
  void check_training(double epsilon, Activation activation = Activation::identity) const {
    BatchNormed expected =
        batch_norm_reference(values_of(x), shape, values_of(weight), values_of(bias), epsilon);
    if (activation == Activation::relu)
      for (double& v : expected.y) v = std::max(v, 0.0);
    Values scales;
    for (double variance : expected.variance) scales.push_back(1 / std::sqrt(variance + epsilon));
    const double bound = 64 * 0x1p-24;
    CHECK(deviation(host_values(y.tensor()), expected.y) <= 4 * bound);
    CHECK(deviation_of_means(host_values(mean.tensor()), expected.mean, values_of(x)) <= bound);
    CHECK(deviation(host_values(inv_std.tensor()), scales) <= bound);
  }

  bool intact() const {
    return y.intact() && mean.intact() && inv_std.intact() && dx.intact() && dweight.intact() &&
           dbias.intact();
  }
};

void check(const Shape& shape, Placing placing, DType dtype, double offset = 0, int64_t padding = 37) {
  INFO("batch_norm of " << name_of(dtype) << to_string(shape) << " " << name_of(placing) << " around "
                        << offset);
  const BatchNormParams params{1e-3, 0.2};
  const Step s(shape, placing, dtype, offset, 1, padding);
  const Values mean_before = values_of(s.running_mean), var_before = values_of(s.running_var);
  batch_norm_training(stream(), s.x, s.weight, s.bias, {}, params, s.running_mean, s.running_var,
                      s.y.tensor(), s.mean.tensor(), s.inv_std.tensor());

  const BatchNormed expected =
      batch_norm_reference(values_of(s.x), shape, values_of(s.weight), values_of(s.bias), params.epsilon);
  // Welford's mean and squares keep a few units of the values; x - mean then loses what the offset takes.
  const double of_mean = 64 * 0x1p-24, exact = of_mean + 8 * std::abs(offset) * 0x1p-24,
               stored = exact + storage_roundoff(dtype);
  Values inv_std, running_mean, running_var;
  for (size_t c = 0; c < expected.mean.size(); c++) {
    inv_std.push_back(1 / std::sqrt(expected.variance[c] + params.epsilon));
    running_mean.push_back(0.8 * mean_before[c] + 0.2 * expected.mean[c]);
    running_var.push_back(0.8 * var_before[c] + 0.2 * expected.unbiased[c]);
  }
  CHECK(deviation(host_values(s.y.tensor()), expected.y) <= 4 * stored);
  CHECK(deviation_of_means(host_values(s.mean.tensor()), expected.mean, values_of(s.x)) <= of_mean);
  CHECK(deviation(host_values(s.inv_std.tensor()), inv_std) <= exact);
  CHECK(deviation(host_values(s.running_mean), running_mean) <= of_mean);
  CHECK(deviation(host_values(s.running_var), running_var) <= exact);

  batch_norm_backward(stream(), s.dy, s.x, s.weight, {}, s.mean.tensor(), s.inv_std.tensor(), {},
                      Activation::identity, s.dx.tensor(), s.dweight.tensor(), s.dbias.tensor());
  const BatchNormGradients gradients = batch_norm_backward_reference(values_of(s.dy), values_of(s.x), shape,
                                                                     values_of(s.weight), params.epsilon);
  CHECK(deviation(host_values(s.dx.tensor()), gradients.dx) <= 4 * stored);
  // Sums of n terms of either sign: both the result and the partial sums grow as sqrt(n), each addition
  // rounds.
  const double terms =
      static_cast<double>(element_count(shape)) / static_cast<double>(std::max<int64_t>(shape[1], 1));
  const double summed = 4 * exact + 16 * std::sqrt(terms) * 0x1p-24;
  CHECK(deviation(host_values(s.dweight.tensor()), gradients.dweight) <= summed);
  CHECK(deviation(host_values(s.dbias.tensor()), gradients.dbias) <= summed);
  CHECK(s.intact());

  // Again, from the same input: the same bits.
  const Step t(shape, placing, dtype, offset, 1, padding);
  batch_norm_training(stream(), t.x, t.weight, t.bias, {}, params, {}, {}, t.y.tensor(), t.mean.tensor(),
                      t.inv_std.tensor());
  batch_norm_backward(stream(), t.dy, t.x, t.weight, {}, t.mean.tensor(), t.inv_std.tensor(), {},
                      Activation::identity, t.dx.tensor(), t.dweight.tensor(), t.dbias.tensor());
  CHECK(host_bytes(s.y.tensor()) == host_bytes(t.y.tensor()));
  CHECK(host_bytes(s.inv_std.tensor()) == host_bytes(t.inv_std.tensor()));
  CHECK(host_bytes(s.dx.tensor()) == host_bytes(t.dx.tensor()));
  CHECK(host_bytes(s.dweight.tensor()) == host_bytes(t.dweight.tensor()));

  // Inference with statistics of its own.
  const Guarded y(shape, strides_in(placing, shape), dtype, padding);
  batch_norm_inference(stream(), t.x, t.weight, t.bias, {}, t.running_mean, t.running_var, params,
                       y.tensor());
  Values normal = values_of(t.x);
  const AxisView view(shape, 1);
  const Values weight = values_of(t.weight), bias = values_of(t.bias);
  for (size_t i = 0; i < normal.size(); i++) {
    const size_t c = i / static_cast<size_t>(view.inner) % static_cast<size_t>(view.size);
    normal[i] =
        (normal[i] - mean_before[c]) / std::sqrt(var_before[c] + params.epsilon) * weight[c] + bias[c];
  }
  CHECK(deviation(host_values(y.tensor()), normal) <= 4 * stored);
  CHECK(y.intact());
}

}  // namespace

TEST_CASE("batch normalisation of odd shapes in every form of memory", "[small]") {
  for (Placing placing : kPlacings) check({3, 5, 4, 7}, placing, DType::f32);
  check({2, 1, 1, 1}, Placing::row_major, DType::f32);
  check({1, 3, 1, 2}, Placing::row_major, DType::f32);
  check({9, 4}, Placing::row_major, DType::f32);
  check({2, 3, 2, 1, 3}, Placing::row_major, DType::f32);
  check({2, 0, 3}, Placing::row_major, DType::f32);
}

TEST_CASE("batch normalisation of 16-bit floats", "[small]") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    check({3, 5, 4, 7}, Placing::row_major, dtype);
    check({3, 5, 4, 8}, Placing::channels_last, dtype);
  }
}

TEST_CASE("batch normalisation of aligned channels that lie side by side", "[small]") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (int64_t channels : {16, 12}) check({2, channels, 3, 5}, Placing::channels_last, dtype, 0, 64);
}

TEST_CASE("batch normalisation of larger shapes") {
  check({16, 33, 28, 28}, Placing::row_major, DType::f32);
  check({16, 33, 28, 28}, Placing::channels_last, DType::f32);
  check({4096, 10}, Placing::row_major, DType::f32);
}

TEST_CASE("batch normalisation far from zero loses no more than the input did", "[small]") {
  // E[x^2] - E[x]^2 would have no correct digit left here.
  check({8, 3, 5, 5}, Placing::row_major, DType::f32, 4096);
}

TEST_CASE("batch normalisation of special values", "[small]") {
  // A NaN or an infinity spoils its own channel only; a constant channel has variance 0.
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = device_tensor({2, 4}, {1, kNan, inf, 7, 3, 5, 1, 7});
  const Tensor weight = device_tensor({4}, {1, 1, 1, 1}), bias = device_tensor({4}, {0, 0, 0, 0.5f});
  const Guarded y({2, 4}), mean({4}), inv_std({4});
  batch_norm_training(stream(), x, weight, bias, {}, {0.25, 0.1}, {}, {}, y.tensor(), mean.tensor(),
                      inv_std.tensor());
  const double one = 1 / std::sqrt(1.25);
  CHECK(deviation(host_values(y.tensor()), {-one, kNan, kNan, 0.5, one, kNan, kNan, 0.5}) <= 1e-6);
  CHECK(host_values(inv_std.tensor())[3] == 2);
}

TEST_CASE("batch normalisation gradients agree with finite differences", "[small]") {
  const Shape shape{3, 2, 2, 2};
  const Step s(shape, Placing::row_major, DType::f32);
  const BatchNormParams params{1e-2, 0.1};
  batch_norm_training(stream(), s.x, s.weight, s.bias, {}, params, {}, {}, s.y.tensor(), s.mean.tensor(),
                      s.inv_std.tensor());
  batch_norm_backward(stream(), s.dy, s.x, s.weight, {}, s.mean.tensor(), s.inv_std.tensor(), {},
                      Activation::identity, s.dx.tensor(), s.dweight.tensor(), s.dbias.tensor());
  const Values x = values_of(s.x), dy = values_of(s.dy), weight = values_of(s.weight),
               bias = values_of(s.bias);
  const auto loss = [&](const Values& at, const Values& scale, const Values& shift) {
    const Values y = batch_norm_reference(at, shape, scale, shift, params.epsilon).y;
    double sum = 0;
    for (size_t i = 0; i < y.size(); i++) sum += y[i] * dy[i];
    return sum;
  };
  const std::vector<float> dx = host_values(s.dx.tensor()), dweight = host_values(s.dweight.tensor()),
                           dbias = host_values(s.dbias.tensor());
  for (size_t i = 0; i < x.size(); i++)
    CHECK(
        dx[i] ==
        Approx(numeric_gradient([&](const Values& v) { return loss(v, weight, bias); }, x, i)).margin(1e-5));
  for (size_t c = 0; c < 2; c++) {
    CHECK(
        dweight[c] ==
        Approx(numeric_gradient([&](const Values& v) { return loss(x, v, bias); }, weight, c)).margin(1e-5));
    CHECK(
        dbias[c] ==
        Approx(numeric_gradient([&](const Values& v) { return loss(x, weight, v); }, bias, c)).margin(1e-5));
  }
}

namespace {

/// Training with an activation, whose slope is told from the result if there is a residual, else from x.
void check_activated(Activation f, bool affine, bool joined, Placing placing) {
  INFO(name_of(f) << " weight and bias " << affine << " residual " << joined << " " << name_of(placing));
  const Shape shape{3, 4, 5, 2};
  const Step s(shape, placing, DType::f32, 0, 4);
  Rng rng(3);
  const Tensor residual = joined ? placed(placing, shape, reals(element_count(shape), rng, -3, 3)) : Tensor();
  const Tensor weight = affine ? s.weight : Tensor(), bias = affine ? s.bias : Tensor();
  const BatchNormParams params{1e-3, 0.1, f};
  const Guarded dresidual(shape);
  batch_norm_training(stream(), s.x, weight, bias, residual, params, {}, {}, s.y.tensor(), s.mean.tensor(),
                      s.inv_std.tensor());
  batch_norm_backward(stream(), s.dy, s.x, weight, bias, s.mean.tensor(), s.inv_std.tensor(),
                      joined && f != Activation::identity ? s.y.tensor() : Tensor(), f, s.dx.tensor(),
                      s.dweight.tensor(), s.dbias.tensor(), joined ? dresidual.tensor() : Tensor());
  const Values ones(4, 1), zeros(4, 0), scale = affine ? values_of(weight) : ones;
  Values y = batch_norm_reference(values_of(s.x), shape, scale, affine ? values_of(bias) : zeros, 1e-3).y;
  Values d = values_of(s.dy);
  const Values added = joined ? values_of(residual) : Values(y.size(), 0);
  for (size_t i = 0; i < y.size(); i++) {
    d[i] *= activation_slope(f, y[i] + added[i]);
    y[i] = activation_value(f, y[i] + added[i]);
  }
  const BatchNormGradients g = batch_norm_backward_reference(d, values_of(s.x), shape, scale, 1e-3);
  // Some 20 roundings, and sums of 30 terms.
  CHECK(deviation(host_values(s.y.tensor()), y) <= 64 * 0x1p-24);
  if (joined) CHECK(deviation(host_values(dresidual.tensor()), d) <= 64 * 0x1p-24);
  CHECK(deviation(host_values(s.dx.tensor()), g.dx) <= 256 * 0x1p-24);
  CHECK(deviation(host_values(s.dweight.tensor()), g.dweight) <= 256 * 0x1p-24);
  CHECK(deviation(host_values(s.dbias.tensor()), g.dbias) <= 256 * 0x1p-24);
  CHECK((s.intact() && dresidual.intact()));
}

}  // namespace

TEST_CASE("batch normalisation with an activation, with and without a residual", "[small]") {
  for (Activation f :
       {Activation::identity, Activation::relu, Activation::relu6, Activation::sigmoid, Activation::tanh})
    for (bool joined : {true, false}) check_activated(f, true, joined, Placing::row_major);
  for (bool joined : {true, false}) {
    check_activated(Activation::relu, false, joined, Placing::row_major);
    check_activated(Activation::relu6, true, joined, Placing::channels_last);
  }
}

TEST_CASE("batch normalisation: single gradients, and inference with a residual", "[small]") {
  const Shape shape{3, 5, 4};
  const Step s(shape, Placing::row_major, DType::f32), t(shape, Placing::row_major, DType::f32);
  batch_norm_training(stream(), s.x, s.weight, s.bias, {}, {1e-3, 0.1, Activation::relu}, {}, {},
                      s.y.tensor(), s.mean.tensor(), s.inv_std.tensor());
  s.check_training(1e-3, Activation::relu);
  const auto backward = [&](const Step& to, const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                            const Tensor& dresidual) {
    batch_norm_backward(stream(), to.dy, s.x, s.weight, {}, s.mean.tensor(), s.inv_std.tensor(), s.y.tensor(),
                        Activation::relu, dx, dweight, dbias, dresidual);
  };
  backward(s, s.dx.tensor(), s.dweight.tensor(), s.dbias.tensor(), {});
  backward(t, {}, t.dweight.tensor(), {}, {});
  backward(t, {}, {}, t.dbias.tensor(), {});
  CHECK(host_bytes(t.dweight.tensor()) == host_bytes(s.dweight.tensor()));
  CHECK(host_bytes(t.dbias.tensor()) == host_bytes(s.dbias.tensor()));
  const Guarded dresidual(shape);
  backward(t, {}, {}, {}, dresidual.tensor());
  Values d = values_of(s.dy);
  const Values y = values_of(s.y.tensor());
  for (size_t i = 0; i < d.size(); i++) d[i] = y[i] > 0 ? d[i] : 0;
  CHECK(deviation(host_values(dresidual.tensor()), d) == 0);
  backward(t, t.dx.tensor(), {}, {}, t.dy);  // the residual's gradient in dy's place
  CHECK(host_bytes(t.dx.tensor()) == host_bytes(s.dx.tensor()));
  CHECK(deviation(host_values(t.dy), d) == 0);

  const Guarded made(shape);
  batch_norm_inference(stream(), s.x, {}, s.bias, s.dy, s.running_mean, s.running_var,
                       {1e-3, 0.1, Activation::tanh}, made.tensor());
  Values expected = values_of(s.x);
  const Values mean = values_of(s.running_mean), var = values_of(s.running_var), bias = values_of(s.bias),
               added = values_of(s.dy);
  for (size_t i = 0; i < expected.size(); i++) {
    const size_t c = i / 4 % 5;
    expected[i] = std::tanh((expected[i] - mean[c]) / std::sqrt(var[c] + 1e-3) + bias[c] + added[i]);
  }
  CHECK(deviation(host_values(made.tensor()), expected) <= 64 * 0x1p-24);
  CHECK(made.intact());
}

TEST_CASE("batch normalisation of f64") {
  if (!has_doubles()) return;
  const Shape shape{4, 3, 6};
  Rng rng(9);
  const std::vector<float> values = reals(72, rng, 1e4, 1e4 + 1);
  const Tensor x = device_tensor(shape, values, DType::f64);
  const Guarded y(shape, DType::f64), mean({3}, DType::f64), inv_std({3}, DType::f64);
  batch_norm_training(stream(), x, {}, {}, {}, {1e-5, 0.1}, {}, {}, y.tensor(), mean.tensor(),
                      inv_std.tensor());
  const Values ones(3, 1), zeros(3, 0);
  const BatchNormed expected = batch_norm_reference(values_of(x), shape, ones, zeros, 1e-5);
  // Read back as f32; in f32 arithmetic 1e4 * 2^-24 = 6e-4 would be lost.
  CHECK(deviation(host_values(y.tensor()), expected.y) <= 0x1p-23);
  Values deviations;
  for (double variance : expected.variance) deviations.push_back(1 / std::sqrt(variance + 1e-5));
  CHECK(deviation(host_values(inv_std.tensor()), deviations) <= 0x1p-23);
}

TEST_CASE("batch normalisation in place", "[small]") {
  const Step s({3, 5, 4}, Placing::row_major, DType::f32), t({3, 5, 4}, Placing::row_major, DType::f32);
  batch_norm_training(stream(), s.x, s.weight, s.bias, {}, {}, {}, {}, s.y.tensor(), s.mean.tensor(),
                      s.inv_std.tensor());
  batch_norm_backward(stream(), s.dy, s.x, s.weight, {}, s.mean.tensor(), s.inv_std.tensor(), {},
                      Activation::identity, s.dx.tensor(), s.dweight.tensor(), s.dbias.tensor());
  batch_norm_backward(stream(), t.dy, t.x, t.weight, {}, s.mean.tensor(), s.inv_std.tensor(), {},
                      Activation::identity, t.dy, t.dweight.tensor(), t.dbias.tensor());
  CHECK(host_bytes(t.dy) == host_bytes(s.dx.tensor()));
  batch_norm_training(stream(), t.x, t.weight, t.bias, {}, {}, {}, {}, t.x, t.mean.tensor(),
                      t.inv_std.tensor());
  CHECK(host_bytes(t.x) == host_bytes(s.y.tensor()));
}

TEST_CASE("batch normalisation with a workspace of the user's", "[small]") {
  const Shape shape{40, 5, 1000};  // its sums go in parts
  const Step s(shape, Placing::row_major, DType::f32), t(shape, Placing::row_major, DType::f32);
  BatchNormDesc desc{s.x, s.y.tensor(), {}, true, true, true, {}};
  CHECK(error_of<ValidationError>([&] {
          BatchNormTraining(context(), desc)
              .run(stream(), s.x, s.weight, s.bias, {}, s.running_mean, s.running_var, s.y.tensor(),
                   s.mean.tensor(), s.inv_std.tensor());
        }).rfind("weight: starts at element", 0) == 0);
  desc.aligned = false;
  const BatchNormTraining plan(context(), desc);
  CHECK(plan.engine() == "generated");
  REQUIRE(plan.workspace_size() > 0);
  const Guarded workspace({static_cast<int64_t>(plan.workspace_size())}, DType::u8);
  const BatchNormed expected =
      batch_norm_reference(values_of(s.x), s.shape, values_of(s.weight), values_of(s.bias), 1e-5);
  Values running_mean = values_of(s.running_mean), running_var = values_of(s.running_var);
  for (size_t c = 0; c < running_mean.size(); c++) {
    running_mean[c] = 0.9 * running_mean[c] + 0.1 * expected.mean[c];
    running_var[c] = 0.9 * running_var[c] + 0.1 * expected.unbiased[c];
  }
  plan.run(stream(), s.x, s.weight, s.bias, {}, s.running_mean, s.running_var, s.y.tensor(), s.mean.tensor(),
           s.inv_std.tensor(), workspace.tensor());
  plan.run(stream(), t.x, t.weight, t.bias, {}, t.running_mean, t.running_var, t.y.tensor(), t.mean.tensor(),
           t.inv_std.tensor());
  CHECK(workspace.intact());
  for (const Step* step : {&s, &t}) {
    step->check_training(1e-5);
    CHECK(deviation(host_values(step->running_mean), running_mean) <= 64 * 0x1p-24);
    CHECK(deviation(host_values(step->running_var), running_var) <= 64 * 0x1p-24);
  }
  CHECK(error_of<ValidationError>([&] {
          plan.run(stream(), s.x, s.weight, s.bias, {}, {}, {}, s.y.tensor(), s.mean.tensor(),
                   s.inv_std.tensor());
        }) == "running_mean: is not defined");
}

TEST_CASE("running statistics are updated in place or beside the old ones, by either variance", "[small]") {
  const Shape shape{3, 5, 4};
  for (const bool unbiased : {true, false})
    for (const bool beside : {true, false}) {
      INFO("unbiased " << unbiased << " beside " << beside);
      const Step s(shape, Placing::channels_last, DType::f32);
      BatchNormParams params;
      params.momentum = 0.25, params.unbiased = unbiased;
      const BatchNormed now =
          batch_norm_reference(values_of(s.x), shape, values_of(s.weight), values_of(s.bias), 1e-5);
      const Values old_mean = values_of(s.running_mean), old_var = values_of(s.running_var);
      Values expected_mean, expected_var;
      for (size_t c = 0; c < old_mean.size(); c++) {
        expected_mean.push_back(0.75 * old_mean[c] + 0.25 * now.mean[c]);
        expected_var.push_back(0.75 * old_var[c] + 0.25 * (unbiased ? now.unbiased : now.variance)[c]);
      }
      const Guarded mean({5}), var({5});
      batch_norm_training(stream(), s.x, s.weight, s.bias, {}, params, s.running_mean, s.running_var,
                          s.y.tensor(), s.mean.tensor(), s.inv_std.tensor(), {}, {},
                          beside ? mean.tensor() : Tensor(), beside ? var.tensor() : Tensor());
      s.check_training(1e-5);
      CHECK(deviation(host_values(beside ? mean.tensor() : s.running_mean), expected_mean) <= 64 * 0x1p-24);
      CHECK(deviation(host_values(beside ? var.tensor() : s.running_var), expected_var) <= 64 * 0x1p-24);
      if (beside) CHECK((values_of(s.running_mean) == old_mean && values_of(s.running_var) == old_var));
      CHECK((mean.intact() && var.intact()));
    }
  const Step s(shape, Placing::row_major, DType::f32);
  CHECK(error_of<ValidationError>([&] {
          batch_norm_training(stream(), s.x, s.weight, s.bias, {}, {}, {}, {}, s.y.tensor(), s.mean.tensor(),
                              s.inv_std.tensor(), {}, {}, s.running_mean, s.running_var);
        }) == "new_mean: is given to a plan without running statistics");
}

TEST_CASE("batch normalisation refuses bad input and changes nothing", "[small]") {
  const Step s({3, 5, 4}, Placing::row_major, DType::f32);
  const std::vector<unsigned char> mean = host_bytes(s.running_mean), var = host_bytes(s.running_var);
  const std::vector<unsigned char> y_before = host_bytes(s.y.tensor()),
                                   mean_before = host_bytes(s.mean.tensor());
  struct Arguments {
    Tensor x, weight, bias, running_mean, running_var, y, mean, inv_std;
    BatchNormParams params;
  };
  const auto refused = [&](auto change) {
    Arguments a{s.x,
                s.weight,
                s.bias,
                s.running_mean,
                s.running_var,
                s.y.tensor(),
                s.mean.tensor(),
                s.inv_std.tensor(),
                {}};
    change(a);
    return error_of<ValidationError>([&] {
      batch_norm_training(stream(), a.x, a.weight, a.bias, {}, a.params, a.running_mean, a.running_var, a.y,
                          a.mean, a.inv_std);
    });
  };
  for (Activation f : {Activation::silu, Activation::hardswish, Activation::gelu, Activation::gelu_tanh}) {
    const TensorDesc x({3, 5, 4});
    BatchNormBackwardDesc desc;
    desc.x = desc.dy = x, desc.y = desc.dx = x, desc.activation = f;
    CHECK(error_of<ValidationError>([&] { BatchNormBackward(context(), desc); }) ==
          std::string("activation: the gradient of ") + name_of(f) + " cannot be told from its result");
  }
  CHECK(refused([](Arguments& a) { a.x = {}; }) == "x: is not defined");
  CHECK(refused([](Arguments& a) { a.x = a.x.slice(0, 0, 2); }) == "y: shape [3, 5, 4] must be [2, 5, 4]");
  CHECK(refused([](Arguments& a) {
          a.x = a.x.slice(0, 0, 1).slice(2, 0, 1);
          a.y = a.y.slice(0, 0, 1).slice(2, 0, 1);
        }) == "x: shape [1, 5, 1] has 1 values a channel, a variance needs at least 2");
  CHECK(refused([](Arguments& a) { a.bias = a.bias.slice(0, 0, 4); }) == "bias: shape [4] must be [5]");
  CHECK(refused([](Arguments& a) { a.mean = cast(stream(), a.mean, DType::f16); }) ==
        "mean: dtype f16 must be f32");
  CHECK(refused([](Arguments& a) { a.running_var = {}; }) ==
        "running_var: is not defined, though the other running statistic is");
  CHECK(refused([](Arguments& a) { a.inv_std = a.mean; }) == "inv_std: shares memory with mean");
  CHECK(refused([](Arguments& a) { a.running_var = a.running_mean; }) ==
        "running_var: shares memory with running_mean");
  CHECK(refused([](Arguments& a) { a.mean = a.weight; }) == "mean: shares memory with weight");
  CHECK(refused([](Arguments& a) { a.params.epsilon = kNan; }) == "epsilon: nan must be finite");
  CHECK(refused([](Arguments& a) { a.params.momentum = INFINITY; }) == "momentum: inf must be finite");
  CHECK(refused([](Arguments& a) { a.x = a.x.reshape({60}), a.y = a.y.reshape({60}); }) ==
        "x: rank 1 must be 2 or more, [N, C, ...]");
  const auto backward = [&](Activation f, const Tensor& y, const Tensor& dx, const Tensor& dresidual) {
    return error_of<ValidationError>([&] {
      batch_norm_backward(stream(), s.dy, s.x, s.weight, {}, s.mean.tensor(), s.inv_std.tensor(), y, f, dx,
                          {}, {}, dresidual);
    });
  };
  const Guarded dresidual(s.shape);
  CHECK(backward(Activation::relu, {}, s.dx.tensor(), dresidual.tensor()) ==
        "y: is not there, though there was a residual and the activation is relu");
  CHECK(backward(Activation::identity, s.y.tensor(), s.dx.tensor(), {}) ==
        "y: is there, though the activation is identity");
  CHECK(backward(Activation::identity, {}, {}, {}) == "dx: no gradient is wanted");
  BatchNormBackwardDesc unused;
  unused.x = unused.dy = s.x, unused.dx = s.x, unused.bias = true;
  CHECK(error_of<ValidationError>([&] { BatchNormBackward(context(), unused); }) ==
        "bias: is there, though the slope is not told from x again");
  CHECK(backward(Activation::identity, {}, s.dy, s.dy) == "dresidual: shares memory with dx");
  CHECK(host_bytes(s.running_mean) == mean);
  CHECK(host_bytes(s.running_var) == var);
  CHECK(host_bytes(s.y.tensor()) == y_before);
  CHECK(host_bytes(s.mean.tensor()) == mean_before);
}
