// GEMM: validation, the list of engines, the call. The engines are in gemm_<engine>.cpp.
#include <dlprim/gemm.hpp>

#include <climits>
#include <cmath>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "core/plan_record.hpp"
#include "ops/gemm/gemm_batches.hpp"
#include "ops/gemm/gemm_impl.hpp"
#include "ops/pointwise/activation_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<GemmDesc> = 12;
}  // namespace dlprim::detail

namespace dlprim {
namespace detail {

extern const GemmEngine kGemmGemv, kGemmNvWgmma, kGemmNvMma, kGemmSplitK, kGemmNvFragment, kGemmAmdMfma,
    kGemmAmdWmma, kGemmIntelDpas, kGemmCpu, kGemmFmaShuffle, kGemmFmaDirect, kGemmFma, kGemmNaive;

namespace {

constexpr EngineList<GemmProblem, Gemm::Impl> kEngines = {
    &kGemmGemv,      &kGemmNvWgmma, &kGemmNvMma,     &kGemmSplitK, &kGemmNvFragment,
    &kGemmAmdMfma,   &kGemmAmdWmma, &kGemmIntelDpas, &kGemmCpu,    &kGemmFmaShuffle,
    &kGemmFmaDirect, &kGemmFma,     &kGemmNaive};

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
  for (const auto& [name, form] : {std::pair("bias", desc.bias), std::pair("scale", desc.scale)})
    require(form <= GemmDesc::Vector::column, name, static_cast<int>(form), " is no GemmDesc::Vector");
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
  p.scale = desc.scale;
  p.activation = desc.activation;
  p.residual = desc.residual;
  p.preactivation = desc.preactivation;
  p.constant_a = desc.constant_a;
  p.constant_b = desc.constant_b;
  return p;
}

std::string text_of(const GemmProblem& p) {
  static constexpr const char* kVectors[] = {"none", "row", "column"};
  std::string text = cat("m=", p.m, " n=", p.n, " k=", p.k);
  if (p.batch != 1) text += cat(" batch=", p.batch, " a_batch=", p.a.batch, " b_batch=", p.b.batch);
  text += cat(" dtype=", name_of(p.dtype), " c_dtype=", name_of(p.c_dtype));
  text += cat(" a=", p.a.unit_k ? "mk" : "km", " b=", p.b.unit_k ? "nk" : "kn", " lda=", p.a.pitch,
              " ldb=", p.b.pitch, " ldc=", p.ldc, " alpha=", p.alpha, " beta=", p.beta,
              " bias=", kVectors[static_cast<int>(p.bias)], " activation=", name_of(p.activation));
  if (p.scale != GemmDesc::Vector::none) text += cat(" scale=", kVectors[static_cast<int>(p.scale)]);
  if (p.residual) text += " residual=1";
  if (p.preactivation) text += " preactivation=1";
  if (p.constant_a) text += " constant_a=1";
  if (p.constant_b) text += " constant_b=1";
  return text;
}

/// All that a plan depends on.
std::string description_of(const GemmProblem& p) {
  const auto flags = [](const GemmOperand& x) { return cat(x.aligned ? 1 : 0, x.vectors ? 1 : 0); };
  return cat(text_of(p), " a_lies=", flags(p.a), " b_lies=", flags(p.b), " c_vector=", p.c_vector,
             " c_batch=", p.c_batch);
}

/// True if the description has the tensor; throws ValidationError unless it was given then, and only then.
bool require_given(const Named& x, bool has, const Stream& stream) {
  require(has || !x.tensor.defined(), x.name, x.tensor.describe(), " given, but the description has none");
  require(!has || x.tensor.defined(), x.name, "is not defined");
  if (has) require_context(x.name, x.tensor, stream.context());
  return has;
}

void require_vector(const GemmDesc& desc, GemmDesc::Vector form, const Named& x, const Stream& stream) {
  if (!require_given(x, form != GemmDesc::Vector::none, stream)) return;
  const bool row = form == GemmDesc::Vector::row;
  const int64_t size = desc.c.shape[desc.c.shape.size() - (row ? 1 : 2)];
  const Tensor& v = x.tensor;
  require_dtype(x.name, v, desc.c.dtype);
  require(v.shape() == Shape{size} || (!row && v.shape() == Shape{size, 1}), x.name, "shape ",
          to_string(v.shape()), " must be ", to_string({size}));
  require(v.is_contiguous(), x.name, "strides ", to_string(v.strides()), " are not contiguous");
}

/// Tensors of the epilogue that lie as C does.
void require_like_c(const GemmDesc& desc, bool has, const Named& x, const Stream& stream) {
  if (require_given(x, has, stream)) require_tensor(x.name, x.tensor, stream.context(), desc.c);
}

void require_epilogue(const GemmDesc& desc, const EpilogueTensors& with, const Stream& stream) {
  require_vector(desc, desc.bias, {"bias", with.bias}, stream);
  require_vector(desc, desc.scale, {"scale", with.scale}, stream);
  require_like_c(desc, desc.residual, {"residual", with.residual}, stream);
  require_like_c(desc, desc.preactivation, {"preactivation", with.preactivation}, stream);
}

/// row or column as the shape says; none if it is not defined.
GemmDesc::Vector vector_of(const Named& x) {
  if (!x.tensor.defined()) return GemmDesc::Vector::none;
  const bool column = x.tensor.rank() == 2;
  require(x.tensor.rank() == 1 || (column && x.tensor.size(1) == 1), x.name, "shape ",
          to_string(x.tensor.shape()), " is neither [N] nor [M, 1]");
  return column ? GemmDesc::Vector::column : GemmDesc::Vector::row;
}

}  // namespace

namespace {

/// The problem whose row of the tables serves. On CPUs a row's tiles decide how a constant operand is packed:
/// it is the same row whatever the other operand's size is, so that the packed panels are shared. A problem
/// that was measured for itself keeps its own.
GemmProblem tuned_as(const Context& context, const GemmProblem& p, const Options& options) {
  constexpr int kUsual = 128;
  GemmProblem result = p;
  if (context.device().kind() != DeviceKind::cpu || options.tune != TuneMode::table) return result;
  if (p.constant_b && !p.constant_a && p.m > 1) result.m = kUsual;
  if (p.constant_a && !p.constant_b && p.n > 1) result.n = kUsual;
  return result;
}

}  // namespace

GemmProblem gemm_problem(const GemmDesc& desc) {
  return problem_of(gemm_batches(desc).product);
}

TuneCandidates gemm_candidates(const Context& context, const GemmProblem& p, const Options& options) {
  // The plain one is the fastest for 256^3 on an H200.
  return candidates_of("gemm", kEngines, context, p, options, 2.0 * p.batch * p.m * p.n * p.k, true);
}

double predicted_gemm_time(const Context& context, const GemmProblem& p, const Options& asked) {
  double least = 0;
  const EngineOptions options(asked);
  for (const GemmEngine* engine : kEngines) {
    if (!options.request.automatic() && !options.request.names(engine->name)) continue;
    const EngineVerdict verdict = engine->judge("gemm", context, p, options);
    if (!verdict.refusal.empty() || !verdict.avoidance.empty()) continue;
    const double time = verdict.prediction;
    if (time > 0 && (least == 0 || time < least)) least = time;
  }
  return least;
}

Defines& define_real(Defines& defines, const GemmProblem& p) {
  defines.set("AB_TYPE", name_of(p.dtype)).set("C_TYPE", name_of(p.c_dtype));
  if (p.dtype == DType::f64) defines.set("REAL", "double").set("DOUBLE_REAL", true);
  if (p.dtype == DType::i8) defines.set("REAL", "int").set("INTEGER_REAL", true);
  return defines;
}

Defines gemm_defines(const GemmProblem& p) {
  Defines defines;
  define_real(defines, p).set("BIAS", static_cast<int>(p.bias)).set("SCALE", static_cast<int>(p.scale));
  defines.set("RESIDUAL", p.residual).set("PREACTIVATION", p.preactivation);
  return defines.set("ACTIVATION", name_of(p.activation));
}

std::string avoid_long_and_few(const GemmProblem& p, int64_t groups, int compute_units) {
  constexpr int kLong = 1024;
  if (p.k < kLong || groups * 4 >= compute_units) return {};
  return cat("has ", groups, " groups of work for ", compute_units, " compute units and takes K of ", p.k,
             " in one part");
}

}  // namespace detail

Gemm::Gemm(const Context& context, const GemmDesc& desc, const Options& asked)
    : Plan(nullptr),
      desc_(desc),
      batches_(std::make_shared<const detail::GemmBatches>(detail::gemm_batches(desc))) {
  const detail::GemmProblem p = detail::problem_of(batches_->product);
  detail::require_real(context, p.dtype);
  const std::string description = detail::description_of(p);
  const Options options = detail::recorded_options(asked, context, "gemm", description);
  auto info = std::make_shared<detail::PlanInfo>();
  const TuneProblem tuned = detail::gemm_tune_problem(detail::tuned_as(context, p, options), options);
  if (options.tune != TuneMode::table && options.engine == "auto" && !Rehearsal::active())
    detail::measure_gemm_on_first_use(context, batches_->product, p, options);
  impl_ = detail::choose_engine("gemm", detail::kEngines, context, p, options, *info, &tuned);
  const double m = p.m, n = p.n, k = p.k, batch = p.batch, count = static_cast<double>(batches_->count());
  info->text = detail::cat("op=gemm engine=", info->request, " ", detail::text_of(p));
  if (!batches_->outer.empty()) info->text += detail::cat(" batches=", batches_->count());
  info->flops = 2 * count * batch * m * n * k;
  info->bytes = count * static_cast<double>(size_of(p.dtype)) * k *
                    (m * (p.a.batch ? batch : 1) + n * (p.b.batch ? batch : 1)) +
                count * static_cast<double>(size_of(p.c_dtype)) * batch * m * n *
                    (1 + (p.beta != 0) + p.residual + p.preactivation);
  detail::record_plan(*info, asked, options, context, "gemm", description);
  info_ = std::move(info);
}

void Gemm::run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
               const Tensor& c, const Tensor& workspace) const {
  detail::require_stream(*info_, stream);
  detail::require_tensor("a", a, stream.context(), desc_.a);
  detail::require_tensor("b", b, stream.context(), desc_.b);
  detail::require_tensor("c", c, stream.context(), desc_.c);
  detail::require_epilogue(desc_, with, stream);
  detail::require_apart(
      {{"c", c}, {"preactivation", with.preactivation}, {"workspace", workspace}},
      {{"a", a}, {"b", b}, {"bias", with.bias}, {"scale", with.scale}, {"residual", with.residual}});
  if (c.numel() == 0) return;
  const Tensor ws = detail::workspace_for(*info_, stream, workspace);
  detail::OperatorScope scope(stream, *info_);
  if (desc_.a.shape.size() <= 3) return impl_->run(stream, a, b, with, c, ws);
  for (int64_t i = 0; i < batches_->count(); i++) {
    const auto [a_at, b_at, c_at] = batches_->offsets(i);
    const GemmDesc& product = batches_->product;
    const auto like_c = [&, at = c_at](const Tensor& x) {
      return x.defined() ? x.as_strided(product.c.shape, product.c.strides, at) : x;
    };
    EpilogueTensors own = with;
    own.residual = like_c(with.residual);
    own.preactivation = like_c(with.preactivation);
    impl_->run(stream, a.as_strided(product.a.shape, product.a.strides, a_at),
               b.as_strided(product.b.shape, product.b.strides, b_at), own, like_c(c), ws);
  }
}

void Gemm::forget_constants() const {
  impl_->forget_constants();
}

void gemm(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
          const GemmParams& params, const Tensor& c, const Options& options, const Tensor& workspace) {
  detail::require_defined({{"a", a}, {"b", b}, {"c", c}});
  const GemmDesc desc{a,
                      b,
                      c,
                      params.alpha,
                      params.beta,
                      detail::vector_of({"bias", with.bias}),
                      params.activation,
                      detail::vector_of({"scale", with.scale}),
                      with.residual.defined(),
                      with.preactivation.defined()};
  detail::cached_plan<Gemm>(stream, "gemm", desc, options, workspace)->run(stream, a, b, with, c, workspace);
}

}  // namespace dlprim
