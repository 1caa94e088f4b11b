// The winograd engine: tiles of the operands are transformed, a batch of matrix products, one for each point,
// goes to GEMM's own choice of engine, and tiles of the results are transformed back. Where that pays is what
// conv_winograd_choice.cpp knows.
#include <algorithm>
#include <map>
#include <optional>

#include <dlprim/gemm.hpp>

#include "ops/conv/conv_winograd_weights.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvWinograd;

namespace {

class WinogradBase : public ConvImpl {
 public:
  size_t workspace_size() const override { return workspace_.size() + gemm_bytes_; }
  std::string parameters() const override { return cat("m=", choice_.m); }

 protected:
  WinogradBase(const ConvProblem& p, const WinogradChoice& choice) : p_(p), choice_(choice) {}

  int tile_rows() const { return p_.n * choice_.tiles[0]; }
  void add_gemm(int rows, float beta, const Context& context, const Options& options) {
    if (gemms_.count({rows, beta}) > 0) return;
    GemmDesc desc = winograd_product(p_, choice_, rows);
    desc.beta = beta;
    const Gemm gemm(context, desc, winograd_gemm_options(workspace_.rest(options), choice_));
    gemm_bytes_ = std::max(gemm_bytes_, gemm.workspace_size());
    gemms_.emplace(std::make_pair(rows, beta), gemm);
  }
  void multiply(const Stream& stream, int rows, float beta, const Tensor& a, const Tensor& b, const Tensor& c,
                const Tensor& workspace) const {
    const Gemm& gemm = gemms_.at({rows, beta});
    gemm.run(stream, a, b, {}, c,
             workspace_part(workspace, workspace_.size(), {static_cast<int64_t>(gemm.workspace_size())},
                            DType::u8));
  }

  const ConvProblem p_;
  const WinogradChoice choice_;
  WorkspaceParts workspace_;
  std::map<std::pair<int, float>, Gemm> gemms_;  ///< by rows of tiles, and beta
  size_t gemm_bytes_ = 0;
};

/// Forward and backward data.
class WinogradData : public WinogradBase {
 public:
  WinogradData(const Context& context, const ConvProblem& p, const Options& options,
               const WinogradChoice& choice)
      : WinogradBase(p, choice), data_(p.direction == ConvDirection::backward_data) {
    const WinogradForm& form = choice_.form;
    const WinogradImages from = winograd_source(p_, choice_), to = winograd_target(p_, choice_),
                         w = winograd_filter(p_, choice_);
    source_ = winograd_layout(choice_, from, choice_.chunk * choice_.tiles[1]);
    target_ = winograd_layout(choice_, to, choice_.chunk * choice_.tiles[1]);
    weights_.emplace(context, p_, choice_, w, workspace_);
    source_at_ = workspace_.add(source_.bytes());
    target_at_ = workspace_.add(target_.bytes());
    const bool cpu = choice_.cpu;
    of_source_ = {context, p_, form, WinogradMatrix::source, from, form.results, source_.channels_last, cpu};
    of_target_ = {context, p_, form, WinogradMatrix::target, to, form.results, target_.channels_last, cpu};
    add_gemm(choice_.chunk, 0, context, options);
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor w = weights_->prepare(stream, t.w, workspace);
    const Tensor u = choice_.cpu ? w : w.transpose(1, 2);
    const Tensor v = source_.view(workspace, source_at_, source_.tiles),
                 m = target_.view(workspace, target_at_, target_.tiles);
    for (int row = 0; row < tile_rows(); row += choice_.chunk) {
      // The last chunk is as long as the others, and computes some rows again.
      const int first = std::min(row, tile_rows() - choice_.chunk);
      of_source_.run(stream, data_ ? t.y : t.x, v, source_, first, choice_.chunk);
      if (target_.channels_last)
        multiply(stream, choice_.chunk, 0, v, u, m, workspace);
      else
        multiply(stream, choice_.chunk, 0, u.transpose(1, 2), v.transpose(1, 2), m.transpose(1, 2),
                 workspace);
      of_target_.run(stream, data_ ? t.x : t.y, m, target_, first, choice_.chunk, t.with);
    }
  }

  void forget_constants() const override {
    weights_->forget_constants();
    for (const auto& entry : gemms_) entry.second.forget_constants();
  }

 private:
  const bool data_;
  std::optional<WinogradWeights> weights_;
  WinogradLayout source_, target_;
  WinogradTransform of_source_, of_target_;
  size_t source_at_ = 0, target_at_ = 0;
};

class WinogradFilter : public WinogradBase {
 public:
  WinogradFilter(const Context& context, const ConvProblem& p, const Options& options,
                 const WinogradChoice& choice)
      : WinogradBase(p, choice) {
    const WinogradForm& form = choice_.form;
    const WinogradImages x = winograd_source(p_, choice_), dy = winograd_target(p_, choice_),
                         dw = winograd_filter(p_, choice_);
    const int64_t tiles = tiles_of(choice_.chunk), parts = choice_.parts;
    x_ = winograd_layout(choice_, x, tiles).in_parts(parts);
    dy_ = winograd_layout(choice_, dy, tiles).in_parts(parts);
    dw_ = winograd_layout(choice_, dw, dw.rows(), true).in_parts(parts);
    x_at_ = workspace_.add(x_.bytes());
    dy_at_ = workspace_.add(dy_.bytes());
    dw_at_ = workspace_.add(dw_.bytes());
    const bool cpu = choice_.cpu;
    of_x_ = {context, p_, form, WinogradMatrix::source, x, form.taps, x_.channels_last, cpu};
    of_dy_ = {context, p_, form, WinogradMatrix::filter, dy, form.taps, dy_.channels_last, cpu};
    of_dw_ = {context, p_, form, WinogradMatrix::target, dw, form.results, true, cpu};
    for (int row = 0; row < tile_rows(); row += choice_.chunk) {
      add_gemm(rows_from(row), row > 0 ? 1.f : 0.f, context, options);
    }
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor dw = dw_.view(workspace, dw_at_, dw_.tiles);
    for (int row = 0; row < tile_rows(); row += choice_.chunk) {
      const int rows = rows_from(row);
      const int64_t count = tiles_of(rows);
      const Tensor x = x_.view(workspace, x_at_, count), dy = dy_.view(workspace, dy_at_, count);
      of_x_.run(stream, t.x, x, x_, row, rows);
      of_dy_.run(stream, t.y, dy, dy_, row, rows);
      multiply(stream, rows, row > 0 ? 1.f : 0.f, dy.transpose(1, 2), x, dw, workspace);
    }
    of_dw_.run(stream, t.w, dw, dw_, 0, static_cast<int>(dw_.tiles));
  }

 private:
  int rows_from(int row) const { return std::min(choice_.chunk, tile_rows() - row); }
  /// In a part of so many rows.
  int64_t tiles_of(int rows) const { return int64_t{rows} / choice_.parts * choice_.tiles[1]; }

  WinogradLayout x_, dy_, dw_;
  WinogradTransform of_x_, of_dy_, of_dw_;
  size_t x_at_ = 0, dy_at_ = 0, dw_at_ = 0;
};

std::string refuse(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  return winograd_choice(context, p, options, kConvWinograd.name).refusal;
}

std::string avoid(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  return avoid_winograd(context, p, winograd_choice(context, p, options, kConvWinograd.name));
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const EngineOptions& options) {
  const WinogradChoice choice = winograd_choice(context, problem, options, kConvWinograd.name);
  require(choice.refusal.empty(), "engine", kConvWinograd.name, ": ", choice.refusal);
  if (problem.direction == ConvDirection::backward_filter)
    return std::make_unique<WinogradFilter>(context, problem, options, choice);
  return std::make_unique<WinogradData>(context, problem, options, choice);
}

std::vector<std::string> candidates(const Context& context, const ConvProblem& problem,
                                    const EngineOptions& options) {
  std::vector<std::string> result;
  for (const int m : {4, 2}) {
    Options asked = options;
    asked.engine = cat(kConvWinograd.name, ":m=", m);
    if (refuse(context, problem, EngineOptions(asked)).empty()) result.push_back(asked.engine);
  }
  return result;
}

double predict(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  return winograd_choice(context, p, options, kConvWinograd.name).time;
}

}  // namespace

const ConvEngine kConvWinograd = {"winograd", refuse, make, avoid, predict, candidates, true};

}  // namespace dlprim::detail
