// The network that `dlprim train` trains and `dlprim eval` runs, and how images get into it.
#pragma once

#include <dlprim/net.hpp>

#include "dataset.hpp"

namespace dlprim::cli {

struct Classifier {
  /// For images of this size.
  Classifier(const Stream& stream, uint64_t seed, int64_t rows, int64_t columns);

  Net net;
  Value images, labels;  ///< f32 [N, 1, rows, columns] and u8 [N]
  Value loss, correct;   ///< see Net::cross_entropy and Net::count_correct
};

/// Runs the images `places[0]` to `places[count-1]` of the data set. Does not wait for the device.
Pass forward(const Stream& stream, const Classifier& classifier, Mode mode, const Dataset& data,
             const uint32_t* places, int64_t count);

struct Score {
  double loss = 0;  ///< mean
  int64_t correct = 0, count = 0;
  double accuracy() const {
    return count == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(count);
  }
};

/// Over the whole data set, in evaluation mode.
Score evaluate(const Stream& stream, const Classifier& classifier, const Dataset& data, int64_t batch);

}  // namespace dlprim::cli
