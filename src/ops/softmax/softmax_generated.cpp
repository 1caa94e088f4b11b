// Softmax's engine `generated`, which serves every device: along the axis a maximum and a sum, whose results
// lie in the workspace, then one pointwise step.
#include <algorithm>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/lib/rows.hpp"
#include "ops/softmax/softmax_impl.hpp"

namespace dlprim::detail {
namespace {

struct Parts {
  Shape row;    ///< x's shape with size 1 along the axis
  DType dtype;  ///< of maxima and sums
  size_t maximum_at = 0, sum_at = 0, scratch_at = 0, size = 0;

  Parts(const SoftmaxProblem& p, WorkspaceParts& parts) : row(row_shape(p.x.shape, p.axis)), dtype(p.real()) {
    const size_t bytes = static_cast<size_t>(element_count(row)) * size_of(dtype);
    if (!p.backward) maximum_at = parts.add(bytes);
    sum_at = parts.add(bytes);
  }
  TensorDesc desc() const { return {row, dtype}; }
  Tensor maximum(const Tensor& space) const { return workspace_part(space, maximum_at, row, dtype); }
  Tensor sum(const Tensor& space) const { return workspace_part(space, sum_at, row, dtype); }
};

/// x under its mask, input `mask` of the kernel.
std::string masked(const SoftmaxProblem& p, int mask) {
  return p.mask_form() == 0   ? "x0"
         : p.mask_form() == 1 ? cat("(x", mask, " ? x0 : -INFINITY)")
                              : cat("(x0 + x", mask, ")");
}

/// What is subtracted of a row: see base_of in softmax.cl.
std::string base(const SoftmaxProblem& p) {
  const char* infinite = p.kind == SoftmaxKind::logsumexp ? "fabs(x1) == INFINITY" : "x1 == -INFINITY";
  return cat("const real base = ", infinite, " ? 0 : x1; ");
}

Reduction sum_of_exp(const SoftmaxProblem& p) {
  Reduction r = sum_of("0", p.kind == SoftmaxKind::softmax ? "y0 = a0" : "y0 = log(a0)");
  r.accumulate = cat(base(p), "a0 += exp(", masked(p, 2), " - base)");
  return r;
}

std::string last_step(const SoftmaxProblem& p) {
  if (p.kind == SoftmaxKind::logsumexp) return "y0 = (fabs(x0) == INFINITY ? 0 : x0) + x1";
  const bool log = p.kind == SoftmaxKind::log_softmax;
  const std::string step =
      log ? cat(masked(p, 3), " - base - x2") : cat("exp(", masked(p, 3), " - base) / x2");
  // A row that the mask leaves nothing of: its sum is 0, and the logarithm of that -infinity.
  const char* empty = !p.mask ? "" : log ? "x2 == -INFINITY ? -INFINITY : " : "x2 == 0 ? 0 : ";
  return cat(base(p), "y0 = ", empty, step);
}

struct Forward : SoftmaxImpl {
  Forward(const Context& context, const SoftmaxProblem& p, const Options& options, WorkspaceParts space)
      : parts(p, space),
        one(p.kind == SoftmaxKind::logsumexp),
        maximum(context, with_mask(p, {p.x}), {parts.desc()}, 0, max_of(masked(p, 1)), space.rest(options)),
        sum(context, with_mask(p, {p.x, parts.desc()}), {parts.desc()}, 0, sum_of_exp(p),
            space.rest(options)),
        finish(context,
               one ? std::vector<TensorDesc>{parts.desc(), parts.desc()}
                   : with_mask(p, {p.x, parts.desc(), parts.desc()}),
               {p.y}, 0, last_step(p)) {
    parts.scratch_at = space.add(std::max(maximum.workspace_size(), sum.workspace_size()));
    parts.size = space.size();
  }
  size_t workspace_size() const override { return parts.size; }

  static std::vector<TensorDesc> with_mask(const SoftmaxProblem& p, std::vector<TensorDesc> tensors) {
    if (p.mask) tensors.push_back(*p.mask);
    return tensors;
  }
  static std::vector<Tensor> with_mask(const SoftmaxTensors& t, std::vector<Tensor> tensors) {
    if (t.mask.defined()) tensors.push_back(t.mask);
    return tensors;
  }

  void run(const Stream& stream, const SoftmaxTensors& t, const Tensor& space) const override {
    const Tensor most = parts.maximum(space), sums = parts.sum(space);
    maximum.run(stream, with_mask(t, {t.x}), {most}, {}, workspace_scratch(space, parts.scratch_at, maximum));
    sum.run(stream, with_mask(t, {t.x, most}), {sums}, {}, workspace_scratch(space, parts.scratch_at, sum));
    finish.run(stream, one ? std::vector<Tensor>{most, sums} : with_mask(t, {t.x, most, sums}), {t.y}, {});
  }

  Parts parts;
  bool one;
  Reduce maximum, sum;
  Pointwise finish;
};

struct Backward : SoftmaxImpl {
  Backward(const Context& context, const SoftmaxProblem& p, const Options& options, WorkspaceParts space)
      : parts(p, space),
        log(p.kind == SoftmaxKind::log_softmax),
        sum(log ? Reduce(context, {p.x}, {parts.desc()}, 0, sum_of("x0"), space.rest(options))
                : Reduce(context, {p.x, p.y}, {parts.desc()}, 0, sum_of("x0 * x1"), space.rest(options))),
        finish(context, Forward::with_mask(p, {p.x, p.y, parts.desc()}), {p.dx}, 0,
               cat("y0 = ", p.mask ? "!x3 ? 0 : " : "", log ? "x0 - exp(x1) * x2" : "x1 * (x0 - x2)")) {
    parts.scratch_at = space.add(sum.workspace_size());
    parts.size = space.size();
  }
  size_t workspace_size() const override { return parts.size; }

  void run(const Stream& stream, const SoftmaxTensors& t, const Tensor& space) const override {
    const Tensor sums = parts.sum(space);
    // Of log-softmax dy is all that the sum takes.
    const std::vector<Tensor> summed = log ? std::vector<Tensor>{t.x} : std::vector<Tensor>{t.x, t.y};
    sum.run(stream, summed, {sums}, {}, workspace_scratch(space, parts.scratch_at, sum));
    finish.run(stream, Forward::with_mask(t, {t.x, t.y, sums}), {t.dx}, {});
  }

  Parts parts;
  bool log;
  Reduce sum;
  Pointwise finish;
};

std::unique_ptr<const SoftmaxImpl> make(const Context& context, const SoftmaxProblem& p,
                                        const EngineOptions& options) {
  if (p.backward) return std::make_unique<Backward>(context, p, options, WorkspaceParts());
  return std::make_unique<Forward>(context, p, options, WorkspaceParts());
}

}  // namespace

const SoftmaxEngine kSoftmaxGenerated = {"generated", nullptr, make};

}  // namespace dlprim::detail
