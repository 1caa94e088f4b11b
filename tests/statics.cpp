// A program that ends while it holds objects of the library in statics of every kind: one from before main,
// one of a function, and one whose destructor was registered before any OpenCL driver was loaded, so that it
// runs after the drivers' own. test_exit runs it; `statics HOW` ends it by HOW:
//   return, exit                main returns, or calls exit(), with work on the streams
//   exit_elsewhere              a thread calls exit() while main waits for it
//   queued, queued_elsewhere    as return and exit_elsewhere, with kernels on the queue that never ran
//   before:
//                               some drivers compile a kernel's last part when it runs
//   queued_gone                 the same, and the stream is gone when main returns
//   joined                      main returns; a static's destructor stops a thread that runs a plan
//   building                    exit(), with programs being compiled in the background
//   building_first              the same, and nothing was compiled before: a compiler makes statics of its
//   own quick_exit                  quick_exit() while a thread runs a plan
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/rehearsal.hpp>

using namespace dlprim;

namespace {

constexpr int64_t kSize = 96;

struct Objects {
  Context context = Context(std::getenv("DLPRIM_TEST_DEVICE"));
  Stream stream = Stream(context);
  Tensor a{context, {kSize, kSize}}, b{context, {kSize, kSize}}, c{context, {kSize, kSize}};
  Gemm plan = Gemm(context, desc());
  Event event;

  GemmDesc desc() const {
    GemmDesc d;
    d.a = a;
    d.b = b;
    d.c = c;
    return d;
  }
  void work() {
    fill(stream, 1, a);
    fill(stream, 2, b);
    plan.run(stream, a, b, {}, c);  // the object's own plan
    gemm(stream, a, b, {}, {}, c);  // one in the context's cache
    event = stream.record();
  }
  bool right() { return read<float>(stream, c) == std::vector<float>(kSize * kSize, 2.0f * kSize); }
};

std::unique_ptr<Objects> before_drivers;  // filled in main
Objects before_main;

/// A plan that nobody has run before and none has in a cache.
Pointwise new_plan(const Context& context, int unique) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string body = "y0 = sin(x0) * " + std::to_string(now + unique) + ".0f";
  return Pointwise(context, {TensorDesc({kSize, kSize})}, {TensorDesc({kSize, kSize})}, 0, body);
}

/// Runs a plan in a thread of its own until it ends.
class Worker {
 public:
  explicit Worker(const Objects& objects)
      : thread_([this, &objects] {
          const Stream stream(objects.context);
          const Tensor c(stream, {kSize, kSize});
          for (; !stops_; runs_++) {
            objects.plan.run(stream, objects.a, objects.b, {}, c);
            if (runs_ % 16 == 0) stream.finish();
          }
          stream.finish();
        }) {
    while (runs_ < 50) std::this_thread::yield();
  }
  ~Worker() {
    stops_ = true;
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

 private:
  std::atomic<bool> stops_{false};
  std::atomic<int> runs_{0};
  std::thread thread_;
};

}  // namespace

int main(int, char** argv) {
  const std::string how = argv[1];
  static Objects of_function;
  before_drivers = std::make_unique<Objects>();
  Objects* const all[] = {before_drivers.get(), &before_main, &of_function};
  if (how != "building_first")
    for (Objects* objects : all) {
      objects->work();
      if (!objects->right()) return 2;
      objects->work();  // nobody waits for it
    }
  std::puts("right");
  std::fflush(stdout);  // quick_exit() does not
  if (how == "joined") static Worker worker(of_function);
  if (how == "quick_exit") {
    new Worker(before_main);
    std::quick_exit(0);
  }
  if (how == "exit") std::exit(0);
  if (how == "building" || how == "building_first") {  // a slow one each, and none is in any cache
    const Rehearsal rehearsal;
    for (int unique = 0; unique < 6; unique++) new_plan(before_main.context, unique);
    if (how == "building_first")
      while (before_main.context.program_stats().built == 0) std::this_thread::yield();
    std::exit(0);
  }
  if (how.rfind("queued", 0) == 0) {
    std::vector<Pointwise> plans;
    for (int unique = 0; unique < 12; unique++) plans.push_back(new_plan(before_main.context, unique));
    const Stream stream = how == "queued_gone" ? Stream(before_main.context) : before_main.stream;
    for (const Pointwise& plan : plans) plan.run(stream, {before_main.a}, {before_main.c}, {});
  }
  if (how == "exit_elsewhere" || how == "queued_elsewhere") std::thread([] { std::exit(0); }).join();
  return 0;
}
