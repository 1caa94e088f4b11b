// What the device itself can do, measured with small kernels, so that benchmarks print their share of it.
#pragma once

#include <dlprim/stream.hpp>

namespace dlprim::bench {

struct Peak {
  double gflops = 0;  ///< fp32 multiply-adds in registers, two operations each
  double gbytes = 0;  ///< of a copy between large buffers, read and written
};

/// Measured once per process, on the first stream it is asked with.
const Peak& peak(const Stream& stream);

}  // namespace dlprim::bench
