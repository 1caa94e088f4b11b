// Copies, casts and fills through the pointwise generator, or by kernels of their own where x and y are
// transposed to each other; transfers between host and device.
#include <dlprim/copy.hpp>

#include <cstring>
#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/observer.hpp"
#include "ops/movement/interleave.hpp"
#include "ops/movement/transpose.hpp"

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

/// How a copy is made: a few planes at a time, in tiles, or by the generator.
struct Copy {
  std::string text;
  bool words = false;  ///< generated for integers of the elements' size
  std::optional<Interleave> planes;
  std::optional<Transpose> tiles;
  std::optional<Pointwise> generated;
};

std::shared_ptr<const Copy> copy_plan(const Stream& stream, const TensorDesc& x, const TensorDesc& y) {
  return stream.context().state().plans.get<Copy>(PlanKey("copy").add(x).add(y), [&] {
    const Context& context = stream.context();
    const bool to_bool = y.dtype == DType::boolean && x.dtype != DType::boolean;
    const bool cpu = context.device().kind() == DeviceKind::cpu;
    Copy plan;
    if (Interleave::suits(x, y)) {
      plan.planes.emplace(context, x, y, cpu);
    } else if (Transpose::suits(x, y)) {
      plan.tiles.emplace(context, x, y, cpu);
    } else {
      // A CPU would convert each element there and back: 3 to 6 ms for 1.6 million, as words 0.3 to 1.
      plan.words = cpu && x.dtype == y.dtype && (x.dtype == DType::f16 || x.dtype == DType::bf16);
      TensorDesc from = x, to = y;
      if (plan.words) from.dtype = to.dtype = DType::i16;
      plan.generated.emplace(context, std::vector<TensorDesc>{from}, std::vector<TensorDesc>{to}, 0,
                             to_bool ? "y0 = x0 != 0" : "y0 = x0");
    }
    plan.text =
        cat("op=copy engine=", plan.planes ? "interleave" : "tiles", " x=", brief(x), " y=", brief(y));
    return plan;
  });
}

void require_bytes(const char* argument, const Tensor& t, const void* host, int64_t bytes) {
  require(t.defined(), argument, "is not defined");
  require(bytes == t.bytes(), "bytes", bytes, " for ", t, " of ", t.bytes());
  require(host != nullptr || bytes == 0, "host", "is null");
}

}  // namespace

void copy(const Stream& stream, const Tensor& x, const Tensor& y) {
  require_context("x", x, stream.context());
  require_context("y", y, stream.context());
  require_writable("y", y);
  Shape shape;
  try {
    shape = broadcast_shapes(x.shape(), y.shape());
  } catch (const ValidationError& error) {
    throw renamed(error, "x");
  }
  require(shape == y.shape(), "x", "shape ", x.shape(), " does not broadcast to y's ", y.shape());
  require(!memory_overlaps(y, x) || same_elements(y, x), "y", "overlaps x without being the same elements");
  const std::shared_ptr<const Copy> plan = copy_plan(stream, x, y);
  if (plan->words)
    return plan->generated->run(stream, {x.reinterpret(DType::i16)}, {y.reinterpret(DType::i16)}, {});
  if (plan->generated) return plan->generated->run(stream, {x}, {y}, {});
  const OperatorScope scope(stream, plan->text, 0, static_cast<double>(2 * y.bytes()));
  if (plan->planes) return plan->planes->run(stream, x, y);
  plan->tiles->run(stream, x, y);
}

void fill(const Stream& stream, const Tensor& y, Scalar value) {
  require_context("y", y, stream.context());
  require_writable("y", y);
  const bool boolean = y.dtype() == DType::boolean;
  require(boolean || is_floating(y.dtype()) || value.fits_i64(), "value", value.real(), " for ", y);
  pointwise(stream, {}, {y}, {boolean ? Scalar(value.real() != 0) : value}, "y0 = s0");
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

void read(const Stream& stream, const Tensor& x, void* host, int64_t bytes) {
  require_bytes("x", x, host, bytes);
  require(x.context() == stream.context(), "x", "belongs to another context than the stream");
  if (bytes == 0) return;
  require(!Rehearsal::active(), "x", "is read in a rehearsal, where nothing is computed");
  if (operator_observer) operator_observer->reads(x);
  const Tensor packed = x.is_contiguous() ? x : contiguous(stream, x);
  const Run run = run_of(packed);
  packed.storage()->touch(stream.state().queue);
  enqueue_command(stream.context(), "clEnqueueReadBuffer", {}, [&] {
    return clEnqueueReadBuffer(stream.cl()(), packed.buffer()(), CL_TRUE, run.begin, run.size, host, 0,
                               nullptr, nullptr);
  });
}

namespace detail {

void check_host_type(const char* argument, const Tensor& tensor, DType host, int64_t count) {
  require(tensor.defined(), argument, "is not defined");
  require(tensor.dtype() == host, argument, tensor, ", the host's elements are ", name_of(host));
  require(tensor.numel() == count, "host", count, " elements for ", argument, ", ", tensor);
}

}  // namespace detail
}  // namespace dlprim
