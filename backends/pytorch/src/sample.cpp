// Samples whose distributions have tensors as parameters: Poisson, gamma, Dirichlet.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <dlprim/random_sample.hpp>

#include "compute.hpp"
#include "hooks.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using OptionalGenerator = std::optional<at::Generator>;

at::Tensor samples(dlprim::SampleKind kind, const at::Tensor& parameters,
                   const OptionalGenerator& generator) {
  const at::Tensor result = at::empty_like(parameters, at::MemoryFormat::Contiguous);
  if (result.numel() == 0) return result;
  Device& on = home_of(parameters);
  const dlprim::Tensor x = view(parameters), y = view(result);
  const dlprim::RandomState state =
      at::get_generator_or_default<Generator>(generator, default_generator(on.index))->take(result.numel());
  run_plan<dlprim::RandomSample>(
      on, Key::of(kind, x, y),
      [&] {
        return dlprim::RandomSample(on.context, {x, y, kind});
      },
      [&](const dlprim::RandomSample& plan, const dlprim::Stream& stream) { plan.run(stream, x, state, y); });
  return result;
}

at::Tensor poisson(const at::Tensor& means, OptionalGenerator generator) {
  return samples(dlprim::SampleKind::poisson, means, generator);
}
at::Tensor gamma(const at::Tensor& shapes, OptionalGenerator generator) {
  return samples(dlprim::SampleKind::gamma, shapes, generator);
}
at::Tensor dirichlet(const at::Tensor& shapes, OptionalGenerator generator) {
  const at::Tensor parts = gamma(shapes.to(at::promote_types(shapes.scalar_type(), at::kFloat)), generator);
  return (parts / parts.sum(-1, /*keepdim=*/true)).to(shapes.scalar_type());
}

/// How a sample moves with its shape, where its place in the distribution stays: the regularised gamma
/// function by its series; by a saddle point for large shapes; else by a quotient of polynomials that was
/// fitted to it (Figurnov, Mohamed and Mnih, 2018, and Pyro's authors).
constexpr char kGammaGradient[] =
    "const real a = x0, x = x1, psi = x2; real g; "
    "if (x < (real)0.8) { "
    "  real n = 1, d = a, s1 = 1 / d, s2 = 1 / (d * d); "
    "  for (int i = 1; i <= 5; i++) { n *= -x / i; d += 1; s1 += n / d; s2 += n / (d * d); } "
    "  const real power = pow(x, a), density = pow(x, a - 1) * exp(-x); "
    "  g = -((log(x) - psi) * power * s1 - power * s2) / density; if (g != g) g = 0; "
    "} else if (a > 8) { "
    "  if ((real)0.9 * a <= x && x <= (real)1.1 * a) { "
    "    g = (1 + 24 * a * (1 + 12 * a)) * (1440 * a * a + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * "
    "(107 + 3600 * x)) "
    "        / (1244160 * a * a * a * a); "
    "  } else { "
    "    const real d = sqrt(8 * a), t2 = d / (a - x), t3 = pow(x - a - a * log(x / a), (real)-1.5); "
    "    const real t = log(x / a) * (x < a ? t2 - t3 : t2 + t3) - sqrt(2 / a) * (a + x) / ((a - x) * (a - "
    "x)); "
    "    g = -(1 + 1 / (12 * a) * (1 + 1 / (24 * a))) * x * t / d; } "
    "} else { "
    "  const real u = log(x / a), v = log(a); "
    "  const real c[24] = {0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, "
    "0.0014179084, "
    "    0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, "
    "-0.00058392623, "
    "    0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, "
    "0.00085092367, -1.5247877e-07}; "
    "  real p = 0, q = 0; "
    "  for (int i = 3; i >= 0; i--) { p = p * v + c[i] + u * (c[8 + i] + u * c[16 + i]); "
    "    q = q * v + c[4 + i] + u * (c[12 + i] + u * c[20 + i]); } "
    "  g = exp(p / q); } "
    "y0 = g";

at::Tensor gamma_grad(const at::Tensor& shapes, const at::Tensor& sampled) {
  const at::Tensor result = at::empty_like(shapes, at::MemoryFormat::Contiguous);
  if (result.numel() == 0) return result;
  const at::Tensor psi = at::digamma(shapes);
  compute(home_of(shapes), kGammaGradient, {view(shapes), view(sampled), view(psi)}, {view(result)});
  return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(poisson, poisson)
  OCL_FLOATING(_standard_gamma, gamma)
  OCL_FLOATING(_standard_gamma_grad, gamma_grad)
  OCL_FLOATING(_sample_dirichlet, dirichlet)
}

}  // namespace

}  // namespace ocl
