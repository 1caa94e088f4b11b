// What operators that read or write by index have in common: the nest of loops they go over, and the two
// things that they do. Not an operator; gather.hpp, index.hpp and embedding.hpp are.
#pragma once

#include <optional>
#include <vector>

#include <dlprim/gather.hpp>

#include "core/composed.hpp"
#include "core/gen/loop_nest.hpp"

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

/// Makes the nest one of words of up to 16 bytes instead of elements, where rows that no index moves along
/// allow, and gives the elements of a word. Both tensors are of one dtype.
int64_t take_words(IndexNest& nest, const TensorDesc& table, const TensorDesc& dense);

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

struct PlanInfo;
struct WritePlan;
struct WriteProblem;

/// table[indices] = dense, elements that meet folded by a reduction. In the order of dense's elements in
/// memory; the result depends on nothing but shapes, strides, values and the engine.
class IndexWrite {
 public:
  /// Puts into `info` what choosing the engine gives, and "op=... engine=..." in front of its text.
  IndexWrite(const char* op, const Context& context, WriteProblem problem, const Options& options,
             PlanInfo& info);
  void run(const Stream& stream, const Tensor& dense, const std::vector<Tensor>& indices, const Tensor& table,
           const Tensor& workspace) const;

 private:
  std::shared_ptr<const WritePlan> impl_;
  bool empty_ = false;  ///< there is nothing to write, or nowhere
};

/// A number as one of the kernel's offsets.
void bind_offset(Launch& launch, bool wide, int64_t value);
/// The unsigned integer type, or vector, of so many bytes: up to 16.
const char* word_type(int64_t bytes);
/// Elements of a CPU's work-group, so that groups are several times as many as compute units, but not fewer
/// than `least`.
int64_t cpu_chunk(const Context& context, int64_t count, int64_t least);

}  // namespace dlprim::detail
