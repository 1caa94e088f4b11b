// Compiled programs: one build for many threads, failures, the way over the disk, kernels from a folder.
#include <sys/stat.h>
#include <unistd.h>
#include <dlprim/compiling.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/rehearsal.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "child.hpp"
#include "core/binary_cache.hpp"
#include "core/kernel_source.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using test::error_of;

namespace {

/// A source that no earlier run can have left in the disk cache.
std::string unique_source(const std::string& body) {
  static int serial = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return "// " + std::to_string(now) + " " + std::to_string(serial++) + "\n" + body;
}

const std::string kSet =
    "__kernel void set(__global int* x, long x_offset) { x[x_offset + get_global_id(0)] = VALUE; }";
const std::string kBroken = "__kernel void set(__global int* x) { x[0] = no_such_thing; }";

int run_set(const Context& context, const Kernel& kernel) {
  const Stream stream(context);
  const Tensor x(stream, {1}, DType::i32);
  Launch(stream, kernel).arg(x).run({1}, {1});
  int value = -1;
  clEnqueueReadBuffer(stream.cl()(), x.buffer()(), CL_TRUE, static_cast<size_t>(x.offset()) * 4, 4, &value, 0,
                      nullptr, nullptr);
  return value;
}

}  // namespace

TEST_CASE("program cache: found in memory the second time; macros make other programs",
          "[program_cache][small]") {
  const Context context(test::context().device());
  ProgramCache& programs = context.state().programs;
  const std::string source = unique_source(kSet);
  CHECK(run_set(context, programs.generated("p", source, "set", Defines().set("VALUE", 7))) == 7);
  CHECK(context.program_stats().built == 1);
  CHECK(run_set(context, programs.generated("p", source, "set", Defines().set("VALUE", 7))) == 7);
  CHECK(context.program_stats().built == 1);
  CHECK(context.program_stats().reused == 1);
  CHECK(run_set(context, programs.generated("p", source, "set", Defines().set("VALUE", 8))) == 8);
  CHECK(context.program_stats().built == 2);
  CHECK(context.program_stats().from_disk == 0);
}

TEST_CASE("program cache: another context loads what the first one built", "[program_cache][small]") {
  const std::string source = unique_source(kSet);
  const Context first(test::context().device()), second(test::context().device());
  CHECK(run_set(first, first.state().programs.generated("p", source, "set", Defines().set("VALUE", 3))) == 3);
  CHECK(run_set(second, second.state().programs.generated("p", source, "set", Defines().set("VALUE", 3))) ==
        3);
  CHECK(first.program_stats().built == 1);
  const BinaryCache& disk = BinaryCache::user();
  const bool ours = disk.chosen() || !first.device().facts().keeps_programs;
  const uint64_t kept = disk.keeps() && ours ? 1 : 0;
  CHECK(second.program_stats().built == 1 - kept);
  CHECK(second.program_stats().from_disk == kept);
}

TEST_CASE(
    "program cache: a driver that keeps programs itself is left to it, but in a folder that somebody chose",
    "[program_cache][small]") {
  const Context context(test::context().device());
  const std::string source = unique_source(kSet);
  for (const bool chosen : {false, true}) {
    const test::TempDir dir;
    BinaryCache disk(dir.path().string(), 1 << 24, chosen);
    const auto made = [&] {
      ProgramCache programs(context.cl(), context.device(), {}, disk, {});
      CHECK(run_set(context, programs.generated("p", source, "set", Defines().set("VALUE", 4))) == 4);
      return programs.stats();
    };
    const uint64_t kept = chosen || !context.device().facts().keeps_programs ? 1 : 0;
    CHECK(made().built == 1);
    CHECK(made().from_disk == kept);
  }
}

TEST_CASE("program cache: who has waited for programs for long is told so, once", "[program_cache]") {
  static std::vector<CompileProgress> told;
  const Context context(test::context().device());
  const auto wait_for = [&](int value) {
    context.state().programs.generated("p", unique_source(kSet), "set", Defines().set("VALUE", value));
  };
  const auto tell = [](const CompileProgress& now) { told.push_back(now); };
  on_long_compiling(std::chrono::hours(1), tell);
  wait_for(1);
  CHECK(told.empty());
  on_long_compiling(std::chrono::milliseconds(0), tell);
  const uint64_t before = compile_progress().done;
  wait_for(2);
  wait_for(3);
  REQUIRE(told.size() == 1);
  CHECK(told[0].done == before + 1);
  on_long_compiling(std::chrono::milliseconds(0), tell);
  on_long_compiling(std::chrono::milliseconds(0), nullptr);
  wait_for(4);
  CHECK(told.size() == 1);
}

TEST_CASE("program cache: in a rehearsal programs are built in the background, and nothing is launched",
          "[program_cache][threads]") {
  const Context context(test::context().device());
  ProgramCache& programs = context.state().programs;
  const std::string source = unique_source(kSet), broken = unique_source(kBroken);
  const Stream stream(context);
  const Tensor x(stream, {1}, DType::i32);
  fill(stream, 3, x);
  const auto made = [&] { return context.program_stats().built + context.program_stats().from_disk; };
  const uint64_t before = made();
  {
    const Rehearsal rehearsal;
    for (int value = 0; value < 9; value++) {
      const Kernel kernel = programs.generated("p", source, "set", Defines().set("VALUE", value % 5));
      Launch(stream, kernel).arg(x).run({1}, {1});
      CHECK(kernel.max_work_group() >= 1024);  // forms are chosen as if any group would do
    }
    CHECK_NOTHROW(programs.generated("broken", broken, "set", {}));
  }
  CHECK(read<int32_t>(stream, x) == std::vector<int32_t>{3});
  const uint64_t reused = context.program_stats().reused;
  for (int value = 0; value < 5; value++)
    CHECK(run_set(context, programs.generated("p", source, "set", Defines().set("VALUE", value))) == value);
  CHECK(made() == before + 5);
  CHECK(context.program_stats().reused == reused + 5);
  CHECK_THROWS_AS(programs.generated("broken", broken, "set", {}), BuildError);
}

TEST_CASE("program cache: a context may end while programs are built in its background",
          "[program_cache][threads]") {
  const Context context(test::context().device());
  const std::string source = unique_source(kSet);
  ProgramCache programs(context.cl(), context.device(), {}, BinaryCache::user(), {});
  const Rehearsal rehearsal;
  for (int value = 0; value < 40; value++)
    programs.generated("p", source, "set", Defines().set("VALUE", value));
}

TEST_CASE("program cache: what a thread that ends has not begun to build is built by who asks",
          "[program_cache][threads]") {
  constexpr int kPrograms = 40;
  const Context context(test::context().device());
  ProgramCache& programs = context.state().programs;
  const std::string source = unique_source(kSet);
  const auto get = [&](int value) {
    return programs.generated("p", source, "set", Defines().set("VALUE", value));
  };
  int last = -1;
  std::thread waiting;
  std::thread rehearsing([&] {
    const Rehearsal rehearsal;
    for (int value = 0; value < kPrograms; value++) get(value);
    waiting = std::thread([&] { last = run_set(context, get(kPrograms - 1)); });
  });
  rehearsing.join();
  waiting.join();
  CHECK(last == kPrograms - 1);
  CHECK(context.program_stats().built < kPrograms);
  for (int value = 0; value < kPrograms; value++) CHECK(run_set(context, get(value)) == value);
  CHECK(context.program_stats().built == kPrograms);
}

TEST_CASE("program cache: the text of a form is made once, and again when its program has gone",
          "[program_cache][small]") {
  const Context context(test::context().device());
  ProgramLimits one;
  one.count = 1;
  ProgramCache programs(context.cl(), context.device(), one, BinaryCache::user(), {});
  const std::string source = unique_source(kSet);
  int made = 0;
  const auto get = [&](int value) {
    return programs.generated(
        "p", "set " + std::to_string(value),
        [&] {
          made++;
          return "#define VALUE " + std::to_string(value) + "\n" + source;
        },
        "set");
  };
  CHECK(run_set(context, get(1)) == 1);
  const uint64_t reused = programs.stats().reused;
  CHECK(run_set(context, get(1)) == 1);
  CHECK(made == 1);
  CHECK(programs.stats().reused == reused + 1);
  // One that somebody holds is found though it went; its text is made to find it.
  const Kernel held = get(1);
  CHECK(run_set(context, get(2)) == 2);
  CHECK(made == 2);
  CHECK(run_set(context, get(1)) == 1);
  CHECK(run_set(context, held) == 1);
  CHECK(made == 3);
  const uint64_t compiled = programs.stats().built + programs.stats().from_disk;
  CHECK(compiled == 2);
  CHECK(run_set(context, get(2)) == 2);  // nobody held it
  CHECK(programs.stats().built + programs.stats().from_disk == compiled + 1);
  // Another form of the same text has the same program.
  const auto same = [&] { return "#define VALUE 2\n" + source; };
  CHECK(run_set(context, programs.generated("p", "another", same, "set")) == 2);
  CHECK(programs.stats().built + programs.stats().from_disk == compiled + 1);
}

TEST_CASE("program cache: threads that ask for one program get one build", "[program_cache][threads]") {
  const Context context(test::context().device());
  const std::string source = unique_source(kSet);
  std::vector<int> values(8, -1);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < values.size(); t++)
    threads.emplace_back([&, t] {
      const Kernel kernel = context.state().programs.generated("p", source, "set", Defines().set("VALUE", 5));
      values[t] = run_set(context, kernel);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(values == std::vector<int>(8, 5));
  CHECK(context.program_stats().built == 1);
  CHECK(context.program_stats().reused == 7);
}

TEST_CASE("program cache: threads build different programs at once", "[program_cache][threads]") {
  const Context context(test::context().device());
  const std::string source = unique_source(kSet);
  std::vector<int> values(6, -1);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < values.size(); t++)
    threads.emplace_back([&, t] {
      const Defines defines = Defines().set("VALUE", static_cast<int>(t));
      values[t] = run_set(context, context.state().programs.generated("p", source, "set", defines));
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(values == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(context.program_stats().built == 6);
}

TEST_CASE("program cache: a failed build tells name, options and log, to all who wait, and is tried again",
          "[program_cache][threads]") {
  const Context context(test::context().device());
  ProgramCache& programs = context.state().programs;
  const std::string source = unique_source(kBroken);
  const auto attempt = [&] {
    try {
      programs.generated("broken", source, "set", Defines().set("TILE", 4));
      return std::string("built");
    } catch (const BuildError& error) {
      const std::string& options = error.options();  // ours are behind those that the device has
      return error.program() + "|" + options.substr(options.find("-DTILE")) + "|" +
             (error.log().find("no_such_thing") != std::string::npos ? "log" : error.log());
    }
  };
  std::vector<std::string> told(4);
  std::vector<std::thread> threads;
  for (std::string& text : told) threads.emplace_back([&] { text = attempt(); });
  for (std::thread& thread : threads) thread.join();
  CHECK(told == std::vector<std::string>(4, "broken|-DTILE=4|log"));
  const uint64_t reused = context.program_stats().reused;
  CHECK(attempt() == "broken|-DTILE=4|log");
  CHECK(context.program_stats().reused == reused);  // a failure is not kept
  CHECK(context.program_stats().built == 0);
  CHECK(run_set(context, programs.generated("p", unique_source(kSet), "set", Defines().set("VALUE", 1))) ==
        1);
}

TEST_CASE("program cache: a kernel that the program lacks, a file that is not there",
          "[program_cache][small]") {
  const Context context(test::context().device());
  ProgramCache& programs = context.state().programs;
  const std::string text = error_of<DeviceError>(
      [&] { programs.generated("p", unique_source(kSet), "other", Defines().set("VALUE", 1)); });
  CHECK(text.find("clCreateKernel(other) failed") == 0);
  CHECK(error_of<ValidationError>([&] { programs.kernel("no_such_file", "k", {}); }) ==
        "kernel: there is no kernel file no_such_file.cl");
}

TEST_CASE("program cache: what a kernel says of itself", "[program_cache][small]") {
  const Kernel kernel =
      test::context().state().programs.generated("p", unique_source(kSet), "set", Defines().set("VALUE", 1));
  CHECK(kernel.name() == "set");
  CHECK(kernel.max_work_group() >= 1);
  CHECK(kernel.max_work_group() <= test::context().device().facts().max_work_group);
}

TEST_CASE("program cache: embedded kernels are there", "[program_cache][small]") {
  CHECK_NOTHROW(test::context().state().programs.kernel("probe", "probe", Defines().set("PROBE_PLAIN", 1)));
}

TEST_CASE("program cache: the least recently used programs go, those in use work on",
          "[program_cache][small]") {
  const Context context(test::context().device());
  ProgramCache programs(context.cl(), context.device(), {3, uint64_t{1} << 30}, BinaryCache::user(), {});
  const std::string source = unique_source(kSet);
  const auto kernel = [&](int value) {
    return programs.generated("p", source, "set", Defines().set("VALUE", value));
  };
  const Kernel first = kernel(0);
  for (int value = 1; value < 8; value++) {
    CHECK(run_set(context, kernel(value)) == value);
    kernel(7);  // stays
  }
  CHECK(programs.stats().built == 8);
  CHECK(programs.stats().held == 4);  // three, and the one that is held here
  CHECK(programs.crowded());
  CHECK(run_set(context, first) == 0);
  CHECK(run_set(context, kernel(0)) == 0);  // held, so found: nothing is made
  CHECK(run_set(context, kernel(7)) == 7);
  const auto made = [&] { return programs.stats().built + programs.stats().from_disk; };
  CHECK(made() == 8);
  CHECK(programs.stats().held == 3);
  CHECK_FALSE(programs.crowded());
  CHECK(run_set(context, kernel(1)) == 1);  // went, and comes again
  CHECK(made() == 9);
  CHECK(programs.stats().held == 3);
}

TEST_CASE("program cache: its bytes are bounded too", "[program_cache][small]") {
  const Context context(test::context().device());
  const std::string source = unique_source(kSet);
  const auto held_of = [&](uint64_t bytes) {
    ProgramCache programs(context.cl(), context.device(), {100, bytes}, BinaryCache::user(), {});
    for (int value = 0; value < 6; value++)
      CHECK(run_set(context, programs.generated("p", source, "set", Defines().set("VALUE", value))) == value);
    CHECK((programs.stats().held == 1 || programs.stats().held_bytes <= bytes));
    return programs.stats();
  };
  const ProgramStats all = held_of(uint64_t{1} << 30);
  CHECK(all.held == 6);
  CHECK(all.held_bytes >= 6 * 2 * source.size());
  CHECK(held_of(all.held_bytes / 2 + all.held_bytes / 12).held == 3);
  CHECK(held_of(1).held == 1);  // the newest stays
}

TEST_CASE("program cache: threads whose programs push each other out", "[program_cache][threads]") {
  const Context context(test::context().device());
  ProgramCache programs(context.cl(), context.device(), {2, uint64_t{1} << 30}, BinaryCache::user(), {});
  const std::string source = unique_source(kSet);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); t++)
    threads.emplace_back([&, t] {
      test::Rng rng(t);
      for (int i = 0; i < 40; i++) {
        const int value = static_cast<int>(rng.integer(0, 7));
        const Kernel kernel = programs.generated("p", source, "set", Defines().set("VALUE", value));
        wrong[t] += run_set(context, kernel) != value;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
  CHECK(programs.stats().held == 2);
}

TEST_CASE("plan cache: plans go while there are too many programs, some always stay",
          "[program_cache][small]") {
  bool crowded = false;
  PlanCache plans([&] { return crowded; });
  const auto get = [&](int i) {
    int made = 0;
    const auto plan = plans.get<int>(PlanKey("p").add(i), [&] {
      made = 1;
      return i;
    });
    CHECK(*plan == i);
    return made;
  };
  for (int i = 0; i < 400; i++) get(i);
  CHECK(get(0) == 0);  // the newest now
  crowded = true;
  for (int i = 400; i < 500; i++) CHECK(get(i) == 1);
  CHECK(get(0) == 0);
  CHECK(get(201) == 0);  // 200 went for 100 that came
  CHECK(get(200) == 1);
  for (int i = 500; i < 700; i++) get(i);
  int left = 0;
  for (int i = 699; i > 699 - 300; i--) left += 1 - get(i);
  CHECK((left >= 200 && left <= 256));
}

// ---- what the environment decides, and what needs another process

TEST_CASE("child: one fixed program", "[.]") {
  const Context context(test::context().device());
  CHECK(context.device().probes().works);
  const Kernel kernel =
      context.state().programs.generated("fixed", "// fixed\n" + kSet, "set", Defines().set("VALUE", 9));
  CHECK(run_set(context, kernel) == 9);
  const ProgramStats stats = context.program_stats();
  std::printf("built=%d loaded=%d\n", static_cast<int>(stats.built), static_cast<int>(stats.from_disk));
}

TEST_CASE("program cache: the log tells that a second process loads", "[program_cache]") {
  const test::TempDir dir;
  const std::vector<std::pair<std::string, std::string>> environment{
      {"DLPRIM_CACHE_DIR", dir.path().string()}, {"DLPRIM_LOG", "1"}};
  const test::Child first = test::run_child("child: one fixed program", environment);
  const test::Child second = test::run_child("child: one fixed program", environment);
  INFO(first.output << second.output);
  CHECK(first.passed);
  CHECK(second.passed);
  CHECK(first.output.find("dlprim: build program=fixed seconds=") != std::string::npos);
  CHECK(first.output.find("-DVALUE=9'") != std::string::npos);
  CHECK(second.output.find("dlprim: load program=fixed seconds=") != std::string::npos);
  CHECK(second.output.find("dlprim: build ") == std::string::npos);
  CHECK(first.output.find("dlprim: probed device=") != std::string::npos);
  CHECK(second.output.find("dlprim: probed device=") == std::string::npos);
}

TEST_CASE("program cache: two processes at once, and damage between them", "[program_cache]") {
  const test::TempDir dir;
  const std::vector<std::pair<std::string, std::string>> environment{
      {"DLPRIM_CACHE_DIR", dir.path().string()}};
  test::Child first, second;
  std::thread other([&] { first = test::run_child("child: one fixed program", environment); });
  second = test::run_child("child: one fixed program", environment);
  other.join();
  CHECK(first.passed);
  CHECK(second.passed);
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(50);
    file.put('!').put('!').put('!');
  }
  const test::Child third = test::run_child("child: one fixed program", environment);
  const test::Child fourth = test::run_child("child: one fixed program", environment);
  INFO(third.output << fourth.output);
  CHECK(third.passed);
  CHECK(third.output.find("built=1 loaded=0") != std::string::npos);
  CHECK(fourth.output.find("built=0 loaded=1") != std::string::npos);
}

TEST_CASE("program cache: works without a disk cache", "[program_cache]") {
  const test::Child child = test::run_child("child: one fixed program", {{"DLPRIM_CACHE_DIR", ""}});
  INFO(child.output);
  CHECK(child.passed);
  CHECK(child.output.find("built=1 loaded=0") != std::string::npos);
}

TEST_CASE("child: kernel from a folder", "[.]") {
  const Context context(test::context().device());
  CHECK(run_set(context, context.state().programs.kernel("mine", "set", {})) == 42);
  CHECK(error_of<ValidationError>([&] {
          context.state().programs.kernel("absent", "set", {});
        }).find("DLPRIM_KERNEL_DIR: cannot read ") == 0);
}

TEST_CASE("program cache: DLPRIM_KERNEL_DIR and its folders replace the embedded text", "[program_cache]") {
  const test::TempDir dir;
  std::ofstream(dir / "probe.cl") << "__kernel void probe(__global int* y) {\n"
                                     "  const int i = (int)get_global_id(0);\n  y[i] = 3 * i + 1;\n}\n";
  for (const char* folder : {"lib", "own"}) std::filesystem::create_directory(dir.path() / folder);
  std::ofstream(dir / "lib/value.cl") << "#define VALUE 42\n";
  std::ofstream(dir / "both.cl") << "#include \"lib/value.cl\"\n";
  std::ofstream(dir / "own/mine.cl") << "#include \"lib/value.cl\"\n#include \"both.cl\"\n" << kSet << "\n";
  const test::Child child =
      test::run_child("child: kernel from a folder",
                      {{"DLPRIM_KERNEL_DIR", dir.path().string()}, {"DLPRIM_CACHE_DIR", dir / "cache"}});
  INFO(child.output);
  CHECK(child.passed);
}

TEST_CASE("child: a pipe in the kernels' folder", "[.]") {
  alarm(30);  // ends this process where one waits
  CHECK(error_of<ValidationError>([] { kernel_source("pipe"); }).find("DLPRIM_KERNEL_DIR: cannot read ") ==
        0);
}

TEST_CASE("program cache: a pipe in the kernels' folder keeps nobody waiting", "[program_cache]") {
  const test::TempDir dir;
  REQUIRE(mkfifo((dir / "pipe.cl").c_str(), 0600) == 0);
  const test::Child child =
      test::run_child("child: a pipe in the kernels' folder", {{"DLPRIM_KERNEL_DIR", dir.path().string()}});
  INFO(child.output);
  CHECK(child.passed);
}

TEST_CASE("child: device without its probes", "[.]") {
  const Device device = Device::list().at(0);
  CHECK_FALSE(device.probes().works);
  CHECK(device.probes().failure.find("cannot read") != std::string::npos);
  CHECK(error_of<ValidationError>([] { Device::find(); }).find("device: no OpenCL device works:") == 0);
}

TEST_CASE("program cache: a kernel folder without the probes makes no device work, and says why",
          "[program_cache]") {
  const test::TempDir dir;
  const test::Child child =
      test::run_child("child: device without its probes",
                      {{"DLPRIM_KERNEL_DIR", dir.path().string()}, {"DLPRIM_CACHE_DIR", dir / "cache"}});
  INFO(child.output);
  CHECK(child.passed);
}
