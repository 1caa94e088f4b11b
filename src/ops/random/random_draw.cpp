// The distributions: what their parameters may be, and what random.cl makes its numbers of.
#include "ops/random/random_draw.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.hpp"
#include "core/integer_range.hpp"

namespace dlprim::detail {

DistributionNames names_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::uniform:
      return {"uniform", "UNIFORM"};
    case Distribution::normal:
      return {"normal", "NORMAL"};
    case Distribution::bernoulli:
      return {"bernoulli", "BERNOULLI"};
    case Distribution::log_normal:
      return {"log_normal", "LOG_NORMAL"};
    case Distribution::exponential:
      return {"exponential", "EXPONENTIAL"};
    case Distribution::cauchy:
      return {"cauchy", "CAUCHY"};
    case Distribution::geometric:
      return {"geometric", "GEOMETRIC"};
    case Distribution::integers:
      return {"integers", "INTEGERS"};
  }
  throw ValidationError("distribution", cat("number ", static_cast<int>(distribution), " does not exist"));
}

namespace {

/// The least and the largest whole number up to which `dtype` has all.
std::pair<int64_t, int64_t> whole_numbers(DType dtype) {
  const auto symmetric = [](int bits) { return std::pair(-(int64_t{1} << bits), int64_t{1} << bits); };
  switch (dtype) {
    case DType::f64:
      return symmetric(53);
    case DType::f32:
      return symmetric(24);
    case DType::f16:
      return symmetric(11);
    case DType::bf16:
      return symmetric(8);
    default:
      break;
  }
  const IntegerRange range = integer_range(dtype);
  return {range.least, static_cast<int64_t>(std::min<uint64_t>(range.most, INT64_MAX))};  // arguments are i64
}

float finite_float(const char* name, double value) {
  const auto result = static_cast<float>(value);
  require(std::isfinite(result), name, value, " is not a finite f32");
  return result;
}

Draw uniform_draw(double a, double b, const ArgumentNames& names) {
  Draw draw;
  draw.a = finite_float(names.a, a);
  draw.b = finite_float(names.b, b);
  require(a <= b, names.b, b, " must not be below ", names.a, ", ", a);
  const double range = static_cast<double>(draw.b) - draw.a;
  require(std::isfinite(static_cast<float>(range)), names.b, b, " less ", names.a, ", ", a,
          ", is not a finite f32");
  draw.top = draw.b > draw.a ? std::nextafter(draw.b, draw.a) : draw.a;
  return draw;
}

Draw geometric_draw(double p, DType dtype, const ArgumentNames& names) {
  Draw draw;
  require(p >= 0x1p-90 && p <= 1, names.a, p, " must lie in [2^-90, 1]");
  draw.a = static_cast<float>(-1 / std::log1p(-p));  // -1 / -inf = 0: one trial
  if (p == 1) draw.a = 0;
  draw.top = std::numeric_limits<float>::max();
  if (!is_floating(dtype)) {
    const auto most = static_cast<double>(whole_numbers(dtype).second);
    draw.top = static_cast<float>(most);
    if (draw.top > most || most >= 0x1p63) draw.top = std::nextafter(draw.top, 0.0f);
  }
  return draw;
}

}  // namespace

Draw make_draw(const RandomDesc& desc, double a, double b, const ArgumentNames& names) {
  Draw draw;
  switch (desc.distribution) {
    case Distribution::uniform:
      return uniform_draw(a, b, names);
    case Distribution::bernoulli:
      draw.threshold = probability_threshold(names.a, a);
      return draw;
    case Distribution::exponential:
      require(a >= 0x1p-90 && a <= 0x1p90, names.a, a, " must lie in [2^-90, 2^90]");
      draw.a = static_cast<float>(1 / a);
      return draw;
    case Distribution::geometric:
      return geometric_draw(a, desc.y.dtype, names);
    case Distribution::integers:
      throw ValidationError("distribution", "integers are drawn by run_integers");
    default:
      draw.a = finite_float(names.a, a);
      draw.b = finite_float(names.b, b);
      require(b >= 0, names.b, b, " must not be negative");
      return draw;
  }
}

Draw integer_draw(const RandomDesc& desc, int64_t low, int64_t high) {
  require(desc.distribution == Distribution::integers, "distribution",
          "run_integers is for integers, this plan makes ", names_of(desc.distribution).text);
  require(low < high, "high", high, " must be above low, ", low);
  const auto [least, most] = whole_numbers(desc.y.dtype);
  require(low >= least, "low", low, " is below ", least, ", the least that ", name_of(desc.y.dtype),
          " takes");
  require(high - 1 <= most, "high", high, " is above ", most, ", the largest that ", name_of(desc.y.dtype),
          " takes, by more than 1");
  Draw draw;
  draw.low = low;
  draw.threshold = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return draw;
}

}  // namespace dlprim::detail
