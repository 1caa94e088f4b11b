// Memory and queues that a program owns, beside commands of its own: what is in order by itself, and what
// events have to order. docs/threads.md has the rules.
#include <stdexcept>
#include <thread>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

#include "catch.hpp"
#include "core/check.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kCount = 256;
const Shape kShape{kCount};

cl::Buffer buffer_of_mine() {
  cl_int code = CL_SUCCESS;
  const cl::Buffer buffer(
      clCreateBuffer(context().cl()(), CL_MEM_READ_WRITE, kCount * sizeof(float), nullptr, &code));
  detail::cl_check(code, "clCreateBuffer");
  return buffer;
}

cl::CommandQueue queue_of_mine() {
  cl_int code = CL_SUCCESS;
  const cl::CommandQueue queue(clCreateCommandQueue(context().cl()(), context().device().cl()(), 0, &code));
  detail::cl_check(code, "clCreateCommandQueue");
  return queue;
}

/// A command of the program's own: writes `value` into all of a buffer from byte `begin` on, and gives the
/// event of its end.
cl::Event my_fill(const cl::CommandQueue& queue, const cl::Buffer& buffer, size_t begin, float value) {
  cl_event event = nullptr;
  detail::cl_check(clEnqueueFillBuffer(queue(), buffer(), &value, sizeof value, begin, kCount * sizeof(float),
                                       0, nullptr, &event),
                   "clEnqueueFillBuffer");
  const cl::Event result(event);
  detail::cl_check(clFlush(queue()), "clFlush");
  return result;
}

/// What the queue has in the buffer when it gets there.
std::vector<float> my_read(const cl::CommandQueue& queue, const cl::Buffer& buffer) {
  std::vector<float> host(kCount);
  detail::cl_check(clEnqueueReadBuffer(queue(), buffer(), CL_TRUE, 0, kCount * sizeof(float), host.data(), 0,
                                       nullptr, nullptr),
                   "clEnqueueReadBuffer");
  return host;
}

void my_wait(const cl::CommandQueue& queue, const Event& event) {
  const cl_event handle = event.cl()();
  detail::cl_check(clEnqueueBarrierWithWaitList(queue(), 1, &handle, nullptr),
                   "clEnqueueBarrierWithWaitList");
}

/// Holds a queue's commands back until open(), or the end.
class Gate {
 public:
  explicit Gate(const cl::CommandQueue& queue) : event_(context().cl()) { my_wait(queue, Event(event_)); }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() {
    if (!open_) event_.setStatus(CL_COMPLETE);
    open_ = true;
  }

 private:
  cl::UserEvent event_;
  bool open_ = false;
};

std::vector<float> all(float value) {
  return std::vector<float>(kCount, value);
}

/// y = 10 y.
void times_ten(const Stream& stream, const Tensor& y) {
  pointwise(stream, {y}, {y}, {}, "y0 = 10 * x0");
}

}  // namespace

TEST_CASE("wrapped memory: nothing but events orders it between queues", "[wrapped][threads]") {
  const cl::Buffer buffer = buffer_of_mine();
  const cl::CommandQueue queue = queue_of_mine();
  const Tensor x = Tensor::wrap(context(), buffer, kShape);
  const Stream theirs(context());
  my_fill(queue, buffer, 0, 1);
  queue.finish();
  {
    Gate gate(queue);
    const cl::Event mine = my_fill(queue, buffer, 0, 2);
    times_ten(theirs, x);
    CHECK(read<float>(theirs, x) ==
          all(10));  // the queue's command did not come first, nor was it waited for
    theirs.wait(Event(mine));
    times_ten(theirs, x);
    my_wait(queue, theirs.record());
    gate.open();
  }
  CHECK(my_read(queue, buffer) == all(20));  // the fill, then times ten, then this
}

TEST_CASE("wrapped memory: threads hand it on by events", "[wrapped][threads]") {
  const cl::Buffer buffer = buffer_of_mine();
  const cl::CommandQueue queue = queue_of_mine();
  const Tensor x = Tensor::wrap(context(), buffer, kShape);
  {  // once before two queues run its kernel
    my_fill(queue, buffer, 0, 1);
    queue.finish();
    times_ten(stream(), x);
    stream().finish();
  }
  for (int round = 0; round < 20; round++) {
    const cl::Event mine = my_fill(queue, buffer, 0, static_cast<float>(round));
    Event done;
    std::thread other([&] {
      const Stream own(context());
      own.wait(Event(mine));
      times_ten(own, x);
      done = own.record();
    });
    other.join();
    my_wait(queue, done);
    CHECK(my_read(queue, buffer) == all(10.0f * static_cast<float>(round)));
  }
}

TEST_CASE("wrapped memory: commands on the stream's own queue need no events", "[wrapped][small]") {
  const cl::Buffer buffer = buffer_of_mine();
  const cl::CommandQueue queue = queue_of_mine();
  const Stream around(context(), queue);
  const Tensor x = Tensor::wrap(context(), buffer, kShape);
  for (int round = 1; round < 10; round++) {
    my_fill(queue, buffer, 0, static_cast<float>(round));
    times_ten(around, x);
    CHECK(my_read(queue, buffer) == all(10.0f * static_cast<float>(round)));
  }
}

TEST_CASE("wrapped memory: a tensor keeps the buffer", "[wrapped][small]") {
  cl::Buffer buffer = buffer_of_mine();
  my_fill(stream().cl(), buffer, 0, 3);
  const Tensor x = Tensor::wrap(context(), buffer, kShape);
  buffer = cl::Buffer();
  times_ten(stream(), x);
  CHECK(host_values(x) == all(30));
}

TEST_CASE("wrapped memory: the pool does not know of commands that are not the library's", "[wrapped]") {
  const Context own(context().cl(), context().device());  // its pool is empty
  const cl::CommandQueue queue = queue_of_mine();
  const Stream stream(own);
  Tensor x(stream, kShape);
  const cl::Buffer buffer = x.buffer();
  const auto begin = static_cast<size_t>(x.offset()) * sizeof(float);
  const auto taken_over = [&] {
    const Tensor y(stream, kShape);
    return y.buffer()() == buffer() && static_cast<size_t>(y.offset()) * sizeof(float) == begin;
  };
  Gate gate(queue);
  const cl::Event mine = my_fill(queue, buffer, begin, 1);
  CHECK_FALSE(taken_over());
  x = Tensor();
  CHECK(taken_over());  // while the command is still to come: x had to live until it was done
  CHECK_FALSE(Event(mine).done());
  CHECK(own.memory_stats().cross_stream_waits == 0);
}
