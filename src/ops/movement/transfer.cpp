// Transfers between host and device.
#include <cstring>

#include <dlprim/copy.hpp>
#include <dlprim/rehearsal.hpp>

#include "core/composed.hpp"
#include "core/observer.hpp"
#include "core/recorder.hpp"

namespace dlprim {

using namespace detail;

namespace {

/// The tensor's bytes as one run of its buffer.
struct Run {
  size_t begin, size;
};
Run run_of(const Tensor& t) {
  return {static_cast<size_t>(t.offset()) * size_of(t.dtype()), static_cast<size_t>(t.bytes())};
}

void require_bytes(const char* argument, const Tensor& t, const void* host, int64_t bytes) {
  require(t.defined(), argument, "is not defined");
  require(bytes == t.bytes(), "bytes", bytes, " for ", t, " of ", t.bytes());
  require(host != nullptr || bytes == 0, "host", "is null");
}

/// `done` gets the event of the read; where it is null, the data has arrived.
void enqueue_read(const Stream& stream, const Tensor& x, void* host, int64_t bytes, cl_event* done) {
  require_bytes("x", x, host, bytes);
  require(x.context() == stream.context(), "x", "belongs to another context than the stream");
  if (bytes == 0) return;
  require(!Rehearsal::active(), "x", "is read in a rehearsal, where nothing is computed");
  require(!RecordingState::active(stream.state()), "x",
          "is read in a recording: a replay could not read it again");
  stream.state().index_checks.throw_bad(stream);
  if (operator_observer) operator_observer->reads(x);
  const Tensor packed = x.is_contiguous() ? x : contiguous(stream, x);
  const Run run = run_of(packed);
  StreamState& state = stream.state();
  packed.storage()->touch(state.queue);
  const uint64_t before = state.queue->submitted;
  enqueue_command(stream.context(), "clEnqueueReadBuffer", {}, [&] {
    return clEnqueueReadBuffer(stream.cl()(), packed.buffer()(), done ? CL_FALSE : CL_TRUE, run.begin,
                               run.size, host, 0, nullptr, done);
  });
  if (done)
    state.queue->submitted++;
  else
    state.queue->done(before);
}

}  // namespace

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
  if (Rehearsal::active()) return;
  if (RecordingState::active(stream.state())) {
    // A replay writes nothing from the host: it copies what the recording keeps.
    Tensor kept;
    {
      const RecordingPause pause;
      kept = Tensor(stream, y.shape(), y.dtype());
      write(stream, kept, host, bytes);
    }
    copy(stream, kept, y);
    return;
  }
  const Run run = run_of(y);
  StreamState& state = stream.state();
  state.release_staging();
  // The driver reads host memory when the queue gets there: it reads a copy that lives until then.
  Staging& staging = state.staging.emplace_back();
  staging.bytes.assign(static_cast<const char*>(host), static_cast<const char*>(host) + bytes);
  y.storage()->touch(state.queue);
  cl_event done = nullptr;
  enqueue_command(stream.context(), "clEnqueueWriteBuffer", {}, [&] {
    return clEnqueueWriteBuffer(stream.cl()(), y.buffer()(), CL_FALSE, run.begin, run.size,
                                staging.bytes.data(), 0, nullptr, &done);
  });
  state.queue->submitted++;
  staging.done = cl::Event(done);
}

Event write_async(const Stream& stream, const Tensor& y, const void* host, int64_t bytes) {
  require_bytes("y", y, host, bytes);
  require(y.context() == stream.context(), "y", "belongs to another context than the stream");
  require_writable("y", y);
  if (bytes == 0) return {};
  require(!Rehearsal::active(), "y", "is written in a rehearsal, where nothing is computed");
  require(!RecordingState::active(stream.state()), "y",
          "is written in a recording: a replay could not read the host's memory again");
  const Tensor packed = y.is_contiguous() ? y : Tensor(stream, y.shape(), y.dtype());
  const Run run = run_of(packed);
  StreamState& state = stream.state();
  packed.storage()->touch(state.queue);
  cl_event done = nullptr;
  enqueue_command(stream.context(), "clEnqueueWriteBuffer", {}, [&] {
    return clEnqueueWriteBuffer(stream.cl()(), packed.buffer()(), CL_FALSE, run.begin, run.size, host, 0,
                                nullptr, &done);
  });
  state.queue->submitted++;
  const Event result{cl::Event(done)};
  if (!y.is_contiguous()) copy(stream, packed, y);
  cl_check(clFlush(stream.cl()()), "clFlush");  // so that who waits need not wait for this stream's host
  return result;
}

void read(const Stream& stream, const Tensor& x, void* host, int64_t bytes) {
  enqueue_read(stream, x, host, bytes, nullptr);
}

Event read_async(const Stream& stream, const Tensor& x, void* host, int64_t bytes) {
  cl_event done = nullptr;
  enqueue_read(stream, x, host, bytes, &done);
  const Event result{cl::Event(done)};
  cl_check(clFlush(stream.cl()()), "clFlush");  // so that who waits need not wait for this stream's host
  return result;
}

namespace detail {

void check_host_type(const char* argument, const Tensor& tensor, DType host, int64_t count) {
  require(tensor.defined(), argument, "is not defined");
  require(tensor.dtype() == host, argument, tensor, ", the host's elements are ", name_of(host));
  require(tensor.numel() == count, "host", count, " elements for ", argument, ", ", tensor);
}

}  // namespace detail
}  // namespace dlprim
