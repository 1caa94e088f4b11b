// GEMM: every engine by name against a reference in double, bit for bit where the sums are exact.
#include "cases/gemm_exact.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <dlprim/elementwise.hpp>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;
using Vector = GemmDesc::Vector;

namespace {

/// Devices without double arithmetic refuse f64 as a whole.
bool has(DType dtype) {
  return dtype != DType::f64 || has_doubles();
}

TensorDesc desc_of_c(const GemmCase& x) {
  return TensorDesc(x.batch == 0 ? Shape{x.m, x.n} : Shape{x.batch, x.m, x.n}, x.c_dtype);
}

}  // namespace

TEST_CASE("gemm: small sizes in every place are exact", "[gemm][small]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        check_exact({1, 1, 1, a, b}, engine);
        check_exact({3, 2, 5, a, b}, engine);
        check_exact({13, 17, 9, a, b}, engine);
      }
}

TEST_CASE("gemm: engines for one kind of device work on others if asked for by name", "[gemm][small]") {
  for (const std::string& engine : gemm_engines())
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        if (!gemm_refusal_by_name(engine).empty()) {
          note_skipped(engine + " refuses: " + gemm_refusal(engine));
          continue;
        }
        GemmCase x(15, 35, 9, a, b);
        x.a.gap = x.b.gap = x.c.gap = x.a.offset = x.c.offset = 1;
        x.beta = 1;
        x.bias = Vector::row;
        check_exact(x, engine);
      }
}

namespace {

/// The engine with one small tile, so that it compiles one kernel for each order of A and B and not ten.
std::string with_one_tile(const std::string& engine) {
  if (engine == "cpu") return "cpu:mr=6,nv=2,mc=60,nc=32,kc=64";
  if (engine == "fma") return "fma:tm=32,tn=32,tk=16,rm=4,rn=4,parts=1";
  if (engine == "fma_direct") return "fma_direct:rm=4,rn=4";
  if (engine == "fma_shuffle") return "fma_shuffle:tm=8,tn=32";
  return engine;
}

bool serves(const GemmDesc& desc, const Options& options) {
  try {
    Gemm(context(), desc, options);
    return true;
  } catch (const ValidationError&) {
    return false;
  }
}

/// By an engine that may refuse the case.
void check_exact_where_served(const GemmCase& x, const std::string& engine) {
  try {
    check_exact(x, engine);
  } catch (const ValidationError& error) {
    if (std::string(error.what()).find(" refused:") == std::string::npos) throw;
  }
}

}  // namespace

TEST_CASE("gemm: odd sizes in every place, transposition and dtype are exact", "[gemm]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8}) {
    if (!has(dtype)) continue;
    for (const std::string& engine : serving_gemm_engines())
      for (const GemmCase& x : odd_gemms(dtype))
        check_exact_where_served(x, dtype == DType::f32 ? engine : with_one_tile(engine));
    for (const GemmCase& x : odd_vector_gemms(dtype)) check_exact_where_served(x, "gemv");
  }
}

TEST_CASE("gemm: tiles that an engine's name asks for are exact", "[gemm][small]") {
  static constexpr const char* kEngines[] = {
      "fma_direct:rm=4,rn=8,gx=16",
      "fma_direct:rm=16,rn=4,gx=2",
      "fma_shuffle:width=1,tm=5,tn=3,tk=4,groups=2",  // items alone: wherever there are no sub-groups
      "fma_shuffle:width=1,tm=4,tn=2,tk=8",
      "fma_shuffle:width=4,tm=7,tn=12,tk=8",
      "fma_shuffle:width=16,tm=6,tn=48,tk=16,groups=3",
      "fma_shuffle:width=32,tm=4,tn=32,tk=32",
  };
  int form = 0;  // in turn, to compile less
  for (const char* engine : kEngines) {
    const std::string refusal = gemm_refusal_by_name(engine);
    if (!refusal.empty()) note_skipped(refusal.substr(0, refusal.find('\n')));
    check_exact_where_served({21, 53, 37, form % 2 != 0, form / 2 % 2 != 0}, engine);
    form++;
  }
}

TEST_CASE("gemm: many tiles are exact", "[gemm]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const GemmCase& x : tiled_gemms()) check_exact(x, engine);
}

TEST_CASE("gemm: more tiles than a device works on at a time are exact", "[gemm]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (!has(dtype)) continue;
    GemmCase x(150, 264, 40, dtype == DType::f32, dtype != DType::bf16);
    x.dtype = x.c_dtype = dtype;
    x.batch = 80;
    check_exact_where_served(x, serving_gemm_engines().front());
  }
}

namespace {

/// By every engine that does not refuse it.
void check_exact_in_all(const std::vector<GemmCase>& cases) {
  for (const GemmCase& x : cases) {
    if (!has(x.dtype)) continue;
    for (const std::string& engine : gemm_engines()) check_exact_where_served(x, with_one_tile(engine));
  }
}

}  // namespace

TEST_CASE("gemm: every dtype and batches of products are exact", "[gemm]") {
  check_exact_in_all(typed_gemms());
}

TEST_CASE("gemm: scale, residual and preactivation are exact", "[gemm]") {
  check_exact_in_all(epilogue_gemms());
}

TEST_CASE("gemm: every tile of fma is exact, with K in parts and without", "[gemm]") {
  if (!gemm_refusal("fma").empty()) return note_skipped("fma refuses: " + gemm_refusal("fma"));
  for (const char* tile : {"tm=256,tn=128,tk=16,rm=16,rn=8", "tm=128,tn=128,tk=8,rm=8,rn=8",
                           "tm=64,tn=64,tk=16,rm=8,rn=4", "tm=32,tn=32,tk=16,rm=4,rn=4"})
    for (const char* parts : {"1", "3"}) {
      const std::string engine = std::string("fma:") + tile + ",parts=" + parts;
      const std::string refusal = gemm_refusal_by_name(engine);
      if (refusal.empty())
        check_exact({300, 132, 100, parts[0] == '3'}, engine);
      else
        note_skipped(engine + ": " + refusal);
    }
}

TEST_CASE("gemm: a matrix times a vector is exact", "[gemm]") {
  for (const GemmCase& x : vector_gemms()) {
    if (!has(x.dtype)) continue;
    check_exact(x, "gemv");
    const GemmData data = integer_data(x);
    CHECK(Gemm(context(), {operand_a(x, data), operand_b(x, data), desc_of_c(x)}).engine() == "gemv");
  }
}

TEST_CASE("gemm: gaps and offsets are neither read nor written", "[gemm][small]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        // Gaps of 4 and offsets of 4 leave 16-byte alignment as it is, the others do not.
        for (const int64_t step : {1, 3, 4}) {
          GemmCase x(20, 36, 12, a, b);
          x.a.gap = x.b.gap = x.c.gap = step;
          check_exact(x, engine);
          x.a.offset = x.b.offset = x.c.offset = step;
          check_exact(x, engine);
        }
}

TEST_CASE("gemm: alpha, beta and bias are exact", "[gemm][small]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const Vector bias : {Vector::none, Vector::row, Vector::column})
      for (const float beta : {0.0f, 1.0f, -2.0f})
        for (const float alpha : {0.0f, 1.0f, 0.5f}) {
          GemmCase x(21, 39, 6);
          x.alpha = alpha;
          x.beta = beta;
          x.bias = bias;
          check_exact(x, engine);
        }
}

TEST_CASE("gemm: alpha and beta have double's precision where C has", "[gemm][small]") {
  if (!has_doubles()) return note_skipped("no double arithmetic");
  const double alpha = 1 + 0x1p-40, beta = 1 - 0x1p-30;
  const std::vector<double> a{1, 2, 3, 4}, b{1, -1, 2, 1}, c{8, 16, 32, 64};
  const auto tensor = [](const std::vector<double>& values) {
    const Tensor x(context(), {2, 2}, DType::f64);
    write(stream(), x, values);
    return x;
  };
  std::vector<double> expected;
  for (size_t i = 0; i < 2; i++)
    for (size_t j = 0; j < 2; j++)
      expected.push_back(alpha * (a[2 * i] * b[j] + a[2 * i + 1] * b[2 + j]) + beta * c[2 * i + j]);
  int served = 0;
  for (const std::string& name : gemm_engines()) {
    const Tensor ta = tensor(a), tb = tensor(b), tc = tensor(c);
    INFO(name);
    try {
      gemm(stream(), ta, tb, {}, {alpha, beta}, tc, gemm_engine(name));
    } catch (const ValidationError& refusal) {
      CHECK_THAT(refusal.what(), contains("refused"));
      continue;
    }
    served++;
    CHECK(read<double>(stream(), tc) == expected);
  }
  const auto& all = gemm_engines();  // or those alone that the environment names
  if (std::find(all.begin(), all.end(), "naive") != all.end()) CHECK(served > 1);
}

TEST_CASE("gemm: beta and bias are applied once over many blocks of k", "[gemm]") {
  for (const std::string& engine : serving_gemm_engines()) {
    GemmCase x(30, 50, 700);
    x.beta = 3;
    x.alpha = 2;
    x.bias = Vector::row;
    x.activation = Activation::relu;
    check_exact(x, engine);
    x.bias = Vector::column;
    check_exact(x, engine);
  }
}

TEST_CASE("gemm: sizes of 0", "[gemm][small]") {
  for (const std::string& engine : serving_gemm_engines()) {
    check_exact({0, 5, 3}, engine);
    check_exact({5, 0, 3}, engine);
    check_exact({0, 0, 0}, engine);
    check_exact({19, 21, 0}, engine);
    GemmCase x(19, 21, 0);  // activation(beta * C + bias)
    x.beta = 2;
    x.bias = Vector::column;
    x.activation = Activation::relu;
    check_exact(x, engine);
  }
}

TEST_CASE("gemm: activations", "[gemm][small]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const Activation f : {Activation::identity, Activation::relu, Activation::relu6, Activation::sigmoid,
                               Activation::tanh, Activation::silu}) {
      GemmCase x(21, 35, 8);
      x.alpha = 1.0f / 8;  // so that sigmoid and tanh are not all saturated; the sums stay exact
      x.activation = f;
      x.bias = Vector::row;
      const GemmData data = integer_data(x);
      const GemmResult result = run_gemm(x, data, gemm_engine(engine));
      const std::vector<double> expected = gemm_reference(x, data);
      // The argument is exact. tanh may be 5 ulp off, exp 3 and the division after it 2.5, with half a ulp
      // for the sum between them: 6 ulp, of at most 2^-23 each. What the others are made of cancels below 0,
      // or its argument is rounded: of them the absolute error counts there.
      const bool exact = f == Activation::identity || f == Activation::relu || f == Activation::relu6;
      const double bound = exact ? 0 : 6 * 0x1p-23;
      const double least = exact || f == Activation::sigmoid || f == Activation::tanh ? 1e-30 : 1;
      double worst = 0;
      for (size_t i = 0; i < expected.size(); i++) {
        const double error =
            std::abs(result.values[i] - expected[i]) / std::max(least, std::abs(expected[i]));
        if (!(error <= worst)) worst = error;
      }
      INFO("engine=" << engine << " " << x.text() << " worst relative error " << worst << " bound " << bound);
      CHECK(worst <= bound);
      CHECK(result.intact);
      CHECK(result.repeats);
    }
}

TEST_CASE("gemm: an activation gives what the elementwise function of its name does", "[gemm]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Rng rng(5);
  std::vector<float> numbers = reals(48, rng, -9, 9);
  for (float v : {nan, inf, -inf, 0.0f, 3.0f, -3.0f, 1e30f, -1e30f, 89.0f, -104.0f}) numbers.push_back(v);
  const int64_t m = 21, n = static_cast<int64_t>(numbers.size()), k = 8;
  const auto zeros = [](int64_t rows, int64_t columns, DType dtype) {
    return device_tensor({rows, columns}, std::vector<float>(static_cast<size_t>(rows * columns)), dtype);
  };
  // One kernel for each dtype, engine and function is compiled: all functions in f32, in another dtype one.
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    if (!has(dtype)) continue;
    const Tensor a = zeros(m, k, dtype), b = zeros(k, n, dtype), row = device_tensor({n}, numbers, dtype);
    const Tensor wanted(context(), {n}, dtype);
    // Only exp and quotients may be others, which rounds some to the next number.
    const auto roundoff = static_cast<float>(std::max(storage_roundoff(dtype), 0x1p-24));
    for (const Activation f : {Activation::gelu, Activation::silu, Activation::hardswish,
                               Activation::hardsigmoid, Activation::gelu_tanh}) {
      if (dtype != DType::f32 && f != Activation::gelu) break;
      elementwise(stream(), name_of(f), {row}, {}, wanted);
      const std::vector<float> functions = host_values(wanted);
      for (const std::string& engine : serving_gemm_engines()) {
        const Guarded c({m, n}, dtype);
        const Options options = gemm_engine(dtype == DType::f32 ? engine : with_one_tile(engine));
        if (!serves({a, b, c.tensor()}, options)) continue;
        gemm(stream(), a, b, row, {1, 0, f}, c.tensor(), options);  // the bias is all there is
        const std::vector<float> results = host_values(c.tensor());
        for (size_t i = 0; i < results.size(); i++) {
          const float wanted_one = functions[i % numbers.size()];
          INFO("engine=" << engine << " " << name_of(dtype) << " " << name_of(f) << " of "
                         << numbers[i % numbers.size()] << " is " << results[i] << ", as a function "
                         << wanted_one);
          const float apart = std::fabs(results[i] - wanted_one);
          CHECK((results[i] == wanted_one || (std::isnan(results[i]) && std::isnan(wanted_one)) ||
                 apart <= 4 * roundoff * std::max(std::fabs(wanted_one), 0x1p-10f)));
        }
        CHECK(c.intact());
      }
    }
  }
}

TEST_CASE("gemm: reals stay within the error of a chain of multiply-adds", "[gemm]") {
  for (const std::string& engine : serving_gemm_engines()) {
    GemmCase x(70, 90, 1000, false, true);
    x.beta = 0.75f;
    x.alpha = -1.25f;
    const GemmData data = real_data(x);
    const std::vector<float> values = run_gemm(x, data, gemm_engine(engine)).values;
    const std::vector<double> expected = gemm_reference(x, data);
    double worst = 0;
    for (int64_t i = 0; i < x.m; i++)
      for (int64_t j = 0; j < x.n; j++) {
        double magnitude = std::abs(x.beta * data.c[static_cast<size_t>(i * x.n + j)]);
        for (int64_t l = 0; l < x.k; l++)
          magnitude += std::abs(x.alpha * data.a[static_cast<size_t>(i * x.k + l)] *
                                data.b[static_cast<size_t>(l * x.n + j)]);
        const auto at = static_cast<size_t>(i * x.n + j);
        worst = std::max(worst, std::abs(values[at] - expected[at]) / magnitude);
      }
    // K + 3 roundings of at most half a ulp (2^-24) each, of partial sums no larger than `magnitude`.
    INFO("engine=" << engine << " " << x.text() << " worst error " << worst);
    CHECK(worst <= static_cast<double>(x.k + 3) * 0x1p-24);
  }
}

TEST_CASE("gemm: operands may be stretched, overlapping or one and the same", "[gemm][small]") {
  Rng rng(3);
  const std::vector<float> values = integers(64, rng);
  const Tensor x = device_tensor({8, 8}, values),
               row = device_tensor({1, 8}, {values.begin(), values.begin() + 8});
  for (const std::string& engine : serving_gemm_engines()) {
    INFO("engine=" << engine);
    const Guarded y({8, 8});
    gemm(stream(), x, x.transpose(0, 1), {}, {}, y.tensor(), gemm_engine(engine));
    GemmCase c(8, 8, 8);
    GemmData data{values, std::vector<float>(64), {}, {}, {}, {}};
    for (size_t i = 0; i < 64; i++) data.b[i] = values[i % 8 * 8 + i / 8];
    CHECK(same(host_values(y.tensor()), rounded(gemm_reference(c, data))));

    gemm(stream(), row.expand({8, 8}), x, {}, {}, y.tensor(), gemm_engine(engine));
    data.b = values;
    for (size_t i = 0; i < 64; i++) data.a[i] = values[i % 8];
    CHECK(same(host_values(y.tensor()), rounded(gemm_reference(c, data))));

    // Windows that move by one element: A[m][k] = values[m + k].
    gemm(stream(), x.as_strided({8, 8}, {1, 1}), x, {}, {}, y.tensor(), gemm_engine(engine));
    for (size_t i = 0; i < 64; i++) data.a[i] = values[i / 8 + i % 8];
    CHECK(same(host_values(y.tensor()), rounded(gemm_reference(c, data))));
    CHECK(y.intact());
  }
}

TEST_CASE("gemm: a plan runs on other tensors, with the user's workspace or its own", "[gemm][small]") {
  const GemmCase x(26, 40, 30);
  for (const std::string& engine : serving_gemm_engines()) {
    INFO("engine=" << engine);
    const Gemm plan(context(), desc_of({x.m, x.k}, {x.k, x.n}, {x.m, x.n}), gemm_engine(engine));
    for (const uint64_t seed : {1, 2}) {
      const GemmData data = integer_data(x, seed);
      const Tensor a = matrix(x.m, x.k, {}, data.a), b = matrix(x.k, x.n, {}, data.b);
      const Guarded c({x.m, x.n}), ws({static_cast<int64_t>(plan.workspace_size())}, DType::u8);
      plan.run(stream(), a, b, {}, c.tensor());
      CHECK(same(host_values(c.tensor()), rounded(gemm_reference(x, data))));
      const Guarded d({x.m, x.n});
      plan.run(stream(), a, b, {}, d.tensor(), ws.tensor());
      CHECK(same(host_values(d.tensor()), rounded(gemm_reference(x, data))));
      CHECK(ws.intact());
      if (plan.workspace_size() == 0) continue;
      const Tensor little(context(), {static_cast<int64_t>(plan.workspace_size()) - 1}, DType::u8);
      CHECK(error_of<ValidationError>([&] {
              plan.run(stream(), a, b, {}, d.tensor(), little);
            }).find("workspace") == 0);
    }
  }
}

TEST_CASE("gemm: 16-bit results of many blocks of k are rounded once", "[gemm]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const DType dtype : {DType::f16, DType::bf16}) {
      GemmCase x(45, 70, 600, dtype == DType::bf16, true);
      x.dtype = x.c_dtype = dtype;
      check_exact(x, engine);
      x.alpha = 0.5f;
      x.beta = 2;
      x.bias = Vector::row;
      x.activation = Activation::relu;
      x.batch = 2;
      x.one_b = true;
      check_exact(x, engine);
    }
}

TEST_CASE("gemm: a small workspace makes several passes over the rows", "[gemm]") {
  for (const std::string& engine : serving_gemm_engines())
    for (const DType dtype : {DType::f32, DType::f16}) {
      GemmCase x(100, 50, 300);
      x.dtype = x.c_dtype = dtype;
      x.batch = 2;
      x.beta = 1;
      const GemmDesc desc{TensorDesc({2, x.m, x.k}, dtype), TensorDesc({2, x.k, x.n}, dtype),
                          TensorDesc({2, x.m, x.n}, dtype)};
      Options options = gemm_engine(engine);
      const size_t all = Gemm(context(), desc, options).workspace_size();
      if (all == 0) continue;
      options.workspace_limit = all / 3;
      INFO("engine=" << engine << " workspace " << options.workspace_limit << " of " << all);
      const std::string refusal = error_of<ValidationError>([&] { Gemm(context(), desc, options); });
      if (refusal.find("refused") != std::string::npos) {  // it cannot do with less, and says so
        CHECK(refusal.find("bytes of workspace, the limit is") != std::string::npos);
        continue;
      }
      CHECK(Gemm(context(), desc, options).workspace_size() <= options.workspace_limit);
      for (const Vector bias : {Vector::row, Vector::column}) {
        x.bias = bias;
        const GemmData data = integer_data(x);
        const GemmResult result = run_gemm(x, data, options);
        CHECK(same(result.values, rounded(gemm_reference(x, data), dtype)));
        CHECK(result.intact);
      }
      options.workspace_limit = 100;
      size_t least = 0;
      const std::string error =
          error_of<ValidationError>([&] { least = Gemm(context(), desc, options).workspace_size(); });
      CHECK((error == "(nothing was thrown)" ? least <= 100
                                             : error.find("the limit is 100") != std::string::npos));
      options.engine = "auto";
      CHECK(Gemm(context(), desc, options).workspace_size() <= 100);
    }
}

TEST_CASE("gemm: engine cpu with other tiles", "[gemm]") {
  if (!gemm_refusal_by_name("cpu").empty()) return note_skipped("cpu refuses: " + gemm_refusal("cpu"));
  const auto refused = [](const char* name) {
    return error_of<ValidationError>([&] {
      Gemm(context(), desc_of({50, 60}, {60, 70}, {50, 70}), gemm_engine(name));
    });
  };
  CHECK(refused("cpu:mr=15,mc=30").find("engine: tiles of 15x") == 0);
  CHECK(refused("cpu:kc=65536").find("engine: blocks of ") == 0);
  CHECK(refused("cpu:mc=13").find("engine: tiles of ") == 0);
  for (const bool a : {false, true})
    for (const char* name :
         {"cpu:kc=16", "cpu:kc=64,mr=7,mc=14,nv=1", "cpu:kc=32,mr=14,mc=28", "cpu:kc=48,before=1"})
      check_exact({53, 261, 133, a, !a}, name);
}

TEST_CASE("gemm: another shape compiles nothing", "[gemm]") {
  const auto built = [] { return context().program_stats().built + context().program_stats().from_disk; };
  for (const std::string& engine : serving_gemm_engines()) {
    const auto once = [&](const GemmCase& x) {
      const GemmData data = integer_data(x);
      run_gemm(x, data, gemm_engine(engine));
    };
    once({40, 48, 36});
    const uint64_t before = built();
    once({44, 52, 100});
    INFO("engine=" << engine);
    CHECK(built() == before);
  }
}
