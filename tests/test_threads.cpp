// Operators from several threads at once: one context, a stream each, call forms, results exact. The caches
// and the pool under them have cases of their own.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <dlprim/pointwise.hpp>

#include "cases/conv.hpp"
#include "cases/gemm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Floats = std::vector<float>;

/// A call on host data, and what it has to give.
struct Job {
  std::string name;
  Floats expected;
  std::function<Floats(const Stream&)> run;
};

Tensor on_device(const Stream& stream, const Shape& shape, const Floats& values) {
  const Tensor t(stream, shape);
  write(stream, t, values);
  return t;
}

Floats floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

Job gemm_job(const GemmCase& c) {
  const GemmData data = integer_data(c);
  return {"gemm " + c.text(), floats(gemm_reference(c, data)), [c, data](const Stream& stream) {
            const Tensor a = on_device(stream, {c.m, c.k}, data.a), b = on_device(stream, {c.k, c.n}, data.b);
            const Tensor y(stream, {c.m, c.n});
            gemm(stream, a, b, {}, {}, y);
            return read<float>(stream, y);
          }};
}

Job conv_job(const ConvCase& c) {
  Rng rng(5);
  const Floats x = integers(element_count(c.x_shape()), rng, 3),
               w = integers(element_count(c.w_shape()), rng, 3);
  return {"conv " + c.text(), floats(conv_forward_reference(c, x, w)), [c, x, w](const Stream& stream) {
            const Tensor y(stream, c.y_shape());
            conv(stream, on_device(stream, c.x_shape(), x), on_device(stream, c.w_shape(), w), {}, c.params,
                 y);
            return read<float>(stream, y);
          }};
}

Job pointwise_job(int64_t rows, int64_t columns) {
  Rng rng(6);
  const Floats x = integers(rows * columns, rng), b = integers(columns, rng);
  Floats expected = x;
  for (size_t i = 0; i < x.size(); i++) expected[i] = 3 * x[i] + b[i % b.size()];
  return {"pointwise", expected, [=](const Stream& stream) {
            const Tensor y(stream, {rows, columns});
            pointwise(stream, {on_device(stream, {rows, columns}, x), on_device(stream, {columns}, b)}, {y},
                      {3}, "y0 = s0 * x0 + x1");
            return read<float>(stream, y);
          }};
}

Job reduce_job(int64_t rows, int64_t columns) {
  Rng rng(7);
  const Floats x = integers(rows * columns, rng);
  Floats expected(static_cast<size_t>(columns), 0.0f);
  for (size_t i = 0; i < x.size(); i++) expected[i % expected.size()] += x[i];
  return {"reduce", expected, [=](const Stream& stream) {
            const Tensor y(stream, {1, columns});
            reduce(stream, {on_device(stream, {rows, columns}, x)}, {y}, {}, sum_of("x0"));
            return read<float>(stream, y);
          }};
}

}  // namespace

TEST_CASE("threads: a large write does not wait for the queue", "[threads]") {
  const Context& shared = context();
  const Stream stream(shared);
  const Tensor y(stream, {1 << 20});
  Floats host(1 << 20, 3.0f);
  cl::UserEvent gate(shared.cl());
  stream.wait(Event(gate));
  std::atomic<bool> returned{false};
  std::thread opener([gate, &returned]() mutable {  // in any case, so that a write that waits can end
    for (int i = 0; i < 200 && !returned; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    gate.setStatus(CL_COMPLETE);
  });
  cl_int status = CL_COMPLETE;
  write(stream, y, host);
  gate.getInfo(CL_EVENT_COMMAND_EXECUTION_STATUS, &status);
  std::fill(host.begin(), host.end(), 4.0f);  // ours again
  returned = true;
  opener.join();
  CHECK(status != CL_COMPLETE);
  CHECK(read<float>(stream, y) == Floats(1 << 20, 3.0f));
}

TEST_CASE("threads: operators by six threads on one context are exact", "[threads]") {
  std::vector<Job> jobs = {gemm_job({5, 7, 9}),
                           gemm_job({64, 33, 40, false, true}),
                           gemm_job({70, 70, 70, true}),
                           pointwise_job(3, 100),
                           pointwise_job(64, 33),
                           reduce_job(50, 20),
                           reduce_job(700, 3)};
  for (const ConvCase& c : random_convs(3, 31)) jobs.push_back(conv_job(c));
  // Once on another context: PoCL 5.0 aborts now and then where two of its threads load one kernel at once.
  for (const Job& job : jobs) CHECK(job.run(stream()) == job.expected);
  const Context own(context().device());  // its caches of programs and plans are empty
  constexpr size_t kThreads = 6, kRounds = 3;
  std::vector<std::string> failures(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      try {
        const Stream stream(own);
        for (size_t i = 0; i < kRounds * jobs.size(); i++) {
          // Two threads at a time start with the same job: both want its program and its plan.
          const Job& job = jobs[(i + t / 2) % jobs.size()];
          if (job.run(stream) != job.expected) failures[t] += job.name + " is wrong\n";
        }
      } catch (const std::exception& error) {
        failures[t] += error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<std::string>(kThreads));
}
