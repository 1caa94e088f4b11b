// Elementwise operators of complex numbers: a row of statements over real and imaginary parts becomes one of
// dlprim's generated kernels.
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/Resize.h>
#include <dlprim/pointwise.hpp>

#include "complex.hpp"
#include "memory.hpp"
#include "plans.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

/// Real and imaginary parts of an iterator's operand; of a real one the second is not defined.
struct Parts {
  dlprim::Tensor real, imaginary;
};

Parts parts_of(const at::TensorIteratorBase& iter, int index) {
  const at::OperandInfo& op = iter.operand(index);
  if (!c10::isComplexType(op.current_dtype)) return {operand(iter, index), {}};
  const Block& block = place_of(op.tensor_base().storage()).block;
  const dlprim::DType dtype = require_dtype(c10::toRealValueType(op.current_dtype));
  const auto word = static_cast<int64_t>(dlprim::size_of(dtype));
  check_rank(iter.ndim());
  dlprim::Dims shape, strides;
  for (int i = iter.ndim() - 1; i >= 0; i--) {
    shape.push_back(iter.shape()[static_cast<size_t>(i)]);
    strides.push_back(op.stride_bytes[static_cast<size_t>(i)] / word);
  }
  const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(op.data) - block.address) / word;
  const dlprim::Tensor memory = block.memory.reinterpret(dtype);
  return {memory.as_strided(shape, strides, offset), memory.as_strided(shape, strides, offset + 1)};
}

constexpr const char* kInputs[3][3] = {{"x"}, {"a", "b"}, {"x", "a", "b"}};
constexpr const char* kScalars[] = {"p", "q"};

std::string declaration(const std::string& name, const std::string& real, const std::string& imaginary) {
  return "const real " + name + "r = (real)" + real + ", " + name + "i = (real)" + imaginary + "; ";
}

}  // namespace

void run_complex(const ComplexRow& row, at::TensorIteratorBase& iter, c10::ArrayRef<at::Scalar> scalars) {
  if (iter.numel() == 0) return;
  Device& on = device(iter.device(0).index());
  Key key = Key::of(reinterpret_cast<intptr_t>(&row), scalars.size());
  const uint32_t on_host = key.add_operands(iter);

  std::vector<dlprim::Tensor> inputs, outputs;
  std::vector<dlprim::Scalar> values;
  std::string text;
  const auto declare_scalar = [&](const char* name, c10::complex<double> z) {
    text += declaration(name, "s" + std::to_string(values.size()), "s" + std::to_string(values.size() + 1));
    values.emplace_back(z.real());
    values.emplace_back(z.imag());
  };
  const int count = iter.ntensors() - 1;
  for (int i = 1; i <= count; i++) {
    const char* const name = kInputs[count - 1][i - 1];
    if (on_host >> i & 1) {
      const at::OperandInfo& op = iter.operand(i);
      declare_scalar(name,
                     c10::fetch_and_cast<c10::complex<double>>(op.tensor_base().scalar_type(), op.data));
      continue;
    }
    const Parts parts = parts_of(iter, i);
    const std::string at = "x" + std::to_string(inputs.size());
    inputs.push_back(parts.real);
    if (parts.imaginary.defined()) {
      text += declaration(name, at, "x" + std::to_string(inputs.size()));
      inputs.push_back(parts.imaginary);
    } else {
      text += declaration(name, at, "0");
    }
  }
  for (size_t i = 0; i < scalars.size(); i++) declare_scalar(kScalars[i], scalars[i].toComplexDouble());
  const Parts result = parts_of(iter, 0);
  outputs.push_back(result.real);
  if (result.imaginary.defined()) outputs.push_back(result.imaginary);
  TORCH_INTERNAL_ASSERT(row.real_result != result.imaginary.defined());

  run_plan<dlprim::Pointwise>(
      on, key,
      [&] {
        text += row.real_result ? "real yr; " : "real yr, yi; ";
        text += std::string(row.text) + (row.real_result ? "; y0 = yr" : "; y0 = yr; y1 = yi");
        return dlprim::Pointwise(on.context, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()},
                                 static_cast<int>(values.size()), text);
      },
      [&](const dlprim::Pointwise& plan, const dlprim::Stream& stream) {
        plan.run(stream, inputs, outputs, values);
      });
}

namespace {

/// An iterator over an output, which is resized, and inputs, of which numbers may be on the CPU.
at::TensorIterator iterate(const at::Tensor& out,
                           std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs,
                           bool real_result) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true).allow_cpu_scalars(true).check_all_same_dtype(false);
  config.promote_inputs_to_common_dtype(true).cast_common_dtype_to_outputs(!real_result);
  config.enforce_safe_casting_to_output(!real_result);
  config.add_owned_output(out);
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  return config.build();
}

at::Tensor number(const at::Scalar& value) {
  at::Tensor t = at::scalar_tensor(
      value, at::device(at::kCPU).dtype(value.isComplex() ? at::kComplexDouble : at::kDouble));
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

template <const ComplexRow& row>
at::Tensor& unary(const at::Tensor& self, at::Tensor& out) {
  at::TensorIterator iter = iterate(out, {self}, row.real_result);
  run_complex(row, iter);
  return out;
}
template <const ComplexRow& row>
at::Tensor& binary(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  at::TensorIterator iter = iterate(out, {a, b}, row.real_result);
  run_complex(row, iter);
  return out;
}
template <const ComplexRow& row>
at::Tensor& with_number(const at::Tensor& self, const at::Scalar& other, at::Tensor& out) {
  return binary<row>(self, number(other), out);
}
template <const ComplexRow& row>
at::Tensor& number_with(const at::Scalar& self, const at::Tensor& other, at::Tensor& out) {
  return binary<row>(number(self), other, out);
}
template <const ComplexRow& row>
at::Tensor& scaled(const at::Tensor& a, const at::Tensor& b, const at::Scalar& factor, at::Tensor& out) {
  at::TensorIterator iter = iterate(out, {a, b}, false);
  run_complex(row, iter, {factor});
  return out;
}
template <const ComplexRow& row>
at::Tensor& ternary(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, const at::Scalar& factor,
                    at::Tensor& out) {
  at::TensorIterator iter = iterate(out, {x, a, b}, false);
  run_complex(row, iter, {factor});
  return out;
}

// Where a factor is real, nothing is multiplied by its imaginary part: 0 times infinity is not a number.
#define TIMES(yr, yi, ar, ai, br, bi) \
  yr " = " ar " * " br " - " ai " * " bi "; " yi " = " ar " * " bi " + " ai " * " br
// Smith's division (1962), which NumPy has too.
#define DIVIDED(ar, ai, br, bi)                                                                         \
  "if (fabs(" br ") >= fabs(" bi ")) { const real k = " br " == 0 && " bi " == 0 ? 0 : " bi " / " br    \
  ", d = " br " + " bi " * k; yr = (" ar " + " ai " * k) / d; yi = (" ai " - " ar                       \
  " * k) / d; } else { const real k = " br " / " bi ", d = " br " * k + " bi "; yr = (" ar " * k + " ai \
  ") / d; yi = (" ai " * k - " ar ") / d; }"

constexpr ComplexRow kAdd{
    "yr = ar + pr * br - (pi == 0 ? 0 : pi * bi); yi = ai + pr * bi + (pi == 0 ? 0 : pi * br)"},
    kSub{"yr = ar - pr * br + (pi == 0 ? 0 : pi * bi); yi = ai - pr * bi - (pi == 0 ? 0 : pi * br)"},
    kMul{TIMES("yr", "yi", "ar", "ai", "br", "bi")}, kDiv{DIVIDED("ar", "ai", "br", "bi")},
    kNeg{"yr = -xr; yi = -xi"}, kConj{"yr = xr; yi = -xi"},
    kReciprocal{"const real one = 1, none = 0; " DIVIDED("one", "none", "xr", "xi")},
    kAbs{"yr = hypot(xr, xi)", true}, kAngle{"yr = atan2(xi, xr)", true},
    kSgn{"const real size = hypot(xr, xi); yr = size == 0 ? 0 : xr / size; yi = size == 0 ? 0 : xi / size"},
    kExp{
        "const real size = exp(xr); yr = xi == 0 ? size : size * cos(xi); yi = xi == 0 ? xi : size * "
        "sin(xi)"},
    kExpm1{
        "const real size = exp(xr), s = sin(xi / 2); yr = expm1(xr) * cos(xi) - 2 * s * s; yi = size * "
        "sin(xi)"},
    kLog{"yr = log(hypot(xr, xi)); yi = atan2(xi, xr)"},
    kLog2{"yr = log2(hypot(xr, xi)); yi = atan2(xi, xr) * (real)1.44269504088896341"},
    kLog10{"yr = log10(hypot(xr, xi)); yi = atan2(xi, xr) * (real)0.434294481903251828"},
    // The root of the part that does not cancel; the other is xi divided by twice it.
    kSqrt{
        "const real size = sqrt((fabs(xr) + hypot(xr, xi)) / 2), rest = size == 0 ? 0 : fabs(xi) / (2 * "
        "size); "
        "yr = xr >= 0 ? size : rest; yi = copysign(xr >= 0 ? rest : size, xi)"},
    kRsqrt{
        "const real size = sqrt((fabs(xr) + hypot(xr, xi)) / 2), rest = size == 0 ? 0 : fabs(xi) / (2 * "
        "size), "
        "ur = xr >= 0 ? size : rest, ui = copysign(xr >= 0 ? rest : size, xi), one = 1, none = 0; " DIVIDED(
            "one", "none", "ur", "ui")},
    kSin{"yr = sin(xr) * cosh(xi); yi = cos(xr) * sinh(xi)"},
    kCos{"yr = cos(xr) * cosh(xi); yi = -sin(xr) * sinh(xi)"},
    kSinh{"yr = sinh(xr) * cos(xi); yi = cosh(xr) * sin(xi)"},
    kCosh{"yr = cosh(xr) * cos(xi); yi = sinh(xr) * sin(xi)"},
    // Kahan's: beyond 20 tanh is 1 in double.
    kTanh{
        "if (fabs(xr) > 20) { yr = copysign((real)1, xr); yi = 4 * exp(-2 * fabs(xr)) * sin(xi) * cos(xi); } "
        "else { "
        "const real s = sinh(xr), c = cosh(xr), t = sin(xi), u = cos(xi), d = s * s + u * u; yr = s * c / d; "
        "yi = t * u / d; }"},
    kTan{
        "if (fabs(xi) > 20) { yi = copysign((real)1, xi); yr = 4 * exp(-2 * fabs(xi)) * sin(xr) * cos(xr); } "
        "else { "
        "const real s = sinh(xi), c = cosh(xi), t = sin(xr), u = cos(xr), d = s * s + u * u; yi = s * c / d; "
        "yr = t * u / d; }"},
    kSigmoid{
        "const real size = exp(-fabs(xr)), w = xr >= 0 ? 1 : size, v = xr >= 0 ? size : 1, "
        "ur = w * (xr >= 0 ? 1 : cos(xi)), ui = xr >= 0 ? 0 : w * sin(xi), "
        "dr = xr >= 0 ? 1 + v * cos(xi) : 1 + size * cos(xi), di = xr >= 0 ? -v * sin(xi) : size * "
        "sin(xi); " DIVIDED("ur", "ui", "dr", "di")},
    kPow{"if (bi == 0 && br == 2) { " TIMES(
        "yr", "yi", "ar", "ai", "ar",
        "ai") "; } else if (bi == 0 && br == 1) { yr = ar; "
              "yi = ai; } else if (br == 0 && bi == 0) { yr = 1; yi = 0; } else if (ar == 0 && ai == 0) { yr "
              "= yi = br > 0 ? 0 : NAN; } "
              "else { const real l = log(hypot(ar, ai)), w = atan2(ai, ar), size = exp(br * l - bi * w), "
              "turn = br * w + bi * l; "
              "yr = size * cos(turn); yi = size * sin(turn); }"},
    kEqual{"yr = ar == br && ai == bi", true}, kUnequal{"yr = ar != br || ai != bi", true},
    kIsNan{"yr = xr != xr || xi != xi", true},
    kAddcmul{TIMES("const real ur", "const real ui", "ar", "ai", "br",
                   "bi") "; yr = xr + pr * ur - pi * ui; yi = xi + pr * ui + pi * ur"},
    kAddcdiv{DIVIDED(
        "ar", "ai", "br",
        "bi") " const real ur = yr, ui = yi; yr = xr + pr * ur - pi * ui; yi = xi + pr * ui + pi * ur"},
    kLerp{"const real ur = br - ar, ui = bi - ai; yr = ar + pr * ur - pi * ui; yi = ai + pr * ui + pi * ur"},
    // a is dy, b the result: dy times what the derivative's conjugate is.
    kTanhBackward{"const real ur = 1 - br * br + bi * bi, ui = 2 * br * bi; " TIMES("yr", "yi", "ar", "ai",
                                                                                    "ur", "ui")},
    kSigmoidBackward{"const real ur = br - br * br + bi * bi, ui = 2 * br * bi - bi; " TIMES(
        "yr", "yi", "ar", "ai", "ur", "ui")},
    kPolar{"yr = ar * cos(br); yi = ar * sin(br)"}, kComplex{"yr = ar; yi = br"};

#undef TIMES
#undef DIVIDED

at::Tensor angle(const at::Tensor& self) {
  at::Tensor out = at::empty({0}, self.options().dtype(c10::toRealValueType(self.scalar_type())));
  return unary<kAngle>(self, out);
}
at::Tensor is_nan(const at::Tensor& self) {
  at::Tensor out = at::empty({0}, self.options().dtype(at::kBool));
  return unary<kIsNan>(self, out);
}

at::Tensor rsub_tensor(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return at::sub(other, self, alpha);
}
at::Tensor rsub_scalar(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::sub(number(other), self, alpha);
}

/// Two real tensors of one dtype, which may broadcast, to complex ones.
template <const ComplexRow& row>
at::Tensor& assembled(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  TORCH_CHECK(a.is_floating_point() && a.scalar_type() == b.scalar_type() &&
                  out.scalar_type() == c10::toComplexType(a.scalar_type()),
              "Expected object of scalar type ", a.scalar_type(), " but got scalar type ", b.scalar_type(),
              " for second argument, and ", out.scalar_type(), " for the result");
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_owned_output(out)
                                .add_owned_const_input(a)
                                .add_owned_const_input(b)
                                .check_all_same_dtype(false)
                                .build();
  run_complex(row, iter);
  return out;
}

bool equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  return at::equal(at::view_as_real(a.resolve_conj()), at::view_as_real(b.resolve_conj()));
}

at::Tensor& normal(at::Tensor& self, double mean, double deviation, std::optional<at::Generator> generator) {
  at::view_as_real(self).normal_(0, deviation / std::sqrt(2.0), std::move(generator));
  if (mean != 0) self.add_(mean);
  return self;
}

}  // namespace

void add_complex_elementwise(ComplexKernels& to) {
  OCL_COMPLEX(add_out, scaled<kAdd>)
  OCL_COMPLEX(sub_out, scaled<kSub>)
  OCL_COMPLEX(rsub_Tensor, rsub_tensor)
  OCL_COMPLEX(rsub_Scalar, rsub_scalar)
  OCL_COMPLEX(mul_out, binary<kMul>)
  OCL_COMPLEX(div_out, binary<kDiv>)
  OCL_COMPLEX(neg_out, unary<kNeg>)
  OCL_COMPLEX(conj_physical_out, unary<kConj>)
  OCL_COMPLEX(reciprocal_out, unary<kReciprocal>)
  OCL_COMPLEX(abs_out, unary<kAbs>)
  OCL_COMPLEX(angle_out, unary<kAngle>)
  OCL_COMPLEX(angle, angle)
  OCL_COMPLEX(sgn_out, unary<kSgn>)
  OCL_COMPLEX(exp_out, unary<kExp>)
  OCL_COMPLEX(expm1_out, unary<kExpm1>)
  OCL_COMPLEX(log_out, unary<kLog>)
  OCL_COMPLEX(log2_out, unary<kLog2>)
  OCL_COMPLEX(log10_out, unary<kLog10>)
  OCL_COMPLEX(sqrt_out, unary<kSqrt>)
  OCL_COMPLEX(rsqrt_out, unary<kRsqrt>)
  OCL_COMPLEX(sin_out, unary<kSin>)
  OCL_COMPLEX(cos_out, unary<kCos>)
  OCL_COMPLEX(tan_out, unary<kTan>)
  OCL_COMPLEX(sinh_out, unary<kSinh>)
  OCL_COMPLEX(cosh_out, unary<kCosh>)
  OCL_COMPLEX(tanh_out, unary<kTanh>)
  OCL_COMPLEX(sigmoid_out, unary<kSigmoid>)
  OCL_COMPLEX(tanh_backward_grad_input, binary<kTanhBackward>)
  OCL_COMPLEX(sigmoid_backward_grad_input, binary<kSigmoidBackward>)
  OCL_COMPLEX(pow_Tensor_Tensor_out, binary<kPow>)
  OCL_COMPLEX(pow_Tensor_Scalar_out, with_number<kPow>)
  OCL_COMPLEX(pow_Scalar_out, number_with<kPow>)
  OCL_COMPLEX(eq_Tensor_out, binary<kEqual>)
  OCL_COMPLEX(eq_Scalar_out, with_number<kEqual>)
  OCL_COMPLEX(ne_Tensor_out, binary<kUnequal>)
  OCL_COMPLEX(ne_Scalar_out, with_number<kUnequal>)
  OCL_COMPLEX(isnan, is_nan)
  OCL_COMPLEX(equal, equal)
  OCL_COMPLEX(addcmul_out, ternary<kAddcmul>)
  OCL_COMPLEX(addcdiv_out, ternary<kAddcdiv>)
  OCL_COMPLEX(lerp_Scalar_out, scaled<kLerp>)
  OCL_COMPLEX(polar_out, assembled<kPolar>)
  OCL_COMPLEX(complex_out, assembled<kComplex>)
  OCL_COMPLEX(normal_, normal)
}

}  // namespace ocl
