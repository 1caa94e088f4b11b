// Splitting, which gives views, and concatenation: a copy for each input, or all in one launch
// (concat_words.cpp).
#include <algorithm>

#include "ops/lib/view.hpp"
#include "ops/movement/concat_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ConcatDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

struct Copies : Concat::Impl {
  Copies(const Context& context, const ConcatDesc& d) : Impl(d) {
    int64_t at = 0;
    for (size_t i = 0; i < d.inputs.size(); i++) {
      const TensorDesc& x = d.inputs[i];
      const int64_t size = x.shape[d.axis];
      if (element_count(x.shape) > 0)
        parts.push_back({i, ViewCopy(context, x, whole(x), d.y, sliced(whole(d.y), d.axis, at, at + size))});
      at += size;
    }
  }
  void run(const Stream& stream, const std::vector<Tensor>& inputs, const Tensor& y) const override {
    for (const Part& part : parts) part.copy.run(stream, inputs[part.input], y);
  }

  struct Part {
    size_t input;
    ViewCopy copy;
  };
  std::vector<Part> parts;
};

constexpr ConcatEngine kCopies{"copies", nullptr,
                               [](const Context& context, const ConcatDesc& d,
                                  const EngineOptions&) -> std::unique_ptr<const Concat::Impl> {
                                 return std::make_unique<Copies>(context, d);
                               }};
constexpr EngineList<ConcatDesc, Concat::Impl> kEngines = {&kConcatWords, &kCopies};

/// The description with an axis that counts from the front.
ConcatDesc checked(ConcatDesc d) {
  require_writable("y", d.y);
  d.axis = normalize_axis("axis", d.axis, d.y.shape.size());
  int64_t sum = 0;
  for (size_t i = 0; i < d.inputs.size(); i++) {
    const ArgName name("inputs", i);
    const TensorDesc& x = d.inputs[i];
    require_strides(name, x);
    require_rank(name, x, d.y.shape.size());
    Shape shape = d.y.shape;
    shape[d.axis] = x.shape[d.axis];
    require_shape(name, x, shape);
    sum += shape[d.axis];
  }
  require(sum == d.y.shape[d.axis], "y", "size ", d.y.shape[d.axis], " along the axis must be ", sum);
  return d;
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  require(x.defined(), "x", "is not defined");
  const int along = normalize_axis("axis", axis, x.rank());
  int64_t sum = 0;
  for (int64_t size : sizes) {
    require(size >= 0, "sizes", size, " must not be negative");
    sum += size;
  }
  require(sum == x.shape()[along], "sizes", "they add up to ", sum, ", the axis has ", x.shape()[along]);
  std::vector<Tensor> result;
  int64_t at = 0;
  for (int64_t size : sizes) {
    result.push_back(x.slice(along, at, at + size));
    at += size;
  }
  return result;
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int axis) {
  require(x.defined(), "x", "is not defined");
  require(size >= 1, "size", size, " must be 1 or more");
  const int64_t whole = x.size(axis);
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < whole; at += size) sizes.push_back(std::min(size, whole - at));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

Concat::Concat(const Context& context, const ConcatDesc& desc, const Options& options) : Plan(nullptr) {
  const ConcatDesc d = checked(desc);
  PlanInfo info;
  impl_ = choose_engine("concat", kEngines, context, d, options, info);
  info.text =
      cat("op=concat engine=", info.engine, " inputs=", d.inputs.size(), " y=", brief(d.y), " axis=", d.axis);
  info.bytes = 2 * traffic({d.y});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void Concat::run(const Stream& stream, const std::vector<Tensor>& inputs, const Tensor& y,
                 const Tensor& workspace) const {
  const ConcatDesc& d = impl_->desc;
  require_stream(*info_, stream);
  require(inputs.size() == d.inputs.size(), "inputs", inputs.size(), " must be ", d.inputs.size());
  require_tensor("y", y, stream.context(), d.y);
  require_apart({{"workspace", workspace}}, {{"y", y}});
  for (size_t i = 0; i < inputs.size(); i++) {
    const ArgName name("inputs", i);
    require_tensor(name, inputs[i], stream.context(), d.inputs[i]);
    require_no_overlap("y", y, name, inputs[i]);
    require_apart({{"workspace", workspace}}, {{"inputs", inputs[i]}});
  }
  workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, inputs, y);
}

void concat(const Stream& stream, const std::vector<Tensor>& inputs, int axis, const Tensor& y,
            const Options& options, const Tensor& workspace) {
  require_defined({{"y", y}});
  for (size_t i = 0; i < inputs.size(); i++) require_context({"inputs", i}, inputs[i], stream.context());
  const ConcatDesc desc{{inputs.begin(), inputs.end()}, y, axis};
  cached_plan<Concat>(stream, "concat", desc, options, workspace)->run(stream, inputs, y, workspace);
}

}  // namespace dlprim
