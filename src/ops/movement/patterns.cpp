// Triangles, diagonals and one-hot vectors: generated kernels over the numbers of rows and columns, and
// fills.
#include <dlprim/patterns.hpp>

#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

#include "ops/index/indexing.hpp"
#include "ops/lib/view.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<TriangleDesc> = 4;
template <>
inline constexpr int kFields<EyeDesc> = 2;
template <>
inline constexpr int kFields<OneHotDesc> = 2;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

/// The numbers 0 to count - 1 in a workspace, which is all of them.
class Numbers {
 public:
  Numbers(const Context& context, int64_t count)
      : count_(std::max<int64_t>(count, 1)), ramp_(context, {desc()}) {}
  TensorDesc desc() const { return {Shape{count_}, DType::i32}; }
  size_t bytes() const { return static_cast<size_t>(count_) * 4; }
  Tensor write(const Stream& stream, const Tensor& workspace) const {
    const Tensor numbers = workspace_part(workspace, 0, {count_}, DType::i32);
    ramp_.run(stream, 0, 1, numbers);
    return numbers;
  }

 private:
  int64_t count_;
  Arange ramp_;
};

/// The first `count` numbers as rows, or as columns, of [rows, columns].
View as_rows(int64_t count) {
  return {{count, 1}, {1, 1}, 0};
}
View as_columns(int64_t count) {
  return {{1, count}, {1, 1}, 0};
}

void require_matrix(const TensorDesc& y) {
  require_writable("y", y);
  require(y.shape.size() >= 2, "y", "rank ", y.shape.size(), " must be 2 or more");
}

}  // namespace

struct Triangle::Impl {
  TriangleDesc desc;
  Numbers numbers;
  View rows, columns;
  Pointwise kernel;
  double k;  ///< beyond [-R, C] all diagonals are alike
};

Triangle::Triangle(const Context& context, const TriangleDesc& desc, const Options& options) : Plan(nullptr) {
  require_strides("x", desc.x);
  require(desc.x.shape.size() >= 2, "x", "rank ", desc.x.shape.size(), " must be 2 or more");
  require_writable("y", desc.y);
  require_shape("y", desc.y, desc.x.shape);
  require_dtype("y", desc.y, desc.x.dtype);
  const int rank = desc.y.shape.size();
  const int64_t r = desc.y.shape[rank - 2], c = desc.y.shape[rank - 1];
  to_int("y", std::max(r, c));
  Numbers numbers(context, std::max(r, c));
  const View rows = as_rows(r), columns = as_columns(c);
  Pointwise kernel(context, {desc.x, rows.desc(numbers.desc()), columns.desc(numbers.desc())}, {desc.y}, 1,
                   desc.upper ? "y0 = x2 - x1 >= (int)s0 ? x0 : 0" : "y0 = x2 - x1 <= (int)s0 ? x0 : 0");
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y), " k=", desc.k);
  info.bytes = traffic({desc.x, desc.y});
  info.workspace = numbers.bytes();
  info_ = single_engine(desc.upper ? "triu" : "tril", "generated", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(Impl{desc, std::move(numbers), rows, columns, std::move(kernel),
                                            static_cast<double>(std::clamp(desc.k, -r, c))});
}

void Triangle::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), impl_->desc.x);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  const Tensor numbers = impl_->numbers.write(stream, space);
  impl_->kernel.run(stream, {x, impl_->rows.of(numbers), impl_->columns.of(numbers)}, {y}, {impl_->k});
}

struct Eye::Impl {
  EyeDesc desc;
  Fill all;
  View diagonal;
  std::optional<Fill> ones;  ///< where the diagonal crosses y
};

Eye::Eye(const Context& context, const EyeDesc& desc, const Options& options) : Plan(nullptr) {
  require_matrix(desc.y);
  const int last = desc.y.shape.size() - 1;
  const int64_t r = desc.y.shape[last - 1], c = desc.y.shape[last], k = desc.k;
  Impl impl{desc, Fill(context, {desc.y}), whole(desc.y), {}};
  if (k > -r && k < c) {
    View& d = impl.diagonal;
    d.offset = k < 0 ? -k * d.strides[last - 1] : k * d.strides[last];
    d.shape[last - 1] = std::min(r + std::min<int64_t>(k, 0), c - std::max<int64_t>(k, 0));
    d.strides[last - 1] += d.strides[last];
    d.shape[last] = 1;
    impl.ones.emplace(context, FillDesc{d.desc(desc.y)});
  }
  PlanInfo info;
  info.text = cat("y=", brief(desc.y), " k=", k);
  info.bytes = traffic({desc.y});
  info_ = single_engine("eye", "fills", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

void Eye::run(const Stream& stream, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require_apart({{"workspace", workspace}}, {{"y", y}});
  workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->all.run(stream, 0, y);
  if (impl_->ones) impl_->ones->run(stream, 1, impl_->diagonal.of(y));
}

struct OneHot::Impl {
  OneHotDesc desc;
  Numbers numbers;
  View index;  ///< with a last dimension along which it broadcasts
  Pointwise kernel;
  double classes;
};

OneHot::OneHot(const Context& context, const OneHotDesc& desc, const Options& options) : Plan(nullptr) {
  require_writable("y", desc.y);
  require_indices({desc.index}, "index");
  require_rank("y", desc.y, desc.index.shape.size() + 1);
  const int64_t classes = desc.y.shape.back();
  View index = whole(desc.index);
  index.shape.push_back(classes);
  index.strides.push_back(1);
  require_shape("y", desc.y, index.shape);
  to_int("y", classes);
  index.shape[index.shape.size() - 1] = 1;
  Numbers numbers(context, classes);
  const TensorDesc row(Shape{classes}, DType::i32);
  Pointwise kernel(context, {index.desc(desc.index), row}, {desc.y}, 1,
                   "y0 = (x0 < 0 ? x0 + (int)s0 : x0) == x1");
  PlanInfo info;
  info.text = cat("index=", brief(desc.index), " y=", brief(desc.y));
  info.bytes = traffic({desc.index, desc.y});
  info.workspace = numbers.bytes();
  info_ = single_engine("one_hot", "generated", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(
      Impl{desc, std::move(numbers), index, std::move(kernel), static_cast<double>(classes)});
}

void OneHot::run(const Stream& stream, const Tensor& index, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("index", index, stream.context(), impl_->desc.index);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"index", index}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  const Tensor numbers = impl_->numbers.write(stream, space);
  impl_->kernel.run(stream, {impl_->index.of(index), numbers}, {y}, {impl_->classes});
}

namespace {

void triangle(const Stream& stream, const Tensor& x, int64_t k, bool upper, const Tensor& y,
              const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const TriangleDesc desc{x, y, k, upper};
  cached_plan<Triangle>(stream, "triangle", desc, options, workspace)->run(stream, x, y, workspace);
}

}  // namespace

void tril(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y, const Options& options,
          const Tensor& workspace) {
  triangle(stream, x, k, false, y, options, workspace);
}

void triu(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y, const Options& options,
          const Tensor& workspace) {
  triangle(stream, x, k, true, y, options, workspace);
}

void eye(const Stream& stream, int64_t k, const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"y", y}});
  const EyeDesc desc{y, k};
  cached_plan<Eye>(stream, "eye", desc, options, workspace)->run(stream, y, workspace);
}

void one_hot(const Stream& stream, const Tensor& index, const Tensor& y, const Options& options,
             const Tensor& workspace) {
  require_defined({{"index", index}, {"y", y}});
  const OneHotDesc desc{index, y};
  cached_plan<OneHot>(stream, "one_hot", desc, options, workspace)->run(stream, index, y, workspace);
}

}  // namespace dlprim
