// GEMM engine `split_k`: K in parts by another engine, against a reference in double, bit for bit where the
// sums are exact; what it refuses, and what it keeps of constants.
#include "cases/gemm_exact.hpp"
#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

std::string refusal(const GemmDesc& desc, const std::string& engine = "split_k") {
  const std::string error = error_of<ValidationError>([&] { Gemm(context(), desc, gemm_engine(engine)); });
  return error.substr(0, error.find('\n', error.find("split_k: ")));
}

}  // namespace

TEST_CASE("gemm split_k: every dtype, order, epilogue and number of parts is exact", "[gemm]") {
  int form = 0;
  for (GemmCase x : epilogue_gemms()) {
    if ((x.dtype == DType::f64 && !has_doubles()) || x.m == 1 || x.n == 1) continue;
    static constexpr const char* kEngines[] = {"split_k", "split_k:parts=2", "split_k:parts=8",
                                               "split_k:parts=3"};
    x.batch = 0;
    x.one_a = x.one_b = false;
    x.k = form % 4 == 3 ? 3 * 174 : 1024;
    check_exact(x, kEngines[form++ % 4]);
  }
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      check_exact({64, 100, 2048, a, b}, "split_k");
      GemmCase odd(5, 131, 514, a, b);
      odd.a.gap = odd.b.gap = odd.c.gap = odd.a.offset = odd.b.offset = odd.c.offset = 1;
      odd.alpha = 2;
      odd.beta = -1;
      check_exact(odd, "split_k");
    }
  for (const bool column : {false, true})  // one row, one column
    check_exact({column ? 40 : 1, column ? 1 : 40, 512, column, column}, "split_k");
}

TEST_CASE("gemm split_k: sums stay in f32 until the last", "[gemm][small]") {
  // Each half is beyond f16's numbers, and their sum is not.
  GemmCase x(2, 3, 512);
  x.dtype = x.c_dtype = DType::f16;
  GemmData data = integer_data(x);
  for (size_t i = 0; i < data.a.size(); i++) data.a[i] = i % 512 < 256 ? 30 : -30;
  for (float& value : data.b) value = 30;
  for (size_t row = 0; row < 2; row++) data.a[row * 512] = 31 + static_cast<float>(row);
  const GemmResult result = run_gemm(x, data, gemm_engine("split_k:parts=2"));
  CHECK(same(result.values, {30, 30, 30, 60, 60, 60}));
}

TEST_CASE("gemm split_k: refusals say what is wrong", "[gemm][small]") {
  const auto refuses = [](const GemmDesc& desc, const std::string& why) {
    INFO(refusal(desc));
    CHECK(refusal(desc).find("split_k: " + why) != std::string::npos);
  };
  refuses(desc_of({4, 510}, {510, 8}, {4, 8}), "needs an even K of at least 512, it is 510");
  refuses(desc_of({4, 515}, {515, 8}, {4, 8}), "needs an even K of at least 512, it is 515");
  refuses(desc_of({2, 4, 512}, {2, 512, 8}, {2, 4, 8}), "is for one product, these are 2");
  const GemmDesc good = desc_of({4, 512}, {512, 8}, {4, 8});
  CHECK(refusal(good, "split_k:parts=5") == "engine: parts 5 must be 2 or more and divide K, 512");
  CHECK(refusal(good, "split_k:parts=1") == "engine: parts 1 must be 2 or more and divide K, 512");
  CHECK(refusal(good, "split_k:parts=0") == "engine: parts 0 must be 2 or more and divide K, 512");
  Options little = gemm_engine("split_k:parts=4");
  little.workspace_limit = 100;
  const std::string error = error_of<ValidationError>([&] { Gemm(context(), good, little); });
  CHECK(error.find("bytes of workspace, the limit is 100") != std::string::npos);
  CHECK(Gemm(context(), good, gemm_engine("split_k")).engine() == "split_k");
}

TEST_CASE("gemm split_k: constants are kept until forgotten, by the product of the parts", "[gemm]") {
  const GemmCase x(24, 200, 1024, false, true);
  const GemmData data = integer_data(x);
  GemmData other = integer_data(x, 2);
  other.a = data.a;
  const Tensor a = operand_a(x, data), b = operand_b(x, data), changed = operand_b(x, other);
  GemmDesc desc{a, b, TensorDesc({x.m, x.n})};
  desc.constant_b = true;
  const Tensor c(stream(), {x.m, x.n});
  const Gemm plan(context(), desc, gemm_engine("split_k"));
  const auto run = [&] {
    plan.run(stream(), a, b, {}, c);
    return host_values(c);
  };
  const std::vector<float> first = rounded(gemm_reference(x, data)),
                           second = rounded(gemm_reference(x, other));
  CHECK(same(run(), first));
  CHECK(same(run(), first));
  copy(stream(), changed, b);
  plan.forget_constants();
  CHECK(same(run(), second));
}

TEST_CASE("gemm split_k: serves few rows by itself where there is matrix hardware", "[gemm]") {
  Options tf32;
  tf32.math = MathMode::tf32;
  const MatrixEngine matrix = context().device().probes().matrix;
  const bool predicts = matrix == MatrixEngine::nv_wgmma || matrix == MatrixEngine::nv_mma;
  const GemmDesc few{TensorDesc({64, 9216}), TensorDesc({9216, 4096}, {1, 9216}, DType::f32, true),
                     TensorDesc({64, 4096})};
  const GemmDesc many = desc_of({4096, 4096}, {4096, 4096}, {4096, 4096});
  CHECK((Gemm(context(), few, tf32).engine() == "split_k") == predicts);
  CHECK(Gemm(context(), few).engine() != "split_k");
  CHECK(Gemm(context(), many, tf32).engine() != "split_k");
}
