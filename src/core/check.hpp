// Checks of arguments and of OpenCL's answers. Every operator validates through these, so that all
// refusals read alike: "x: rank 3 must be 4".
#pragma once

#include <dlprim/error.hpp>
#include <dlprim/tensor.hpp>

#include "core/text.hpp"

namespace dlprim::detail {

/// Throws DeviceError unless `code` is CL_SUCCESS.
inline void cl_check(cl_int code, const char* call) {
  if (code != CL_SUCCESS) throw DeviceError(call, code);
}

/// The name of an argument: "x", or "inputs[2]". Made into text only when a check fails.
class ArgName {
 public:
  ArgName(const char* name) : name_(name) {}  // NOLINT: a plain name is the usual case
  ArgName(const char* name, size_t index) : name_(name), index_(static_cast<int>(index)) {}
  std::string text() const { return index_ < 0 ? std::string(name_) : cat(name_, '[', index_, ']'); }
  friend std::ostream& operator<<(std::ostream& out, const ArgName& name) { return out << name.text(); }

 private:
  const char* name_;
  int index_ = -1;
};

/// Throws ValidationError(argument, joined parts) unless `ok`.
template <class... Parts>
void require(bool ok, const ArgName& argument, const Parts&... parts) {
  if (!ok) throw ValidationError(argument.text(), cat(parts...));
}

/// The refusal `error` under the name of another function's argument.
ValidationError renamed(const ValidationError& error, const ArgName& argument);

/// The tensor exists and lives in `context`.
void require_context(const ArgName& argument, const Tensor& tensor, const Context& context);
/// The same, and the tensor is as `desc` says. Strides of dimensions of size 1 may differ: nothing steps
/// along them.
void require_tensor(const ArgName& argument, const Tensor& tensor, const Context& context,
                    const TensorDesc& desc);
/// A stride for each dimension, no negative size or stride, fewer than kElementLimit elements, and all that
/// they reach can be counted; needed of every description.
void require_strides(const ArgName& argument, const TensorDesc& desc);
/// The same, and strides reach every element without two sharing one address; needed of every output.
void require_writable(const ArgName& argument, const TensorDesc& desc);
/// The two tensors share no memory, as far as memory_overlaps can tell.
void require_no_overlap(const ArgName& output, const Tensor& y, const ArgName& input, const Tensor& x);
/// False if no byte belongs to both tensors: their address ranges are apart, or they are interleaved, as
/// columns of one matrix are. True otherwise, and where strides are too involved to tell.
bool memory_overlaps(const Tensor& a, const Tensor& b);
/// Two views of one memory have their elements at the same places.
bool same_elements(const Tensor& a, const Tensor& b);

void require_rank(const ArgName& argument, const TensorDesc& desc, int rank);
void require_dtype(const ArgName& argument, const TensorDesc& desc, DType dtype);
void require_shape(const ArgName& argument, const TensorDesc& desc, const Shape& shape);

/// `value` as a kernel's int. Throws ValidationError if it does not fit.
int to_int(const char* what, int64_t value);
/// The number of elements from the first to the last that `desc` reaches; 0 if it has none.
int64_t extent_of(const TensorDesc& desc);

/// `axis` in [0, rank), negative ones counted from the end. Throws ValidationError.
int normalize_axis(const ArgName& argument, int axis, int rank);

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace dlprim::detail
