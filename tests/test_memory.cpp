// The context's memory pool: size classes, reuse on one stream and across streams, coalescing, limits.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "core/check.hpp"
#include "core/launch.hpp"
#include "core/memory_plan.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

constexpr const char* kSet = R"CLC(
__kernel void set(__global int* x, long x_offset, int a) { x[x_offset + get_global_id(0)] = a; }
)CLC";

/// A context with a pool of its own.
Context fresh() {
  return Context(test::context().device());
}

void set(const Stream& stream, const Tensor& x, int a) {
  const detail::Kernel kernel = stream.context().state().programs.generated("test_memory", kSet, "set");
  detail::Launch(stream, kernel).arg(x).arg(a).run({static_cast<size_t>(x.numel())}, {1});
}

std::vector<int> values(const Stream& stream, const Tensor& x) {
  std::vector<int> host(static_cast<size_t>(x.numel()));
  detail::cl_check(
      clEnqueueReadBuffer(stream.cl()(), x.buffer()(), CL_TRUE, static_cast<size_t>(x.offset()) * 4,
                          host.size() * 4, host.data(), 0, nullptr, nullptr),
      "clEnqueueReadBuffer");
  return host;
}

/// All elements are `value`. (A comparison of vectors would print all of them when it fails.)
bool filled(const Stream& stream, const Tensor& x, int value) {
  const std::vector<int> host = values(stream, x);
  return std::all_of(host.begin(), host.end(), [&](int v) { return v == value; });
}

bool same_memory(const Tensor& x, cl_mem buffer, int64_t offset) {
  return x.buffer()() == buffer && x.offset() == offset;
}

Tensor bytes_of(const Context& context, int64_t bytes) {
  return Tensor(context, {bytes}, DType::u8);
}

/// A gate in a stream: what follows waits until open() is called.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    cl_int code = CL_SUCCESS;
    event_ = cl::Event(clCreateUserEvent(stream.context().cl()(), &code));
    detail::cl_check(code, "clCreateUserEvent");
    stream.wait(Event(event_));
  }
  ~Gate() { open(); }
  void open() {
    if (open_) return;
    open_ = true;
    clSetUserEventStatus(event_(), CL_COMPLETE);
  }

 private:
  cl::Event event_;
  bool open_ = false;
};

/// What `stream` sets x to happens once the gate opens, behind what the stream at the gate sets, and not
/// before.
void check_set_waits(const Stream& stream, const Tensor& x, Gate& gate) {
  set(stream, x, 2);
  const Event done = stream.record();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(done.done());
  gate.open();
  stream.finish();
  CHECK(filled(stream, x, 2));
}

}  // namespace

TEST_CASE("memory: size classes waste at most a sixteenth, or a unit of 512 bytes", "[memory]") {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{511}, int64_t{512}, int64_t{513}, int64_t{100000},
                        kMiB - 1, kMiB, kMiB + 1, 3 * kMiB + 17, 9 * kMiB, 10 * kMiB + 1, 33 * kMiB + 5}) {
    const Context context = fresh();
    const Tensor x = bytes_of(context, bytes);
    const MemoryStats stats = context.memory_stats();
    INFO(bytes);
    CHECK(stats.allocated >= static_cast<uint64_t>(bytes));
    CHECK(stats.allocated <= static_cast<uint64_t>(bytes + std::max<int64_t>(512, bytes / 16)));
    CHECK(stats.held >= stats.allocated);
  }
}

TEST_CASE("memory: statistics", "[memory][small]") {
  const Context context = fresh();
  CHECK(context.memory_stats().held == 0);
  CHECK(context.memory_stats().limit > 0);
  Tensor x = bytes_of(context, 1000), y = bytes_of(context, 3000);
  MemoryStats stats = context.memory_stats();
  CHECK(stats.allocated == 1024 + 3072);
  CHECK(stats.allocated_peak == stats.allocated);
  CHECK(stats.allocations == 2);
  CHECK(stats.device_allocations == 1);  // both out of one segment
  CHECK(stats.held == 2 * static_cast<uint64_t>(kMiB));
  x = {};
  stats = context.memory_stats();
  CHECK(stats.allocated == 3072);
  CHECK(stats.allocated_peak == 1024 + 3072);
  CHECK(stats.held_peak == stats.held);
  CHECK(stats.cross_stream_waits == 0);
  CHECK(stats.retries == 0);
}

TEST_CASE("memory: new and freed blocks are poisoned where tests run", "[memory][small]") {
  constexpr int kPoison = 0x7fff7fff;
  if (const char* asked = std::getenv("DLPRIM_POISON"); !asked || std::string(asked) != "1") {
    test::note_skipped("poison: DLPRIM_POISON is not 1");
    return;
  }
  const Context c = fresh();
  const Stream a(c), b(c);
  for (const int64_t count :
       {int64_t{3}, kMiB, 8 * kMiB}) {  // of a small segment, a large one, one of its own
    int64_t offset;
    cl_mem buffer;
    {
      const Tensor x(a, {count}, DType::i32);
      CHECK(filled(a, x, kPoison));
      set(a, x, 5);
      CHECK(filled(a, x, 5));
      offset = x.offset(), buffer = x.buffer()();
    }
    {
      const Tensor y(a, {count}, DType::i32);  // freed while its queue may be at work
      CHECK(same_memory(y, buffer, offset));
      CHECK(filled(a, y, kPoison));
      set(a, y, 6);
    }
    {
      const Tensor z(b, {count}, DType::i32);  // another stream waits for the poison, and writes after it
      set(b, z, 7);
      CHECK(filled(b, z, 7));
    }
    b.finish();
    const Tensor w(c, {count}, DType::i32);  // of no stream, freed when its queues were done
    CHECK(filled(b, w, kPoison));
  }
}

TEST_CASE("memory: one stream has its block back at once", "[memory][small]") {
  const Context context = fresh();
  const Stream stream(context);
  Tensor x(stream, {1000}, DType::i32);
  const cl_mem buffer = x.buffer()();
  const int64_t offset = x.offset();
  set(stream, x, 1);  // not finished when the block comes back
  x = {};
  const Tensor y(stream, {1000}, DType::i32);
  CHECK(same_memory(y, buffer, offset));
  set(stream, y, 2);
  CHECK(filled(stream, y, 2));
  CHECK(context.memory_stats().cross_stream_waits == 0);
  CHECK(context.memory_stats().device_allocations == 1);
}

TEST_CASE("memory: another stream that gets a block waits for the first one's work", "[memory]") {
  const Context context = fresh();
  const Stream first(context), second(context);
  // One allocation that fills its segment, so that the second stream can only get the same block.
  const Shape shape{11 * kMiB / 4};
  Tensor x(first, shape, DType::i32);
  const cl_mem buffer = x.buffer()();
  const int64_t offset = x.offset();
  Gate gate(first);
  set(first, x, 1);
  x = {};
  const Tensor y(second, shape, DType::i32);
  REQUIRE(same_memory(y, buffer, offset));
  check_set_waits(second, y, gate);  // without the wait, the second kernel would run before the first
  CHECK(context.memory_stats().cross_stream_waits == 1);
  first.finish();
}

TEST_CASE("memory: a block that changed hands unused still waits for its first owner", "[memory]") {
  const Context context = fresh();
  const Stream first(context), second(context), third(context);
  const Shape shape{11 * kMiB / 4};
  Tensor x(first, shape, DType::i32);
  Gate gate(first);
  set(first, x, 1);
  x = Tensor();
  Tensor idle(second, shape, DType::i32);  // never touched
  idle = Tensor();
  const Tensor y(third, shape, DType::i32);
  check_set_waits(third, y, gate);
  first.finish();
  CHECK(context.memory_stats().device_allocations == 1);
}

TEST_CASE("memory: a stream that was only made to wait for a block hands the wait on", "[memory]") {
  const Context context = fresh();
  const Stream first(context), second(context), third(context);
  const Shape shape{11 * kMiB / 4};
  Tensor x(first, shape, DType::i32);
  Gate gate(first);
  set(first, x, 1);
  x = Tensor();
  Tensor bound(second, shape, DType::i32);  // given to a kernel whose range is empty
  const detail::Kernel kernel = context.state().programs.generated("test_memory", kSet, "set");
  detail::Launch(second, kernel).arg(bound).arg(2).run({0}, {1});
  bound = Tensor();
  const Tensor y(third, shape, DType::i32);
  check_set_waits(third, y, gate);
  CHECK(context.memory_stats().cross_stream_waits == 2);
  CHECK(context.memory_stats().device_allocations == 1);
}

TEST_CASE("memory: a part of a block remembers the whole block's work", "[memory]") {
  const Context context = fresh();
  const Stream first(context), second(context);
  Tensor x(first, {512}, DType::i32);
  Gate gate(first);
  set(first, x, 1);
  x = Tensor();  // joins the rest of its segment, which no stream ever used
  const Tensor y(second, {128}, DType::i32);
  check_set_waits(second, y, gate);
  first.finish();
}

TEST_CASE("memory: parts that are joined remember the work of both", "[memory]") {
  const Context context = fresh();
  const Stream first(context), second(context);
  Tensor low(first, {512}, DType::i32), high(first, {512}, DType::i32);
  Gate gate(first);
  set(first, high, 1);
  low = Tensor();
  high = Tensor();  // joins `low`, which no stream ever used
  const Tensor y(second, {1024}, DType::i32);
  check_set_waits(second, y, gate);
  first.finish();
}

TEST_CASE("memory: both parts of a block that is cut remember its work", "[memory]") {
  const Context context = fresh();
  const Stream first(context), second(context);
  Tensor x(first, {512}, DType::i32);
  Gate gate(first);
  set(first, x, 1);
  x = Tensor();
  const Tensor head(second, {128}, DType::i32), tail(second, {128}, DType::i32);
  check_set_waits(second, tail, gate);  // inside what x was
  first.finish();
}

TEST_CASE("memory: a block that needs no waiting is preferred", "[memory]") {
  for (const bool use_first : {true, false}) {
    const Context context = fresh();
    const Stream first(context), second(context);
    const Shape shape{11 * kMiB / 4};
    Tensor x(first, shape, DType::i32), y(first, shape, DType::i32);
    const cl_mem idle = (use_first ? y : x).buffer()();
    Gate gate(first);
    set(first, use_first ? x : y, 1);
    x = y = Tensor();
    const Tensor z(second, shape, DType::i32);
    CHECK(z.buffer()() == idle);
    set(second, z, 2);
    gate.open();
    second.finish();
    CHECK(context.memory_stats().cross_stream_waits == 0);
    first.finish();
  }
}

TEST_CASE("memory: after finish a block is free for everyone", "[memory][small]") {
  const Context context = fresh();
  const Stream first(context), second(context);
  const Shape shape{11 * kMiB / 4};
  Tensor x(first, shape, DType::i32);
  detail::Launch(first, context.state().programs.generated("test_memory", kSet, "set"))
      .arg(x)
      .arg(1)
      .run({1}, {1});
  first.finish();
  x = Tensor();
  const Tensor y(second, shape, DType::i32);
  detail::Launch(second, context.state().programs.generated("test_memory", kSet, "set"))
      .arg(y)
      .arg(2)
      .run({1}, {1});
  second.finish();
  CHECK(context.memory_stats().cross_stream_waits == 0);
  CHECK(context.memory_stats().device_allocations == 1);
}

TEST_CASE("memory: free neighbours join, in whatever order they were freed", "[memory][small]") {
  for (const std::vector<int>& order :
       {std::vector<int>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    const Context context = fresh();
    std::vector<Tensor> parts;
    for (int i = 0; i < 3; i++) parts.push_back(bytes_of(context, 512 * 1000));
    const cl_mem buffer = parts[0].buffer()();
    for (int i : order) parts[static_cast<size_t>(i)] = Tensor();
    const Tensor whole = bytes_of(context, kMiB);  // fits in none of the three
    CHECK(same_memory(whole, buffer, 0));
    CHECK(context.memory_stats().device_allocations == 1);
  }
}

TEST_CASE("memory: empty_cache gives back what is not in use", "[memory][small]") {
  const Context context = fresh();
  Tensor small = bytes_of(context, 100), large = bytes_of(context, 11 * kMiB);
  large = Tensor();
  CHECK(context.memory_stats().held == static_cast<uint64_t>(13 * kMiB));
  context.empty_cache();
  CHECK(context.memory_stats().held == static_cast<uint64_t>(2 * kMiB));
  small = Tensor();
  context.empty_cache();
  CHECK(context.memory_stats().held == 0);
  CHECK(context.memory_stats().held_peak == static_cast<uint64_t>(13 * kMiB));
  CHECK(bytes_of(context, 100).defined());
}

TEST_CASE("memory: buffers in use by the device survive empty_cache", "[memory]") {
  const Context context = fresh();
  const Stream stream(context);
  Tensor x(stream, {11 * kMiB / 4}, DType::i32);
  set(stream, x, 1);
  x = Tensor();
  context.empty_cache();
  CHECK_NOTHROW(stream.finish());
  CHECK(context.memory_stats().held == 0);
}

TEST_CASE("memory: past the limit OutOfMemory tells the values, and the context still works",
          "[memory][small]") {
  const Context context = fresh();
  const Stream stream(context);
  const Tensor x(stream, {1024}, DType::i32);
  set(stream, x, 4);
  context.set_memory_limit(static_cast<uint64_t>(8 * kMiB));
  try {
    bytes_of(context, 7 * kMiB);
    FAIL("allocated past the limit");
  } catch (const OutOfMemory& error) {
    CHECK(error.asked() == static_cast<uint64_t>(7 * kMiB));
    CHECK(error.held() == static_cast<uint64_t>(2 * kMiB));
    CHECK(error.limit() == static_cast<uint64_t>(8 * kMiB));
    CHECK(std::string(error.what()) ==
          "out of device memory: asked for 7340032 bytes while holding 2097152 of at most 8388608");
  }
  CHECK(filled(stream, x, 4));
  // What fits is served, even where a whole segment would not fit.
  const Tensor y = bytes_of(context, 5 * kMiB);
  CHECK(context.memory_stats().held <= static_cast<uint64_t>(8 * kMiB));
  CHECK(y.numel() == 5 * kMiB);
}

TEST_CASE("memory: the cache is emptied and the allocation tried again", "[memory][small]") {
  const Context context = fresh();
  context.set_memory_limit(static_cast<uint64_t>(24 * kMiB));
  Tensor x = bytes_of(context, 16 * kMiB);
  x = Tensor();
  CHECK(context.memory_stats().held == static_cast<uint64_t>(16 * kMiB));
  const Tensor y = bytes_of(context, 20 * kMiB);  // 16 cached and 20 new do not fit together
  CHECK(context.memory_stats().retries == 1);
  CHECK(context.memory_stats().held == static_cast<uint64_t>(20 * kMiB));
}

TEST_CASE("memory: more than the device gives in one piece is refused", "[memory][small]") {
  const Context& context = test::context();
  const auto most = static_cast<int64_t>(context.device().facts().max_allocation);
  CHECK(test::error_of<OutOfMemory>([&] { bytes_of(context, most + 1); }) ==
        "out of device memory: asked for " + std::to_string(most + 1) + " bytes, the device gives at most " +
            std::to_string(most) + " in one piece");
  CHECK_THROWS_AS(bytes_of(context, int64_t{1} << 58), OutOfMemory);
}

TEST_CASE("memory: blocks in use never overlap, whatever the order of requests", "[memory]") {
  const Context context = fresh();
  test::Rng rng(5);
  struct Range {
    cl_mem buffer;
    int64_t begin, end;
  };
  std::vector<std::pair<Tensor, Range>> live;
  uint64_t wrong = 0;
  for (int step = 0; step < 3000; step++) {
    if (live.size() > 40 || (!live.empty() && rng.integer(0, 2) == 0)) {
      const auto victim = static_cast<size_t>(rng.integer(0, static_cast<int64_t>(live.size()) - 1));
      std::swap(live[victim], live.back());
      live.pop_back();
      if (rng.integer(0, 50) == 0) context.empty_cache();
      continue;
    }
    // Sizes from a byte to a few MiB, evenly over the orders of magnitude.
    const int64_t bytes = rng.integer(0, int64_t{1} << rng.integer(0, 22));
    Tensor x = bytes_of(context, bytes);
    size_t size = 0;
    clGetMemObjectInfo(x.buffer()(), CL_MEM_SIZE, sizeof size, &size, nullptr);
    const Range range{x.buffer()(), x.offset(), x.offset() + bytes};
    wrong += range.end > static_cast<int64_t>(size) || range.begin % 512 != 0;
    for (const auto& [other, taken] : live)
      wrong += taken.buffer == range.buffer && range.begin < taken.end && taken.begin < range.end;
    live.emplace_back(std::move(x), range);
  }
  CHECK(wrong == 0);
  live.clear();
  CHECK(context.memory_stats().allocated == 0);
  context.empty_cache();
  CHECK(context.memory_stats().held == 0);
}

TEST_CASE("memory: threads allocate and free at once", "[memory][threads]") {
  const Context context = fresh();
  {
    // The largest size first: PoCL aborts where a kernel runs on more work-items than ever before while
    // another queue runs it too.
    const Stream stream(context);
    const Tensor largest(stream, {5000}, DType::i32);
    set(stream, largest, 0);
    stream.finish();
  }
  constexpr int kThreads = 6;
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      const Stream stream(context);
      test::Rng rng(static_cast<uint64_t>(t));
      std::vector<Tensor> mine;
      for (int step = 0; step < 100; step++) {
        mine.emplace_back(stream, Shape{rng.integer(1, 5000)}, DType::i32);
        set(stream, mine.back(), t * 1000 + step);
        if (mine.size() < 4) continue;
        const Tensor checked = mine.front();
        mine.erase(mine.begin());
        for (int value : values(stream, checked)) wrong[static_cast<size_t>(t)] += value / 1000 != t;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(kThreads, 0));
  CHECK(context.memory_stats().allocated == 0);
}

TEST_CASE("memory plan: nothing overlaps what lives at the same time", "[memory][small]") {
  using detail::Lifetime;
  constexpr uint64_t kAlign = 512;
  test::Rng rng(5);
  for (int trial = 0; trial < 200; trial++) {
    INFO("trial " << trial);
    const int count = static_cast<int>(rng.integer(0, 40));
    std::vector<Lifetime> lives;
    for (int i = 0; i < count; i++) {
      const auto begin = static_cast<uint64_t>(rng.integer(0, 60));
      lives.push_back({static_cast<uint64_t>(rng.integer(0, 9000)), begin,
                       begin + static_cast<uint64_t>(rng.integer(1, 20))});
      if (rng.integer(0, 9) == 0) lives.back().end = Lifetime().end;
    }
    const detail::MemoryPlan plan = detail::plan_memory(lives, kAlign);
    REQUIRE(plan.offsets.size() == lives.size());
    const auto size = [&](size_t i) {
      return (std::max<uint64_t>(lives[i].bytes, 1) + kAlign - 1) / kAlign * kAlign;
    };
    uint64_t most = 0, overlaps = 0;
    for (uint64_t time = 0; time < 80; time++) {
      uint64_t sum = 0;
      for (size_t i = 0; i < lives.size(); i++)
        if (lives[i].begin <= time && time < lives[i].end) sum += size(i);
      most = std::max(most, sum);
    }
    CHECK(detail::largest_live_set(lives, kAlign) == most);
    CHECK(plan.bytes >= most);
    for (size_t i = 0; i < lives.size(); i++) {
      CHECK(plan.offsets[i] % kAlign == 0);
      CHECK(plan.offsets[i] + size(i) <= plan.bytes);
      for (size_t j = 0; j < i; j++)
        overlaps += lives[i].begin < lives[j].end && lives[j].begin < lives[i].end &&
                    plan.offsets[i] < plan.offsets[j] + size(j) &&
                    plan.offsets[j] < plan.offsets[i] + size(i);
    }
    CHECK(overlaps == 0);
  }
}

TEST_CASE("memory plan: what placing each as it comes wastes is found", "[memory][small]") {
  // Blocks of a residual network: a wide tensor lives across narrow ones, and the next overlaps it.
  std::vector<detail::Lifetime> lives;
  for (uint64_t block = 0; block < 12; block++) {
    const uint64_t t = block * 10, wide = 6422528, narrow = 1605632;
    lives.push_back({wide, t, t + 12});
    lives.push_back({narrow, t + 3, t + 7});
    lives.push_back({narrow, t + 4, t + 9});
    lives.push_back({7229952, t + 5, t + 6});
  }
  CHECK(detail::plan_memory(lives, 512).bytes == detail::largest_live_set(lives, 512));
}
