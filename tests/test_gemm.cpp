// GEMM: every engine by name against a reference in double, bit for bit where the sums are exact.
#include "cases/gemm.hpp"

#include <climits>
#include <cmath>
#include <limits>

#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;
using Bias = GemmDesc::Bias;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const char* const kEngines[] = {"cpu", "tile", "naive"};

Options by_name(const std::string& engine) {
  Options options;
  options.engine = engine;
  return options;
}

/// Why the engine refuses on this device; empty if it serves.
std::string refusal(const std::string& engine) {
  const std::string text =
      Gemm(context(), {TensorDesc({4, 4}), TensorDesc({4, 4}), TensorDesc({4, 4})}, by_name("naive"))
          .explain();
  const std::string mark = engine + ": refused, ";
  const auto at = text.find(mark);
  return at == std::string::npos ? "" : text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
}

/// What asking for the engine throws; empty if it is given.
std::string refusal_by_name(const std::string& engine) {
  try {
    const GemmDesc desc{TensorDesc({4, 4}), TensorDesc({4, 4}), TensorDesc({4, 4})};
    return Gemm(context(), desc, by_name(engine)).engine() == engine ? "" : "another engine was given";
  } catch (const ValidationError& error) {
    return error.what();
  }
}

std::vector<std::string> serving_engines() {
  std::vector<std::string> names;
  for (const std::string name : kEngines)
    if (refusal(name).empty()) names.push_back(name);
  return names;
}

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// Equal values, NaN equal to NaN.
bool same(const std::vector<float>& x, const std::vector<float>& y) {
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); i++)
    if (!(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))) return false;
  return true;
}

struct Result {
  std::vector<float> values;
  bool intact = false, repeats = false;
};

/// Runs the case twice by the call form into poisoned, guarded outputs (which hold data.c if beta is not 0).
Result run(const GemmCase& x, const GemmData& data, const Options& options) {
  const Tensor a = matrix(x.m, x.k, x.a, data.a), b = matrix(x.k, x.n, x.b, data.b),
               bias = bias_tensor(x, data.bias);
  Result result;
  std::vector<unsigned char> bytes[2];
  for (auto& output : bytes) {
    const Guarded c({x.m, x.n}, {x.n + x.c.gap, 1}, DType::f32, 64 + x.c.offset);
    if (x.beta != 0) write(stream(), c.tensor(), data.c);
    gemm(stream(), a, b, bias, x.params(), c.tensor(), options);
    output = host_bytes(c.tensor());
    result.values = host_values(c.tensor());
    result.intact = c.intact();
    if (!result.intact) break;
  }
  result.repeats = bytes[0] == bytes[1];
  return result;
}

void check_exact(const GemmCase& x, const std::string& engine) {
  INFO("engine=" << engine << " " << x.text());
  const GemmData data = integer_data(x);
  const Result result = run(x, data, by_name(engine));
  CHECK(same(result.values, rounded(gemm_reference(x, data))));
  CHECK(result.intact);
  CHECK(result.repeats);
}

GemmDesc desc_of(const Shape& a, const Shape& b, const Shape& c) {
  return {TensorDesc(a), TensorDesc(b), TensorDesc(c)};
}

}  // namespace

TEST_CASE("gemm: every engine serves or says why not", "[gemm][small]") {
  const GemmDesc desc = desc_of({2, 3}, {3, 4}, {2, 4});
  for (const std::string engine : kEngines) {
    INFO("engine=" << engine << " refusal='" << refusal(engine) << "'");
    const std::string error = refusal_by_name(engine);
    if (error.empty()) {
      CHECK(Gemm(context(), desc, by_name(engine)).engine() == engine);
    } else {
      CHECK(!refusal(engine).empty());
      CHECK(error.find("engine: gemm: " + engine + " refused:") == 0);
      CHECK(error.find(refusal(engine)) != std::string::npos);
    }
  }
  CHECK(refusal("naive").empty());
  const auto automatic = Gemm(context(), desc);
  CHECK(automatic.engine() == serving_engines().front());
  CHECK(automatic.explain().find(automatic.engine() + ": chosen") != std::string::npos);
}

TEST_CASE("gemm: small sizes in every place are exact", "[gemm][small]") {
  for (const std::string& engine : serving_engines())
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        check_exact({1, 1, 1, a, b}, engine);
        check_exact({3, 2, 5, a, b}, engine);
        check_exact({13, 17, 9, a, b}, engine);
      }
}

TEST_CASE("gemm: engines for one kind of device work on others if asked for by name", "[gemm][small]") {
  for (const std::string engine : kEngines)
    for (const bool a : {false, true})
      for (const bool b : {false, true}) {
        if (!refusal_by_name(engine).empty()) continue;
        GemmCase x(15, 35, 9, a, b);
        x.a.gap = x.b.gap = x.c.gap = x.a.offset = x.c.offset = 1;
        x.beta = 1;
        x.bias = Bias::row;
        check_exact(x, engine);
      }
}

TEST_CASE("gemm: odd sizes are exact", "[gemm]") {
  for (const std::string& engine : serving_engines())
    for (const GemmCase& x : odd_gemms()) check_exact(x, engine);
}

TEST_CASE("gemm: many tiles are exact", "[gemm]") {
  for (const std::string& engine : serving_engines())
    for (const GemmCase& x : tiled_gemms()) check_exact(x, engine);
}

TEST_CASE("gemm: gaps and offsets are neither read nor written", "[gemm][small]") {
  for (const std::string& engine : serving_engines())
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
  for (const std::string& engine : serving_engines())
    for (const Bias bias : {Bias::none, Bias::row, Bias::column})
      for (const float beta : {0.0f, 1.0f, -2.0f})
        for (const float alpha : {0.0f, 1.0f, 0.5f}) {
          GemmCase x(21, 39, 6);
          x.alpha = alpha;
          x.beta = beta;
          x.bias = bias;
          check_exact(x, engine);
        }
}

TEST_CASE("gemm: beta and bias are applied once over many blocks of k", "[gemm]") {
  for (const std::string& engine : serving_engines()) {
    GemmCase x(30, 50, 700);
    x.beta = 3;
    x.alpha = 2;
    x.bias = Bias::row;
    x.activation = Activation::relu;
    check_exact(x, engine);
    x.bias = Bias::column;
    check_exact(x, engine);
  }
}

TEST_CASE("gemm: sizes of 0", "[gemm][small]") {
  for (const std::string& engine : serving_engines()) {
    check_exact({0, 5, 3}, engine);
    check_exact({5, 0, 3}, engine);
    check_exact({0, 0, 0}, engine);
    check_exact({19, 21, 0}, engine);
    GemmCase x(19, 21, 0);  // activation(beta * C + bias)
    x.beta = 2;
    x.bias = Bias::column;
    x.activation = Activation::relu;
    check_exact(x, engine);
  }
}

TEST_CASE("gemm: activations", "[gemm][small]") {
  for (const std::string& engine : serving_engines())
    for (const Activation f :
         {Activation::identity, Activation::relu, Activation::relu6, Activation::sigmoid, Activation::tanh}) {
      GemmCase x(21, 35, 8);
      x.alpha = 1.0f / 8;  // so that sigmoid and tanh are not all saturated; the sums stay exact
      x.activation = f;
      x.bias = Bias::row;
      const GemmData data = integer_data(x);
      const Result result = run(x, data, by_name(engine));
      const std::vector<double> expected = gemm_reference(x, data);
      // The argument is exact. tanh may be 5 ulp off, exp 3 and the division after it 2.5, with half a ulp
      // for the sum between them: 6 ulp, of at most 2^-23 each.
      const double bound = f == Activation::sigmoid || f == Activation::tanh ? 6 * 0x1p-23 : 0;
      double worst = 0;
      for (size_t i = 0; i < expected.size(); i++) {
        const double error =
            std::abs(result.values[i] - expected[i]) / std::max(1e-30, std::abs(expected[i]));
        if (!(error <= worst)) worst = error;
      }
      INFO("engine=" << engine << " " << x.text() << " worst relative error " << worst << " bound " << bound);
      CHECK(worst <= bound);
      CHECK(result.intact);
      CHECK(result.repeats);
    }
}

TEST_CASE("gemm: reals stay within the error of a chain of multiply-adds", "[gemm]") {
  for (const std::string& engine : serving_engines()) {
    GemmCase x(70, 90, 1000, false, true);
    x.beta = 0.75f;
    x.alpha = -1.25f;
    const GemmData data = real_data(x);
    const std::vector<float> values = run(x, data, by_name(engine)).values;
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

TEST_CASE("gemm: NaN spreads as far as it must and no further", "[gemm][small]") {
  for (const std::string& engine : serving_engines()) {
    INFO("engine=" << engine);
    GemmCase x(14, 37, 10);
    GemmData data = integer_data(x);
    data.a[3 * 10 + 4] = kNaN;   // row 3
    data.b[7 * 37 + 36] = kNaN;  // column 36
    const std::vector<float> values = run(x, data, by_name(engine)).values;
    const std::vector<float> expected = rounded(gemm_reference(x, data));
    CHECK(same(values, expected));
    CHECK(std::isnan(values[3 * 37]));
    CHECK(!std::isnan(values[4 * 37]));

    x.beta = 1;  // and what C holds is read
    data.c[5 * 37 + 2] = kNaN;
    CHECK(same(run(x, data, by_name(engine)).values, rounded(gemm_reference(x, data))));
    x.activation = Activation::relu6;  // which passes NaN on
    CHECK(same(run(x, data, by_name(engine)).values, rounded(gemm_reference(x, data))));
    x.alpha = 0;  // A and B are not read
    CHECK(same(run(x, data, by_name(engine)).values, rounded(gemm_reference(x, data))));
  }
}

TEST_CASE("gemm: operands may be stretched, overlapping or one and the same", "[gemm][small]") {
  Rng rng(3);
  const std::vector<float> values = integers(64, rng);
  const Tensor x = device_tensor({8, 8}, values),
               row = device_tensor({1, 8}, {values.begin(), values.begin() + 8});
  for (const std::string& engine : serving_engines()) {
    INFO("engine=" << engine);
    const Guarded y({8, 8});
    gemm(stream(), x, x.transpose(0, 1), {}, {}, y.tensor(), by_name(engine));
    GemmCase c(8, 8, 8);
    GemmData data{values, std::vector<float>(64), {}, {}};
    for (size_t i = 0; i < 64; i++) data.b[i] = values[i % 8 * 8 + i / 8];
    CHECK(same(host_values(y.tensor()), rounded(gemm_reference(c, data))));

    gemm(stream(), row.expand({8, 8}), x, {}, {}, y.tensor(), by_name(engine));
    data.b = values;
    for (size_t i = 0; i < 64; i++) data.a[i] = values[i % 8];
    CHECK(same(host_values(y.tensor()), rounded(gemm_reference(c, data))));

    // Windows that move by one element: A[m][k] = values[m + k].
    gemm(stream(), x.as_strided({8, 8}, {1, 1}), x, {}, {}, y.tensor(), by_name(engine));
    for (size_t i = 0; i < 64; i++) data.a[i] = values[i / 8 + i % 8];
    CHECK(same(host_values(y.tensor()), rounded(gemm_reference(c, data))));
    CHECK(y.intact());
  }
}

TEST_CASE("gemm: a plan runs on other tensors, with the user's workspace or its own", "[gemm][small]") {
  const GemmCase x(26, 40, 30);
  for (const std::string& engine : serving_engines()) {
    INFO("engine=" << engine);
    const Gemm plan(context(), desc_of({x.m, x.k}, {x.k, x.n}, {x.m, x.n}), by_name(engine));
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

TEST_CASE("gemm: a small workspace makes several passes over the rows", "[gemm]") {
  const GemmDesc desc = desc_of({100, 70}, {70, 50}, {100, 50});
  for (const std::string& engine : serving_engines()) {
    Options options = by_name(engine);
    const size_t all = Gemm(context(), desc, options).workspace_size();
    if (all == 0) continue;
    options.workspace_limit = all / 3;
    INFO("engine=" << engine << " workspace " << options.workspace_limit << " of " << all);
    CHECK(Gemm(context(), desc, options).workspace_size() <= options.workspace_limit);
    for (const Bias bias : {Bias::row, Bias::column}) {
      GemmCase x(100, 50, 70);
      x.bias = bias;
      x.beta = 1;
      const GemmData data = integer_data(x);
      const Result result = run(x, data, options);
      CHECK(same(result.values, rounded(gemm_reference(x, data))));
      CHECK(result.intact);
    }
    options.workspace_limit = 100;
    const std::string error = error_of<ValidationError>([&] { Gemm(context(), desc, options); });
    CHECK(error.find("the limit is 100") != std::string::npos);
    options.engine = "auto";
    CHECK(Gemm(context(), desc, options).workspace_size() <= 100);
  }
}

TEST_CASE("gemm: another shape compiles nothing", "[gemm]") {
  const auto built = [] { return context().program_stats().built + context().program_stats().from_disk; };
  for (const std::string& engine : serving_engines()) {
    const auto once = [&](const GemmCase& x) {
      const GemmData data = integer_data(x);
      run(x, data, by_name(engine));
    };
    once({40, 48, 36});
    const uint64_t before = built();
    once({44, 52, 100});
    INFO("engine=" << engine);
    CHECK(built() == before);
  }
}

TEST_CASE("gemm: what is refused, and why", "[gemm][small]") {
  const auto refused = [](const GemmDesc& desc) {
    return error_of<ValidationError>([&] { Gemm(context(), desc); });
  };
  const GemmDesc good = desc_of({4, 6}, {6, 8}, {4, 8});
  GemmDesc d = good;
  d.a = TensorDesc({4, 6, 1});
  CHECK(refused(d) == "a: rank 3 must be 2, shape is [4, 6, 1]");
  d = good;
  d.b = TensorDesc({6, 8}, DType::f16);
  CHECK(refused(d) == "b: dtype f16 must be f32");
  d = good;
  d.b = TensorDesc({5, 8});
  CHECK(refused(d) == "b: shape [5, 8] must be [6, 8]");
  d = good;
  d.c = TensorDesc({8, 4});
  CHECK(refused(d) == "c: shape [8, 4] must be [4, 8]");
  d = good;
  d.a = TensorDesc({4, 6}, {12, 2}, DType::f32, true);
  CHECK(refused(d) == "a: strides [12, 2] of shape [4, 6]: one must be 1");
  d = good;
  d.c = TensorDesc({4, 8}, {1, 4}, DType::f32, true);
  CHECK(refused(d) == "c: strides [1, 4]: rows are not contiguous");
  d = good;
  d.c = TensorDesc({4, 8}, {0, 1}, DType::f32, true);
  CHECK(refused(d) == "c: strides [0, 1] of shape [4, 8] put several elements at one address");
  d = good;
  d.alpha = kNaN;
  CHECK(refused(d) == "alpha: nan is not finite");
  d = good;
  d.beta = std::numeric_limits<float>::infinity();
  CHECK(refused(d) == "beta: inf is not finite");
  const int64_t huge = int64_t{1} << 31;
  CHECK(refused(desc_of({huge, 1}, {1, 1}, {huge, 1})) == "a: size 2147483648 is more than 2147479551");
  CHECK(refused(desc_of({1, 1}, {1, huge}, {1, huge})) == "b: size 2147483648 is more than 2147479551");
  CHECK(refused(desc_of({1, huge}, {huge, 1}, {1, 1})) == "a: size 2147483648 is more than 2147479551");
  const std::string unknown = error_of<ValidationError>([&] { Gemm(context(), good, by_name("fast")); });
  CHECK(unknown == "engine: gemm has no engine 'fast'");
}

TEST_CASE("gemm: what a run refuses", "[gemm][small]") {
  GemmDesc desc = desc_of({4, 6}, {6, 8}, {4, 8});
  const Gemm plain(context(), desc);
  desc.bias = Bias::row;
  const Gemm with_bias(context(), desc);
  const Tensor room(context(), {400});
  const Tensor a = room.as_strided({4, 6}, {6, 1}), b = room.as_strided({6, 8}, {8, 1}, 64), none;
  const Tensor bias = room.as_strided({8}, {1}, 240);
  const Guarded output({4, 8});
  const Tensor c = output.tensor();
  const auto refused = [&](const Gemm& plan, const Tensor& a_, const Tensor& b_, const Tensor& bias_,
                           const Tensor& c_) {
    return error_of<ValidationError>([&] { plan.run(stream(), a_, b_, bias_, c_); });
  };
  CHECK(refused(plain, none, b, none, c) == "a: is not defined");
  CHECK(refused(plain, a, b, none, none) == "c: is not defined");
  CHECK(refused(plain, a, a, none, c) == "b: shape [4, 6] must be [6, 8]");
  CHECK(refused(plain, room.as_strided({4, 6}, {7, 1}), b, none, c) == "a: strides [7, 1] must be [6, 1]");
  CHECK(refused(plain, room.as_strided({4, 6}, {6, 1}, 1), b, none, c).find("a: starts at element") == 0);
  CHECK(refused(plain, a, b, bias, c) == "bias: f32[8] given, but the description has none");
  CHECK(refused(with_bias, a, b, none, c) == "bias: is not defined");
  CHECK(refused(with_bias, a, b, room.as_strided({7}, {1}, 240), c) == "bias: shape [7] must be [8]");
  CHECK(refused(with_bias, a, b, room.as_strided({8}, {2}, 240), c) ==
        "bias: strides [2] are not contiguous");
  CHECK(refused(plain, a, b, none, room.as_strided({4, 8}, {8, 1}, 16)) == "c: shares memory with a");
  CHECK(refused(plain, a, b, none, room.as_strided({4, 8}, {8, 1}, 96)) == "c: shares memory with b");
  CHECK(refused(with_bias, a, b, bias, room.as_strided({4, 8}, {8, 1}, 216)) == "c: shares memory with bias");
  const Context other(context().device());
  CHECK(refused(plain, Tensor(other, {4, 6}), b, none, c) == "a: belongs to another context");
  const Stream elsewhere(other);
  CHECK(error_of<ValidationError>([&] { plain.run(elsewhere, a, b, none, c); }) ==
        "stream: belongs to another context than the plan");
  CHECK(error_of<ValidationError>([&] {
          gemm(stream(), a, b, room.as_strided({4, 2}, {2, 1}, 240), {}, c);
        }) == "bias: shape [4, 2] is neither [N] nor [M, 1]");

  for (const float v : host_values(c)) REQUIRE(std::isnan(v));  // nothing was written
  CHECK(output.intact());
  fill(stream(), room, 1);
  plain.run(stream(), a, b, none, c);  // and the plan still works
  CHECK(host_values(c) == std::vector<float>(32, 6.0f));
}
