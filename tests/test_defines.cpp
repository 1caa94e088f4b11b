// The macros a kernel is compiled with.
#include <cstdint>
#include <string>

#include "catch.hpp"
#include "core/defines.hpp"
#include "support.hpp"

using namespace dlprim;
using detail::Defines;
using test::error_of;

TEST_CASE("defines: one canonical text, sorted by macro", "[defines]") {
  CHECK(Defines().options() == "");
  const std::string forward = Defines().set("B", 2).set("A", "float").set("C", true).options();
  const std::string backward = Defines().set("C", true).set("A", "float").set("B", 2).options();
  CHECK(forward == "-DA=float -DB=2 -DC=1");
  CHECK(forward == backward);
  CHECK(Defines().set("N", int64_t{-9223372036854775807} - 1).options() == "-DN=-9223372036854775808");
  CHECK(Defines().set("F", false).options() == "-DF=0");
}

TEST_CASE("defines: a macro keeps its value", "[defines]") {
  Defines defines;
  defines.set("TILE", 64);
  CHECK_NOTHROW(defines.set("TILE", 64));
  CHECK_NOTHROW(defines.set("TILE", "64"));
  CHECK(error_of<ValidationError>([&] { defines.set("TILE", 32); }) == "macro: TILE is 64 already, not 32");
  CHECK_THROWS_AS(defines.set("TILE", "float"), ValidationError);
  CHECK(defines.options() == "-DTILE=64");
}

TEST_CASE("defines: text that drivers would split is refused", "[defines]") {
  for (const char* text : {"", "a b", "a\tb", "a\nb", "\"a\"", "'a'", "a\\b"}) {
    INFO(text);
    CHECK_THROWS_AS(Defines().set("X", text), ValidationError);
  }
  CHECK(Defines().set("X", "fma(a,b,c)").options() == "-DX=fma(a,b,c)");
}
