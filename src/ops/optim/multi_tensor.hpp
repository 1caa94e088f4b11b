// MultiTensor: one expression over many tensors in few launches, see multi_tensor.cl. Optimizers' steps, what
// is done to all gradients, and MultiPointwise are made of it.
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
  std::string name;
  DType dtype = DType::f32;
  /// The variables of the body that an element is loaded into and stored from; empty: it is not.
  std::string load, store;
  bool single = false;  ///< tensors of one element, loaded for all of the place; not the first list
};
/// A tensor of one element for all places.
struct TensorNumber {
  std::string name;
  DType dtype = DType::f32;
  std::string load;
};

struct MultiTensorForm {
  std::vector<TensorList> lists;
  std::vector<TensorNumber> numbers;
  int scalars = 0;         ///< s0, s1, ...
  int place_scalars = 0;   ///< behind those, one for each place
  std::string expression;  ///< that a user wrote, in the body; empty: none
  /// Sets the variables that are stored; it may read `multiplier`, set `bad`, and add to sums[e].
  std::string body;
  /// Behind the loop; `sums`, `bad` and `flag` are known.
  std::string finish;
  bool sums = false;           ///< the body adds to sums
  bool any_mix = false;        ///< f64 may stand beside others
  bool apart = false;          ///< each place has groups of its own
  bool same_elements = false;  ///< what is read at a place may be what is written there
};

/// Numbers that lie on the device, of one element. Factor, scale and flag are f32, and each may be missing.
struct DeviceNumbers {
  Tensor factor, scale;
  Tensor flag;
  bool skips = true;           ///< nothing happens where the flag is not 0
  Tensor parts;                ///< for the sums of each group
  std::vector<Tensor> others;  ///< those of the form
};

using TensorLists = std::vector<const std::vector<Tensor>*>;

/// Numbers of a form by value.
struct HostNumbers {
  std::vector<double> scalars;
  std::vector<std::vector<double>> place_scalars;  ///< of each, as many as the lists have tensors
};

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
  size_t lists = 1, scalars = 0, scalar_bytes = 4, buffers = 0, places = 0;
  size_t first() const { return scalars * places * scalar_bytes; }
  size_t high() const { return first() + 4 * (places + 1); }
  size_t low() const { return high() + 4 * buffers; }
  size_t rest() const { return low() + 4 * lists * places; }
  size_t buffer() const { return rest() + 2 * places; }
  size_t bytes() const {
    const size_t unit = scalars > 0 ? scalar_bytes : 4;
    return (buffer() + lists * places + unit - 1) / unit * unit;
  }
};

/// The text of the kernel that computes the form in `real`. In multi_tensor_source.cpp.
std::string multi_tensor_source(const MultiTensorForm& form, DType real, const TableSize& table, bool cpu);

class MultiTensor {
 public:
  /// Most of each that a form may have: on any device a launch then has room for a place.
  static constexpr size_t kMostLists = 16, kMostNumbers = 16, kMostScalars = 16, kMostPlaceScalars = 4;
  /// Throws ValidationError for dtypes that are not floating, f64 beside others where it may not be, or on a
  /// device without it; for more of anything than there may be.
  MultiTensor(const Context& context, const MultiTensorForm& form);
  /// As many tensors in each list, of equal shapes and strides at each place, without gaps. Those that are
  /// written share no memory with any other, but for the form's `same_elements`, nor with the numbers, nor do
  /// `results`, which the operator writes besides. Neighbours that are views of one memory, in all lists,
  /// count as one place, where no number is a place's own. Throws ValidationError.
  TensorPlaces check(const Stream& stream, const TensorLists& lists, const DeviceNumbers& numbers,
                     std::initializer_list<Named> results = {}) const;
  /// Checked tensors, and their places.
  void run(const Stream& stream, const TensorLists& lists, const TensorPlaces& places,
           const HostNumbers& scalars, const DeviceNumbers& numbers) const;
  DType real() const { return real_; }
  /// Work-groups of a run, at most, of so many tensors with so many elements together.
  int64_t most_groups(int64_t tensors, int64_t elements) const { return elements / chunk_ + tensors; }
  int64_t groups_of(const TensorPlace& place) const;

 private:
  void check_one(const Context& context, const ArgName& name, const TensorList& list, const Tensor& x,
                 const Tensor& first) const;
  TensorPlaces places(const TensorLists& lists) const;

  MultiTensorForm form_;
  DType real_ = DType::f32;
  bool cpu_ = false;
  int chunk_ = 0;
  TableSize table_;
  Kernel kernel_;
};

/// Of one element. Throws ValidationError.
void require_number(const ArgName& name, const Tensor& number, const Context& context, DType dtype);
/// A factor, scale or flag: f32[1], or undefined. Throws ValidationError.
void require_device_number(const char* name, const Tensor& number, const Context& context);

}  // namespace dlprim::detail
