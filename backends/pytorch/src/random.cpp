// Random numbers of a device's generator, and dropout. Numbers are dlprim's: the same bits on every device.
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/UnaryOps.h>
#include <dlprim/random.hpp>
#include <dlprim/sampling.hpp>

#include "expression.hpp"
#include "hooks.hpp"
#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using OptionalGenerator = std::optional<at::Generator>;
using dlprim::Distribution;

dlprim::RandomState take(const OptionalGenerator& generator, const Device& on, int64_t numbers) {
  return at::get_generator_or_default<Generator>(generator, default_generator(on.index))->take(numbers);
}

template <class Run>
void draw(Distribution distribution, Device& on, const dlprim::Tensor& y, Run&& run) {
  run_plan<dlprim::Random>(
      on, Key::of(y, distribution),
      [&] {
        return dlprim::Random(on.context, {y, distribution});
      },
      run);
}

void numbers(Distribution distribution, at::TensorIteratorBase& iter, double a, double b,
             const OptionalGenerator& generator) {
  if (iter.numel() == 0) return;
  Device& on = device(iter.device(0).index());
  const dlprim::Tensor y = operand(iter, 0);
  const dlprim::RandomState state = take(generator, on, iter.numel());
  draw(distribution, on, y,
       [&](const dlprim::Random& plan, const dlprim::Stream& stream) { plan.run(stream, a, b, state, y); });
}

void numbers(Distribution distribution, const at::TensorBase& self, double a, double b,
             const OptionalGenerator& generator) {
  at::TensorIterator iter = iterator_over(self);
  numbers(distribution, iter, a, b, generator);
}

void integers(at::TensorIteratorBase& iter, int64_t low, int64_t high, const OptionalGenerator& generator) {
  if (iter.numel() == 0) return;
  Device& on = device(iter.device(0).index());
  const dlprim::Tensor y = operand(iter, 0);
  const dlprim::RandomState state = take(generator, on, iter.numel());
  draw(Distribution::integers, on, y, [&](const dlprim::Random& plan, const dlprim::Stream& stream) {
    plan.run_integers(stream, low, high, state, y);
  });
}

// What the stubs call

void uniform(at::TensorIteratorBase& iter, double low, double high, OptionalGenerator generator) {
  if (low == high)
    iter.tensor(0).fill_(low);
  else
    numbers(Distribution::uniform, iter, low, high, generator);
}
void normal(const at::TensorBase& self, double mean, double deviation, OptionalGenerator generator) {
  numbers(Distribution::normal, self, mean, deviation, generator);
}
void log_normal(at::TensorIteratorBase& iter, double mean, double deviation, OptionalGenerator generator) {
  numbers(Distribution::log_normal, iter, mean, deviation, generator);
}
void exponential(at::TensorIteratorBase& iter, double rate, OptionalGenerator generator) {
  numbers(Distribution::exponential, iter, rate, 0, generator);
}
void cauchy(at::TensorIteratorBase& iter, double median, double scale, OptionalGenerator generator) {
  numbers(Distribution::cauchy, iter, median, scale, generator);
}
void geometric(at::TensorIteratorBase& iter, double p, OptionalGenerator generator) {
  numbers(Distribution::geometric, iter, p, 0, generator);
}
void bernoulli(const at::TensorBase& self, double p, OptionalGenerator generator) {
  numbers(Distribution::bernoulli, self, p, 0, generator);
}

/// A probability for each element.
void bernoulli_each(const at::TensorBase& self, const at::TensorBase& probabilities,
                    OptionalGenerator generator) {
  static constexpr Row row = expression("a < b");
  const at::Tensor draws =
      at::empty(self.sizes(), self.options().dtype(at::kFloat)).uniform_(0, 1, generator);
  const at::Tensor p =
      c10::MaybeOwned<at::Tensor>::owned(at::Tensor(probabilities))->to(self.device(), at::kFloat);
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(self)
                                .add_const_input(draws)
                                .add_const_input(p)
                                .resize_outputs(false)
                                .check_all_same_dtype(false)
                                .promote_inputs_to_common_dtype(true)
                                .build();
  run_pointwise(row, iter, {});
}

/// Numbers from 0 to the largest that the dtype holds exactly, or to 2^63 - 1.
void random(at::TensorIteratorBase& iter, OptionalGenerator generator) {
  switch (iter.dtype(0)) {
    case at::kBool:
      return integers(iter, 0, 2, generator);
    case at::kByte:
      return integers(iter, 0, 256, generator);
    case at::kChar:
      return integers(iter, 0, 128, generator);
    case at::kShort:
      return integers(iter, 0, 1 << 15, generator);
    case at::kInt:
      return integers(iter, 0, int64_t{1} << 31, generator);
    case at::kHalf:
      return integers(iter, 0, (1 << 11) + 1, generator);
    case at::kBFloat16:
      return integers(iter, 0, (1 << 8) + 1, generator);
    case at::kFloat:
      return integers(iter, 0, (1 << 24) + 1, generator);
    case at::kDouble:
      return integers(iter, 0, (int64_t{1} << 53) + 1, generator);
    default:
      return integers(iter, 0, INT64_MAX, generator);
  }
}
void random_range(at::TensorIteratorBase& iter, uint64_t range, int64_t low, OptionalGenerator generator) {
  integers(iter, low, static_cast<int64_t>(static_cast<uint64_t>(low) + range), generator);
}
void random_full(at::TensorIteratorBase& iter, OptionalGenerator generator) {
  integers(iter, INT64_MIN, INT64_MAX, generator);
}

/// Places in the order of random numbers.
at::Tensor& permutation(c10::SymInt size, std::optional<at::Generator> generator, at::Tensor& out) {
  const int64_t n = size.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(n >= 0, "randperm: the size is ", n);
  at::native::resize_output(out, {n});
  if (n == 0) return out;
  const at::Tensor keys = at::empty({n}, out.options().dtype(at::kLong)).random_(0, INT64_MAX, generator);
  return out.copy_(keys.argsort());
}

/// Places drawn with probabilities in proportion to the numbers there. Where none is left, -1.
at::Tensor& multinomial_out(const at::Tensor& self, c10::SymInt number, bool replacement,
                            std::optional<at::Generator> generator, at::Tensor& out) {
  const int64_t samples = number.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(self.dim() == 1 || self.dim() == 2, "multinomial: the probabilities have ", self.dim(),
              " dimensions, not 1 or 2");
  TORCH_CHECK(self.size(-1) > 0 && samples > 0 && (replacement || samples <= self.size(-1)),
              "multinomial: ", samples, " samples of ", self.size(-1),
              replacement ? " places" : " places, each at most once");
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial gives int64, the output is of ",
              out.scalar_type());
  std::vector<int64_t> shape = self.sizes().vec();
  shape.back() = samples;
  at::native::resize_output(out, shape);
  if (out.numel() == 0) return out;
  Device& on = home_of(self);
  const dlprim::Tensor w = view(self), y = view(out);
  const dlprim::RandomState state = take(generator, on, replacement ? out.numel() : self.numel());
  run_plan<dlprim::Multinomial>(
      on, Key::of(w, y, replacement),
      [&] {
        return dlprim::Multinomial(on.context, {w, y, replacement});
      },
      [&](const dlprim::Multinomial& plan, const dlprim::Stream& stream) { plan.run(stream, w, state, y); });
  return out;
}

at::Tensor multinomial(const at::Tensor& self, c10::SymInt samples, bool replacement,
                       std::optional<at::Generator> generator) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kLong));
  return multinomial_out(self, std::move(samples), replacement, std::move(generator), out);
}

// Dropout

/// x where the mask is true, times the factor.
at::Tensor masked(const at::Tensor& x, const at::Tensor& mask, double factor) {
  static constexpr Row row = expression("b != 0 ? a * p : 0").in_output_dtype();
  const at::Tensor y = at::empty_like(x, x.options().dtype(at::result_type(x, at::Scalar(factor))));
  at::TensorIterator iter = iterator_over(y, {x, mask});
  const std::array<at::Scalar, 1> scalars{factor};
  run_pointwise(row, iter, scalars);
  return y;
}

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& x, double p, std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout: the probability is ", p, ", not between 0 and 1");
  const at::Tensor mask = at::empty_like(x, x.options().dtype(at::kBool));
  if (!train.value_or(true)) return {x.clone(), mask.fill_(true)};
  mask.bernoulli_(1 - p);
  return {masked(x, mask, p == 1 ? 0 : 1 / (1 - p)), mask};
}

at::Tensor dropout_backward(const at::Tensor& dy, const at::Tensor& mask, double scale) {
  return masked(dy, mask, scale);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_NATIVE(uniform_, uniform_)
  OCL_NATIVE(normal_, normal_)
  OCL_NATIVE(normal_Tensor_float, normal)
  OCL_NATIVE(normal_float_Tensor, normal)
  OCL_NATIVE(normal_Tensor_Tensor, normal)
  OCL_NATIVE(log_normal_, log_normal_)
  OCL_NATIVE(exponential_, exponential_)
  OCL_NATIVE(cauchy_, cauchy_)
  OCL_NATIVE(geometric_, geometric_)
  OCL_NATIVE(bernoulli__float, bernoulli_)
  OCL_NATIVE(bernoulli__Tensor, bernoulli_)
  OCL_NATIVE(bernoulli_out, bernoulli_out)
  OCL_NATIVE(random_, random_)
  OCL_NATIVE(random__to, random_)
  OCL_NATIVE(random__from, random_)
  OCL_FUNCTION(randperm_generator_out, permutation)
  OCL_FLOATING(multinomial, multinomial)
  OCL_FLOATING(multinomial_out, multinomial_out)
  OCL_FUNCTION(native_dropout, dropout)
  OCL_FUNCTION(native_dropout_backward, dropout_backward)
}

}  // namespace

}  // namespace ocl

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(uniform_stub, &ocl::uniform)
REGISTER_PRIVATEUSE1_DISPATCH(normal_stub, &ocl::normal)
REGISTER_PRIVATEUSE1_DISPATCH(log_normal_stub, &ocl::log_normal)
REGISTER_PRIVATEUSE1_DISPATCH(exponential_stub, &ocl::exponential)
REGISTER_PRIVATEUSE1_DISPATCH(cauchy_stub, &ocl::cauchy)
REGISTER_PRIVATEUSE1_DISPATCH(geometric_stub, &ocl::geometric)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_scalar_stub, &ocl::bernoulli)
REGISTER_PRIVATEUSE1_DISPATCH(bernoulli_tensor_stub, &ocl::bernoulli_each)
REGISTER_PRIVATEUSE1_DISPATCH(random_stub, &ocl::random)
REGISTER_PRIVATEUSE1_DISPATCH(random_from_to_stub, &ocl::random_range)
REGISTER_PRIVATEUSE1_DISPATCH(random_full_64_bits_range_stub, &ocl::random_full)

}  // namespace at::native
