// What the engines of sort and top-k share: the problem as they see it, and the implementation they make.
#pragma once

#include <array>

#include <dlprim/sort.hpp>

#include "core/defines.hpp"
#include "core/engine.hpp"
#include "core/launch.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/sort/sort_axis.h"

/// Rows of tensors along an axis: what is left of the other dimensions where neighbours are merged.
struct SortRows {
  static constexpr int kMost = 7;
  int rows = 1;  ///< their product
  int dims = 1;
  AxisDims kept{{1, 1, 1, 1, 1, 1, 1}};
  std::vector<AxisSteps> steps;  ///< of each tensor

  /// The tensors have one shape but along the axis, which is in range; an undefined one is an empty one here.
  /// Throws ValidationError (more than 2^31 - 1 rows).
  SortRows(const std::vector<const TensorDesc*>& tensors, int axis);
  /// Binds ROW_TENSOR of sort_word.cl for tensor `which`.
  void bind(Launch& launch, size_t which, const Tensor& tensor) const;
  /// ROW_DIMS: few different ones, for few compiled kernels.
  int compiled_dims() const;
  /// Binds ROW_SIZES.
  void bind_sizes(Launch& launch) const;
  /// Binds the tensors in the constructor's order, and ROW_SIZES.
  void bind_all(Launch& launch, std::initializer_list<const Tensor*> tensors) const;
};

struct SortTensors {
  const Tensor &x, &y, &indices;
};

struct SortProblem {
  SortRows at;  ///< of x, y, indices
  int n = 0;    ///< elements of a row
  int k = 0;    ///< of which the first in order are wanted
  DType dtype = DType::f32, index = DType::i64;
  bool y = false, indices = false;
  bool descending = false;
  bool sorted = true;
  bool one = false;  ///< a k-th value or median alone is wanted
  int rank = 0;      ///< of that, from 0 on; NaNs may move it
  Median median = Median::none;

  int key_bits() const { return static_cast<int>(size_of(dtype)) * 8; }
  /// Binds ROW_SIZES, and whether the order is descending.
  void bind_sizes(Launch& launch) const;
  /// Binds all tensors, and the same.
  void bind_all(Launch& launch, const SortTensors& tensors) const;
  /// Bytes of a word with an index of 32 bits.
  int64_t word_bytes() const { return key_bits() == 64 ? 16 : 8; }
};

/// The macros of sort_word.cl. Indices in words have 32 bits, or 16 in words of 32: for keys of up to 16
/// bits.
Defines sort_defines(const SortProblem& problem, bool short_words = false);

/// Rows that a CPU's work-group goes through, all in the same scratch memory: there are just enough groups
/// for all cores, unless rows are so short that starting a group costs more.
int64_t rows_of_group(const Context& context, const SortProblem& problem);

using SortEngine = Engine<SortProblem, SortImpl>;

struct SortImpl : EngineImpl {
  explicit SortImpl(const SortProblem& problem) : p(problem) {}
  /// Everything is checked, there are rows and k is not 0, `workspace` is as large as was asked for.
  virtual void run(const Stream& stream, const SortTensors& tensors, const Tensor& workspace) const = 0;

  const SortProblem p;
};

/// Rows sorted in local memory by sort_bitonic.cl: those of x, or rows of words [rows, n] that another kernel
/// made of x's elements (sort_defines). Of each row it writes what the problem asks for.
class BitonicSorter {
 public:
  /// The longest rows that fit.
  static int longest(const Context& context, int64_t word_bytes);

  BitonicSorter() = default;
  BitonicSorter(const Context& context, const SortProblem& problem, int n, bool from_words);
  /// `words` is undefined where rows of x are sorted.
  void run(const Stream& stream, const SortProblem& problem, const SortTensors& tensors,
           const Tensor& words) const;

 private:
  Kernel kernel_;
  int n_ = 0;
  int64_t group_ = 0, rows_each_ = 0;
};

/// The k-th keys of long rows, which are cut into parts, by their digits: select_count and select_pick of
/// top_k_select.cl.
struct DigitSearch {
  static constexpr int64_t kDigits = 256;

  /// Kernels of the file `source` for work-groups of `group`.
  DigitSearch(const Context& context, const SortProblem& problem, const char* source, const Defines& defines,
              int group);
  /// Runs a kernel that begins with PART; `to` is its last argument, if it has one more.
  void over_parts(const Stream& stream, const Kernel& kernel, const SortProblem& problem, const Tensor& x,
                  const Tensor& states, const Tensor& counts, int shift, const Tensor* to = nullptr) const;
  /// `states` have each row's k, and get its key; `counts` are 0 before and after, kDigits of each row.
  void run(const Stream& stream, const SortProblem& problem, const Tensor& x, const Tensor& states,
           const Tensor& counts) const;

  size_t group;
  int part, parts;
  Kernel count, pick;
};

}  // namespace dlprim::detail
