// Profile: what each operator of a stream takes on the device, kernel by kernel.
//
//   const Stream stream = profiling_stream(context);
//   Profile profile(stream);
//   gemm(stream, a, b, {}, {}, c);
//   for (const OperatorTime& op : profile.take()) ...  // op.text: "op=gemm engine=cpu m=64 ..."
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>

namespace dlprim {

/// One launch. Times are microseconds of the device's clock since the profile's first launch began.
struct KernelTime {
  std::string name;
  double start = 0, end = 0;

  double microseconds() const { return end - start; }
};

/// One run of an operator; operators inside it are part of it.
struct OperatorTime {
  std::string text;  ///< as in the log, without what was measured
  double flops = 0;  ///< 0: the operator counts none
  double bytes = 0;  ///< least traffic to memory; 0: it counts none
  std::vector<KernelTime> kernels;

  /// Of its kernels, without what lies between them.
  double microseconds() const {
    double sum = 0;
    for (const KernelTime& kernel : kernels) sum += kernel.microseconds();
    return sum;
  }
};

/// A stream with a queue of its own that measures device time.
DLPRIM_API Stream profiling_stream(const Context& context);

/// While it lives, the stream's operators are kept with their kernels, and their lines in the log wait for
/// take(), or for its end. One thread at a time may use it, as with the stream. Transfers are no kernels, and
/// not in it.
class DLPRIM_API Profile {
 public:
  /// Throws ValidationError if the stream's queue measures no time, or has a profile.
  explicit Profile(const Stream& stream);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// Waits for the stream, and gives the operators since the profile began, or since the last call. A
  /// recording's replay is one operator, "op=replay". Throws DeviceError.
  std::vector<OperatorTime> take();

 private:
  Stream stream_;
  uint64_t origin_ = 0;  ///< in nanoseconds; 0: nothing was launched
};

}  // namespace dlprim
