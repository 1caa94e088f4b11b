// Operators from several threads at once: contexts, plans, streams and tensors that threads share, results
// exact. The caches and the pool under them have cases of their own. docs/threads.md has the rules.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
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

/// Calls f(0) to f(count - 1), each in a thread of its own; what one throws fails the test.
template <class F>
void in_threads(size_t count, const F& f) {
  std::vector<std::string> failures(count);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < count; t++)
    threads.emplace_back([&failures, &f, t] {
      try {
        f(t);
      } catch (const std::exception& error) {
        failures[t] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<std::string>(count));
}

void require_right(const Job& job, const Stream& stream) {
  if (job.run(stream) != job.expected) throw std::runtime_error(job.name + " is wrong");
}

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
  in_threads(6, [&](size_t t) {
    const Stream stream(own);
    // Two threads at a time start with the same job: both want its program and its plan.
    for (size_t i = 0; i < 3 * jobs.size(); i++) require_right(jobs[(i + t / 2) % jobs.size()], stream);
  });
}

TEST_CASE("threads: one plan runs in several threads, with a workspace each or with the pool's",
          "[threads]") {
  const GemmCase c{48, 40, 2000};
  const GemmData data = integer_data(c);
  const Floats expected = floats(gemm_reference(c, data));
  const Tensor a = on_device(stream(), {c.m, c.k}, data.a), b = on_device(stream(), {c.k, c.n}, data.b);
  GemmDesc desc;
  desc.a = a;
  desc.b = b;
  desc.c = TensorDesc({c.m, c.n});
  const Gemm plan(context(), desc, engine("fma:parts=4"));
  REQUIRE(plan.workspace_size() > 0);
  const auto room = static_cast<int64_t>(plan.workspace_size());
  // Once before the others: see "operators by six threads".
  plan.run(stream(), a, b, {}, Tensor(stream(), {c.m, c.n}));
  stream().finish();
  in_threads(4, [&](size_t t) {
    const Stream own(context());
    Floats mine = data.a, result = expected;  // other numbers in each thread
    for (float& v : mine) v *= static_cast<float>(t + 1);
    for (float& v : result) v *= static_cast<float>(t + 1);
    const Tensor x = on_device(own, {c.m, c.k}, mine);
    const Tensor workspace = t % 2 ? Tensor(own, {room}, DType::u8) : Tensor();
    for (int round = 0; round < 5; round++) {
      std::vector<Tensor> ys;  // many runs are on their way before the first is read
      for (int i = 0; i < 20; i++) {
        ys.emplace_back(own, Shape{c.m, c.n});
        plan.run(own, x, b, {}, ys.back(), workspace);
      }
      for (const Tensor& y : ys)
        if (read<float>(own, y) != result) throw std::runtime_error("wrong product");
    }
  });
}

TEST_CASE("threads: threads take turns with one stream, under a lock", "[threads]") {
  const std::vector<Job> jobs = {gemm_job({5, 7, 9}), pointwise_job(64, 33), reduce_job(50, 20)};
  for (const Job& job : jobs) require_right(job, stream());
  const Stream shared(context());
  std::mutex mutex;
  in_threads(4, [&](size_t t) {
    for (size_t i = 0; i < 8 * jobs.size(); i++) {
      const std::lock_guard<std::mutex> lock(mutex);
      require_right(jobs[(i + t) % jobs.size()], shared);
    }
  });
}

TEST_CASE("threads: two streams around one queue need no lock", "[threads]") {
  const std::vector<Job> jobs = {gemm_job({5, 7, 9}), pointwise_job(64, 33), reduce_job(50, 20)};
  for (const Job& job : jobs) require_right(job, stream());
  const Stream owner(context());
  in_threads(4, [&](size_t t) {
    const Stream own(context(), owner.cl());
    for (size_t i = 0; i < 8 * jobs.size(); i++) require_right(jobs[(i + t) % jobs.size()], own);
  });
}

TEST_CASE("threads: a tensor is read and let go by another thread than made it", "[threads]") {
  constexpr int kTensors = 200;
  const Shape shape{1000};
  {  // see "operators by six threads"
    fill(stream(), 0, Tensor(stream(), shape));
    stream().finish();
  }
  struct Item {
    Tensor tensor;
    Event ready;
  };
  std::mutex mutex;
  std::vector<Item> given;
  std::atomic<bool> ended{false};
  in_threads(2, [&](size_t t) {
    const Stream own(context());
    if (t == 0) {
      struct End {  // also after a failure, so that the other thread does not wait for ever
        std::atomic<bool>& flag;
        ~End() { flag = true; }
      } const end{ended};
      for (int i = 0; i < kTensors; i++) {
        const Tensor x(own, shape);
        fill(own, i, x);
        const Event ready = own.record();
        const std::lock_guard<std::mutex> lock(mutex);
        given.push_back({x, ready});
      }
      return;
    }
    for (int taken = 0; taken < kTensors;) {
      const bool last = ended;  // before the look, so that nothing comes after it
      std::vector<Item> items;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        items.swap(given);
      }
      for (const Item& item : items) {
        own.wait(item.ready);
        if (read<float>(own, item.tensor) != Floats(1000, static_cast<float>(taken++)))
          throw std::runtime_error("wrong tensor");
      }
      if (items.empty() && last) throw std::runtime_error("tensors are missing");
    }
  });
}
