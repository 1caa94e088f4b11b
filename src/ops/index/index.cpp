// Indexing by several tensors at once, and embeddings, which are indexing of a table's rows.
#include <dlprim/embedding.hpp>

#include "ops/index/indexing_write.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<IndexDesc> = 3;
template <>
inline constexpr int kFields<IndexPutDesc> = 6;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Index::Impl {
  IndexDesc desc;
  IndexRead read;
};

struct IndexPut::Impl {
  IndexPutDesc desc;
  WriteStart start;
  IndexWrite write;
};

namespace {

using Descs = std::vector<std::optional<TensorDesc>>;

/// The axes that have an index.
IndexedAxes indexed_axes(const char* table_name, const TensorDesc& table, const Descs& indices) {
  require_strides(table_name, table);
  require(static_cast<int>(indices.size()) <= table.shape.size(), "indices", indices.size(), " for ",
          table_name, " of rank ", table.shape.size());
  IndexedAxes result;
  for (size_t i = 0; i < indices.size(); i++) {
    if (!indices[i]) continue;
    result.axes.push_back(static_cast<int>(i));
    result.indices.push_back(*indices[i]);
  }
  require(!result.axes.empty(), "indices", "there is none");
  require_indices(result.indices, "indices");
  return result;
}

/// The tensors that there are, which have to be those described.
std::vector<Tensor> check_tensors(const Stream& stream, const Descs& described,
                                  const std::vector<Tensor>& indices) {
  require(indices.size() == described.size(), "indices", indices.size(), " must be ", described.size());
  std::vector<Tensor> result;
  for (size_t i = 0; i < indices.size(); i++) {
    const ArgName name("indices", i);
    require(indices[i].defined() == described[i].has_value(), name, "is ",
            indices[i].defined() ? "given, but the plan has none" : "not defined");
    if (!described[i]) continue;
    require_tensor(name, indices[i], stream.context(), *described[i]);
    result.push_back(indices[i]);
  }
  return result;
}

void require_apart_from_all(const Named& y, const std::vector<Tensor>& indices, const Named& other) {
  require_apart({y}, {other});
  for (const Tensor& index : indices) require_apart({y}, {{"indices", index}});
}

/// Searches those that there are: each for positions of its axis of `table`.
void search_indices(const Stream& stream, const char* op, const std::vector<Tensor>& indices,
                    const Shape& table, int64_t skip = -1) {
  if (!stream.context().checks_indices()) return;
  for (size_t i = 0; i < indices.size(); i++) {
    if (!indices[i].defined()) continue;
    IndexRange range = positions_of(table[static_cast<int>(i)]);
    if (skip >= 0) range.skip = skip;
    check_index(stream, op, ArgName("indices", i).text(), indices[i], range);
  }
}

/// `values` with stride 0 where it broadcasts to `shape`.
TensorDesc broadcast(const TensorDesc& values, const Shape& shape) {
  require(values.shape.size() <= shape.size(), "values", "shape ", values.shape, " does not broadcast to ",
          shape);
  TensorDesc result({}, {}, values.dtype, values.aligned);
  const int missing = shape.size() - values.shape.size();
  for (int i = 0; i < shape.size(); i++) {
    const int64_t own = i < missing ? 1 : values.shape[i - missing];
    require(own == shape[i] || own == 1, "values", "shape ", values.shape, " does not broadcast to ", shape);
    result.shape.push_back(shape[i]);
    result.strides.push_back(own == 1 ? 0 : values.strides[i - missing]);
  }
  return result;
}

Descs describe(const std::vector<Tensor>& indices) {
  Descs result;
  for (const Tensor& index : indices) result.push_back(described(index));
  return result;
}

/// `described`: "indices" of an operator's line in the log.
std::string text_of(const IndexedAxes& indexed) {
  std::string text;
  for (size_t k = 0; k < indexed.axes.size(); k++)
    text += cat(" index", indexed.axes[k], "=", brief(indexed.indices[k]));
  return text;
}

void put(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
         const ScatterParams& params, int64_t skip, const Tensor& y, const Options& options,
         const Tensor& workspace) {
  require_defined({{"values", values}, {"y", y}});
  const IndexPutDesc desc{described(x), describe(indices), values, y, params, skip};
  cached_plan<IndexPut>(stream, "index_put", desc, options, workspace)
      ->run(stream, x, indices, values, y, workspace);
}

}  // namespace

Index::Index(const Context& context, const IndexDesc& desc, const Options& options) : Plan(nullptr) {
  const IndexedAxes indexed = indexed_axes("x", desc.x, desc.indices);
  require_dtype("y", desc.y, desc.x.dtype);
  require_shape("y", desc.y, indexed_shape(desc.x.shape, indexed));
  require_writable("y", desc.y);
  auto impl = std::make_shared<Impl>(
      Impl{desc, IndexRead(context, index_nest(desc.x, indexed, desc.y), desc.x, desc.y, options)});
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), text_of(indexed));
  info.bytes = traffic(indexed.indices) + traffic({desc.y, desc.y});
  info_ = single_engine("index", impl->read.engine(), "", context, options, std::move(info));
  impl_ = std::move(impl);
}

void Index::run(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices, const Tensor& y,
                const Tensor& workspace) const {
  require_stream(*info_, stream);
  const std::vector<Tensor> given = check_tensors(stream, impl_->desc.indices, indices);
  require_tensor("x", x, stream.context(), impl_->desc.x);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require_apart_from_all({"y", y}, given, {"x", x});
  require_apart_from_all({"workspace", workspace}, given, {"x", x});
  require_apart({{"workspace", workspace}}, {{"y", y}});
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  search_indices(stream, "index", indices, x.shape());
  impl_->read.run(stream, x, given, y);
}

IndexPut::IndexPut(const Context& context, const IndexPutDesc& desc, const Options& options) : Plan(nullptr) {
  const IndexedAxes indexed = indexed_axes("y", desc.y, desc.indices);
  require_strides("values", desc.values);
  require_writable("y", desc.y);
  const TensorDesc values = broadcast(desc.values, indexed_shape(desc.y.shape, indexed));
  PlanInfo info;
  info.text = cat("y=", brief(desc.y), text_of(indexed), " values=", brief(desc.values),
                  " reduce=", static_cast<int>(desc.params.reduce));
  info.bytes = traffic(indexed.indices) + traffic({desc.values, desc.values});
  const WriteProblem problem{index_nest(desc.y, indexed, values), values, desc.y, desc.params, desc.skip};
  WriteStart start(context, desc.x, desc.y);
  impl_ = std::make_shared<Impl>(
      Impl{desc, std::move(start), IndexWrite("index_put", context, problem, options, info)});
  info_ = std::make_shared<const PlanInfo>(std::move(info));
}

void IndexPut::run(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices,
                   const Tensor& values, const Tensor& y, const Tensor& workspace) const {
  const IndexPutDesc& d = impl_->desc;
  require_stream(*info_, stream);
  const std::vector<Tensor> given = check_tensors(stream, d.indices, indices);
  require_tensor("values", values, stream.context(), d.values);
  require_tensor("y", y, stream.context(), d.y);
  require_apart_from_all({"y", y}, given, {"values", values});
  impl_->start.check(stream, x, y);
  require_apart_from_all({"workspace", workspace}, given, {"values", values});
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->start.run(stream, x, y);
  search_indices(stream, "index_put", indices, y.shape(), d.skip);
  impl_->write.run(stream, values, given, y, space);
}

void index(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices, const Tensor& y,
           const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const IndexDesc desc{x, describe(indices), y};
  cached_plan<Index>(stream, "index", desc, options, workspace)->run(stream, x, indices, y, workspace);
}

void index_put(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices,
               const Tensor& values, const ScatterParams& params, const Tensor& y, const Options& options,
               const Tensor& workspace) {
  put(stream, x, indices, values, params, -1, y, options, workspace);
}

void index_backward(const Stream& stream, const Tensor& dy, const std::vector<Tensor>& indices,
                    const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"dx", dx}});
  const CheckedOperator name("index_backward");
  put(stream, {}, indices, dy, {ScatterReduce::sum, true}, -1, dx, options, workspace);
}

void embedding(const Stream& stream, const Tensor& w, const Tensor& indices, const Tensor& y,
               const Options& options, const Tensor& workspace) {
  require_defined({{"w", w}, {"index", indices}, {"y", y}});
  require_rank("w", w, 2);
  const CheckedOperator name("embedding");
  index(stream, w, {indices}, y, options, workspace);
}

void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& indices,
                        const EmbeddingParams& params, const Tensor& dw, const Options& options,
                        const Tensor& workspace) {
  require_defined({{"dy", dy}, {"index", indices}, {"dw", dw}});
  require_floating("dy", dy, true);
  require_floating("dw", dw, true);
  require_rank("dw", dw, 2);
  Shape shape = indices.shape();
  shape.push_back(dw.shape()[1]);
  require_shape("dy", dy, shape);
  const ScatterReduce reduce = params.scale_grad_by_freq ? ScatterReduce::mean : ScatterReduce::sum;
  const CheckedOperator name("embedding_backward");
  put(stream, {}, {indices}, dy, {reduce, !params.scale_grad_by_freq}, params.padding_idx, dw, options,
      workspace);
}

}  // namespace dlprim
