#include "ops/optim/norm_form.hpp"

#include "core/check.hpp"

namespace dlprim::detail {

void require_norm(NormOrder order, int64_t tensors, int64_t elements) {
  require(order == NormOrder::one || order == NormOrder::two || order == NormOrder::infinity, "order",
          "number ", static_cast<int>(order), " does not exist");
  require(tensors >= 0, "tensors", tensors, " must not be negative");
  require(elements >= 0 && elements < kElementLimit, "elements", elements, " must lie in [0, ", kElementLimit,
          ")");
}

const char* name_of(NormOrder order) {
  return order == NormOrder::infinity ? "infinity" : order == NormOrder::two ? "two" : "one";
}

MultiTensorForm norm_form(const char* name, DType dtype, NormOrder order) {
  MultiTensorForm form;
  form.lists = {{name, dtype, "x0", ""}};
  form.sums = true;
  const std::string larger = "real a = x0 < 0 ? -x0 : x0; sums[e] = a > sums[e] || a != a ? a : sums[e];";
  form.body = order == NormOrder::two   ? "sums[e] += x0 * x0;"
              : order == NormOrder::one ? "sums[e] += x0 < 0 ? -x0 : x0;"
                                        : larger;
  form.finish = cat(
      "real sum = sums[0];\nJOIN_LANES(",
      order == NormOrder::infinity ? "sum = part > sum || part != part ? part : sum" : "sum += part", ")");
  return form;
}

Defines norm_defines(const Context& context, DType real, NormOrder order) {
  Defines defines;
  defines.set("REAL", real == DType::f64 ? "double" : "float");
  defines.set("LOCAL", static_cast<int64_t>(norm_group(context)))
      .set("LARGEST", order == NormOrder::infinity)
      .set("ROOT", order == NormOrder::two);
  return defines;
}

size_t norm_group(const Context& context) {
  return context.device().kind() == DeviceKind::cpu ? 1 : 256;
}

int64_t elements_of(const std::vector<Tensor>& list) {
  int64_t elements = 0;
  for (const Tensor& x : list) elements += x.numel();
  return elements;
}

}  // namespace dlprim::detail
