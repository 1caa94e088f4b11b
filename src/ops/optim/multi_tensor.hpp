// MultiTensor: one expression over many tensors in few launches, see multi_tensor.cl. Optimizers' steps and
// what is done to all gradients are made of it.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <dlprim/tensor.hpp>

#include "core/composed.hpp"
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

using TensorLists = std::vector<const std::vector<Tensor>*>;

/// Places of the lists, neighbours in memory together: the first one's index, and the elements of all.
struct TensorPlace {
  size_t index;
  int64_t count;
};
struct TensorPlaces {
  std::vector<TensorPlace> all;
  int64_t groups = 0;  ///< work-groups of a run, all launches together
};

/// Of the kernel's argument that says where a launch's tensors lie: how much fits, and where its parts begin.
struct TableSize {
  size_t lists = 1, places = 0, buffers = 0;
  size_t high() const { return 4 * (places + 1); }
  size_t low() const { return high() + 4 * buffers; }
  size_t rest() const { return low() + 4 * lists * places; }
  size_t buffer() const { return rest() + 2 * places; }
  size_t bytes() const { return (buffer() + lists * places + 3) / 4 * 4; }
};

class MultiTensor {
 public:
  /// Throws ValidationError for dtypes that are not floating, f64 beside others, or on a device without it.
  MultiTensor(const Context& context, const MultiTensorForm& form);
  /// As many tensors in each list, of equal shapes and strides at each place, without gaps. Those that are
  /// written share no memory with any other, nor with the numbers, nor do `results`, which the operator
  /// writes besides. Neighbours that are views of one memory, in all lists, count as one place. Throws
  /// ValidationError.
  TensorPlaces check(const Stream& stream, const TensorLists& lists, const DeviceNumbers& numbers,
                     std::initializer_list<Named> results = {}) const;
  /// Checked tensors, and their places.
  void run(const Stream& stream, const TensorLists& lists, const TensorPlaces& places,
           const std::vector<double>& scalars, const DeviceNumbers& numbers) const;
  DType real() const { return real_; }
  /// Work-groups of a run, at most, of so many tensors with so many elements together.
  int64_t most_groups(int64_t tensors, int64_t elements) const { return elements / chunk_ + tensors; }

 private:
  void check_one(const Context& context, const ArgName& name, DType dtype, const Tensor& x,
                 const Tensor& first) const;
  TensorPlaces places(const TensorLists& lists) const;

  std::vector<TensorList> lists_;
  int scalars_ = 0;
  DType real_ = DType::f32;
  bool cpu_ = false;
  int chunk_ = 0;
  TableSize table_;
  Kernel kernel_;
};

/// A factor, scale or flag: f32[1], or undefined. Throws ValidationError.
void require_device_number(const char* name, const Tensor& number, const Context& context);

}  // namespace dlprim::detail
