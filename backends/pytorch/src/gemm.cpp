// Products of matrices and vectors, through dlprim's Gemm. Transposed operands are views of it; others are
// copied.
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>

#include "functional.hpp"
#include "math.hpp"
#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// Whether Gemm reads it as it lies: one of its last two dimensions without gaps, no element twice.
bool is_readable(const at::Tensor& t) {
  const int64_t m = t.size(-2), n = t.size(-1), row = t.stride(-2), column = t.stride(-1);
  return ((column == 1 || n == 1) && (row >= n || m == 1)) ||
         ((row == 1 || m == 1) && (column >= m || n == 1));
}

at::Tensor readable(const at::Tensor& t) {
  return is_readable(t) ? t : t.contiguous();
}

/// The same of integers, exact in 64 bits, which wrap around: Gemm has none. Each element is a sum by the
/// generator, at the speed of memory; a bias does not come with it.
void multiply_integers(const at::Tensor& a, const at::Tensor& b, int64_t alpha, int64_t beta,
                       const at::Tensor& c) {
  TORCH_CHECK(a.scalar_type() != at::kBool, "truths are not multiplied as matrices");
  if (beta != 0) {
    const at::Tensor product = at::empty(c.sizes(), c.options());
    multiply_integers(a, b, alpha, 0, product);
    c.mul_(beta).add_(product);
    return;
  }
  static const char here = 0;
  const dlprim::Tensor x = view(a.unsqueeze(-1)), w = view(b.unsqueeze(-3)), y = view(c.unsqueeze(-2));
  run_plan<dlprim::Reduce>(
      home_of(c), Key::of(reinterpret_cast<intptr_t>(&here), x, w, y),
      [&] {
        return dlprim::Reduce(home_of(c).context, {x, w}, {y}, 1,
                              dlprim::sum_of("(long)x0 * x1", "y0 = a0 * s0"));
      },
      [&](const dlprim::Reduce& plan, const dlprim::Stream& stream) {
        plan.run(stream, {x, w}, {y}, {dlprim::Scalar(alpha)});
      });
}

/// The plans that autograd's formulas for the gradients of a b take, `y` lying as b's product does: the
/// gradient of an operand whose columns lie side by side is computed transposed.
void rehearse_product(const at::Tensor& a, const at::Tensor& b, const dlprim::Tensor& x,
                      const dlprim::Tensor& w, const dlprim::Tensor& y, dlprim::MathMode math) {
  const dlprim::Context& context = home_of(a).context;
  const auto plan = [&](const dlprim::Tensor& left, const dlprim::Tensor& right) {
    dlprim::Shape shape = left.shape();
    shape[left.rank() - 1] = right.shape().back();
    dlprim::Gemm(context, dlprim::GemmDesc{left, right, dlprim::TensorDesc(shape, left.dtype())}, with(math));
  };
  const auto transposed = [](const dlprim::Tensor& t) { return t.transpose(-2, -1); };
  const auto by_columns = [](const at::Tensor& t) {
    return t.dim() == 2 && t.stride(0) == 1 && t.stride(1) == t.size(0);
  };
  if (a.requires_grad()) by_columns(a) ? plan(w, transposed(y)) : plan(y, transposed(w));
  if (b.requires_grad()) by_columns(b) ? plan(transposed(y), x) : plan(transposed(x), y);
}

/// c = alpha a b + beta c + bias, of matrices or batches of them. The bias is a vector for each row of c, or
/// not defined.
void multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias, double alpha, double beta,
              const at::Tensor& c) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type() && a.scalar_type() == c.scalar_type(),
              "matrices to multiply are of one dtype, these are of ", a.scalar_type(), ", ", b.scalar_type(),
              " and ", c.scalar_type());
  if (c.numel() == 0) return;
  if (c.stride(-1) != 1 || (c.size(-2) != 1 && c.stride(-2) < c.size(-1))) {
    const at::Tensor dense = beta != 0 ? c.contiguous() : at::empty(c.sizes(), c.options());
    multiply(a, b, bias, alpha, beta, dense);
    c.copy_(dense);
    return;
  }
  if (a.size(-1) == 0) {  // an empty tensor has no memory
    if (bias.defined())
      c.copy_(bias);
    else if (beta == 0)
      c.zero_();
    else
      c.mul_(beta);
    return;
  }
  if (!c.is_floating_point())
    return multiply_integers(a, b, static_cast<int64_t>(alpha), static_cast<int64_t>(beta), c);
  const at::Tensor left = readable(a), right = readable(b);
  const dlprim::Tensor x = view(left), w = view(right), y = view(c), vector = view(bias);
  const dlprim::MathMode math = math_of(matmul_tf32);
  run_plan<dlprim::Gemm>(
      home_of(c), Key::of(x, w, y, vector, alpha, beta, math),
      [&] {
        rehearse_gradients([&] { rehearse_product(a, b, x, w, y, math); });
        dlprim::GemmDesc desc{x, w, y, alpha, beta};
        if (vector) desc.bias = dlprim::GemmDesc::Vector::row;
        return dlprim::Gemm(home_of(c).context, desc, with(math));
      },
      [&](const dlprim::Gemm& plan, const dlprim::Stream& stream) { plan.run(stream, x, w, vector, y); });
}

/// out = beta self + alpha a b
void add_product(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                 const at::Scalar& alpha, const at::Tensor& out) {
  const double factor = beta.toDouble();
  const bool is_bias = factor == 1 && out.is_floating_point() && self.dim() == 1 &&
                       self.size(0) == out.size(-1) && self.stride(0) == 1 &&
                       self.scalar_type() == out.scalar_type();
  if (!is_bias && factor != 0 && !out.is_same(self)) out.copy_(self);
  multiply(a, b, is_bias ? self : at::Tensor(), alpha.toDouble(), is_bias ? 0 : factor, out);
}

struct Mm : at::meta::structured_mm {
  void impl(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
    multiply(a, b, {}, 1, 0, out);
  }
};

struct Bmm : at::meta::structured_bmm {
  void impl(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
    multiply(a, b, {}, 1, 0, out);
  }
};

struct Addmm : at::meta::structured_addmm {
  void impl(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
            const at::Scalar& alpha, const at::Tensor& out) {
    add_product(self, a, b, beta, alpha, out);
  }
};

struct AddmmActivation : at::meta::structured__addmm_activation {
  void impl(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
            const at::Scalar& alpha, bool use_gelu, const at::Tensor& out) {
    add_product(self, a, b, beta, alpha, out);
    at::Tensor result = out;
    if (use_gelu)
      at::gelu_(result);
    else
      at::relu_(result);
  }
};

struct Baddbmm : at::meta::structured_baddbmm {
  void impl(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
            const at::Scalar& alpha, const at::Tensor& out) {
    add_product(self, a, b, beta, alpha, out);
  }
};

struct Addmv : at::meta::structured_addmv {
  void impl(const at::Tensor& self, const at::Tensor& a, const at::Tensor& v, const at::Scalar& beta,
            const at::Scalar& alpha, const at::Tensor& out) {
    add_product(self.dim() ? self.unsqueeze(-1) : self, a, v.unsqueeze(-1), beta, alpha, out.unsqueeze(-1));
  }
};

at::Tensor dot(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1 && a.numel() == b.numel(),
              "dot takes two vectors of one length, these are ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot takes vectors of one dtype, these are of ",
              a.scalar_type(), " and ", b.scalar_type());
  const at::Tensor result = at::empty({}, a.options());
  const dlprim::Tensor x = view(a), y = view(b), sum = view(result).as_strided({1}, {1});
  run_plan<dlprim::Reduce>(
      home_of(a), Key::of(x, y, sum),
      [&] {
        return dlprim::Reduce(home_of(a).context, {x, y}, {sum}, 0, dlprim::sum_of("x0 * x1"));
      },
      [&](const dlprim::Reduce& plan, const dlprim::Stream& stream) {
        plan.run(stream, {x, y}, {sum}, {});
      });
  return result;
}

/// out = beta self + alpha (the sum of all products of a batch): one product of matrices side by side.
at::Tensor& addbmm_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                       const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1),
              "addbmm: batches of matrices to multiply are [B, N, K] and [B, K, M], these are ", a.sizes(),
              " and ", b.sizes());
  return at::addmm_out(out, self, a.transpose(0, 1).reshape({a.size(1), a.size(0) * a.size(2)}),
                       b.reshape({b.size(0) * b.size(1), b.size(2)}), beta, alpha);
}
at::Tensor addbmm(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  at::Tensor out = at::empty({0}, self.options());
  return addbmm_out(self, a, b, beta, alpha, out);
}
at::Tensor& addbmm_(at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                    const at::Scalar& alpha) {
  return addbmm_out(self, a, b, beta, alpha, self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTIONAL(mm, Mm)
  OCL_FUNCTIONAL(bmm, Bmm)
  OCL_FUNCTIONAL(addmm, Addmm)
  OCL_FUNCTIONAL(baddbmm, Baddbmm)
  OCL_FUNCTIONAL(addmv, Addmv)
  OCL_CLASS(mm_out, Mm)
  OCL_CLASS(bmm_out, Bmm)
  OCL_CLASS(addmm_out, Addmm)
  OCL_CLASS(_addmm_activation_out, AddmmActivation)
  OCL_CLASS(baddbmm_out, Baddbmm)
  OCL_CLASS(addmv_out, Addmv)
  OCL_FUNCTION(addbmm, addbmm)
  OCL_FUNCTION(addbmm_, addbmm_)
  OCL_FUNCTION(addbmm_out, addbmm_out)
  OCL_FUNCTION(dot, dot)
  OCL_FUNCTION(vdot, dot)
}

}  // namespace

}  // namespace ocl
