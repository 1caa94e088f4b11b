#include "ops/conv/conv_runner.hpp"

#include "core/engine.hpp"
#include "core/gen/arguments.hpp"
#include "core/plan_record.hpp"
#include "ops/conv/conv_tune.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvNvPatch, kConvNvWgmma, kConvNvMma, kConvNvFragment, kConvAmdMfma, kConvAmdWmma,
    kConvIntelDpas, kConvWinograd, kConvWinogradFused, kConvCpuLast, kConvCpu, kConvDepthwise,
    kConvDepthwiseCpu, kConvDepthwiseCpuLast, kConvGemm, kConvFma, kConvNaive;

namespace {

constexpr EngineList<ConvProblem, ConvImpl> kEngines = {&kConvDepthwiseCpuLast,
                                                        &kConvDepthwiseCpu,
                                                        &kConvDepthwise,
                                                        &kConvNvPatch,
                                                        &kConvNvWgmma,
                                                        &kConvNvMma,
                                                        &kConvAmdMfma,
                                                        &kConvAmdWmma,
                                                        &kConvIntelDpas,
                                                        &kConvNvFragment,
                                                        &kConvWinograd,
                                                        &kConvWinogradFused,
                                                        &kConvGemm,
                                                        &kConvCpuLast,
                                                        &kConvCpu,
                                                        &kConvFma,
                                                        &kConvNaive};

TensorDesc channels(int64_t count, DType dtype) {
  return {{count}, {1}, dtype, false};
}

/// [C] as it broadcasts to [N, C, ...].
TensorDesc across(const TensorDesc& x, DType dtype) {
  const int rank = x.shape.size();
  TensorDesc result{Dims::filled(rank, 1), Dims::filled(rank, 1), dtype, false};
  result.shape[1] = x.shape[1];
  return result;
}

Tensor view(const Tensor& x, const TensorDesc& desc) {
  return x.as_strided(desc.shape, desc.strides);
}

/// Strides without gaps, in the order of x's.
Strides packed_strides(const TensorDesc& x) {
  Strides result = contiguous_strides(x.shape);
  Dims order;
  for (int axis = 0; axis < x.shape.size(); axis++) order.push_back(axis);
  for (int i = 0; i < order.size(); i++)
    for (int j = i + 1; j < order.size(); j++)
      if (x.strides[order[j]] > x.strides[order[i]]) std::swap(order[i], order[j]);
  int64_t step = 1;
  for (int i = order.size() - 1; i >= 0; i--) {
    result[order[i]] = step;
    step *= x.shape[order[i]];
  }
  return result;
}

/// What is asked beside the problem that engines solve.
std::string text_beside(const ConvDesc& desc, Write write) {
  std::string text;
  if (desc.params.transposed) text += " transposed=1";
  if (desc.statistics) text += " statistics=1";
  if (desc.prologue) text += cat(" prologue=", name_of(desc.prologue_activation));
  if (write == Write::add) text += " write=add";
  return text;
}

/// All that a plan depends on.
std::string description_of(const ConvProblem& p, const ConvDesc& desc, Write write) {
  return conv_text(p) + cat(" aligned=", p.x_aligned ? 1 : 0, p.w_aligned ? 1 : 0, p.y_aligned ? 1 : 0) +
         text_beside(desc, write);
}

}  // namespace

TuneCandidates conv_candidates(const Context& context, const ConvProblem& p, const Options& options) {
  constexpr const char* kNames[] = {"conv", "conv_backward_data", "conv_backward_filter"};
  const char* op = kNames[static_cast<size_t>(p.direction)];
  return candidates_of(op, kEngines, context, p, options, conv_flops(p), false);
}

ConvRunner::ConvRunner(const char* op, ConvDirection direction, const Context& context, const ConvDesc& desc,
                       const Options& asked, Write write)
    : direction_(direction), desc_(desc), x_(desc.x), w_(desc.w) {
  ConvProblem problem = conv_problem(direction, desc);  // refusals in the caller's terms come first
  require_write("write", write);
  const std::string description = description_of(problem, desc, write);
  const Options options = recorded_options(asked, context, op, description);
  if (desc.prologue) plan_prologue(context, options);
  if (desc.statistics) plan_statistics(context, options);
  if (write == Write::add) plan_addition(context, options);
  ConvDesc inner = desc;
  inner.x = x_, inner.w = w_;
  problem = conv_problem(direction, inner);
  require_real(context, problem.dtype);
  Options rest = options;
  rest.workspace_limit = parts_.rest(options).workspace_limit;
  if (options.tune != TuneMode::table && options.engine == "auto" && !Rehearsal::active())
    measure_conv_on_first_use(context, direction, inner, rest);
  const TuneProblem tuned = conv_tune_problem(problem, options);
  auto info = std::make_shared<PlanInfo>();
  impl_ = choose_engine(op, kEngines, context, problem, rest, *info, &tuned);
  impl_at_ = parts_.add(impl_->workspace_size());
  info->workspace = parts_.size();
  info->text = cat("op=", op, " engine=", info->request, " ", conv_text(problem), text_beside(desc, write));
  info->flops = conv_flops(problem);
  info->bytes = traffic({desc.x, desc.w, desc.y});
  record_plan(*info, asked, options, context, op, description);
  info_ = std::move(info);
}

void ConvRunner::plan_prologue(const Context& context, const Options& options) {
  const TensorDesc c = across(desc_.x, DType::f32);
  x_.strides = packed_strides(desc_.x);
  x_.aligned = true;
  x_at_ = parts_.add(static_cast<size_t>(element_count(x_.shape)) * size_of(x_.dtype));
  const std::string refusal = workspace_refusal(parts_.size(), options);
  require(refusal.empty(), "workspace_limit", "the prologue ", refusal);
  const char* name = name_of(desc_.prologue_activation);
  const std::string value = "x0 * x1 + x2";
  prologue_.emplace(context, std::vector<TensorDesc>{desc_.x, c, c}, std::vector<TensorDesc>{x_}, 0,
                    desc_.prologue_activation == Activation::identity ? "y0 = " + value
                                                                      : cat("y0 = ", name, "(", value, ")"));
}

void ConvRunner::plan_statistics(const Context& context, const Options& options) {
  const TensorDesc c = across(desc_.y, DType::f32);
  statistics_.emplace(context, std::vector<TensorDesc>{desc_.y}, std::vector<TensorDesc>{c, c}, 0,
                      welford("x0", "y0 = a1; y1 = a2 / a0"), parts_.rest(options));
  statistics_at_ = parts_.add(statistics_->workspace_size());
}

void ConvRunner::plan_addition(const Context& context, const Options& options) {
  w_.strides = packed_strides(desc_.w);
  w_.aligned = true;
  if (size_of(w_.dtype) == 2) w_.dtype = DType::f32;  // the sum is rounded once
  w_at_ = parts_.add(static_cast<size_t>(element_count(w_.shape)) * size_of(w_.dtype));
  const std::string refusal = workspace_refusal(parts_.size(), options);
  require(refusal.empty(), "workspace_limit", "adding to dw ", refusal);
  addition_.emplace(context, std::vector<TensorDesc>{desc_.w, w_}, std::vector<TensorDesc>{desc_.w}, 0,
                    "y0 = x0 + x1");
}

void ConvRunner::check(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& y,
                       const ConvExtras& with, const Tensor& workspace) const {
  require_stream(*info_, stream);
  const bool data = direction_ == ConvDirection::backward_data,
             filter = direction_ == ConvDirection::backward_filter;
  const Named named_x{data ? "dx" : "x", x}, named_w{filter ? "dw" : "w", w},
      named_y{data || filter ? "dy" : "y", y};
  const Context& context = stream.context();
  require_tensor(named_x.name, x, context, desc_.x);
  require_tensor(named_w.name, w, context, desc_.w);
  require_tensor(named_y.name, y, context, desc_.y);
  const TensorDesc of_k = channels(desc_.y.shape[1], desc_.y.dtype),
                   moments = channels(desc_.y.shape[1], DType::f32),
                   of_c = channels(desc_.x.shape[1], DType::f32);
  struct Extra {
    const char* name;
    const Tensor& tensor;
    bool has;
    const TensorDesc& desc;
  };
  for (const Extra& e :
       {Extra{"bias", with.bias, desc_.bias, of_k}, Extra{"scale", with.scale, desc_.scale, of_k},
        Extra{"residual", with.residual, desc_.residual, desc_.y},
        Extra{"preactivation", with.preactivation, desc_.preactivation, desc_.y},
        Extra{"mean", with.mean, desc_.statistics, moments},
        Extra{"variance", with.variance, desc_.statistics, moments},
        Extra{"input_scale", with.input_scale, desc_.prologue, of_c},
        Extra{"input_shift", with.input_shift, desc_.prologue, of_c}}) {
    require(e.has || !e.tensor.defined(), e.name, "is given, but the plan has none");
    if (e.has) require_tensor(e.name, e.tensor, context, e.desc);
  }
  const Named &written = data     ? named_x
                         : filter ? named_w
                                  : named_y,
              &first = data ? named_y : named_x, &second = filter ? named_y : named_w;
  require_apart({written,
                 {"preactivation", with.preactivation},
                 {"mean", with.mean},
                 {"variance", with.variance},
                 {"workspace", workspace}},
                {first,
                 second,
                 {"bias", with.bias},
                 {"scale", with.scale},
                 {"residual", with.residual},
                 {"input_scale", with.input_scale},
                 {"input_shift", with.input_shift}});
}

Tensor ConvRunner::prepared_x(const Stream& stream, const Tensor& x, const ConvExtras& with,
                              const Tensor& workspace) const {
  if (!prologue_) return x;
  const Tensor values = workspace_part(workspace, x_at_, {element_count(x_.shape)}, x_.dtype);
  const Tensor result = view(values, x_);
  const TensorDesc c = across(desc_.x, DType::f32);
  prologue_->run(stream, {x, view(with.input_scale, c), view(with.input_shift, c)}, {result}, {});
  return result;
}

void ConvRunner::run(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& y,
                     const ConvExtras& with, const Tensor& workspace) const {
  check(stream, x, w, y, with, workspace);
  const Tensor& output = direction_ == ConvDirection::forward         ? y
                         : direction_ == ConvDirection::backward_data ? x
                                                                      : w;
  if (output.numel() == 0 && !statistics_) return;
  const Tensor ws = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  const Tensor own = workspace_part(ws, impl_at_, {static_cast<int64_t>(impl_->workspace_size())}, DType::u8);
  const Tensor own_w =
      addition_ ? view(workspace_part(ws, w_at_, {element_count(w_.shape)}, w_.dtype), w_) : w;
  const Tensor deep_x = with_depth(x.numel() ? prepared_x(stream, x, with, ws) : x),
               deep_w = with_depth(own_w), deep_y = with_depth(y);
  EpilogueTensors epilogue = with;
  epilogue.residual = with_depth(with.residual);
  epilogue.preactivation = with_depth(with.preactivation);
  const bool swap = desc_.params.transposed;
  if (output.numel() != 0)
    impl_->run(stream, {swap ? deep_y : deep_x, deep_w, swap ? deep_x : deep_y, epilogue}, own);
  if (addition_) addition_->run(stream, {w, own_w}, {w}, {});
  if (!statistics_) return;
  const TensorDesc c = across(desc_.y, DType::f32);
  statistics_->run(stream, {y}, {view(with.mean, c), view(with.variance, c)}, {},
                   workspace_scratch(ws, statistics_at_, *statistics_));
}

}  // namespace dlprim::detail
