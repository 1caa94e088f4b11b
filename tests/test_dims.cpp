// Shapes and strides: counts that overflow, row-major strides, broadcasting.
#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/dims.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using test::error_of;

TEST_CASE("dims: up to eight numbers in place", "[dims]") {
  Dims d{3, 1, 4};
  CHECK(d.size() == 3);
  CHECK(d.back() == 4);
  CHECK(std::vector<int64_t>(d.begin(), d.end()) == std::vector<int64_t>{3, 1, 4});
  CHECK(d == Dims(std::vector<int64_t>{3, 1, 4}));
  CHECK(d != Dims{3, 1});
  CHECK(d != Dims{3, 1, 5});
  CHECK(Dims{} == Dims());
  CHECK(Dims().empty());
  CHECK(Dims::filled(8, 2).size() == kMaxRank);
  CHECK(to_string(d) == "[3, 1, 4]");
  CHECK(to_string(Dims{}) == "[]");
  CHECK_THROWS_AS(Dims::filled(9, 1), ValidationError);
  CHECK_THROWS_AS((Dims{1, 2, 3, 4, 5, 6, 7, 8, 9}), ValidationError);
}

TEST_CASE("dims: element counts that do not fit are refused", "[dims]") {
  const int64_t big = int64_t{1} << 32;
  CHECK(element_count({}) == 1);
  CHECK(element_count({0}) == 0);
  CHECK(element_count({5, 0, 7}) == 0);
  CHECK(element_count({2, 3, 4}) == 24);
  CHECK(element_count({int64_t{1} << 59}) == int64_t{1} << 59);
  // 2^60 doubles are 2^63 bytes.
  CHECK_THROWS_AS(element_count({int64_t{1} << 60}), ValidationError);
  CHECK_THROWS_AS(element_count({big, big}), ValidationError);       // wraps to 0
  CHECK_THROWS_AS(element_count({big, big, big}), ValidationError);  // wraps to 0 and stays there
  CHECK_THROWS_AS(element_count({INT64_MAX, 3}), ValidationError);
  CHECK_THROWS_AS(element_count({-1}), ValidationError);
  CHECK_THROWS_AS(element_count({0, -1}), ValidationError);
  CHECK_THROWS_AS(element_count({-2, -2}), ValidationError);
  CHECK_THROWS_AS(element_count({INT64_MIN}), ValidationError);
  const std::string text = error_of<ValidationError>([&] { element_count({2, -3}); });
  CHECK(text == "shape: negative size in [2, -3]");
  CHECK(error_of<ValidationError>([&] {
          element_count({big, big});
        }).find("[4294967296, 4294967296]") != std::string::npos);
}

TEST_CASE("dims: row-major strides", "[dims]") {
  CHECK(contiguous_strides({}) == Strides{});
  CHECK(contiguous_strides({7}) == Strides{1});
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(contiguous_strides({2, 0, 4}) == Strides{4, 4, 1});
  const int64_t big = int64_t{1} << 40;
  CHECK_THROWS_AS(contiguous_strides({0, big, big}), ValidationError);
}

TEST_CASE("dims: broadcasting aligns at the right and stretches 1", "[dims]") {
  CHECK(broadcast_shapes({2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast_shapes({3}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shapes({2, 1, 4}, {3, 1}) == Shape{2, 3, 4});
  CHECK(broadcast_shapes({}, {5}) == Shape{5});
  CHECK(broadcast_shapes({}, {}) == Shape{});
  CHECK(broadcast_shapes({0, 1}, {1, 4}) == Shape{0, 4});
  CHECK(broadcast_shapes({1}, {0}) == Shape{0});
  CHECK(error_of<ValidationError>([] {
          broadcast_shapes({2, 3}, {2});
        }) == "shape: [2, 3] and [2] do not broadcast: 3 against 2");
  CHECK_THROWS_AS(broadcast_shapes({0}, {2}), ValidationError);
}
