// Numbers of 8 bits and less that no dtype has, one a byte: floats as their bits (their codes), integers of 4
// and 2 bits as what they are, in i8 and u8. Formats: OCP's MX specification 1.0 (f4e2m1, f8e8m0), OCP's
// 8-bit floats 1.0 (f8e4m3fn, f8e5m2), and those of arXiv:2206.02915 (..fnuz: one zero, and NaN in its
// place).
#include <dlprim/pointwise.hpp>

#include <algorithm>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

enum class Specials : uint8_t { none, infinities, nan, nan_for_minus_zero };

struct FloatFormat {
  const char* name;
  int exponent, mantissa;  ///< bits, beside one for the sign
  int bias;
  Specials specials;

  int sign() const { return 1 << (exponent + mantissa); }
  int least_exponent() const { return 1 - bias; }
  /// The largest exponent's first code; infinity, in formats that have it.
  int top() const { return sign() - (1 << mantissa); }
  int largest() const {
    if (specials == Specials::infinities) return top() - 1;
    return specials == Specials::nan ? sign() - 2 : sign() - 1;
  }
  /// Of NaN. A format without it has none to give: minus zero, as others do.
  int nan() const {
    if (specials == Specials::infinities) return sign() - (1 << (mantissa - 1));
    return specials == Specials::nan ? sign() - 1 : sign();
  }
  int beyond() const { return specials == Specials::infinities ? top() : nan(); }
};
constexpr FloatFormat kFloats[] = {
    {"f4e2m1", 2, 1, 1, Specials::none},
    {"f8e4m3fn", 4, 3, 7, Specials::nan},
    {"f8e4m3fnuz", 4, 3, 8, Specials::nan_for_minus_zero},
    {"f8e5m2", 5, 2, 15, Specials::infinities},
    {"f8e5m2fnuz", 5, 2, 16, Specials::nan_for_minus_zero},
};
constexpr const char* kScale = "f8e8m0";  ///< powers of two and NaN, without a sign

struct IntegerFormat {
  const char* name;
  DType dtype;
  const char* low_bits;  ///< of x0
};
constexpr IntegerFormat kIntegers[] = {
    {"i2", DType::i8, "((x0 & 3) ^ 2) - 2"},
    {"i4", DType::i8, "((x0 & 15) ^ 8) - 8"},
    {"u2", DType::u8, "x0 & 3"},
    {"u4", DType::u8, "x0 & 15"},
};

template <class Format, size_t N>
const Format* find(const Format (&formats)[N], const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(formats), std::end(formats), [&](const Format& f) { return name == f.name; });
  return found == std::end(formats) ? nullptr : found;
}

const FloatFormat& float_format(const std::string& name) {
  const FloatFormat* const format = find(kFloats, name);
  require(format != nullptr, "format", "'", name,
          "' is not one of f4e2m1 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 i2 i4 u2 u4");
  return *format;
}

std::string decoding(const FloatFormat& f) {
  std::string text =
      cat("const int code = x0 & ", f.sign() - 1, ", field = code >> ", f.mantissa, ", low = code & ",
          (1 << f.mantissa) - 1, "; float v = ldexp((float)(field == 0 ? low : low + ", 1 << f.mantissa,
          "), max(field - 1, 0) + ", f.least_exponent() - f.mantissa, "); if (x0 & ", f.sign(), ") v = -v; ");
  if (f.specials == Specials::infinities)
    text += cat("if (code >= ", f.top(), ") v = code > ", f.top(), " ? NAN : copysign(INFINITY, v); ");
  if (f.specials == Specials::nan) text += cat("if (code == ", f.nan(), ") v = NAN; ");
  if (f.specials == Specials::nan_for_minus_zero) text += cat("if (x0 == ", f.sign(), ") v = NAN; ");
  return text + "y0 = v";
}

/// Rounded to even; beyond the largest number to it if `saturates` or there is nothing else, or to infinity
/// or NaN.
std::string encoding(const FloatFormat& f, bool saturates) {
  const int least = f.least_exponent();
  const int beyond = saturates || f.specials == Specials::none ? f.largest() : f.beyond();
  // What has the sign's bit alone is NaN in some formats, and what they have for minus zero is 0.
  const char* const signs = f.specials == Specials::nan_for_minus_zero ? "code != 0 && " : "";
  return cat("const float v = (float)x0, a = fabs(v); const int e = max(isinf(a) ? 127 : ilogb(a), ", least,
             "); int code = isinf(a) ? ", f.sign(), " : ((e - ", least, ") << ", f.mantissa,
             ") + (int)rint(ldexp(a, ", f.mantissa, " - e)); if (code > ", f.largest(), ") code = ", beyond,
             "; if (isnan(v)) code = ", f.nan(), "; y0 = ", signs, "code < ", f.sign(),
             " && signbit(v) ? code | ", f.sign(), " : code");
}

/// What the exponent of f32 says, the sign left out; infinity is NaN.
std::string encoding_of_scale(const std::string& rounding, bool saturates) {
  const char* up = "low > 0";
  if (rounding == "down") up = "0";
  if (rounding == "nearest") up = "(low & 0x400000) != 0 && ((low & 0x3fffff) != 0 || field > 0)";
  return cat(
      "const uint bits = as_uint((float)x0); const int field = (bits >> 23) & 255, low = bits & "
      "0x7fffff; y0 = field + (field < ",
      saturates ? 254 : 255, " && (", up, ") ? 1 : 0)");
}

/// Input: codes, u8. Attributes: format, of floats; dtype (f32). y: the numbers.
void infer_decode(NodeStep& step) {
  require(step.dtype(0) == DType::u8, "inputs", "codes are ", dlprim::name_of(step.dtype(0)), ", must be u8");
  if (step.text("format") != kScale) float_format(step.text("format"));
  step.output(0, parse_dtype(step.text("dtype", "f32")), step.shape(0));
}
void run_decode(NodeStep& step) {
  const std::string format = step.text("format");
  const std::string body =
      format == kScale ? "y0 = x0 == 255 ? NAN : ldexp(1.0f, x0 - 127)" : decoding(float_format(format));
  dlprim::pointwise(step.stream, {step.x(0)}, {step.y()}, {}, body, step.options);
}

/// Input: x. Attributes: format; saturate (true); rounding of f8e8m0: up, down or nearest. y: u8, or i8 for
/// i2 and i4: codes of the nearest floats, or the lowest bits of integers.
void infer_encode(NodeStep& step) {
  const std::string format = step.text("format"), rounding = step.text("rounding", "up");
  const IntegerFormat* const integers = find(kIntegers, format);
  if (!integers && format != kScale) float_format(format);
  require(!integers || !is_floating(step.dtype(0)), "inputs", "x is ", dlprim::name_of(step.dtype(0)), ", ",
          format, " is made of integers");
  require(rounding == "up" || rounding == "down" || rounding == "nearest", "rounding", "'", rounding,
          "' is not one of up down nearest");
  step.output(0, integers ? integers->dtype : DType::u8, step.shape(0));
}
void run_encode(NodeStep& step) {
  const std::string format = step.text("format");
  const bool saturates = step.integer("saturate", 1) != 0;
  std::string body;
  if (const IntegerFormat* const integers = find(kIntegers, format))
    body = cat("y0 = ", integers->low_bits);
  else if (format == kScale)
    body = encoding_of_scale(step.text("rounding", "up"), saturates);
  else
    body = encoding(float_format(format), saturates);
  dlprim::pointwise(step.stream, {step.x(0)}, {step.y()}, {}, body, step.options);
}

constexpr NodeKind kKinds[] = {
    {"decode", 1, 1, infer_decode, run_decode},
    {"encode", 1, 1, infer_encode, run_encode},
};

}  // namespace

KindList code_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
