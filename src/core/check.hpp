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

 private:
  const char* name_;
  int index_ = -1;
};

/// Throws ValidationError(argument, joined parts) unless `ok`.
template <class... Parts>
void require(bool ok, const ArgName& argument, const Parts&... parts) {
  if (!ok) throw ValidationError(argument.text(), cat(parts...));
}

/// The tensor exists, lives in `context`, and is as `desc` says.
void require_tensor(const ArgName& argument, const Tensor& tensor, const Context& context,
                    const TensorDesc& desc);
/// Strides reach every element without two sharing one address; needed of every output.
void require_writable(const ArgName& argument, const TensorDesc& desc);
/// The memory ranges of the two tensors are apart.
void require_no_overlap(const ArgName& output, const Tensor& y, const ArgName& input, const Tensor& x);
/// True if the two tensors share at least one byte of their address ranges.
bool ranges_overlap(const Tensor& a, const Tensor& b);

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
