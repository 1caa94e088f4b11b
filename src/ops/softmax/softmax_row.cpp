// Softmax's engines `row`, for GPUs, and `cpu`: one kernel that keeps a row in registers, or in cache.
#include <algorithm>

#include "core/gen/expression.hpp"
#include "core/state.hpp"
#include "ops/lib/rows.hpp"
#include "ops/softmax/softmax_impl.hpp"

namespace dlprim::detail {
namespace {

struct Row : SoftmaxImpl {
  RowNest nest;
  bool backward = false, cpu = false;
  Kernel kernel;
  size_t groups = 0, local = 1;
  int64_t block = 1;  ///< CPU: rows of a group

  void run(const Stream& stream, const SoftmaxTensors& t, const Tensor&) const override {
    nest.launch(stream, kernel, {t.x, backward ? t.y : Tensor(), t.mask, backward ? t.dx : t.y},
                [&](Launch& launch) {
                  if (cpu) launch.arg(block);
                  launch.run({groups * local}, {local});
                });
  }
};

/// As the kernels have them.
constexpr const char* kNames[] = {"A", "B", "M", "Y"};
std::vector<TensorDesc> tensors_of(const SoftmaxProblem& p) {
  return {p.x, p.backward ? p.y : TensorDesc(), p.mask.value_or(TensorDesc()), p.written()};
}

Defines common_defines(const SoftmaxProblem& p, const RowNest& nest) {
  Defines defines;
  const std::vector<TensorDesc> tensors = tensors_of(p);
  for (size_t i = 0; i < tensors.size(); i++) define_type(defines, kNames[i], tensors[i].dtype);
  defines.set("REAL", compute_type(p.real())).set("MASK", p.mask_form());
  defines.set("LOG", p.kind == SoftmaxKind::log_softmax).set("ONE", p.kind == SoftmaxKind::logsumexp);
  nest.define(defines);
  return defines;
}

std::unique_ptr<Row> start(const SoftmaxProblem& p, bool cpu) {
  auto impl = std::make_unique<Row>();
  impl->nest = RowNest(p.x.shape, p.axis, tensors_of(p));
  impl->backward = p.backward;
  impl->cpu = cpu;
  return impl;
}

const char* kernel_name(const SoftmaxProblem& p) {
  return p.backward ? "softmax_backward" : "softmax";
}

std::unique_ptr<const SoftmaxImpl> make_row(const Context& context, const SoftmaxProblem& p,
                                            const EngineOptions&) {
  auto impl = start(p, false);
  const RowNest& nest = impl->nest;
  const std::vector<TensorDesc> tensors = tensors_of(p);
  const auto vectors = [&](size_t tensor, int v) { return nest.vectors(tensor, tensors[tensor], v); };
  const auto all_vectors = [&](int v) {
    return vectors(0, v) && (!p.backward || vectors(1, v)) &&
           (p.kind == SoftmaxKind::logsumexp || vectors(3, v));
  };
  size_t widest = std::max(size_of(p.x.dtype), size_of(p.written().dtype));
  if (p.backward) widest = std::max(widest, size_of(p.y.dtype));
  RowForm form;
  form.vector = widest == 2 && all_vectors(8) ? 8 : widest <= 4 && all_vectors(4) ? 4 : 1;
  std::vector<size_t> of_rows = {0};
  if (p.backward) of_rows.push_back(1);
  if (p.kind != SoftmaxKind::logsumexp) of_rows.push_back(3);
  if (!p.mask) form.try_ragged(nest, of_rows, tensors);
  form.choose(context.device(), nest, p.backward ? 16 : 32);
  Defines defines = common_defines(p, nest);
  defines.set("ACROSS", nest.across());
  defines.set("MASK_VECTOR", p.mask && vectors(2, form.vector) && p.mask->dtype != DType::f64);
  impl->kernel = form.kernel(context, "softmax", kernel_name(p), defines);
  impl->local = static_cast<size_t>(form.group());
  impl->groups = static_cast<size_t>(ceil_div(nest.rows_a_launch(), form.rows));
  return impl;
}

std::unique_ptr<const SoftmaxImpl> make_cpu(const Context& context, const SoftmaxProblem& p,
                                            const EngineOptions&) {
  auto impl = start(p, true);
  const RowNest& nest = impl->nest;
  Defines defines = common_defines(p, nest);
  const CpuRows rows(nest);
  const std::vector<TensorDesc> tensors = tensors_of(p);
  bool packed = true;
  for (size_t i = 0; i < tensors.size(); i++) {
    rows.define(defines, nest, i, kNames[i], tensors[i].dtype);
    packed &= nest.packed(i, rows.across);
  }
  defines.set("KEEPS", p.written().dtype == p.real() && nest.packed(3, rows.across));
  defines.set("ACROSS", rows.across).set("STAGED", !packed);
  defines.set("LANES", p.backward && !rows.across ? 16 : rows.lanes);
  impl->kernel = context.state().programs.kernel("softmax_cpu", kernel_name(p), defines);
  impl->block = rows.block;
  impl->groups = static_cast<size_t>(rows.groups);
  return impl;
}

}  // namespace

const SoftmaxEngine kSoftmaxRow = {"row", nullptr, make_row, avoid_on_cpus};
const SoftmaxEngine kSoftmaxCpu = {"cpu", nullptr, make_cpu};

}  // namespace dlprim::detail
