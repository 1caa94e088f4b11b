// Checks and texts of operators that are made of others.
#include "core/composed.hpp"

namespace dlprim::detail {

std::shared_ptr<const PlanInfo> single_engine(const char* op, const char* engine, const std::string& refusal,
                                              const Context& context, const Options& options, PlanInfo info) {
  require(options.plan.empty(), "plan", "is given, but ", op, " loads none");
  require(options.engine == "auto" || options.engine == engine, "engine", op, " has no engine '",
          options.engine, "', only '", engine, "'");
  require(refusal.empty(), "engine", op, ": ", engine, " refused: ", refusal);
  require(info.workspace <= options.workspace_limit, "workspace_limit", op, ": ", engine, " needs ",
          info.workspace, " bytes of workspace, the limit is ", options.workspace_limit);
  info.text = cat("op=", op, " engine=", engine, " ", info.text);
  info.engine = info.request = engine;
  info.reason = "it has no other";
  info.engines = {{engine, {}, {}}};
  info.context = &context.state();
  return std::make_shared<const PlanInfo>(std::move(info));
}

std::string brief(const TensorDesc& desc) {
  const auto list = [](const Dims& dims) {
    std::string text;
    for (int i = 0; i < dims.size(); i++) text += (i ? "," : "") + std::to_string(dims[i]);
    return text;
  };
  std::string text = name_of(desc.dtype) + ("[" + list(desc.shape)) + "]";
  if (desc.strides != contiguous_strides(desc.shape)) text += "/" + list(desc.strides);
  return text;
}

double traffic(const std::vector<TensorDesc>& tensors) {
  double bytes = 0;
  for (const TensorDesc& desc : tensors)
    bytes += static_cast<double>(element_count(desc.shape)) * static_cast<double>(size_of(desc.dtype));
  return bytes;
}

bool is_row_major(const TensorDesc& desc) {
  int64_t step = 1;
  bool packed = true;
  for (int i = desc.shape.size() - 1; i >= 0; i--) {
    if (desc.shape[i] == 0) return true;
    packed &= desc.shape[i] == 1 || desc.strides[i] == step;
    step *= desc.shape[i];
  }
  return packed;
}

void require_floating(const char* argument, const TensorDesc& desc, bool f64) {
  require_strides(argument, desc);
  const bool ok = is_floating(desc.dtype) && (f64 || desc.dtype != DType::f64);
  require(ok, argument, "dtype ", name_of(desc.dtype), " must be f32, f16",
          f64 ? ", bf16 or f64" : " or bf16");
}

void require_defined(std::initializer_list<Named> tensors) {
  for (const Named& t : tensors) require(t.tensor.defined(), t.name, "is not defined");
}

void require_apart(std::initializer_list<Named> outputs, std::initializer_list<Named> inputs) {
  for (const Named* y = outputs.begin(); y != outputs.end(); y++) {
    for (const Named* z = outputs.begin(); z != y; z++)
      require_no_overlap(y->name, y->tensor, z->name, z->tensor);
    for (const Named& x : inputs) require_no_overlap(y->name, y->tensor, x.name, x.tensor);
  }
}

void require_moved(const PlanInfo& info, const Stream& stream, const TensorDesc& from, const Tensor& x,
                   const TensorDesc& to, const Tensor& y, const Tensor& workspace) {
  require_stream(info, stream);
  require_tensor("x", x, stream.context(), from);
  require_tensor("y", y, stream.context(), to);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}});
  workspace_for(info, stream, workspace);
}

void require_unused(const PlanInfo& info, const Stream& stream, const Tensor& workspace,
                    std::initializer_list<Named> tensors) {
  require_apart({{"workspace", workspace}}, tensors);
  workspace_for(info, stream, workspace);
}

void require_same_or_apart(const Named& y, const Named& x) {
  if (!memory_overlaps(y.tensor, x.tensor)) return;
  const bool same = same_elements(y.tensor, x.tensor) && y.tensor.dtype() == x.tensor.dtype();
  require(same, y.name, "shares memory with ", x.name, " without being the same tensor");
}

void require_optional(const char* name, const Tensor& tensor, const Context& context,
                      const std::optional<TensorDesc>& desc) {
  if (desc)
    require_tensor(name, tensor, context, *desc);
  else
    require(!tensor.defined(), name, "is given to a plan without it");
}

Tensor workspace_part(const Tensor& workspace, size_t at, const Shape& shape, DType dtype) {
  const int64_t bytes = element_count(shape) * static_cast<int64_t>(size_of(dtype));
  if (bytes == 0) return {};
  const auto begin = static_cast<int64_t>(at);
  return workspace.slice(0, begin, begin + bytes).reinterpret(dtype).reshape(shape);
}

}  // namespace dlprim::detail
