// What operators that read or write by index have in common: the nest of loops they go over, and the two
// things that they do. Not an operator; gather.hpp, index.hpp and embedding.hpp are.
#pragma once

#include <optional>
#include <vector>

#include <dlprim/gather.hpp>

#include "core/composed.hpp"
#include "core/gen/loop_nest.hpp"
#include "ops/sort_pairs.hpp"

namespace dlprim::detail {

/// An index tensor for each axis of a table that is indexed.
struct IndexedAxes {
  std::vector<int> axes;
  std::vector<TensorDesc> indices;  ///< of dtype i32 or i64, all one
};

/// The loops over a dense tensor whose elements are those of a table at indices. Of each dimension strides[0]
/// is the table's, strides[1] the dense tensor's, then each index tensor's.
struct IndexNest {
  std::vector<LoopDim> dims;          ///< outermost first; none has size 1
  std::vector<int64_t> sizes, steps;  ///< of the table along the axis of each index
  DType index_dtype = DType::i64;
  int64_t count = 1;
  bool wide = false;
  size_t indices() const { return sizes.size(); }
};

/// gather's: the dense tensor has the index's shape, and the table's coordinates but along `axis`.
IndexNest gather_nest(const TensorDesc& table, const TensorDesc& index, const TensorDesc& dense, int axis);
/// The shape that the table's elements have when some axes are indexed: where indexed axes are neighbours
/// their place is taken by the indices' broadcast shape, otherwise that goes in front. Throws
/// ValidationError.
Shape indexed_shape(const Shape& table, const IndexedAxes& indexed);
IndexNest index_nest(const TensorDesc& table, const IndexedAxes& indexed, const TensorDesc& dense);

/// Index tensors: i32 or i64, all of one dtype, strides as require_strides wants them.
void require_indices(const std::vector<TensorDesc>& indices, const char* name);

/// Binds NEST of indexing.cl for the dimensions `p`, then `w`.
void bind_nest(Launch& launch, const IndexNest& nest, const std::vector<Tensor>& indices,
               const std::vector<LoopDim>& p, const std::vector<LoopDim>& w);
Defines nest_defines(const IndexNest& nest, size_t p_rank, size_t w_rank);

/// dense = table[indices].
class IndexRead {
 public:
  IndexRead() = default;
  /// `engine`: auto, or cpu or direct, of which each runs on every device.
  IndexRead(const Context& context, IndexNest nest, const TensorDesc& table, const TensorDesc& dense,
            const Options& options);
  const char* engine() const { return chunk_ ? "cpu" : "direct"; }
  void run(const Stream& stream, const Tensor& table, const std::vector<Tensor>& indices,
           const Tensor& dense) const;

 private:
  Kernel kernel_;
  IndexNest nest_;
  int64_t chunk_ = 0;  ///< elements of a work-group (CPU); 0: the kernel has no such argument
};

/// table[indices] = dense, elements that meet folded by a reduction. In the order of dense's elements in
/// memory; the result depends on nothing but shapes, strides and values.
class IndexWrite {
 public:
  IndexWrite() = default;
  /// `skip`: an index that writes nothing, below 0: none. `engine`: auto, columns or sorted.
  IndexWrite(const Context& context, IndexNest nest, const TensorDesc& dense, const TensorDesc& table,
             const ScatterParams& params, int64_t skip, const Options& options);
  const char* engine() const { return sorted_ ? "sorted" : "columns"; }
  size_t workspace_size() const { return workspace_; }
  void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices, const Tensor& table,
           const Tensor& workspace) const;

 private:
  void make_columns(const Context& context, Defines defines);
  void make_sorted(const Context& context, Defines defines);
  std::string refuse_columns(const TensorDesc& table, const ScatterParams& params) const;
  std::string refuse_sorted(const TensorDesc& dense) const;
  void divide(bool sorted);
  void run_sorted(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices,
                  const Tensor& table, const Tensor& workspace) const;

  IndexNest nest_;
  std::vector<LoopDim> p_, w_;  ///< columns, and what is walked or sorted
  int64_t columns_ = 1, walked_ = 1, skip_ = -1;
  bool sorted_ = false;
  DType accumulator_ = DType::f32;
  Kernel columns_kernel_, keys_kernel_, chunks_kernel_, combine_kernel_;
  SortPairs sort_;
  int64_t unit_ = 1, largest_key_ = 0, rows_ = 16, chunks_ = 0;  ///< rows: sorted ones that a work-item folds
  int64_t chunk_ = 1;                                            ///< columns of a work-item
  size_t local_[2] = {1, 1};
  size_t keys_at_ = 0, values_at_ = 0, sorted_keys_at_ = 0, sorted_values_at_ = 0, sort_at_ = 0,
         parts_at_ = 0;
  size_t workspace_ = 0;
};

/// y = x where x is another tensor, 0 where it is undefined; what the call forms of writing operators start
/// with.
void require_start(const Stream& stream, const Tensor& x, const Tensor& y);
void start_from(const Stream& stream, const Tensor& x, const Tensor& y);

/// A number as one of the kernel's offsets.
void bind_offset(Launch& launch, bool wide, int64_t value);
/// The unsigned integer type, or vector, of so many bytes: up to 16.
const char* word_type(int64_t bytes);
/// Elements of a CPU's work-group, so that groups are several times as many as compute units, but not fewer
/// than `least`.
int64_t cpu_chunk(const Context& context, int64_t count, int64_t least);

}  // namespace dlprim::detail
