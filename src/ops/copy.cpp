// Copies, casts and fills through the pointwise generator; transfers between host and device.
#include <dlprim/copy.hpp>

#include <cstring>

#include <dlprim/pointwise.hpp>

#include "core/check.hpp"
#include "core/state.hpp"

namespace dlprim {

using namespace detail;

namespace {

constexpr int64_t kStaged = int64_t{1} << 20;  // bytes up to which a write goes through a host copy

/// The tensor's bytes as one run of its buffer.
struct Run {
  size_t begin, size;
};
Run run_of(const Tensor& t) {
  return {static_cast<size_t>(t.offset()) * size_of(t.dtype()), static_cast<size_t>(t.bytes())};
}

void require_bytes(const char* argument, const Tensor& t, const void* host, int64_t bytes) {
  require(t.defined(), argument, "is not defined");
  require(bytes == t.bytes(), "bytes", bytes, " for ", t.describe(), " of ", t.bytes());
  require(host != nullptr || bytes == 0, "host", "is null");
}

}  // namespace

void copy(const Stream& stream, const Tensor& x, const Tensor& y) {
  require(x.defined(), "x", "is not defined");
  require(y.defined(), "y", "is not defined");
  const bool to_bool = y.dtype() == DType::boolean && x.dtype() != DType::boolean;
  pointwise(stream, {x}, {y}, {}, to_bool ? "y0 = x0 != 0" : "y0 = x0");
}

void fill(const Stream& stream, const Tensor& y, double value) {
  require(y.defined(), "y", "is not defined");
  pointwise(stream, {}, {y}, {value}, y.dtype() == DType::boolean ? "y0 = s0 != 0" : "y0 = s0");
}

Tensor contiguous(const Stream& stream, const Tensor& x) {
  return cast(stream, x, x.dtype());
}

Tensor cast(const Stream& stream, const Tensor& x, DType dtype) {
  require(x.defined(), "x", "is not defined");
  Tensor y(stream, x.shape(), dtype);
  copy(stream, x, y);
  return y;
}

void write(const Stream& stream, const Tensor& y, const void* host, int64_t bytes) {
  require_bytes("y", y, host, bytes);
  require(y.context() == stream.context(), "y", "belongs to another context than the stream");
  require_writable("y", y);
  if (bytes == 0) return;
  if (!y.is_contiguous()) {
    const Tensor packed(stream, y.shape(), y.dtype());
    write(stream, packed, host, bytes);
    copy(stream, packed, y);
    return;
  }
  const Run run = run_of(y);
  StreamState& state = stream.state();
  y.storage()->touch(state.queue);
  state.queue->submitted++;
  if (bytes > kStaged) {
    cl_check(clEnqueueWriteBuffer(stream.cl()(), y.buffer()(), CL_TRUE, run.begin, run.size, host, 0, nullptr,
                                  nullptr),
             "clEnqueueWriteBuffer");
    return;
  }
  // The driver may read host memory later: it reads a copy that lives until then.
  state.release_staging();
  Staging staging;
  staging.bytes.assign(static_cast<const char*>(host), static_cast<const char*>(host) + bytes);
  cl_event done = nullptr;
  cl_check(clEnqueueWriteBuffer(stream.cl()(), y.buffer()(), CL_FALSE, run.begin, run.size,
                                staging.bytes.data(), 0, nullptr, &done),
           "clEnqueueWriteBuffer");
  staging.done = cl::Event(done);
  state.staging.push_back(std::move(staging));
}

void read(const Stream& stream, const Tensor& x, void* host, int64_t bytes) {
  require_bytes("x", x, host, bytes);
  require(x.context() == stream.context(), "x", "belongs to another context than the stream");
  if (bytes == 0) return;
  const Tensor packed = x.is_contiguous() ? x : contiguous(stream, x);
  const Run run = run_of(packed);
  packed.storage()->touch(stream.state().queue);
  cl_check(clEnqueueReadBuffer(stream.cl()(), packed.buffer()(), CL_TRUE, run.begin, run.size, host, 0,
                               nullptr, nullptr),
           "clEnqueueReadBuffer");
}

namespace detail {

void check_host_type(const Tensor& tensor, DType host, int64_t count) {
  require(tensor.defined(), "tensor", "is not defined");
  require(tensor.dtype() == host, "host", "elements are ", name_of(host), ", the tensor is ",
          tensor.describe());
  require(tensor.numel() == count, "host", count, " elements, the tensor is ", tensor.describe());
}

}  // namespace detail
}  // namespace dlprim
