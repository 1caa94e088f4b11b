// Searching index tensors for elements that are out of range: what Context::check_indices() switches on.
// Operators that read or write by index call check_index() before their kernels; a stream keeps the first bad
// element that the device found, and its next wait throws it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::detail {

/// The elements that an index tensor may have: from `least` to `end` - 1, and `skip`.
struct IndexRange {
  int64_t least = 0, end = 0;
  std::optional<int64_t> skip;
};
/// The positions of an axis of that size, which negative indices count from the end.
inline IndexRange positions_of(int64_t size) {
  return {-size, size, {}};
}

/// The searches of one stream, and the record that the device writes.
class IndexChecks {
 public:
  void search(const Stream& stream, const std::string& site, const Tensor& index, const IndexRange& range);
  /// Waits for the queue, and throws IndexError if it found a bad element since the last call.
  void throw_bad(const Stream& stream);

 private:
  struct Site {
    std::string name;
    Shape shape;
    IndexRange range;
  };
  /// The number of this site, from 1 on. Replays of recordings use it again.
  int64_t number_of(const std::string& name, const Shape& shape, const IndexRange& range);

  cl::Buffer record_;  ///< three i64: site, element, value; null until the first search
  std::vector<Site> sites_;
  std::unordered_map<std::string, int64_t> numbers_;  ///< by all that a Site has, as text
};

/// Whether the environment has DLPRIM_CHECK_INDEX=1.
bool index_checks_asked();

/// Enqueues the search where the context of `stream` checks indices. `op` and `name` are the operator and its
/// argument, as the error names them; the calling thread's CheckedOperator goes before `op`.
void check_index(const Stream& stream, const char* op, const std::string& name, const Tensor& index,
                 const IndexRange& range);

/// While it lives, the calling thread's searches name this operator: embedding() is indexing of a table, but
/// a user called embedding().
class CheckedOperator {
 public:
  explicit CheckedOperator(const char* name) noexcept;
  ~CheckedOperator();
  CheckedOperator(const CheckedOperator&) = delete;
  CheckedOperator& operator=(const CheckedOperator&) = delete;

 private:
  const char* const before_;
};

}  // namespace dlprim::detail
