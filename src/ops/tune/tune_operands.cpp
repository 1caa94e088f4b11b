#include "ops/tune/tune_operands.hpp"

#include <algorithm>
#include <limits>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>

#include "core/gen/arguments.hpp"
#include "core/state.hpp"

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

PlanSubject::PlanSubject(const Context& context, const Options& options)
    : mode_(options.tune), stream_(context) {
  options_.math = options.math;
  stream_.state().logs = false;  // hundreds of runs are no operators of the user's
}

void PlanSubject::poison() {
  const double nothing = is_floating(result().dtype()) ? std::numeric_limits<double>::quiet_NaN() : -1234567;
  fill(stream_, nothing, result());
}

void PlanSubject::keep_result() {
  copy(stream_, result(), right_);
}

int64_t PlanSubject::count(const char* expression) const {
  const Tensor sum(stream_, Dims::filled(right_.rank(), 1));
  reduce(stream_, {result(), right_}, {sum}, {}, sum_of(expression));
  return static_cast<int64_t>(read<float>(stream_, sum)[0]);
}

TuneCandidates PlanSubject::tried() const {
  Options options = options_;
  options.tune = mode_;
  return found(options);
}

void PlanSubject::make_all_operands() {
  make_operands();
  right_ = Tensor(stream_, result().shape(), result().dtype());
}

void PlanSubject::provide_workspace(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (size > 0 && (!workspace_.defined() || workspace_.bytes() < size))
    workspace_ = Tensor(stream_, {size}, DType::u8);
}

bool tune_fits(const Device& device, double flops, double bytes) {
  const double units = std::max(1, device.facts().compute_units);
  const double per_unit = device.kind() == DeviceKind::cpu ? 1.5e9 : 1e10;
  return flops <= per_unit * units && bytes <= static_cast<double>(device.facts().global_memory) / 8;
}

}  // namespace dlprim::detail
