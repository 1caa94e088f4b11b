// What of a tensor a value is.
#pragma once

#include <optional>

#include "net/passes/pass.hpp"

namespace dlprim::detail {

/// Elements start, start + step, ... along one axis of x; `single`: the axis is gone.
struct Part {
  int x, axis;
  int64_t start, count, step;
  bool single;
};

/// If a gather, a slice or a split with known places along one axis gives the value. The places are in range,
/// and step is 1 or more.
std::optional<Part> part_of(const Rewritten& r, const Links& links, int value);

}  // namespace dlprim::detail
