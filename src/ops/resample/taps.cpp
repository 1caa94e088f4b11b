#include "ops/resample/taps.hpp"

#include <algorithm>
#include <cstddef>

namespace dlprim::detail {

int64_t AxisTaps::width() const {
  int32_t most = 0;
  for (size_t o = 0; o + 1 < first.size(); o++) most = std::max(most, first[o + 1] - first[o]);
  return most;
}

bool AxisTaps::ragged() const {
  const int64_t most = width();
  for (size_t o = 0; o + 1 < first.size(); o++)
    if (first[o + 1] - first[o] != most) return true;
  return false;
}

AxisTaps transposed(const AxisTaps& taps) {
  struct Place {
    int32_t place;
    double weight;
  };
  std::vector<std::vector<Place>> places(static_cast<size_t>(taps.source_size));
  for (size_t o = 0; o + 1 < taps.first.size(); o++)
    for (auto k = static_cast<size_t>(taps.first[o]); k < static_cast<size_t>(taps.first[o + 1]); k++) {
      std::vector<Place>& of = places[static_cast<size_t>(taps.source[k])];
      const double weight = taps.weight.empty() ? 1 : taps.weight[k];
      // Several taps of a place may be one element, at a border.
      if (!of.empty() && of.back().place == static_cast<int32_t>(o))
        of.back().weight += weight;
      else
        of.push_back({static_cast<int32_t>(o), weight});
    }
  AxisTaps result;
  result.source_size = taps.size();
  for (const std::vector<Place>& of : places) {
    for (const Place& place : of) {
      result.source.push_back(place.place);
      if (!taps.weight.empty()) result.weight.push_back(place.weight);
    }
    result.end_place();
  }
  return result;
}

AxisTaps identity_taps(int64_t size) {
  AxisTaps taps;
  taps.source_size = size;
  for (int64_t i = 0; i < size; i++) {
    taps.source.push_back(static_cast<int32_t>(i));
    taps.end_place();
  }
  return taps;
}

}  // namespace dlprim::detail
