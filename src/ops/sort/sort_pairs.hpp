// A stable sort of pairs by 32-bit keys: least significant digit first, eight bits a pass. A detail of
// operators that group elements by their destination; not an operator.
#pragma once

#include "core/launch.hpp"
#include "core/program_cache.hpp"

namespace dlprim::detail {

class SortPairs {
 public:
  SortPairs() = default;
  /// For `count` pairs, below 2^31, whose keys are below 2^`bits`; each eight bits are a pass. `cpu` chooses
  /// the form; both run on every device.
  SortPairs(const Context& context, int64_t count, int bits, bool cpu);
  /// The form that suits the device.
  SortPairs(const Context& context, int64_t count, int bits);
  /// Bytes of the workspace.
  size_t workspace_size() const { return workspace_; }
  /// keys_out, values_out: the pairs in ascending order of keys, equal ones in their order. Without `values`
  /// these are the numbers 0, 1, ... All are row-major i32[count] tensors that hold unsigned numbers, and
  /// share no memory.
  void run(const Stream& stream, const Tensor& keys, const Tensor& values, const Tensor& keys_out,
           const Tensor& values_out, const Tensor& workspace) const;

 private:
  Kernel count_digits_, scan_, move_, move_positions_;
  int64_t count_ = 0;
  int passes_ = 1;
  int64_t chunk_ = 1, blocks_ = 1;  ///< elements of a work-group, and how many groups there are
  size_t local_ = 1;
  size_t counts_at_ = 0, keys_at_ = 0, values_at_ = 0, workspace_ = 0;
};

/// How many bits a number up to `largest` has.
int bits_of(uint64_t largest);

}  // namespace dlprim::detail
