// A place in the sequence of random numbers that random.hpp describes.
#pragma once

#include <cstdint>

namespace dlprim {

/// A place in the sequence of random numbers. Element i of a call's tensor uses the number at offset + i.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  /// A replay of a Recording uses numbers further on, as its caller says. Else it uses those of the
  /// recording.
  bool continues = false;
  /// The state for this call; later calls get numbers behind it.
  RandomState take(int64_t elements) {
    const RandomState now = *this;
    offset += static_cast<uint64_t>(elements);
    return now;
  }
};

}  // namespace dlprim
