// GEMM: engines serve or say why not; bad descriptions and bad runs are refused with a message that names the
// argument and the value.
#include <cmath>
#include <limits>

#include <dlprim/gemm.hpp>

#include "cases/gemm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {}  // namespace

TEST_CASE("gemm: every engine serves or says why not", "[gemm][small]") {
  const GemmDesc desc = desc_of({2, 3}, {3, 4}, {2, 4});
  for (const std::string& engine : gemm_engines()) {
    INFO("engine=" << engine << " refusal='" << gemm_refusal(engine) << "'");
    const std::string error = gemm_refusal_by_name(engine);
    if (error.empty()) {
      CHECK(Gemm(context(), desc, gemm_engine(engine)).engine() == engine);
    } else {
      CHECK(!gemm_refusal(engine).empty());
      CHECK(error.find("engine: gemm: " + engine + " refused:") == 0);
      CHECK(error.find(gemm_refusal(engine)) != std::string::npos);
    }
  }
  CHECK(gemm_refusal("naive").empty());
  // Elsewhere an engine's refusal ends a check, so that one which refuses all would pass.
  CHECK(gemm_refusal_by_name("fma") == "");
  CHECK(gemm_refusal_by_name("fma_direct") == "");
  CHECK(gemm_refusal_by_name("cpu") == "");
  const MatrixEngine matrix = context().device().probes().matrix;
  if (matrix == MatrixEngine::nv_wgmma || matrix == MatrixEngine::nv_mma)
    for (const std::string& engine : {std::string(name_of(matrix)), std::string("nv_mma")})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const TensorDesc square({64, 64}, dtype);
        CHECK(Gemm(context(), {square, square, square}, gemm_engine(engine)).engine() == engine);
      }
  const GemmDesc row = desc_of({1, 300}, {300, 40}, {1, 40});
  CHECK(Gemm(context(), row, gemm_engine("gemv")).engine() == "gemv");
  const auto automatic = Gemm(context(), desc);
  CHECK(automatic.explain().find(automatic.engine() + ": chosen") != std::string::npos);
}

TEST_CASE("gemm: what is refused, and why", "[gemm][small]") {
  const auto refused = [](const GemmDesc& desc) {
    return error_of<ValidationError>([&] { Gemm(context(), desc); });
  };
  const GemmDesc good = desc_of({4, 6}, {6, 8}, {4, 8});
  GemmDesc d = good;
  d.a = TensorDesc({1, 4, 6});
  CHECK(refused(d) == "b: rank 2 must be 3, shape is [6, 8]");
  d.a = TensorDesc({4});
  CHECK(refused(d) == "a: rank 1 must be 2 or more, shape is [4]");
  d = good;
  d.b = TensorDesc({6, 8}, DType::f16);
  CHECK(refused(d) == "b: dtype f16 must be f32");
  d = good;
  d.a = TensorDesc({4, 6}, DType::i16);
  CHECK(refused(d) == "a: dtype i16 is none of f32, f16, bf16, f64, i8");
  d = good;
  d.c = TensorDesc({4, 8}, DType::f16);
  CHECK(refused(d) == "c: dtype f16 must be f32");
  d = {TensorDesc({4, 6}, DType::i8), TensorDesc({6, 8}, DType::i8), TensorDesc({4, 8}, DType::i32)};
  d.alpha = 0.5f;
  CHECK(refused(d) == "alpha: 0.5 is not whole, and sums are i32");
  d.alpha = 1;
  d.activation = Activation::tanh;
  CHECK(refused(d) == "activation: tanh of integers");
  d.activation = Activation::silu;
  CHECK(refused(d) == "activation: silu of integers");
  d = good;
  d.activation = static_cast<Activation>(17);
  CHECK(refused(d) == "activation: activation 17 does not exist");
  d = {TensorDesc({2, 4, 6}), TensorDesc({3, 6, 8}), TensorDesc({2, 4, 8})};
  CHECK(refused(d) == "b: shape [3, 6, 8] must be [2, 6, 8]");
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
  d.alpha = std::numeric_limits<float>::quiet_NaN();
  CHECK(refused(d) == "alpha: nan is not finite");
  d = good;
  d.beta = std::numeric_limits<float>::infinity();
  CHECK(refused(d) == "beta: inf is not finite");
  const int64_t huge = int64_t{1} << 31;
  CHECK(refused(desc_of({huge, 1}, {1, 1}, {huge, 1})) == "a: size 2147483648 is more than 2147479551");
  CHECK(refused(desc_of({1, 1}, {1, huge}, {1, huge})) == "b: size 2147483648 is more than 2147479551");
  CHECK(refused(desc_of({1, huge}, {huge, 1}, {1, 1})) == "a: size 2147483648 is more than 2147479551");
  const std::string unknown = error_of<ValidationError>([&] { Gemm(context(), good, gemm_engine("fast")); });
  CHECK(unknown == "engine: gemm has no engine 'fast'");
}

TEST_CASE("gemm: what a run refuses", "[gemm][small]") {
  GemmDesc desc = desc_of({4, 6}, {6, 8}, {4, 8});
  const Gemm plain(context(), desc);
  desc.bias = GemmDesc::Vector::row;
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
  fill(stream(), 1, room);
  plain.run(stream(), a, b, none, c);  // and the plan still works
  CHECK(host_values(c) == std::vector<float>(32, 6.0f));
}

TEST_CASE("gemm: what a run refuses of its epilogue", "[gemm][small]") {
  GemmDesc desc = desc_of({4, 6}, {6, 8}, {4, 8});
  desc.scale = GemmDesc::Vector::column;
  desc.residual = desc.preactivation = true;
  const Gemm plan(context(), desc), plain(context(), desc_of({4, 6}, {6, 8}, {4, 8}));
  const Tensor a(context(), {4, 6}), b(context(), {6, 8}), like_c(context(), {4, 8});
  const Guarded output({4, 8});
  const Tensor c = output.tensor();
  EpilogueTensors good;
  good.scale = Tensor(context(), {4});
  good.residual = like_c;
  good.preactivation = Tensor(context(), {4, 8});
  const auto refused = [&](const Gemm& by, const EpilogueTensors& with) {
    return error_of<ValidationError>([&] { by.run(stream(), a, b, with, c); });
  };
  CHECK(refused(plain, good) == "scale: f32[4] given, but the description has none");
  EpilogueTensors with = good;
  with.scale = Tensor(context(), {8});
  CHECK(refused(plan, with) == "scale: shape [8] must be [4]");
  with = good;
  with.residual = {};
  CHECK(refused(plan, with) == "residual: is not defined");
  with.residual = Tensor(context(), {8, 4}).transpose(0, 1);
  CHECK(refused(plan, with) == "residual: strides [1, 4] must be [8, 1]");
  with.residual = c;
  CHECK(refused(plan, with) == "c: shares memory with residual");
  with = good;
  with.preactivation = like_c;
  CHECK(refused(plan, with) == "preactivation: shares memory with residual");
  with.preactivation = c;
  CHECK(refused(plan, with) == "preactivation: shares memory with c");
  with.preactivation = Tensor(context(), {4, 8}, DType::f16);
  CHECK(refused(plan, with).find("preactivation: dtype f16") == 0);
  desc.scale = static_cast<GemmDesc::Vector>(7);
  CHECK(error_of<ValidationError>([&] { Gemm(context(), desc); }) == "scale: 7 is no GemmDesc::Vector");
  for (const float v : host_values(c)) REQUIRE(std::isnan(v));  // nothing was written
  CHECK(output.intact());
}
