#include "ops/tune/tune_operands.hpp"

#include <algorithm>
#include <limits>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>

#include "core/gen/arguments.hpp"

namespace dlprim::detail {

Tensor tune_memory(const Stream& stream, const TensorDesc& desc, Tensor* whole) {
  int64_t extent = 1;
  for (int i = 0; i < desc.shape.size(); i++) extent += (desc.shape[i] - 1) * desc.strides[i];
  const int64_t shift = desc.aligned ? 0 : 1;
  const Tensor memory(stream, {extent + shift}, desc.dtype);
  if (whole) *whole = memory;
  return memory.as_strided(desc.shape, desc.strides, shift);
}

Tensor tune_integers(const Stream& stream, const TensorDesc& desc, uint64_t seed) {
  Tensor whole;
  const Tensor x = tune_memory(stream, desc, &whole), reals(stream, whole.shape());
  random_uniform(stream, -2.5, 2.5, {seed, 0}, reals);
  pointwise(stream, {reals}, {whole}, {}, "y0 = rint(x0)");
  return x;
}

void tune_poison(const Stream& stream, const Tensor& result) {
  fill(stream, is_floating(result.dtype()) ? std::numeric_limits<double>::quiet_NaN() : -1234567, result);
}

int64_t tune_count(const Stream& stream, const Tensor& x, const Tensor& right, const char* expression) {
  const Tensor count(stream, Dims::filled(x.rank(), 1));
  reduce(stream, {x, right}, {count}, {}, sum_of(expression));
  return static_cast<int64_t>(read<float>(stream, count)[0]);
}

Tensor tune_workspace(const Stream& stream, const Tensor& given, size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (size == 0 || (given.defined() && given.bytes() >= size)) return given;
  return {stream, {size}, DType::u8};
}

Options tune_options(const Options& options) {
  Options result;
  result.math = options.math;
  return result;
}

bool tune_fits(const Device& device, double flops, double bytes) {
  const double units = std::max(1, device.facts().compute_units);
  const double per_unit = device.kind() == DeviceKind::cpu ? 1.5e9 : 1e10;
  return flops <= per_unit * units && bytes <= static_cast<double>(device.facts().global_memory) / 8;
}

}  // namespace dlprim::detail
