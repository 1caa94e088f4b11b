#include "cases/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "cases/nn.hpp"

namespace dlprim::test {
namespace {

constexpr double kPi = 3.14159265358979323846;

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// Horner's scheme, the highest power's coefficient first.
float polynomial(float x, std::initializer_list<float> coefficients) {
  float value = 0;
  for (float c : coefficients) value = std::fmaf(value, x, c);
  return value;
}

float square_root(float x) {
  float y = float_of(0x5f3759dfu - (bits_of(x) >> 1));
  for (int round = 0; round < 2; round++) y *= std::fmaf(-0.5f * x * y, y, 1.5f);
  const float s = x * y;
  return std::fmaf(std::fmaf(-s, s, x), 0.5f * y, s);
}

/// Of r quarter turns.
struct Turned {
  float sine, cosine;
  explicit Turned(float r) {
    const float t = r * r;
    const float p = polynomial(t, {0.0001546035f, -0.00467954f, 0.079692334f, -0.6459641f});
    sine = std::fmaf(r, 1.5707964f, r * std::fmaf(p, t, -4.371139e-8f));
    cosine = polynomial(t, {0.00089350715f, -0.02085524f, 0.25366852f, -1.2337005f, 1});
  }
};

float normal(uint32_t w0, uint32_t w1, bool second) {
  const float r = square_root(2 * negative_log_reference(w0));
  const auto turn = static_cast<int32_t>(w1 >> 8);
  const int32_t quarter = (turn + (1 << 21)) >> 22;
  const Turned t(static_cast<float>(turn - quarter * (1 << 22)) * 0x1p-22f);
  const float cosines[] = {t.cosine, -t.sine, -t.cosine, t.sine};
  return r * cosines[(quarter + (second ? 3 : 0)) % 4];  // the sine is the cosine a quarter turn before
}

float near_reciprocal(float x) {
  const float y = float_of(0x7ef311c7u - bits_of(x)), error = std::fmaf(-x, y, 1.0f);
  return std::fmaf(y * error, error + 1.0f, y);
}

float tangent(uint32_t w) {
  const bool negative = w < 0x80000000u;
  const uint32_t size = negative ? 0x7fffffffu - w : w - 0x80000000u;
  const bool beyond = size >= 0x40000000u;
  const Turned t(std::fmaf(static_cast<float>(beyond ? 0x7fffffffu - size : size), 0x1p-31f, 0x1p-32f));
  const float above = beyond ? t.cosine : t.sine, below = beyond ? t.sine : t.cosine;
  const float inverse = near_reciprocal(below), q = above * inverse;
  const float result = std::fmaf(std::fmaf(-below, q, above), inverse, q);
  return negative ? -result : result;
}

float exponential(float x) {
  if (x < -86.6f) return 0;
  if (x > 88.72284f) return std::numeric_limits<float>::infinity();
  const float k = std::fmaf(x, 1.442695f, 12582912.0f) - 12582912.0f;
  const float r = std::fmaf(k, 1.90465430e-9f, std::fmaf(k, -0.6931472f, x));
  const float p =
      polynomial(r, {0.00019948429f, 0.0013935083f, 0.008333203f, 0.041666463f, 0.16666667f, 0.5f, 1, 1});
  return std::ldexp(p, static_cast<int>(k));
}

}  // namespace

const char* name_of(Distribution distribution) {
  constexpr const char* kNames[] = {"uniform",     "normal", "bernoulli", "log_normal",
                                    "exponential", "cauchy", "geometric", "integers"};
  return kNames[static_cast<int>(distribution)];
}

float negative_log_reference(uint32_t w) {
  const bool high = w >= 0xC0000000u;
  const float u = std::fmaf(static_cast<float>(high ? ~w : w), 0x1p-32f, 0x1p-33f);
  int e = 0;
  float m = -u;
  if (!high) {
    m = std::frexp(u, &e);  // in [1/2, 1)
    if (bits_of(m) < 0x3f3504f3u) m *= 2, e--;
    m -= 1;
  }
  const float p = polynomial(m, {0.06750956f, -0.11671449f, 0.11883568f, -0.12406032f, 0.14220327f,
                                 -0.16667996f, 0.20002073f, -0.2500001f, 0.33333313f, -0.5f});
  return -std::fmaf(static_cast<float>(e), 0.6931472f, std::fmaf(m * m, p, m));
}

float reciprocal_reference(float x) {
  const float y = near_reciprocal(x);
  return std::fmaf(std::fmaf(-x, y, 1.0f), y, y);
}

float random_reference(Distribution distribution, double a, double b, const RandomState& state, int64_t i) {
  const uint64_t at = state.offset + static_cast<uint64_t>(i);
  const uint32_t w = random_word(state.seed, at);
  const auto fa = static_cast<float>(a), fb = static_cast<float>(b);
  const auto z = [&] {
    return std::fmaf(
        fb, normal(random_word(state.seed, at & ~uint64_t{1}), random_word(state.seed, at | 1), at & 1), fa);
  };
  switch (distribution) {
    case Distribution::uniform: {
      const float v = std::fmaf(static_cast<float>(w >> 8) * 0x1p-24f, fb - fa, fa);
      return fb > fa ? std::min(v, std::nextafter(fb, fa)) : fa;
    }
    case Distribution::normal:
      return z();
    case Distribution::bernoulli:
      return w < a * 0x1p32 ? 1.0f : 0.0f;
    case Distribution::log_normal:
      return exponential(z());
    case Distribution::exponential:
      return static_cast<float>(1 / a) * negative_log_reference(w);
    case Distribution::cauchy:
      return std::fmaf(fb, tangent(w), fa);
    case Distribution::geometric:
      return a == 1
                 ? 1.0f
                 : std::max(1.0f,
                            std::ceil(static_cast<float>(-1 / std::log1p(-a)) * negative_log_reference(w)));
    case Distribution::integers:
      break;
  }
  return std::numeric_limits<float>::quiet_NaN();
}

double random_in_double(Distribution distribution, double a, double b, const RandomState& state, int64_t i) {
  const uint64_t at = state.offset + static_cast<uint64_t>(i);
  const double u = (random_word(state.seed, at) + 0.5) * 0x1p-32;
  switch (distribution) {
    case Distribution::normal:
      return a + b * normal_reference(state.seed, at);
    case Distribution::log_normal:
      return std::exp(a + b * normal_reference(state.seed, at));
    case Distribution::exponential:
      return -std::log(u) / a;
    case Distribution::cauchy:
      return a + b * std::tan(kPi * (u - 0.5));
    default:
      return static_cast<double>(random_reference(distribution, a, b, state, i));
  }
}

int64_t random_integer_reference(int64_t low, int64_t high, const RandomState& state, int64_t i) {
  const uint64_t at = state.offset + static_cast<uint64_t>(i),
                 count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t block = at / 4;
  const uint64_t high_word = random_word(state.seed, at);
  const uint64_t low_word =
      count <= 1 << 20
          ? 0
          : philox_reference(
                {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 1, 0},
                {static_cast<uint32_t>(state.seed), static_cast<uint32_t>(state.seed >> 32)})[at % 4];
  // floor((high_word 2^32 + low_word) count / 2^64), by halves of count.
  const uint64_t x = high_word << 32 | low_word, upper = count >> 32, lower = count & 0xffffffffu;
  const uint64_t middle = (x >> 32) * lower + ((x & 0xffffffffu) * lower >> 32);
  const uint64_t rest = (x & 0xffffffffu) * upper + (middle & 0xffffffffu);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + (x >> 32) * upper + (middle >> 32) + (rest >> 32));
}

}  // namespace dlprim::test
