// The fields of a description, all of them: what a plan's key is made of, or that of a generated kernel.
#pragma once

#include <tuple>

namespace dlprim::detail {

/// How many fields T has, said beside the operator: `template <> inline constexpr int kFields<ConvDesc> =
/// 12;`. Another number than there are does not compile, so that nobody adds a field and leaves it out of the
/// key, which would give another problem's plan.
template <class T>
inline constexpr int kFields = 0;

/// References to all of them.
template <class T>
auto fields_of(const T& t) {
  constexpr int n = kFields<T>;
  static_assert((n >= 1 && n <= 13) || n == 16,
                "kFields<T> has to be said, and fields_of() has 1 to 13, or 16");
  if constexpr (n == 1) {
    const auto& [a] = t;
    return std::tie(a);
  } else if constexpr (n == 2) {
    const auto& [a, b] = t;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    const auto& [a, b, c] = t;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    const auto& [a, b, c, d] = t;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    const auto& [a, b, c, d, e] = t;
    return std::tie(a, b, c, d, e);
  } else if constexpr (n == 6) {
    const auto& [a, b, c, d, e, f] = t;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (n == 7) {
    const auto& [a, b, c, d, e, f, g] = t;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (n == 8) {
    const auto& [a, b, c, d, e, f, g, h] = t;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (n == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = t;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (n == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (n == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (n == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (n == 13) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q);
  }
}

}  // namespace dlprim::detail
