// A matrix product by an engine, against the reference.
#pragma once

#include <string>

#include "cases/gemm.hpp"
#include "catch.hpp"

namespace dlprim::test {

/// Bit for bit, as sums of small integers are exact; twice, into poisoned and guarded memory.
inline void check_exact(const GemmCase& x, const std::string& engine) {
  const std::string text = "engine=" + engine + " " + x.text();
  if (!is_selected(text)) return;
  INFO(again(text));
  const GemmData data = integer_data(x);
  const GemmResult result = run_gemm(x, data, gemm_engine(engine));
  CHECK(same(result.values, rounded(gemm_reference(x, data), x.c_dtype)));
  if (x.preactivation) CHECK(same(result.preactivation, rounded(gemm_preactivation(x, data), x.c_dtype)));
  CHECK(result.intact);
  CHECK(result.repeats);
}

}  // namespace dlprim::test
