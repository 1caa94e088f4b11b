// Tensors made by a pattern of places: evenly spaced numbers, ones on a diagonal, triangles.
#include <ATen/Functions.h>
#include <ATen/TensorMeta.h>
#include <cmath>
#include <dlprim/patterns.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

dlprim::Scalar number(const at::Scalar& value, at::ScalarType type) {
  if (at::isIntegralType(type, true)) return value.toLong();
  return value.toDouble();
}

void spaced(const at::Scalar& start, const at::Scalar& end, const at::Tensor& out) {
  const dlprim::Tensor y = view(out);
  run_plan<dlprim::Linspace>(
      home_of(out), Key::of(y), [&] { return dlprim::Linspace(home_of(out).context, {y}); },
      [&](const dlprim::Linspace& plan, const dlprim::Stream& stream) {
        plan.run(stream, number(start, out.scalar_type()), number(end, out.scalar_type()), y);
      });
}

at::Tensor& linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "linspace: the number of steps is ", steps);
  if (out.numel() != steps) at::native::resize_output(out, {steps});
  if (steps == 0) return out;
  if (steps == 1) return out.fill_(start);
  if (out.dim() == 1) {
    spaced(start, end, out);
  } else {
    const at::Tensor row = at::empty({steps}, out.options());
    spaced(start, end, row);
    out.copy_(row.view(out.sizes()));
  }
  return out;
}

/// Powers of a whole base are whole where the exponents are and none is negative, whatever last bits a device
/// leaves off: a cast to integers would cut them.
at::Tensor whole_powers(double base, const at::Tensor& exponents) {
  const at::Tensor powers = at::pow(base, exponents);
  if (base != std::trunc(base)) return powers;
  return at::where(at::eq(exponents, at::trunc(at::abs(exponents))), at::round(powers), powers);
}

/// Powers of the base, in the widest dtype that the device computes with. Of integers start and end are
/// whole.
at::Tensor& logspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                     at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "logspace: the number of steps is ", steps);
  if (out.numel() != steps) at::native::resize_output(out, {steps});
  if (steps == 0) return out;
  at::Tensor exponents =
      at::empty({steps}, out.options().dtype(home_of(out).fp64 ? at::kDouble : at::kFloat));
  const bool integers = at::isIntegralType(out.scalar_type(), true);
  const auto exponent = [&](const at::Scalar& given) {
    return integers ? at::Scalar(std::trunc(given.toDouble())) : given;
  };
  linspace(exponent(start), exponent(end), steps, exponents);
  return out.copy_((integers ? whole_powers(base, exponents) : at::pow(base, exponents)).view(out.sizes()));
}

at::Tensor& eye_m(c10::SymInt rows, c10::SymInt columns, at::Tensor& out) {
  const int64_t n = rows.guard_int(__FILE__, __LINE__), m = columns.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(n >= 0 && m >= 0, "eye: ", n, " rows and ", m, " columns");
  at::native::resize_output(out, {n, m});
  if (out.numel() == 0) return out;
  const dlprim::Tensor y = view(out);
  run_plan<dlprim::Eye>(
      home_of(out), Key::of(y), [&] { return dlprim::Eye(home_of(out).context, {y}); },
      [&](const dlprim::Eye& plan, const dlprim::Stream& stream) { plan.run(stream, y); });
  return out;
}

at::Tensor& eye_n(c10::SymInt n, at::Tensor& out) {
  return eye_m(n, n, out);
}

void triangle(const at::Tensor& self, int64_t k, bool upper, const at::Tensor& out) {
  if (out.numel() == 0) return;
  const dlprim::Tensor x = view(self), y = view(out);
  run_plan<dlprim::Triangle>(
      home_of(self), Key::of(x, y, k, upper),
      [&] {
        return dlprim::Triangle(home_of(self).context, {x, y, k, upper});
      },
      [&](const dlprim::Triangle& plan, const dlprim::Stream& stream) { plan.run(stream, x, y); });
}

struct Tril : at::meta::structured_tril {
  void impl(const at::Tensor& self, int64_t k, const at::Tensor& out) { triangle(self, k, false, out); }
};
struct Triu : at::meta::structured_triu {
  void impl(const at::Tensor& self, int64_t k, const at::Tensor& out) { triangle(self, k, true, out); }
};

/// Made on the host, where their number is known, and sent to the device.
template <at::Tensor (*of)(int64_t, int64_t, int64_t, at::TensorOptions)>
at::Tensor triangle_places(int64_t rows, int64_t columns, int64_t offset, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device,
                           std::optional<bool>) {
  const auto options = at::TensorOptions().dtype(dtype.value_or(at::kLong)).layout(layout);
  return of(rows, columns, offset, options.device(at::kCPU))
      .to(device.value_or(at::Device(kOcl)), /*non_blocking=*/true);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(linspace_out, linspace)
  OCL_FUNCTION(logspace_out, logspace)
  OCL_FUNCTION(eye_out, eye_n)
  OCL_FUNCTION(eye_m_out, eye_m)
  OCL_CLASS(tril_out, Tril)
  OCL_CLASS(triu_out, Triu)
  OCL_FUNCTION(tril_indices, triangle_places<at::tril_indices>)
  OCL_FUNCTION(triu_indices, triangle_places<at::triu_indices>)
}

}  // namespace

}  // namespace ocl
