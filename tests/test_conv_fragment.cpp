// Convolution on matrix instructions that this device need not have, emulated as in test_gemm_fragment.cpp.
#include <iterator>

#include <dlprim/copy.hpp>

#include "cases/conv.hpp"
#include "catch.hpp"
#include "ops/gemm_fragment.hpp"

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

TEST_CASE("conv fragment: every form in every layout and type", "[conv][small]") {
  const ConvCase c{"wide", 2, 16, {6, 5}, 24, {3, 2}, {{1}, {1}, {1}}};
  size_t turn = 0;
  for (const char* name : kForms)
    for (const Layouts& layouts : kLayouts) {
      const Types& types = kTypes[turn++ % std::size(kTypes)];
      check_exact(turned(c, layouts, types), types.to, name);
    }
}
