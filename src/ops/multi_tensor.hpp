// MultiTensor: one expression over many tensors in few launches, see multi_tensor.cl. Optimizers' steps and
// what is done to all gradients are made of it.
#pragma once

#include <string>
#include <vector>

#include <dlprim/tensor.hpp>

#include "core/launch.hpp"

namespace dlprim::detail {

/// A list of tensors, one for each place.
struct TensorList {
  const char* name;
  DType dtype = DType::f32;
  bool read = true, written = true;
};

struct MultiTensorForm {
  std::vector<TensorList> lists;
  int scalars = 0;
  /// What becomes of x0, x1, ... of the lists at one place, in terms of s0, s1, ... and `multiplier`; it may
  /// set `bad`, and add to sums[e].
  std::string body;
  /// Behind the loop; `sums`, `bad` and `flag` are known.
  std::string finish;
  bool sums = false;  ///< the body adds to sums
};

/// Numbers that lie on the device, f32, of one element; each may be missing.
struct DeviceNumbers {
  Tensor factor, scale;
  Tensor flag;
  bool skips = true;  ///< nothing happens where the flag is not 0
  Tensor parts;       ///< for the sums of each group
};

class MultiTensor {
 public:
  /// Throws ValidationError for dtypes that are not floating, f64 beside others, or on a device without it.
  MultiTensor(const Context& context, const MultiTensorForm& form);
  /// As many tensors in each list, of equal shapes and strides at each place, without gaps, that share no
  /// memory. Throws ValidationError.
  void check(const Stream& stream, const std::vector<const std::vector<Tensor>*>& lists,
             const DeviceNumbers& numbers) const;
  /// Checked tensors. Neighbours that are views of one memory, in all lists, count as one place.
  void run(const Stream& stream, const std::vector<const std::vector<Tensor>*>& lists,
           const std::vector<double>& scalars, const DeviceNumbers& numbers) const;
  /// Work-groups of a run, all launches together.
  int64_t groups(const std::vector<const std::vector<Tensor>*>& lists) const;
  DType real() const { return real_; }

 private:
  struct Place {
    size_t index;
    int64_t count;
  };
  std::vector<Place> places(const std::vector<const std::vector<Tensor>*>& lists) const;
  void launch(const Stream& stream, const std::vector<const std::vector<Tensor>*>& lists, const Place* first,
              size_t count, const std::vector<double>& scalars, const DeviceNumbers& numbers,
              int64_t groups_before) const;

  std::vector<TensorList> lists_;
  int scalars_ = 0;
  DType real_ = DType::f32;
  bool cpu_ = false;
  int chunk_ = 0;
  size_t places_ = 1;  ///< of a launch
  Kernel kernel_;
};

/// A factor, scale or flag: f32[1], or undefined. Throws ValidationError.
void require_device_number(const char* name, const Tensor& number, const Context& context);

}  // namespace dlprim::detail
