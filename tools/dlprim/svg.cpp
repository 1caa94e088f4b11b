#include "svg.hpp"

#include <algorithm>
#include <cmath>

#include "format.hpp"

namespace dlprim::cli {
namespace {

/// Bytes of the UTF-8 character at `at` that XML can hold; 0 if there is none.
size_t character_bytes(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  if (first < 0x80) return first >= 32 && first != 0x7f ? 1 : 0;
  const size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  unsigned code = bytes == 0 ? 0 : first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; i++) {
    if ((byte(at + i) & 0xc0u) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3fu);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return overlong || surrogate || code > 0x10ffff || (code & 0xfffeu) == 0xfffe || code < 0xa0 ? 0 : bytes;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = character_bytes(text, i);
    if (text[i] == '<')
      out += "&lt;";
    else if (text[i] == '>')
      out += "&gt;";
    else if (text[i] == '&')
      out += "&amp;";
    else
      out += text.substr(i, bytes);
    i += std::max<size_t>(1, bytes);
  }
  return out;
}

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes) + escaped(text) + "</text>\n";
}

std::string shortened(const std::string& text, size_t most) {
  size_t count = 0, end = 0;  // of all characters; where those that stay end
  for (size_t i = 0; i < text.size(); i++) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0u) == 0x80) continue;
    if (count++ == most - 1) end = i;
  }
  return count <= most ? text : text.substr(0, end) + "\u2026";
}

double tick_step(double range, int wanted) {
  const double raw = std::max(range, 1e-12) / wanted, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

double first_tick(double low, double step) {
  return std::ceil(low / step - 1e-6) * step + 0.0;
}

}  // namespace dlprim::cli
