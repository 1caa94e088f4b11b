// Gamma and Poisson samples against their distributions: means, variances, and shares of intervals by the
// chi-squared test.
#include <dlprim/random_sample.hpp>

#include <cmath>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kCount = 40000;

std::vector<float> drawn(SampleKind kind, float parameter, uint64_t seed = 7, uint64_t offset = 0) {
  const Guarded y({kCount});
  random_sample(stream(), kind, device_tensor({kCount}, std::vector<float>(kCount, parameter)),
                {seed, offset}, y.tensor());
  CHECK(y.intact());
  return host_values(y.tensor());
}

/// Six standard errors of mean and variance: a right sampler fails once in some hundred million seeds, and
/// the seed is fixed.
void check_moments(const std::vector<float>& samples, double mean, double variance, double fourth) {
  double sum = 0, squares = 0;
  for (const float v : samples) sum += static_cast<double>(v);
  const double n = static_cast<double>(samples.size()), found = sum / n;
  for (const float v : samples)
    squares += (static_cast<double>(v) - found) * (static_cast<double>(v) - found);
  CHECK(std::abs(found - mean) <= 6 * std::sqrt(variance / n));
  CHECK(std::abs(squares / n - variance) <= 6 * std::sqrt((fourth - variance * variance) / n));
}

/// The regularised lower incomplete gamma function, by its series, in double.
double gamma_below(double a, double x) {
  if (x <= 0) return 0;
  double term = 1 / a, sum = term;
  for (int k = 1; k < 5000 && term > sum * 1e-16; k++) sum += term *= x / (a + k);
  return sum * std::exp(-x + a * std::log(x) - std::lgamma(a));
}

}  // namespace

TEST_CASE("random_sample: gamma's moments and shares of 20 intervals") {
  for (const float shape : {0.05f, 0.5f, 1.0f, 2.5f, 30.0f, 1000.0f}) {
    INFO("shape " << shape);
    const auto a = static_cast<double>(shape);
    const std::vector<float> y = drawn(SampleKind::gamma, shape);
    check_moments(y, a, a, 3 * a * a + 6 * a);
    // Under the distribution function samples are uniform. 19 degrees of freedom: above 60 one in 4 million.
    std::vector<int> counts(20);
    for (const float v : y) {
      CHECK_FALSE(v <= 0);
      counts[static_cast<size_t>(std::min(19.0, 20 * gamma_below(a, static_cast<double>(v))))]++;
    }
    double chi = 0;
    for (const int count : counts) chi += std::pow(count - kCount / 20.0, 2) / (kCount / 20.0);
    CHECK(chi < 60);
  }
}

TEST_CASE("random_sample: Poisson's moments and probabilities") {
  for (const float mean : {0.0f, 0.1f, 3.0f, 9.99f, 10.0f, 35.0f, 1000.0f, 100000.0f}) {
    INFO("mean " << mean);
    const auto m = static_cast<double>(mean);
    const std::vector<float> y = drawn(SampleKind::poisson, mean);
    check_moments(y, m, m, 3 * m * m + m);
    // Neighbouring numbers are put together until some 2000 samples are expected.
    std::vector<int> seen(static_cast<size_t>(m + 40 * std::sqrt(m) + 40));
    for (const float v : y) {
      REQUIRE((v >= 0 && v == std::floor(v) && static_cast<size_t>(v) < seen.size()));
      seen[static_cast<size_t>(v)]++;
    }
    double chi = 0, expected = 0, all = 0;
    int found = 0, cells = 0;
    for (size_t k = 0; k < seen.size(); k++) {
      expected += kCount * std::exp((k ? static_cast<double>(k) * std::log(m) : 0) - m -
                                    std::lgamma(static_cast<double>(k) + 1));
      found += seen[k];
      if (expected < 2000 || kCount - all - expected < 1000) continue;
      chi += (found - expected) * (found - expected) / expected;
      all += expected, expected = 0, found = 0, cells++;
    }
    CHECK(chi <= cells + 6 * std::sqrt(2.0 * cells) + 12);
  }
}

TEST_CASE("random_sample: the same state gives the same samples, any strides and dtypes", "[small]") {
  const std::vector<float> first = drawn(SampleKind::gamma, 2);
  CHECK(first == drawn(SampleKind::gamma, 2));
  CHECK(first != drawn(SampleKind::gamma, 2, 8));
  const std::vector<float> later = drawn(SampleKind::gamma, 2, 7, 5);
  CHECK(std::vector<float>(first.begin() + 5, first.end()) ==
        std::vector<float>(later.begin(), later.end() - 5));
  const std::vector<float> means{0.5f, 20, 3, 400, 7, 11};
  const Guarded y({2, 3}), turned({3, 2}), whole({2, 3}, DType::i32);
  const Tensor x = device_tensor({2, 3}, means);
  random_sample(stream(), SampleKind::poisson, x, {3, 9}, y.tensor());
  random_sample(stream(), SampleKind::poisson, x, {3, 9}, turned.tensor().transpose(0, 1));
  random_sample(stream(), SampleKind::poisson, x, {3, 9}, whole.tensor());
  const std::vector<float> a = host_values(y.tensor()), b = host_values(turned.tensor());
  CHECK((a[0] == b[0] && a[1] == b[2] && a[2] == b[4] && a[3] == b[1] && a[4] == b[3] && a[5] == b[5]));
  CHECK(host_values(whole.tensor()) == a);
  const Guarded odd({4});
  random_sample(stream(), SampleKind::gamma, device_tensor({4}, {0, -1, NAN, 1e30f}), {1, 0}, odd.tensor());
  const std::vector<float> found = host_values(odd.tensor());
  CHECK((std::isnan(found[0]) && std::isnan(found[1]) && std::isnan(found[2]) && found[3] == 1e30f));
}

TEST_CASE("random_sample: refusals", "[small]") {
  const Tensor x(stream(), {3}), whole(stream(), {3}, DType::i32);
  const auto refusal = [](const auto& f) { return error_of<ValidationError>(f); };
  CHECK(refusal([&] { random_sample(stream(), SampleKind::gamma, x, {}, {}); }) == "y: is not defined");
  CHECK(refusal([&] { random_sample(stream(), SampleKind::gamma, whole, {}, x); }) ==
        "x: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(refusal([&] { random_sample(stream(), SampleKind::gamma, x, {}, Tensor(stream(), {4})); }) ==
        "y: shape [4] must be [3]");
  CHECK(refusal([&] { random_sample(stream(), SampleKind::gamma, x, {}, x); }) == "y: shares memory with x");
}
