// What resampling does along one axis, as a table: which elements of the source make an element of the
// result.
#pragma once

#include <cstdint>
#include <vector>

namespace dlprim::detail {

/// What the places along one axis of the result are made of: place o of source[first[o]] to source[first[o +
/// 1]], in that order.
struct AxisTaps {
  int64_t source_size = 0;
  std::vector<int32_t> first{0};
  std::vector<int32_t> source;
  std::vector<double> weight;  ///< beside `source`; empty: all are 1

  int64_t size() const { return static_cast<int64_t>(first.size()) - 1; }
  /// Ends the place whose taps were put behind `source`.
  void end_place() { first.push_back(static_cast<int32_t>(source.size())); }
  /// Most taps of a place.
  int64_t width() const;
  /// Whether a place has fewer taps than others.
  bool ragged() const;
};

/// The gradient's taps: for each element of the source the places that it went to, ascending.
AxisTaps transposed(const AxisTaps& taps);
/// Each place is that of the source.
AxisTaps identity_taps(int64_t size);

}  // namespace dlprim::detail
