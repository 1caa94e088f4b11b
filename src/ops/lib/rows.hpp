// Rows: the host's side of rows.cl. Kernels that work along one axis of several tensors get these as strides
// along that axis and along at most four other dimensions; what has more is cut into several launches.
#pragma once

#include <vector>

#include "core/defines.hpp"
#include "core/gen/loop_nest.hpp"
#include "core/launch.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/lib/rows.h"

/// `shape` with size 1 along the axis.
Shape row_shape(Shape shape, int axis);

class RowNest {
 public:
  RowNest() = default;
  /// `tensors` are as large as `shape` or broadcast to it; the first ones count most where they disagree
  /// about which dimension is the inner one. Of a tensor that has one element a row, nothing steps along the
  /// axis.
  RowNest(const Shape& shape, int axis, const std::vector<TensorDesc>& tensors);

  int64_t rows() const { return nest_.kept_count; }
  int64_t size() const { return nest_.reduced_count; }
  /// Neighbouring rows lie closer together than neighbours along the axis.
  bool across() const { return !nest_.kept.empty() && !nest_.reduced_innermost; }
  int64_t axis_stride(size_t tensor) const {
    return nest_.reduced.empty() ? 0 : nest_.reduced[0].strides[tensor];
  }
  /// Rows that are neighbours along the innermost other dimension.
  int64_t inner() const { return nest_.kept.empty() ? 1 : nest_.kept.back().size; }
  int64_t inner_stride(size_t tensor) const {
    return nest_.kept.empty() ? 0 : nest_.kept.back().strides[tensor];
  }
  /// Whether tensor's lanes, along the axis or across, are neighbours in memory.
  bool packed(size_t tensor) const { return packed(tensor, across()); }
  bool packed(size_t tensor, bool across) const;
  /// Whether V elements along the axis can be read at once, of a tensor described so.
  bool vectors(size_t tensor, const TensorDesc& desc, int64_t v) const;
  /// Whether long rows of all these tensors, by their numbers, start the same number of elements past a
  /// multiple of V.
  bool ragged(const std::vector<size_t>& numbers, const std::vector<TensorDesc>& tensors, int64_t v) const;

  /// INDEX and RANK.
  void define(Defines& defines) const;
  /// The rows of one launch, and how many launches there are.
  int64_t rows_a_launch() const;
  /// Binds the tensors (undefined ones too), in the constructor's order, and the sizes; `rest` binds what
  /// else there is and runs.
  template <class F>
  void launch(const Stream& stream, const Kernel& kernel, const std::vector<Tensor>& tensors,
              const F& rest) const {
    if (nest_.kept_count == 0) return;
    for (int64_t i = 0; i < nest_.kept_count / rows_a_launch(); i++) {
      Launch launch(stream, kernel);
      bind(launch, tensors, i);
      rest(launch);
    }
  }

 private:
  void bind(Launch& launch, const std::vector<Tensor>& tensors, int64_t part) const;
  size_t peeled() const;

  LoopNest nest_;
};

/// How a GPU kernel shares a row out: the macros of rows_gpu.cl.
struct RowForm {
  int vector = 1;  ///< set before choose()
  bool ragged = false;
  int64_t lanes = 1, rows = 1, items = 1;
  bool hold = true;

  /// Where `vector` is 1 still: vectors all the same, if RowNest::ragged allows it.
  void try_ragged(const RowNest& nest, const std::vector<size_t>& numbers,
                  const std::vector<TensorDesc>& tensors);
  /// For rows of the nest, of which a work-item holds at most `registers` elements.
  void choose(const Device& device, const RowNest& nest, int64_t registers);
  int64_t group() const { return lanes * rows; }
  /// The kernel in this form, or in one with smaller groups where it comes out such that the device cannot
  /// have these.
  Kernel kernel(const Context& context, const char* file, const char* name, const Defines& defines);
};

/// How a CPU kernel does: rows_cpu.cl.
struct CpuRows {
  explicit CpuRows(const RowNest& nest);
  bool across;  ///< the lanes are neighbouring rows
  /// Sets `name`_STEP and `name`_GAPS, which tell how a tensor's lanes lie.
  void define(Defines& defines, const RowNest& nest, size_t tensor, const char* name, DType dtype) const;
  int64_t lanes, block, groups;
};

}  // namespace dlprim::detail
