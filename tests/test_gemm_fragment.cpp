// GEMM on matrix instructions that this device need not have: the instruction is emulated, everything around
// it is what runs on the hardware. test_gemm.cpp tests the engines that the device has, or those that
// DLPRIM_TEST_ENGINES lists.
#include <cstdio>

#include "cases/gemm.hpp"
#include "catch.hpp"
#include "core/kernel_source.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/gemm/gemm_fragment.hpp"

using namespace dlprim;
using namespace dlprim::test;
using detail::MatrixFragment;

namespace {

struct Form {
  const MatrixFragment* fragment;
  int form;
  int lanes;
  /// "amd_wmma:emulate=1,form=12".
  std::string engine() const {
    return std::string(fragment->engine) + ":emulate=1" + (form == 0 ? "" : ",form=" + std::to_string(form)) +
           (form == 16 ? ",tm=32,tn=32" : "");  // for 32 KB of local memory
  }
};

const std::vector<Form>& forms() {
  static const std::vector<Form> list = {{&detail::kNvFragment, 0, 32}, {&detail::kAmdWmma, 11, 32},
                                         {&detail::kAmdWmma, 12, 32},   {&detail::kAmdMfma, 90, 64},
                                         {&detail::kAmdMfma, 94, 64},   {&detail::kIntelDpas, 8, 8},
                                         {&detail::kIntelDpas, 16, 16}};
  return list;
}

constexpr std::pair<DType, DType> kTypes[] = {
    {DType::f32, DType::f32}, {DType::f16, DType::f16}, {DType::bf16, DType::f32}, {DType::i8, DType::i32}};

void check_exact(const GemmCase& x, const std::string& engine) {
  INFO("engine=" << engine << " " << x.text());
  const GemmData data = integer_data(x);
  const GemmResult result = run_gemm(x, data, gemm_engine(engine));
  CHECK(result.values == rounded(gemm_reference(x, data), x.c_dtype));
  CHECK(result.intact);
  CHECK(result.repeats);
}

/// Each form with each type, in another transposition each.
template <class Check>
void for_each_kernel(Check check) {
  int index = 0;
  for (const Form& form : forms())
    for (const auto& [dtype, c_dtype] : kTypes) {
      GemmCase x(1, 1, 1, index % 2 != 0, index / 2 % 2 != 0);
      x.dtype = dtype;
      x.c_dtype = c_dtype;
      // The default of nv_fragment, three bf16 parts, is that of others; two tf32 parts are its alone.
      const bool tf32 = dtype == DType::f32 && form.fragment == &detail::kNvFragment;
      check(x, form.engine() + (tf32 ? ",split=2" : ""));
      index++;
    }
}

double error_of_product(const GemmCase& x, const GemmData& data, const Options& options) {
  return relative_error(run_gemm(x, data, options).values, gemm_reference(x, data));
}

/// What the probe of matrix instructions says, of the given text, emulated.
bool probe_passes(const std::string& source, const Form& form, const char* type) {
  detail::Defines defines;
  defines.set("PROBE_FRAGMENT", 1)
      .set("FRAGMENT", form.fragment->macro)
      .set("FRAG_TYPE", type)
      .set("EMULATE", 1);
  if (form.form != 0) defines.set("FORM", form.form);
  const detail::Kernel kernel = context().state().programs.generated("probe", source, "probe", defines);
  const Tensor y(context(), {64}, DType::i32);
  fill(stream(), -7, y);
  detail::Launch launch(stream(), kernel);
  launch.arg(y);
  launch.run({static_cast<size_t>(form.lanes)}, {static_cast<size_t>(form.lanes)});
  const std::vector<float> values = host_values(y);
  bool good = true;
  for (size_t i = 0; i < values.size(); i++) good &= values[i] == static_cast<float>(3 * i + 1);
  return good;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  INFO("'" << from << "' is to be replaced");
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(from, at + 1) == std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("gemm fragment: every layout in every type", "[gemm][small]") {
  for_each_kernel([](GemmCase x, const std::string& engine) {
    x.m = 35, x.n = 37, x.k = 19;
    check_exact(x, engine);
  });
}

TEST_CASE("gemm fragment: odd sizes are exact", "[gemm]") {
  for_each_kernel([](const GemmCase& kind, const std::string& engine) {
    for (const GemmCase& x : odd_gemms(kind.dtype)) {
      if (x.a.transposed != kind.a.transposed || x.b.transposed != kind.b.transposed) continue;
      if (x.m == 1 || x.n == 1 || x.k == 1) continue;  // runs then lie as they please, and kernels are many
      check_exact(x, engine);
    }
  });
}

TEST_CASE("gemm fragment: tiles of other sizes, sub-groups of several fragments", "[gemm]") {
  int index = 0;
  for (const Form& form : forms()) {
    GemmCase x(100, 90, 130, true, false);
    x.dtype = x.c_dtype = DType::bf16;
    x.beta = 1;
    x.bias = GemmDesc::Vector::column;
    check_exact(x, form.engine() +
                       (index++ % 2 == 0 ? ",tm=64,tn=32,sm=32,sn=16" : ",tm=32,tn=64,sm=16,sn=32,tk=64"));
  }
}

TEST_CASE("gemm fragment: f32 by parts errs no more than a chain of multiply-adds", "[gemm]") {
  for (const int64_t k : {256, 4096}) {
    const GemmCase x(48, 40, k);
    const GemmData data = real_data(x);
    const double chain = error_of_product(x, data, gemm_engine("naive"));
    // The parts do not depend on the vendor; what emulated instructions do between them is a chain.
    for (const char* engine :
         {"amd_wmma:emulate=1", "nv_fragment:emulate=1", "nv_fragment:emulate=1,split=2"}) {
      const double error = error_of_product(x, data, gemm_engine(engine));
      std::printf("k=%d %s: error %.3g, of a chain %.3g\n", static_cast<int>(k), engine, error, chain);
      INFO("k=" << k << " engine=" << engine << " error " << error << " of a chain " << chain);
      CHECK(error <= chain);
    }
    Options tf32 = gemm_engine("nv_fragment:emulate=1");
    tf32.math = MathMode::tf32;
    const double error = error_of_product(x, data, tf32);
    CHECK(error > 10 * chain);  // or the other results prove nothing
    CHECK(error < 1e-3);        // 2^-11 for each operand, of random signs
  }
}

TEST_CASE("gemm fragment: what is refused, and why", "[gemm][small]") {
  const auto asked = [](const std::string& engine, DType dtype = DType::f32) {
    return error_of<ValidationError>([&] {
      Gemm(context(), {TensorDesc({4, 4}, dtype), TensorDesc({4, 4}, dtype), TensorDesc({4, 4}, dtype)},
           gemm_engine(engine));
    });
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const std::string matrix = name_of(context().device().probes().matrix);
  for (const char* engine : {"amd_wmma", "amd_mfma", "intel_dpas"}) {
    if (matrix == engine) continue;
    holds(asked(engine), std::string("needs the matrix engine ") + engine + ", the device has " + matrix);
  }
  if (has_doubles()) holds(asked("amd_mfma:emulate=1", DType::f64), "has no form for f64");
  holds(asked("amd_wmma:emulate=1,split=2"), "has no form for f32 in these parts");
  holds(asked("amd_wmma:emulate=1,form=8"), "engine: amd_wmma has no form 8");
  holds(asked("amd_wmma:emulate=2"), "engine: emulate is 2, neither 0 nor 1");
  holds(asked("intel_dpas:emulate=1,sm=12"), "in parts of 12x8 do not divide");
  holds(asked("nv_fragment:emulate=1,lanes=4"), "engine: nv_fragment has no parameter 'lanes'");
  holds(asked("nv_fragment:emulate=1,tm=4096,tn=4096,sm=4096,sn=2048"),
        " bytes of local memory, the device has ");
}

TEST_CASE("gemm fragment: the probe passes, and finds each wrong lane", "[gemm][small]") {
  // The launcher gives a tensor's offset too.
  const std::string source =
      replaced(detail::kernel_source("probe"), "(FRAG_LANES, 1, 1))) void probe(__global int* y)",
               "(FRAG_LANES, 1, 1))) void probe(__global int* y, long offset)");
  for (const Form& form : forms())
    for (const char* type : {"FRAG_F16", "FRAG_BF16", "FRAG_I8", "FRAG_F32", "FRAG_TF32"}) {
      if (type == std::string("FRAG_F32") && form.fragment != &detail::kAmdMfma) continue;
      if (type == std::string("FRAG_TF32") && form.fragment != &detail::kNvFragment) continue;
      INFO(form.engine() << " " << type);
      CHECK(probe_passes(source, form, type));
    }

  struct Mistake {
    size_t form;
    const char *right, *wrong;
  };
  const Mistake mistakes[] = {
      {0, "a->w[1] = at[8 * pitch];", "a->w[1] = at[4];"},
      {0, "b->w[1] = at[4];", "b->w[1] = at[0];"},
      {0, "return i / 2 * 8 + lane / 4;", "return i % 2 * 8 + lane / 4;"},
      {0, "return lane % 4 * 2 + i % 2;", "return lane % 4 + i % 2 * 4;"},
      {1, "tile + lane % 16 * pitch + (FORM", "tile + lane / 2 * pitch + (FORM"},
      {1, "FORM == 11 ? 2 * i + lane / 16", "FORM == 11 ? i + lane / 16 * 8"},
      {2, "? 0 : lane / 16 * FRAG_A_WORDS", "? 0 : 0"},
      {2, "lane / 16 * 8 + i;", "2 * i + lane / 16;"},
      {3, "tile + lane % 16 * pitch + lane / 16 * FRAG_A_WORDS",
       "tile + lane / 4 * pitch + lane % 4 * FRAG_A_WORDS"},
      {4, "return lane / 16 * 4 + i;", "return lane / 16 + 4 * i;"},
      {5, "a->w[i] = tile[i * pitch + lane];", "a->w[i] = tile[lane * pitch + i];"},
      {5, "fragment_copy(b->w, tile + lane * pitch, 8);",
       "fragment_copy(b->w, tile + (lane ^ 1) * pitch, 8);"},
      {6, "a->s[i] = ((__local const short*)(tile + i * pitch))[lane];",
       "a->s[i] = ((__local const short*)(tile + i * pitch))[lane / 2];"},
  };
  for (const Mistake& mistake : mistakes) {
    const Form& form = forms()[mistake.form];
    INFO(form.engine() << ": " << mistake.wrong << " in place of " << mistake.right);
    CHECK(!probe_passes(replaced(source, mistake.right, mistake.wrong), form, "FRAG_BF16"));
  }
}
