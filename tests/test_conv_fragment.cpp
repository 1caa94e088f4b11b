// Convolution on matrix instructions that this device need not have, emulated as in test_gemm_fragment.cpp.
#include <iterator>

#include <dlprim/copy.hpp>

#include "cases/conv.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Each layout of each maker.
const char* const kForms[] = {"nv_fragment:emulate=1",
                              "amd_wmma:emulate=1,form=11",
                              "amd_wmma:emulate=1,form=12",
                              "amd_mfma:emulate=1,form=90",
                              "amd_mfma:emulate=1,form=94",
                              "intel_dpas:emulate=1,form=8",
                              "intel_dpas:emulate=1,form=16,tm=32,tn=32"};

struct Types {
  DType from, to;
};
constexpr Types kTypes[] = {{DType::f32, DType::f32},
                            {DType::f16, DType::f16},
                            {DType::bf16, DType::f32},
                            {DType::bf16, DType::bf16}};

/// How operands and results lie.
struct Layouts {
  Layout x, w, y;
};
constexpr Layouts kLayouts[] = {{Layout::nhwc, Layout::nhwc, Layout::nhwc},
                                {Layout::nchw, Layout::nchw, Layout::nchw},
                                {Layout::nhwc, Layout::nchw, Layout::nchw},
                                {Layout::nchw, Layout::nhwc, Layout::nhwc},
                                {Layout::gaps, Layout::gaps, Layout::gaps}};

ConvCase turned(ConvCase c, const Layouts& layouts, const Types& types) {
  c.x_layout = layouts.x, c.w_layout = layouts.w, c.y_layout = layouts.y;
  c.dtype = types.from;
  return c;
}

std::vector<float> rounded(const std::vector<double>& values, DType dtype) {
  const std::vector<float> floats(values.begin(), values.end());
  if (dtype == DType::f32) return floats;
  return host_values(device_tensor({static_cast<int64_t>(floats.size())}, floats, dtype));
}

/// Runs twice on poisoned, guarded memory.
template <class Run>
void check_output(Layout layout, const Shape& shape, DType dtype, const std::vector<double>& expected,
                  const Run& run) {
  const Guarded first(shape, strides_in(layout, shape), dtype, 32),
      again(shape, strides_in(layout, shape), dtype, 32);
  run(first.tensor());
  CHECK(deviation(host_values(first.tensor()), rounded(expected, dtype)) == 0);
  CHECK(first.intact());
  run(again.tensor());
  CHECK(host_bytes(first.tensor()) == host_bytes(again.tensor()));
}

/// In three directions, exact; `offset`: elements before the operands' first ones, 0 lets loads be wide.
void check_exact(const ConvCase& c, DType to, const std::string& name, int64_t offset = 0) {
  INFO("engine=" << name << " offset=" << offset << " to " << name_of(to) << " " << c.text());
  Rng rng(4);
  const auto x = integers(element_count(c.x_shape()), rng, 3),
             w = integers(element_count(c.w_shape()), rng, 3),
             dy = integers(element_count(c.y_shape()), rng, 3);
  const auto operand = [&](Layout layout, const Shape& shape, const std::vector<float>& values) {
    const Guarded room(shape, strides_in(layout, shape), c.dtype, offset);
    copy(stream(), device_tensor(shape, values), room.tensor());
    return room.tensor();
  };
  const Tensor tx = operand(c.x_layout, c.x_shape(), x), tw = operand(c.w_layout, c.w_shape(), w),
               tdy = operand(c.y_layout, c.y_shape(), dy);
  check_output(c.y_layout, c.y_shape(), to, conv_forward_reference(c, x, w),
               [&](const Tensor& y) { conv(stream(), tx, tw, {}, c.params, y, engine(name)); });
  check_output(c.x_layout, c.x_shape(), to, conv_backward_data_reference(c, dy, w),
               [&](const Tensor& dx) { conv_backward_data(stream(), tdy, tw, c.params, dx, engine(name)); });
  check_output(c.w_layout, c.w_shape(), to, conv_backward_filter_reference(c, x, dy), [&](const Tensor& dw) {
    conv_backward_filter(stream(), tx, tdy, c.params, dw, engine(name));
  });
}

}  // namespace

TEST_CASE("conv fragment: three directions are exact", "[conv]") {
  const ConvCase c{"small", 1, 8, {3, 4}, 8, {2, 2}, {{2}, {1}, {0}}};
  check_exact(turned(c, kLayouts[0], {DType::bf16, DType::f32}), DType::f32, kForms[6]);
}

TEST_CASE("conv fragment: every form in every layout and type", "[conv]") {
  const ConvCase c{"wide", 2, 16, {6, 5}, 24, {3, 2}, {{1}, {1}, {1}}};
  size_t turn = 0;
  for (const char* name : kForms)
    for (const Layouts& layouts : kLayouts) {
      const Types& types = kTypes[turn++ % std::size(kTypes)];
      check_exact(turned(c, layouts, types), types.to, name);
    }
}

// Addresses depend neither on the form nor on the type; compilers take longer than all else here.
TEST_CASE("conv fragment: odd cases are exact", "[conv]") {
  size_t turn = 0;
  std::vector<ConvCase> cases = odd_convs();
  cases.push_back({"one_phase", 1, 7, {9, 1}, 14, {2, 4}, {{1, 4}, {3, 0}, {0, 3}}});
  for (const ConvCase& c : cases) {
    // Refused: depthwise ones, and what needs 64 bits.
    if (c.params.groups > 1 && c.params.groups == c.c && c.c == c.k) continue;
    if (c.name == "pad_beyond_32_bits") continue;
    check_exact(turned(c, kLayouts[turn++ % 2], {DType::bf16, DType::f32}), DType::f32, kForms[6], 3);
  }
}

TEST_CASE("conv fragment: loads of 16 bytes", "[conv]") {
  // Channels, pixels, filters, taps side by side; each alone is what some operand takes.
  const ConvCase cases[] = {
      {"strided", 2, 16, {7, 6}, 8, {3, 3}, {{2}, {1}, {1}}},
      {"pointwise", 2, 8, {4, 6}, 16, {1, 1}, {{1}, {0}, {0}}},
      {"pointwise_strided", 2, 8, {4, 8}, 16, {1, 1}, {{2}, {0}, {0}}},
      {"grouped", 2, 32, {6, 4}, 16, {3, 2}, {{1, 2}, {1, 0}, {1, 2}, {2, 1}, 2}},
      {"volume", 1, 8, {3, 4, 2}, 8, {2, 3, 2}, {{1, 2, 1}, {1, 1, 0}, {0, 1, 1}}},
      {"few_channels", 2, 3, {9, 8}, 8, {3, 3}, {{2}, {1}, {1}}},
  };
  size_t turn = 0;
  for (const ConvCase& c : cases)
    for (const Layouts& layouts : {kLayouts[0], kLayouts[1]}) {
      const Types& types = kTypes[turn % std::size(kTypes)];
      check_exact(turned(c, layouts, types), types.to, kForms[turn++ % std::size(kForms)]);
    }
}

TEST_CASE("conv fragment: several tiles, sub-groups of several fragments, parts of the sum", "[conv]") {
  const ConvCase flat{"flat", 3, 20, {15, 14}, 70, {3, 3}, {{1}, {1}, {1}}},
      last{"last", 5, 40, {11, 12}, 72, {2, 2}, {{2}, {1}, {1}}};
  const char* const sizes[] = {",tm=64,tn=32,sm=32,sn=16", ",tm=32,tn=64,sm=16,sn=32"};
  size_t turn = 0;
  for (const char* name : kForms) {
    const ConvCase& c = turn % 2 == 0 ? flat : last;
    const std::string form = name, plain = form.substr(0, form.find(",tm"));
    check_exact(turned(c, kLayouts[turn % 2], {DType::bf16, DType::f32}), DType::f32,
                plain + sizes[turn / 2 % 2]);
    turn++;
  }
}

TEST_CASE("conv fragment: what is refused, and why", "[conv][small]") {
  const auto asked = [](const std::string& name, DType dtype = DType::f32, int64_t groups = 1) {
    ConvParams params;
    params.groups = groups;
    const TensorDesc x({1, 4, 5, 5}, dtype), w({4, 4 / groups, 1, 1}, dtype);
    return error_of<ValidationError>([&] { Conv(context(), {x, w, x, params}, engine(name)); });
  };
  const MatrixEngine matrix = context().device().probes().matrix;
  for (const char* name : {"amd_wmma", "amd_mfma", "intel_dpas"}) {
    if (std::string(name_of(matrix)) == name) continue;
    CHECK_THAT(asked(name), contains(std::string("needs the matrix engine ") + name + ", the device has " +
                                     name_of(matrix)));
  }
  if (matrix != MatrixEngine::nv_mma && matrix != MatrixEngine::nv_wgmma)
    CHECK_THAT(asked("nv_mma"), contains("needs the matrix engine nv_mma, the device has "));
  if (has_doubles()) CHECK_THAT(asked("amd_mfma:emulate=1", DType::f64), contains("has no form for f64"));
  CHECK_THAT(asked("amd_wmma:emulate=1", DType::f32, 4), contains("1 channel and 1 filter in each of 4"));
  CHECK_THAT(asked("amd_wmma:emulate=1,form=8"), contains("engine: amd_wmma has no form 8"));
  CHECK_THAT(asked("intel_dpas:emulate=1,sm=12"), contains("in parts of 12x8 do not divide"));
}
