// GEMM: validation, the list of engines, the call. The engines are in gemm_<engine>.cpp.
#include <dlprim/gemm.hpp>

#include <climits>
#include <cmath>

#include "core/state.hpp"
#include "ops/gemm_impl.hpp"

namespace dlprim {
namespace detail {

extern const GemmEngine kGemmCpu, kGemmTile, kGemmNaive;

namespace {

const std::vector<GemmEngine>& engines() {
  static const std::vector<GemmEngine> list = {kGemmCpu, kGemmTile, kGemmNaive};
  return list;
}

/// Kernels count in int, and step past the end by less than a tile.
int to_size(const char* argument, int64_t size) {
  constexpr int64_t kMost = INT_MAX - 4096;
  require(size <= kMost, argument, "size ", size, " is more than ", kMost);
  return static_cast<int>(size);
}

/// `k_axis` is the axis of the operand's shape that is summed over.
GemmOperand operand(const char* argument, const TensorDesc& desc, int k_axis) {
  const int64_t k = desc.shape[k_axis], other = desc.shape[1 - k_axis];
  const int64_t k_stride = desc.strides[k_axis], other_stride = desc.strides[1 - k_axis];
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
  result.vectors = desc.aligned && result.pitch % 4 == 0 && (result.unit_k ? k : other) % 4 == 0;
  return result;
}

GemmProblem problem_of(const GemmDesc& desc) {
  for (const auto& [name, d] : {std::pair("a", &desc.a), std::pair("b", &desc.b), std::pair("c", &desc.c)}) {
    require_rank(name, *d, 2);
    require_dtype(name, *d, DType::f32);
  }
  const int64_t m = desc.a.shape[0], k = desc.a.shape[1], n = desc.b.shape[1];
  require_shape("b", desc.b, {k, n});
  require_shape("c", desc.c, {m, n});
  require_writable("c", desc.c);
  require(desc.c.strides[1] == 1 || n <= 1, "c", "strides ", to_string(desc.c.strides),
          ": rows are not contiguous");
  require(std::isfinite(desc.alpha), "alpha", desc.alpha, " is not finite");
  require(std::isfinite(desc.beta), "beta", desc.beta, " is not finite");

  GemmProblem p;
  p.m = to_size("a", m);
  p.n = to_size("b", n);
  p.k = to_size("a", desc.alpha == 0 ? 0 : k);
  p.a = operand("a", desc.a, 1);
  p.b = operand("b", desc.b, 0);
  p.ldc = desc.c.strides[0];
  p.c_vectors = desc.c.aligned && p.ldc % 4 == 0 && n % 4 == 0;
  p.alpha = desc.alpha;
  p.beta = desc.beta;
  p.bias = desc.bias;
  p.activation = desc.activation;
  return p;
}

std::string text_of(const GemmProblem& p, const std::string& engine) {
  static constexpr const char* kBias[] = {"none", "row", "column"};
  return cat("op=gemm engine=", engine, " m=", p.m, " n=", p.n, " k=", p.k, " a=", p.a.unit_k ? "mk" : "km",
             " b=", p.b.unit_k ? "nk" : "kn", " lda=", p.a.pitch, " ldb=", p.b.pitch, " ldc=", p.ldc,
             " alpha=", p.alpha, " beta=", p.beta, " bias=", kBias[static_cast<int>(p.bias)],
             " activation=", name_of(p.activation));
}

void require_bias(const GemmDesc& desc, const Tensor& bias, const Stream& stream, const Tensor& c) {
  if (desc.bias == GemmDesc::Bias::none) {
    require(!bias.defined(), "bias", bias.describe(), " given, but the description has none");
    return;
  }
  const bool row = desc.bias == GemmDesc::Bias::row;
  const int64_t size = desc.c.shape[row ? 1 : 0];
  require(bias.defined(), "bias", "is not defined");
  require(bias.context() == stream.context(), "bias", "belongs to another context");
  require_dtype("bias", bias, DType::f32);
  require(bias.shape() == Shape{size} || (!row && bias.shape() == Shape{size, 1}), "bias", "shape ",
          to_string(bias.shape()), " must be ", to_string({size}));
  require(bias.is_contiguous(), "bias", "strides ", to_string(bias.strides()), " are not contiguous");
  require_no_overlap("c", c, "bias", bias);
}

}  // namespace

Defines gemm_epilogue(GemmDesc::Bias bias, Activation activation) {
  return Defines().set("BIAS", static_cast<int>(bias)).set("ACTIVATION", name_of(activation));
}

}  // namespace detail

Gemm::Gemm(const Context& context, const GemmDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const detail::GemmProblem p = detail::problem_of(desc);
  auto info = std::make_shared<detail::PlanInfo>();
  impl_ = detail::choose_engine("gemm", detail::engines(), context, p, options, *info);
  const double m = p.m, n = p.n, k = p.k;
  info->text = detail::text_of(p, info->engine);
  info->flops = 2 * m * n * k;
  info->bytes = 4 * (m * k + k * n + m * n * (p.beta == 0 ? 1 : 2));
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
  detail::require_no_overlap("c", c, "workspace", workspace);
  if (c.numel() == 0) return;
  const Tensor ws = detail::workspace_for(*info_, stream, workspace);
  detail::OperatorScope scope(stream, info_->text, info_->flops, info_->bytes);
  impl_->run(stream, a, b, bias, c, ws);
}

void gemm(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& bias,
          const GemmParams& params, const Tensor& c, const Options& options) {
  detail::require(a.defined(), "a", "is not defined");
  detail::require(b.defined(), "b", "is not defined");
  detail::require(c.defined(), "c", "is not defined");
  GemmDesc desc{a, b, c, params.alpha, params.beta, GemmDesc::Bias::none, params.activation};
  if (bias.defined()) {
    const bool column = bias.rank() == 2;
    detail::require(bias.rank() == 1 || (column && bias.size(1) == 1), "bias", "shape ",
                    to_string(bias.shape()), " is neither [N] nor [M, 1]");
    desc.bias = column ? GemmDesc::Bias::column : GemmDesc::Bias::row;
  }
  detail::PlanKey key("gemm");
  key.add(desc.a).add(desc.b).add(desc.c).add(desc.alpha).add(desc.beta).add(desc.bias).add(desc.activation);
  key.add(options.engine).add(options.workspace_limit).add(options.deterministic).add(options.math);
  stream.context()
      .state()
      .plans.get<Gemm>(key, [&] { return Gemm(stream.context(), desc, options); })
      ->run(stream, a, b, bias, c);
}

}  // namespace dlprim
