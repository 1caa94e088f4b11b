// The operands of the cases. Their numbers come from a kernel of its own, so that what is measured has no
// part in what it is given.
#include <dlprim/copy.hpp>

#include <cstdlib>

#include "cases/conv.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {

using test::context;
using test::stream;

namespace {

// The finalizer of MurmurHash3 over the element's place. Without contraction, so that the reference gets the
// same bits from a product and a sum.
const char* const kSource = R"(
#pragma OPENCL FP_CONTRACT OFF
uint hash(uint place, uint seed) {
  uint h = place * 0x9e3779b9u + seed;
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}
__kernel void uniform_numbers(__global float* y, long y_offset, long count, uint seed, float low, float range) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const float scaled = (float)(hash((uint)i, seed) >> 8) * 0x1p-24f * range;
  y[y_offset + i] = scaled + low;
}
__kernel void whole_numbers(__global long* y, long y_offset, long count, uint seed, uint end) {
  const long i = get_global_id(0);
  if (i < count) y[y_offset + i] = hash((uint)i, seed) % end;
}
)";

/// FNV-1a.
uint32_t seed_of(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

template <class... Values>
void fill_by(const char* kernel, const Tensor& y, Values... values) {
  constexpr size_t kGroup = 64;
  if (y.numel() == 0) return;
  const auto count = static_cast<size_t>(y.numel());
  detail::Launch launch(stream(), context().state().programs.generated("operands", kSource, kernel));
  launch.arg(y).arg(static_cast<cl_long>(count));
  (launch.arg(values), ...);
  launch.run({(count + kGroup - 1) / kGroup * kGroup}, {kGroup});
}

}  // namespace

Tensor random_tensor(const std::string& name, const Shape& shape, DType dtype, double low, double high) {
  const Tensor values(context(), shape);
  fill_by("uniform_numbers", values, static_cast<cl_uint>(seed_of(name)), static_cast<float>(low),
          static_cast<float>(high - low));
  return dtype == DType::f32 ? values : cast(stream(), values, dtype);
}

Tensor random_whole(const std::string& name, const Shape& shape, int64_t end) {
  const Tensor values(context(), shape, DType::i64);
  fill_by("whole_numbers", values, static_cast<cl_uint>(seed_of(name)), static_cast<cl_uint>(end));
  return values;
}

Form::Form(detail::ProblemLine& line)
    : dtype(line.dtype("dtype", DType::f32)),
      layout(line.word("layout", {"nchw", "nhwc", "strided"})),
      low(std::strtod(line.text("low", "-1").c_str(), nullptr)),
      high(std::strtod(line.text("high", "1").c_str(), nullptr)) {
  for (int64_t size : line.sizes("size", {})) shape.push_back(size);
}

Tensor Form::laid_out(const Tensor& values, DType of_dtype) const {
  Shape size = values.shape();
  if (layout != "strided") {
    const Tensor x = result(size, of_dtype);
    copy(stream(), values, x);
    return x;
  }
  const int last = size.size() - 1;
  size[last] *= 2;
  const Tensor wide(context(), size, of_dtype);
  fill(stream(), 0, wide);
  const Tensor x = wide.slice(last, 0, size[last], 2);
  copy(stream(), values, x);
  return x;
}

Tensor Form::input(const std::string& name, const Shape& of_shape, DType of_dtype) const {
  return laid_out(random_tensor(name, of_shape, DType::f32, low, high), of_dtype);
}

Tensor Form::mask() const {
  const Tensor places = random_whole("mask", shape, 2);
  return laid_out(places, DType::boolean);
}

Tensor Form::result(const Shape& of_shape, DType of_dtype) const {
  if (layout != "nhwc") return Tensor(context(), of_shape, of_dtype);
  return Tensor(context(), {element_count(of_shape)}, of_dtype)
      .as_strided(of_shape, test::strides_in(test::Layout::nhwc, of_shape));
}

}  // namespace dlprim::bench
