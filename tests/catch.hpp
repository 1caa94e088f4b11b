// Catch2, version 2 or 3, and the names that differ between them.
#pragma once

#include <string>
#include <vector>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

namespace dlprim::test {

/// Matches a text that holds `part`.
inline auto contains(const std::string& part) {
#if __has_include(<catch2/catch_all.hpp>)
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

/// Each element is the expected one, but for rounding.
inline void check_near(const std::vector<float>& made, const std::vector<double>& expected) {
  REQUIRE(made.size() == expected.size());
  for (size_t i = 0; i < made.size(); i++) CHECK(made[i] == Approx(expected[i]).margin(1e-5));
}

}  // namespace dlprim::test
