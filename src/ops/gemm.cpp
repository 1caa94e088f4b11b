// GEMM: validation, the list of engines, the call. The engines are in gemm_<engine>.cpp.
#include <dlprim/gemm.hpp>

#include <climits>
#include <cmath>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/activation_impl.hpp"
#include "ops/gemm_impl.hpp"

namespace dlprim {
namespace detail {

extern const GemmEngine kGemmGemv, kGemmNvWgmma, kGemmNvMma, kGemmAmdMfma, kGemmAmdWmma, kGemmIntelDpas,
    kGemmCpu, kGemmFma, kGemmNaive;

namespace {

const std::vector<GemmEngine>& engines() {
  static const std::vector<GemmEngine> list = {kGemmGemv,    kGemmNvWgmma, kGemmNvMma,
                                               kGemmAmdMfma, kGemmAmdWmma, kGemmIntelDpas,
                                               kGemmCpu,     kGemmFma,     kGemmNaive};
  return list;
}

/// Kernels count in int, and step past the end by less than a tile.
int to_size(const char* argument, int64_t size) {
  constexpr int64_t kMost = INT_MAX - 4096;
  require(size <= kMost, argument, "size ", size, " is more than ", kMost);
  return static_cast<int>(size);
}

/// `k_axis` is the axis of the operand's matrices that is summed over.
GemmOperand operand(const char* argument, const TensorDesc& desc, int k_axis) {
  const int first = desc.shape.size() - 2, k_at = first + k_axis, other_at = first + 1 - k_axis;
  const int64_t k = desc.shape[k_at], other = desc.shape[other_at];
  const int64_t k_stride = desc.strides[k_at], other_stride = desc.strides[other_at];
  GemmOperand result;
  if (k_stride == 1 && k > 1) {
    result.unit_k = true;
  } else if (other_stride == 1 && other > 1) {
    result.unit_k = false;
  } else {
    require(k <= 1 || other <= 1, argument, "strides ", to_string(desc.strides), " of shape ",
            to_string(desc.shape), ": one must be 1");
    result.unit_k = k <= 1;
  }
  result.pitch = result.unit_k ? other_stride : k_stride;
  result.batch = first == 0 || desc.shape[0] == 1 ? 0 : desc.strides[0];
  const auto vector = static_cast<int64_t>(16 / size_of(desc.dtype));
  result.aligned = desc.aligned && result.pitch % vector == 0 && result.batch % vector == 0;
  result.vectors = result.aligned && (result.unit_k ? k : other) % vector == 0;
  return result;
}

/// C's dtype goes with that of A and B.
void require_dtypes(const GemmDesc& desc) {
  const DType ab = desc.a.dtype, c = desc.c.dtype;
  const bool known =
      ab == DType::f32 || ab == DType::f16 || ab == DType::bf16 || ab == DType::f64 || ab == DType::i8;
  require(known, "a", "dtype ", name_of(ab), " is none of f32, f16, bf16, f64, i8");
  require_dtype("b", desc.b, ab);
  if (ab == DType::i8)
    require_dtype("c", desc.c, DType::i32);
  else if (c != DType::f32 || size_of(ab) != 2)
    require_dtype("c", desc.c, ab);
}

void require_factors(const GemmDesc& desc) {
  for (const auto& [name, value] : {std::pair("alpha", desc.alpha), std::pair("beta", desc.beta)}) {
    require(std::isfinite(value), name, value, " is not finite");
    require(desc.a.dtype != DType::i8 || value == std::trunc(value), name, value,
            " is not whole, and sums are i32");
  }
}

void require_known_epilogue(const GemmDesc& desc) {
  require(desc.bias <= GemmDesc::Bias::column, "bias", static_cast<int>(desc.bias), " is no GemmDesc::Bias");
  require_activation("activation", desc.activation);
  require(desc.a.dtype != DType::i8 || desc.activation == Activation::identity ||
              desc.activation == Activation::relu || desc.activation == Activation::relu6,
          "activation", name_of(desc.activation), " of integers");
}

/// The largest power of 2 up to 8 that divides N and what lies between C's rows and matrices.
int64_t c_vector(const GemmProblem& p, const TensorDesc& c) {
  int64_t vector = c.aligned ? std::min<int64_t>(8, static_cast<int64_t>(16 / size_of(c.dtype))) : 1;
  while (p.n % vector != 0 || p.ldc % vector != 0 || p.c_batch % vector != 0) vector /= 2;
  return vector;
}

GemmProblem problem_of(const GemmDesc& desc) {
  const int rank = desc.a.shape.size();
  require(rank == 2 || rank == 3, "a", "rank ", rank, " is neither 2 nor 3, shape is ",
          to_string(desc.a.shape));
  require_rank("b", desc.b, rank);
  require_rank("c", desc.c, rank);
  require_dtypes(desc);
  const int64_t m = desc.a.shape[rank - 2], k = desc.a.shape[rank - 1], n = desc.b.shape[rank - 1];
  Shape b_shape{k, n}, c_shape{m, n};
  if (rank == 3) b_shape = {desc.a.shape[0], k, n}, c_shape = {desc.a.shape[0], m, n};
  require_shape("b", desc.b, b_shape);
  require_shape("c", desc.c, c_shape);
  require_writable("c", desc.c);
  require(desc.c.strides[rank - 1] == 1 || n <= 1, "c", "strides ", to_string(desc.c.strides),
          ": rows are not contiguous");
  require_factors(desc);
  require_known_epilogue(desc);

  GemmProblem p;
  p.m = to_size("a", m);
  p.n = to_size("b", n);
  p.k = to_size("a", desc.alpha == 0 ? 0 : k);
  p.batch = rank == 3 ? to_size("a", desc.a.shape[0]) : 1;
  p.dtype = desc.a.dtype;
  p.c_dtype = desc.c.dtype;
  p.a = operand("a", desc.a, 1);
  p.b = operand("b", desc.b, 0);
  p.ldc = desc.c.strides[rank - 2];
  p.c_batch = p.batch == 1 ? 0 : desc.c.strides[0];
  p.c_vector = c_vector(p, desc.c);
  p.alpha = desc.alpha;
  p.beta = desc.beta;
  p.bias = desc.bias;
  p.activation = desc.activation;
  return p;
}

std::string text_of(const GemmProblem& p, const std::string& engine) {
  static constexpr const char* kBias[] = {"none", "row", "column"};
  std::string text = cat("op=gemm engine=", engine, " m=", p.m, " n=", p.n, " k=", p.k);
  if (p.batch != 1) text += cat(" batch=", p.batch, " a_batch=", p.a.batch, " b_batch=", p.b.batch);
  text += cat(" dtype=", name_of(p.dtype), " c_dtype=", name_of(p.c_dtype));
  return text + cat(" a=", p.a.unit_k ? "mk" : "km", " b=", p.b.unit_k ? "nk" : "kn", " lda=", p.a.pitch,
                    " ldb=", p.b.pitch, " ldc=", p.ldc, " alpha=", p.alpha, " beta=", p.beta,
                    " bias=", kBias[static_cast<int>(p.bias)], " activation=", name_of(p.activation));
}

void require_bias(const GemmDesc& desc, const Tensor& bias, const Stream& stream, const Tensor& c) {
  if (desc.bias == GemmDesc::Bias::none) {
    require(!bias.defined(), "bias", bias.describe(), " given, but the description has none");
    return;
  }
  const bool row = desc.bias == GemmDesc::Bias::row;
  const int64_t size = desc.c.shape[desc.c.shape.size() - (row ? 1 : 2)];
  require(bias.defined(), "bias", "is not defined");
  require(bias.context() == stream.context(), "bias", "belongs to another context");
  require_dtype("bias", bias, desc.c.dtype);
  require(bias.shape() == Shape{size} || (!row && bias.shape() == Shape{size, 1}), "bias", "shape ",
          to_string(bias.shape()), " must be ", to_string({size}));
  require(bias.is_contiguous(), "bias", "strides ", to_string(bias.strides()), " are not contiguous");
  require_no_overlap("c", c, "bias", bias);
}

}  // namespace

Defines gemm_defines(const GemmProblem& p) {
  Defines defines;
  defines.set("AB_TYPE", name_of(p.dtype)).set("C_TYPE", name_of(p.c_dtype));
  if (p.dtype == DType::f64) defines.set("REAL", "double");
  if (p.dtype == DType::i8) defines.set("REAL", "int").set("INTEGER_REAL", true);
  return defines.set("BIAS", static_cast<int>(p.bias)).set("ACTIVATION", name_of(p.activation));
}

std::string refuse_but_plain_f32(const GemmProblem& p) {
  if (p.dtype != DType::f32) return cat("is for f32, the operands are ", name_of(p.dtype));
  if (p.batch != 1) return cat("is for single products, there are ", p.batch);
  return {};
}

}  // namespace detail

Gemm::Gemm(const Context& context, const GemmDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const detail::GemmProblem p = detail::problem_of(desc);
  detail::require_real(context, p.dtype);
  auto info = std::make_shared<detail::PlanInfo>();
  impl_ = detail::choose_engine("gemm", detail::engines(), context, p, options, *info);
  const double m = p.m, n = p.n, k = p.k, batch = p.batch;
  info->text = detail::text_of(p, info->engine);
  info->flops = 2 * batch * m * n * k;
  info->bytes = static_cast<double>(size_of(p.dtype)) * k *
                    (m * (p.a.batch ? batch : 1) + n * (p.b.batch ? batch : 1)) +
                static_cast<double>(size_of(p.c_dtype)) * batch * m * n * (p.beta == 0 ? 1 : 2);
  info_ = std::move(info);
}

void Gemm::run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
               const Tensor& workspace) const {
  detail::require_stream(*info_, stream);
  detail::require_tensor("a", a, stream.context(), desc_.a);
  detail::require_tensor("b", b, stream.context(), desc_.b);
  detail::require_tensor("c", c, stream.context(), desc_.c);
  detail::require_bias(desc_, bias, stream, c);
  detail::require_no_overlap("c", c, "a", a);
  detail::require_no_overlap("c", c, "b", b);
  for (const auto& [name, tensor] :
       {std::pair("a", &a), std::pair("b", &b), std::pair("bias", &bias), std::pair("c", &c)})
    detail::require_no_overlap("workspace", workspace, name, *tensor);
  if (c.numel() == 0) return;
  const Tensor ws = detail::workspace_for(*info_, stream, workspace);
  detail::OperatorScope scope(stream, *info_);
  impl_->run(stream, a, b, bias, c, ws);
}

void gemm(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias,
          const GemmParams& params, const Tensor& c, const Options& options) {
  detail::require_defined({{"a", a}, {"b", b}, {"c", c}});
  GemmDesc desc{a, b, c, params.alpha, params.beta, GemmDesc::Bias::none, params.activation};
  if (bias.defined()) {
    const bool column = bias.rank() == 2;
    detail::require(bias.rank() == 1 || (column && bias.size(1) == 1), "bias", "shape ",
                    to_string(bias.shape()), " is neither [N] nor [M, 1]");
    desc.bias = column ? GemmDesc::Bias::column : GemmDesc::Bias::row;
  }
  detail::PlanKey key("gemm");
  key.add(desc.a).add(desc.b).add(desc.c).add(desc.alpha).add(desc.beta).add(desc.bias).add(desc.activation);
  detail::cached_plan<Gemm>(stream, std::move(key), desc, options)->run(stream, a, b, bias, c);
}

}  // namespace dlprim
