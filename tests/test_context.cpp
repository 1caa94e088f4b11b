// Contexts and streams, made and around the user's own objects; events; failures that leave the context
// working.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

#include "catch.hpp"
#include "core/check.hpp"
#include "core/device_probe.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;
using test::error_of;

namespace {

/// Adds `a` to every element.
constexpr const char* kAdd = R"CLC(
__kernel void add(__global int* x, long x_offset, int a) { x[x_offset + get_global_id(0)] += a; }
__kernel void set(__global int* x, long x_offset, int a) { x[x_offset + get_global_id(0)] = a; }
)CLC";

void launch(const Stream& stream, const char* kernel, const Tensor& x, int a) {
  const detail::Kernel found = stream.context().state().programs.generated("test_context", kAdd, kernel);
  detail::Launch(stream, found).arg(x).arg(a).run({static_cast<size_t>(x.numel())}, {1});
}

std::vector<int> values(const Stream& stream, const Tensor& x) {
  std::vector<int> host(static_cast<size_t>(x.numel()));
  REQUIRE(clEnqueueReadBuffer(stream.cl()(), x.buffer()(), CL_TRUE,
                              static_cast<size_t>(x.offset()) * sizeof(int), host.size() * sizeof(int),
                              host.data(), 0, nullptr, nullptr) == CL_SUCCESS);
  return host;
}

/// An event that the test completes by hand.
cl::Event user_event(const Context& context) {
  cl_int code = CL_SUCCESS;
  cl::Event event(clCreateUserEvent(context.cl()(), &code));
  REQUIRE(code == CL_SUCCESS);
  return event;
}

}  // namespace

TEST_CASE("context: made from a device, copies share one state", "[context][small]") {
  const Context context(test::context().device());
  const Context copy = context;
  CHECK(copy == context);
  CHECK(Context(context.device()) != context);
  CHECK(context.device() == test::context().device());
  const Context by_selector(std::to_string(context.device().facts().index).c_str());
  CHECK(by_selector.device() == context.device());
  // A number that is no index is looked for in names.
  const std::string& name = context.device().name();
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if(name.begin(), name.end(), digit);
  const std::string number(first, std::find_if_not(first, name.end(), digit));
  if (number.size() >= 2 && number[0] != '0') CHECK(Context(number.c_str()).device().name() == name);
  const Stream stream(context);
  const Tensor x(context, {5}, DType::i32);
  launch(stream, "set", x, 7);
  CHECK(values(stream, x) == std::vector<int>(5, 7));
}

TEST_CASE("context: around the user's context, queue and buffer", "[context][small]") {
  const Device device = test::context().device();
  cl_int code = CL_SUCCESS;
  const cl_device_id id = device.cl()();
  const cl::Context user_context(clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
  REQUIRE(code == CL_SUCCESS);
  const cl::CommandQueue user_queue(clCreateCommandQueue(user_context(), id, 0, &code));
  REQUIRE(code == CL_SUCCESS);
  std::vector<int> host(16, 1);
  const cl::Buffer user_buffer(clCreateBuffer(user_context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                              16 * sizeof(int), host.data(), &code));
  REQUIRE(code == CL_SUCCESS);
  {
    const Context context(user_context, device);
    CHECK(context.cl()() == user_context());
    const Stream stream(context, user_queue);
    CHECK(stream.cl()() == user_queue());
    const Tensor x = Tensor::wrap(context, user_buffer, 4, {2, 3}, {4, 1}, DType::i32);
    CHECK(x.buffer()() == user_buffer());
    CHECK(x.offset() == 4);
    CHECK(context.memory_stats().held == 0);
    const Tensor row = x.slice(0, 1, 2).reshape({3});
    launch(stream, "add", row, 10);
  }
  // The user's objects outlive ours, and the user's queue orders the read after the kernel.
  REQUIRE(clEnqueueReadBuffer(user_queue(), user_buffer(), CL_TRUE, 0, 16 * sizeof(int), host.data(), 0,
                              nullptr, nullptr) == CL_SUCCESS);
  CHECK(host == std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 11, 11, 11, 1, 1, 1, 1, 1});
}

TEST_CASE("context: foreign and null objects are refused", "[context][small]") {
  const Context& context = test::context();
  const Context other(context.device());
  const Stream foreign(other);
  CHECK(error_of<ValidationError>([&] { Context(cl::Context(), context.device()); }) == "context: is null");
  CHECK(error_of<ValidationError>([&] { Stream(context, cl::CommandQueue()); }) == "queue: is null");
  CHECK(error_of<ValidationError>([&] { Stream(context, foreign.cl()); }) ==
        "queue: belongs to another OpenCL context");
  cl_int code = CL_SUCCESS;
  const cl::CommandQueue unordered(clCreateCommandQueue(context.cl()(), context.device().cl()(),
                                                        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code));
  if (code == CL_SUCCESS)
    CHECK(error_of<ValidationError>([&] { Stream(context, unordered); }) == "queue: executes out of order");
  for (const Device& device : Device::list())
    if (device != context.device())
      CHECK(error_of<ValidationError>([&] {
              Context(context.cl(), device);
            }).find("is not a device of this") != std::string::npos);
}

TEST_CASE("stream: work is in order and finish waits for it", "[context][small]") {
  const Stream stream(test::context());
  const Tensor x(stream, {100}, DType::i32);
  launch(stream, "set", x, 0);
  for (int i = 0; i < 50; i++) launch(stream, "add", x, i);
  const Event done = stream.record();
  stream.finish();
  if (!detail::driver_limits(test::context().device()).waits_for_flushed)
    done.wait();  // tells events late, too
  CHECK(done.done());
  CHECK_NOTHROW(done.wait());
  CHECK(values(stream, x) == std::vector<int>(100, 49 * 50 / 2));
}

TEST_CASE("stream: an empty event is done", "[context][small]") {
  CHECK(Event().done());
  CHECK_NOTHROW(Event().wait());
  CHECK_NOTHROW(test::stream().wait(Event()));
}

TEST_CASE("stream: one waits for another's event and the host does not", "[context]") {
  const Context& context = test::context();
  const Stream first(context), second(context);
  const Tensor x(context, {8}, DType::i32);
  launch(first, "set", x, 1);
  first.finish();
  const cl::Event gate = user_event(context);
  first.wait(Event(gate));
  launch(first, "add", x, 10);
  const Event half = first.record();
  second.wait(half);
  launch(second, "add", x, 100);
  const Event whole = second.record();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_FALSE(half.done());
  CHECK_FALSE(whole.done());
  REQUIRE(clSetUserEventStatus(gate(), CL_COMPLETE) == CL_SUCCESS);
  whole.wait();
  CHECK(half.done());
  CHECK(values(second, x) == std::vector<int>(8, 111));
  first.finish();
}

TEST_CASE("stream: a command that failed is told once by finish, and the stream works on",
          "[context][small]") {
  const Context context(test::context().device());
  const Stream stream(context);
  const Tensor x(context, {8}, DType::i32);
  // A user's event stands for the failed transfer: not every driver survives one.
  const cl::Event failed = user_event(context);
  REQUIRE(clSetUserEventStatus(failed(), CL_OUT_OF_RESOURCES) == CL_SUCCESS);
  stream.state().staging.push_back({{}, failed});
  CHECK_NOTHROW(write(stream, x, std::vector<int32_t>(8, 2)));  // looks at what the first one left
  CHECK(error_of<DeviceError>([&] { stream.finish(); }) ==
        "a command on the device failed: CL_OUT_OF_RESOURCES (-5)");
  CHECK_NOTHROW(stream.finish());
  CHECK(values(stream, x) == std::vector<int>(8, 2));
  CHECK(stream.state().staging.empty());
}

TEST_CASE("stream: outlives the names of its context", "[context][small]") {
  Tensor x;
  {
    const Context context(test::context().device());
    const Stream stream(context);
    x = Tensor(stream, {3}, DType::i32);
    launch(stream, "set", x, 5);
    stream.finish();
  }
  const Stream later(x.context());
  CHECK(values(later, x) == std::vector<int>(3, 5));
}

TEST_CASE("context: many threads, a stream each, one context", "[context][threads]") {
  const Context context(test::context().device());
  constexpr int kThreads = 6, kRounds = 30;
  {  // PoCL 5.0 aborts now and then where two of its threads load one kernel at once
    const Stream stream(context);
    for (int round = 0; round < 5; round++) {  // one binary for each size of a group
      const Tensor x(stream, {100 + 77 * round}, DType::i32);
      launch(stream, "set", x, 0);
      launch(stream, "add", x, 0);
      stream.finish();
    }
  }
  std::vector<std::string> failures(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      try {
        const Stream stream(context);
        for (int round = 0; round < kRounds; round++) {
          // Sizes repeat over the threads, so that blocks wander from stream to stream.
          const Tensor x(stream, {100 + 77 * (round % 5)}, DType::i32);
          const Tensor y(stream, x.shape(), DType::i32);
          launch(stream, "set", x, t);
          launch(stream, "set", y, -1);
          for (int i = 0; i < 5; i++) launch(stream, "add", x, round);
          std::vector<int> host(static_cast<size_t>(x.numel()));
          detail::cl_check(clEnqueueReadBuffer(stream.cl()(), x.buffer()(), CL_TRUE,
                                               static_cast<size_t>(x.offset()) * sizeof(int),
                                               host.size() * sizeof(int), host.data(), 0, nullptr, nullptr),
                           "clEnqueueReadBuffer");
          for (int value : host)
            if (value != t + 5 * round) failures[static_cast<size_t>(t)] = "got " + std::to_string(value);
        }
      } catch (const std::exception& error) {
        failures[static_cast<size_t>(t)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<std::string>(kThreads));
  CHECK(context.memory_stats().allocated == 0);
  CHECK(context.program_stats().built + context.program_stats().from_disk == 1);
}
