// Jobs in the background: their order, who runs them, what threads wait for, and how all ends.
#include "core/build_pool.hpp"

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace dlprim::detail;
using std::chrono::milliseconds;

namespace {

/// What became of jobs, in that order: "run 3" of the job of length 3, by a thread of the pool.
class Record {
 public:
  BuildPool::Job job(size_t length) {
    const auto note = [this, length](const char* how) {
      const std::lock_guard<std::mutex> lock(mutex_);
      text_ += (text_.empty() ? "" : ", ") + std::string(how) + " " + std::to_string(length);
    };
    return {length, [=] { note("run"); }, [=] { note("here"); }, [=] { note("drop"); }};
  }
  std::string text() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }
  /// Waits until jobs have come so far.
  bool becomes(const std::string& text) const {
    for (int i = 0; i < 2000 && this->text() != text; i++) std::this_thread::sleep_for(milliseconds(5));
    return this->text() == text;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// A job that keeps a thread until it is let go.
class Gate {
 public:
  /// Returns when the job has begun.
  explicit Gate(BuildPool& pool) {
    std::promise<void> begun;
    pool.add({0, [&] { begun.set_value(), open_.get_future().wait(); }, [] {}, [] {}});
    begun.get_future().wait();
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

}  // namespace

TEST_CASE("build pool: the longest job that waits begins first, of equal ones the first", "[threads]") {
  Record record;
  BuildPool pool(1);
  Gate gate(pool);
  for (const size_t length : {1, 7, 4, 7, 9}) pool.add(record.job(length));
  CHECK(record.text().empty());
  gate.open();
  CHECK(record.becomes("run 9, run 7, run 7, run 4, run 1"));
}

TEST_CASE("build pool: who needs a job that has not begun runs it", "[threads]") {
  Record record;
  BuildPool pool(1);
  Gate gate(pool);
  pool.add(record.job(3));
  const BuildPool::Ticket needed = pool.add(record.job(2));
  pool.run_here(needed);
  CHECK(record.text() == "here 2");
  pool.run_here(needed);
  gate.open();
  CHECK(record.becomes("here 2, run 3"));
}

TEST_CASE("build pool: threads are prepared before their first job, and wait for more", "[threads]") {
  Record record;
  std::atomic<int> asked{0}, prepared{0};
  const auto prepare = [&] {
    thread_local int calls = 0;
    asked++;
    if (++calls < 3) return false;
    prepared++;
    return true;
  };
  BuildPool pool(2, prepare, milliseconds(200));
  pool.warm();
  while (prepared < 2 || !pool.idle()) std::this_thread::sleep_for(milliseconds(1));
  CHECK(asked == 6);
  pool.add(record.job(1));
  pool.add(record.job(1));
  CHECK(record.becomes("run 1, run 1"));
  CHECK(prepared == 2);
  std::this_thread::sleep_for(milliseconds(1000));  // they end
  pool.add(record.job(2));
  CHECK(record.becomes("run 1, run 1, run 2"));
  CHECK(prepared == 3);
}

TEST_CASE("build pool: it has nothing to do while a thread is ready and nothing waits", "[threads]") {
  BuildPool pool(1, {}, milliseconds(60000));
  CHECK_FALSE(pool.idle());  // there is no thread yet
  Gate gate(pool);
  CHECK_FALSE(pool.idle());
  gate.open();
  for (int i = 0; i < 2000 && !pool.idle(); i++) std::this_thread::sleep_for(milliseconds(5));
  CHECK(pool.idle());
}

TEST_CASE("build pool: what has not begun is dropped, also where threads never get ready", "[threads]") {
  Record record;
  BuildPool pool(2, [] {
    std::this_thread::sleep_for(milliseconds(5));
    return false;
  });
  const BuildPool::Ticket first = pool.add(record.job(1));
  pool.drop();
  CHECK(record.text() == "drop 1");
  pool.run_here(first);
  pool.add(record.job(2));
  pool.stop();
  CHECK(record.text() == "drop 1, drop 2");
  pool.add(record.job(3));
  pool.warm();
  CHECK(record.text() == "drop 1, drop 2, drop 3");
}

TEST_CASE("build pool: it is waited for what has begun", "[threads]") {
  Record record;
  std::atomic<bool> done{false};
  {
    BuildPool pool(1);
    std::promise<void> begun;
    pool.add({1,
              [&] {
                begun.set_value();
                std::this_thread::sleep_for(milliseconds(50));
                done = true;
              },
              [] {}, [] {}});
    begun.get_future().wait();
    pool.add(record.job(1));
  }
  CHECK(done);
  CHECK(record.text() == "drop 1");
}
