// CTC loss against all alignments, one by one, and against a plain recursion where there are too many.
#include <dlprim/ctc_loss.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// A sequence of log-probabilities [T, C] and its labels.
struct Sequence {
  int64_t times, classes, blank;
  std::vector<int64_t> labels;

  double x(const Values& v, int64_t t, int64_t c) const { return v[static_cast<size_t>(t * classes + c)]; }
  /// Every path of T classes whose runs, blanks taken out, are the labels.
  double all_paths(const Values& v) const {
    double sum = 0;
    int64_t paths = 1;
    for (int64_t t = 0; t < times; t++) paths *= classes;
    for (int64_t path = 0; path < paths; path++) {
      std::vector<int64_t> seen;
      double log_p = 0;
      int64_t before = -1, rest = path;
      for (int64_t t = 0; t < times; t++, rest /= classes) {
        const int64_t c = rest % classes;
        log_p += x(v, t, c);
        if (c != before && c != blank) seen.push_back(c);
        before = c;
      }
      if (seen == labels) sum += std::exp(log_p);
    }
    return -std::log(sum);
  }
  /// Probabilities of the states, scaled at each time.
  double recursion(const Values& v) const {
    const auto states = static_cast<int64_t>(2 * labels.size() + 1);
    const auto label = [&](int64_t s) { return s % 2 ? labels[static_cast<size_t>(s / 2)] : blank; };
    Values p(static_cast<size_t>(states), 0.0);
    double log_scale = 0;
    for (int64_t t = 0; t < times; t++) {
      Values next(p.size(), 0.0);
      double sum = 0;
      for (int64_t s = 0; s < states; s++) {
        const auto i = static_cast<size_t>(s);
        double from = t == 0 ? (s < 2 ? 1 : 0) : p[i] + (s > 0 ? p[i - 1] : 0);
        if (t > 0 && s > 1 && s % 2 && label(s) != label(s - 2)) from += p[i - 2];
        sum += next[i] = from * std::exp(x(v, t, label(s)));
      }
      for (double& value : next) value /= sum;
      log_scale += std::log(sum);
      p = next;
    }
    return -log_scale - std::log(p[p.size() - 1] + (states > 1 ? p[p.size() - 2] : 0));
  }
};

/// A batch; sequence n has its own length and labels.
struct Batch {
  int64_t times, classes, most;
  CtcLossParams params;
  std::vector<int64_t> lengths;
  std::vector<std::vector<int64_t>> labels;
  int64_t size() const { return static_cast<int64_t>(lengths.size()); }
  Shape shape() const { return {times, size(), classes}; }

  Sequence sequence(size_t n) const { return {lengths[n], classes, params.blank, labels[n]}; }
  /// Of log-probabilities [T, N, C], those of one sequence.
  Values of(const Values& x, size_t n) const {
    Values v;
    for (int64_t t = 0; t < lengths[n]; t++)
      for (int64_t c = 0; c < classes; c++)
        v.push_back(x[static_cast<size_t>((t * size()) * classes + c) + n * static_cast<size_t>(classes)]);
    return v;
  }
  CtcLossInputs inputs(const Tensor& x, DType dtype) const {
    std::vector<float> padded, x_lengths, label_lengths;
    for (size_t n = 0; n < labels.size(); n++) {
      x_lengths.push_back(static_cast<float>(lengths[n]));
      label_lengths.push_back(static_cast<float>(labels[n].size()));
      for (int64_t i = 0; i < most; i++)
        padded.push_back(i < static_cast<int64_t>(labels[n].size())
                             ? static_cast<float>(labels[n][static_cast<size_t>(i)])
                             : -7);
    }
    return {x, placed(Placing::gaps, {size(), most}, padded, dtype),
            device_tensor({size()}, x_lengths, dtype), device_tensor({size()}, label_lengths, DType::i32)};
  }
};

Tensor alpha_of(const CtcLossInputs& in, DType loss = DType::f32) {
  const TensorDesc d = ctc_loss_alpha(in.x, in.labels, loss);
  return Tensor(context(), d.shape, d.dtype);
}

/// Rounding of T steps in logarithms of size up to `size`.
double tolerance(int64_t times, double size) {
  return static_cast<double>(8 * times) * size * 0x1p-24;
}

}  // namespace

TEST_CASE("ctc_loss is the sum over all alignments", "[small]") {
  for (LossReduction reduction : {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
    // Repeated labels, one label, none, more than fit.
    const Batch b{5,
                  3,
                  3,
                  {reduction, reduction == LossReduction::sum ? 2 : 0, true},
                  {5, 4, 3, 2},
                  reduction == LossReduction::sum
                      ? std::vector<std::vector<int64_t>>{{1, 1}, {0}, {}, {1, 0, 1}}
                      : std::vector<std::vector<int64_t>>{{1, 1}, {2}, {}, {1, 2, 1}}};
    INFO("reduction " << static_cast<int>(reduction));
    Rng rng(3);
    const std::vector<float> logits = reals(element_count(b.shape()), rng, -2, 2);
    const Values at(logits.begin(), logits.end()), log_p = softmax_reference(at, b.shape(), 2, true);
    const Tensor x = placed(reduction == LossReduction::none ? Placing::gaps : Placing::row_major, b.shape(),
                            {log_p.begin(), log_p.end()});
    const CtcLossInputs in = b.inputs(x, reduction == LossReduction::none ? DType::i32 : DType::i64);
    const bool none = reduction == LossReduction::none;
    const Shape loss_shape{none ? b.size() : 1};
    const Guarded loss(loss_shape), second(loss_shape), dx(b.shape());
    const Tensor alpha = alpha_of(in), dloss = device_tensor(loss_shape, reals(loss_shape[0], rng, 0.5, 2));
    const Values slopes = values_of(dloss);
    ctc_loss(stream(), in, b.params, loss.tensor(), alpha);
    ctc_loss(stream(), in, b.params, second.tensor(), alpha);
    ctc_loss_backward(stream(), dloss, in, alpha, b.params, dx.tensor());

    const auto reference = [&](const Values& v) {
      const Values p = softmax_reference(v, b.shape(), 2, true);
      Values terms;
      for (size_t n = 0; n < 4; n++) {
        const double value = b.sequence(n).all_paths(b.of(p, n));
        const double divided = std::max<double>(1, static_cast<double>(b.labels[n].size())) * 4;
        terms.push_back(std::isinf(value) ? 0 : reduction == LossReduction::mean ? value / divided : value);
      }
      return none ? terms : Values{terms[0] + terms[1] + terms[2] + terms[3]};
    };
    CHECK(deviation(host_values(loss.tensor()), reference(at)) <= tolerance(5, 8));
    CHECK(host_bytes(loss.tensor()) == host_bytes(second.tensor()));
    CHECK(loss.intact());
    CHECK(dx.intact());
    // Behind a log-softmax it is the loss' gradient.
    const Values d = softmax_backward_reference(values_of(dx.tensor()), log_p, b.shape(), 2, true);
    const auto scalar = [&](const Values& v) {
      double sum = 0;
      const Values terms = reference(v);
      for (size_t i = 0; i < terms.size(); i++) sum += slopes[i] * terms[i];
      return sum;
    };
    for (size_t i = 0; i < d.size(); i++) CHECK(d[i] == Approx(numeric_gradient(scalar, at, i)).margin(3e-6));
  }
}

TEST_CASE("ctc_loss of long sequences") {
  Rng rng(5);
  Batch b{300, 40, 70, {LossReduction::none, 39}, {300, 256, 300}, {{}, {}, {}}};
  for (size_t n = 0; n < 3; n++)
    for (int64_t i = 0; i < 70 - static_cast<int64_t>(n) * 30; i++) b.labels[n].push_back(rng.integer(0, 38));
  const std::vector<float> logits = reals(element_count(b.shape()), rng, -3, 3);
  const Values log_p = softmax_reference({logits.begin(), logits.end()}, b.shape(), 2, true);
  const CtcLossInputs in = b.inputs(device_tensor(b.shape(), {log_p.begin(), log_p.end()}), DType::i64);
  const Guarded loss({3}), dx(b.shape());
  const Tensor alpha = alpha_of(in);
  ctc_loss(stream(), in, b.params, loss.tensor(), alpha);
  const Values stored = values_of(in.x);
  Values expected;
  for (size_t n = 0; n < 3; n++) expected.push_back(b.sequence(n).recursion(b.of(stored, n)));
  CHECK(deviation(host_values(loss.tensor()), expected) <= tolerance(300, 4));
  ctc_loss_backward(stream(), device_tensor({3}, {1, 1, 1}), in, alpha, b.params, dx.tensor());
  // At every time both the classes' probabilities and those of the alignments add up to 1; past the end there
  // is nothing.
  const Values d = values_of(dx.tensor());
  for (int64_t t = 0; t < 300; t += 37)
    for (size_t n = 0; n < 3; n++) {
      double sum = 0, size = 0;
      for (size_t c = 0; c < 40; c++) {
        const double g = d[static_cast<size_t>(t) * 120 + n * 40 + c];
        sum += g;
        size += std::fabs(g);
      }
      // alpha, beta and the loss are of some 1000, and their error is that of what exp gives.
      CHECK(std::fabs(sum) <= 1e-2);
      CHECK((size > 0) == (t < b.lengths[n]));
    }
}

TEST_CASE("ctc_loss of more states than local memory is used for") {
  Rng rng(6);
  Batch b{700, 3, 600, {LossReduction::none, 0}, {700, 650}, {{}, {}}};
  for (size_t n = 0; n < 2; n++)
    for (int64_t i = 0; i < 600 - static_cast<int64_t>(n) * 100; i++) b.labels[n].push_back(i % 2 + 1);
  const std::vector<float> logits = reals(element_count(b.shape()), rng, -3, 3);
  const Values log_p = softmax_reference({logits.begin(), logits.end()}, b.shape(), 2, true);
  const CtcLossInputs in = b.inputs(device_tensor(b.shape(), {log_p.begin(), log_p.end()}), DType::i64);
  const Guarded loss({2}), dx(b.shape());
  const Tensor alpha = alpha_of(in);
  ctc_loss(stream(), in, b.params, loss.tensor(), alpha);
  const Values stored = values_of(in.x);
  Values expected;
  for (size_t n = 0; n < 2; n++) expected.push_back(b.sequence(n).recursion(b.of(stored, n)));
  CHECK(deviation(host_values(loss.tensor()), expected) <= tolerance(700, 4));
  ctc_loss_backward(stream(), device_tensor({2}, {1, 1}), in, alpha, b.params, dx.tensor());
  const Values d = values_of(dx.tensor());
  for (size_t row = 0; row < d.size(); row += 3)
    CHECK(std::fabs(d[row] + d[row + 1] + d[row + 2]) <= 3e-2);  // as above, of twice as much
}

TEST_CASE("ctc_loss of infinite losses, of doubles and of nothing", "[small]") {
  const Batch b{2, 3, 2, {LossReduction::none}, {2, 0, 0}, {{1, 1}, {}, {1}}};
  const CtcLossInputs in =
      b.inputs(device_tensor(b.shape(), std::vector<float>(18, -1.0986123f)), DType::i32);
  const Guarded loss({3});
  ctc_loss(stream(), in, b.params, loss.tensor(), alpha_of(in));
  CHECK(host_values(loss.tensor()) == std::vector<float>{kInf, 0, kInf});
  const Tensor empty(context(), {3, 0, 2}), zero(context(), {0}, DType::i32);
  const CtcLossInputs no_batch{empty, Tensor(context(), {0, 2}, DType::i32), zero, zero};
  const Guarded one({1});
  ctc_loss(stream(), no_batch, {LossReduction::sum}, one.tensor(), alpha_of(no_batch));
  CHECK(host_values(one.tensor())[0] == 0);
  if (!has_doubles()) return;
  const Batch single{3, 2, 1, {LossReduction::sum}, {3}, {{1}}};
  const Tensor x = device_tensor(single.shape(), std::vector<float>(6, -0.5f), DType::f64);
  const CtcLossInputs wide = single.inputs(x, DType::i32);
  const Guarded y({1}, DType::f64);
  ctc_loss(stream(), wide, single.params, y.tensor(), alpha_of(wide, DType::f64));
  double value = 0;
  read(stream(), y.tensor(), &value, sizeof value);
  CHECK(std::fabs(value - (1.5 - std::log(6.0))) < 1e-14);
}

TEST_CASE("ctc_loss refuses bad input", "[small]") {
  const Batch b{2, 3, 2, {}, {2}, {{1}}};
  const CtcLossInputs in = b.inputs(device_tensor(b.shape(), std::vector<float>(6, -1.0f)), DType::i32);
  const Tensor loss(context(), {1}), alpha = alpha_of(in);
  const auto refused = [&](const CtcLossInputs& with, const Tensor& y, const Tensor& a,
                           const CtcLossParams& params = {}) {
    return error_of<ValidationError>([&] { ctc_loss(stream(), with, params, y, a); });
  };
  CHECK(refused(in, loss, alpha, {LossReduction::mean, 3}) == "blank: 3 is no class of 3");
  CHECK(refused(in, loss, alpha, {LossReduction::batch_mean}) == "reduction: batch_mean is not for classes");
  CHECK(refused(in, alpha, alpha) == "loss: shape [1, 2, 5] must be [1]");
  CHECK(refused(in, loss, loss) == "alpha: shape [1] must be [1, 2, 5]");
  CHECK(refused({in.x, in.labels, in.x_lengths, {}}, loss, alpha) == "label_lengths: is not defined");
  CHECK(refused({in.x, in.x, in.x_lengths, in.label_lengths}, loss, alpha).find("labels: ") == 0);
  CHECK(error_of<ValidationError>([&] { ctc_loss_backward(stream(), loss, in, alpha, {}, in.x); }) ==
        "dx: shares memory with x");
}
