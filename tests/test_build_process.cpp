// Programs compiled by other processes: what is compiled where, and what happens when they fail.
#include "core/build_process.hpp"

#include <dlprim/compiling.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/rehearsal.hpp>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "child.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "core/text.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using dlprim::test::TempDir;

namespace {

constexpr int kPrograms = 6;

/// A text that no cache has.
std::string unique_source(const char* body) {
  static int made = 0;
  return cat("// ", std::chrono::steady_clock::now().time_since_epoch().count(), ' ', made++, "\n", body);
}

const char* const kSet = R"(
__kernel void set(__global int* y, long offset) { y[offset] = VALUE; })";

/// $DLPRIM_COMPILER while it lives.
class Compiler {
 public:
  explicit Compiler(const std::string& path) { setenv("DLPRIM_COMPILER", path.c_str(), 1); }
  ~Compiler() { unsetenv("DLPRIM_COMPILER"); }
};

/// A script that can be run, in that folder; its path.
std::string script(const TempDir& folder, const char* name, const std::string& text) {
  const std::string path = folder / name;
  test::put(path, "#!/bin/sh\n" + text);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}
const char* const kNeverReady = "exec sleep 600\n";

ContextConfig two_processes(const TempDir& folder) {
  ContextConfig config;
  config.cache_folder = folder / "cache";
  config.cache_bytes = uint64_t{64} << 20;
  config.build_processes = 2;
  return config;
}

int value_of(const Context& context, const std::string& source, int value) {
  const Stream stream(context);
  const Tensor y(stream, {1}, DType::i32);
  const Kernel kernel = context.state().programs.generated("p", source, "set", Defines().set("VALUE", value));
  Launch(stream, kernel).arg(y).run({1}, {1});
  return read<int32_t>(stream, y).at(0);
}

void rehearse(const Context& context, const std::string& source) {
  const Rehearsal rehearsal;
  for (int value = 0; value < kPrograms; value++)
    context.state().programs.generated("p", source, "set", Defines().set("VALUE", value));
}

/// Asks for programs in a rehearsal, waits for them, then runs them all.
void check_runs(const Context& context, const std::string& source) {
  const auto there = [&] { return context.program_stats().built + context.program_stats().from_disk; };
  const uint64_t before = there();
  rehearse(context, source);
  for (int i = 0; i < 6000 && there() < before + kPrograms; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(there() == before + kPrograms);
  for (int value = 0; value < kPrograms; value++) CHECK(value_of(context, source, value) == value);
}

/// What the log says of programs: where each was compiled.
struct Lines {
  std::mutex mutex;
  std::vector<std::string> lines;

  void add(const std::string& line) {
    const std::lock_guard<std::mutex> lock(mutex);
    lines.push_back(line);
  }
  void in(ContextConfig& config) {
    config.log = [this](const std::string& line) { add(line); };
  }
  std::string all() {
    const std::lock_guard<std::mutex> lock(mutex);
    std::string result;
    for (const std::string& line : lines) result += line.substr(0, 500) + "\n";
    return result;
  }
  int count(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex);
    return static_cast<int>(std::count_if(lines.begin(), lines.end(),
                                          [&](const std::string& line) { return line.rfind(what, 0) == 0; }));
  }
};

/// Children of this process that have not been waited for.
int children() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(thread.path() / "children");
    for (int child = 0; list >> child;) count++;
  }
  return count;
}

}  // namespace

TEST_CASE("build processes: they compile what a rehearsal asks for, and end with it", "[threads]") {
  const TempDir folder;
  const std::string source = unique_source(kSet);
  ContextConfig config = two_processes(folder);
  Lines log;
  log.in(config);
  {
    const Context context(test::context().device(), config);
    const uint64_t before = context.program_stats().built;
    check_runs(context, source);
    INFO(log.all());
    CHECK(log.count("build elsewhere program=p ") == kPrograms);
    CHECK(log.count("build program=p ") == 0);
    CHECK(context.program_stats().built == before + kPrograms);
  }
  CHECK(children() == 0);
  // A second context finds them on disk, and no process is started.
  const Compiler none("/nonexistent");
  const Context again(test::context().device(), config);
  check_runs(again, source);
  CHECK(log.count("load program=p ") == kPrograms);
}

TEST_CASE("build processes: a driver that keeps programs itself finds what they compiled", "[threads]") {
  const Device& device = test::context().device();
  if (!device.facts().keeps_programs) return;
  const TempDir folder;
  const std::string source = unique_source(kSet);
  for (const bool known : {false, true}) {
    INFO(known);
    Lines log;
    BinaryCache disk(folder / "cache", uint64_t{1} << 20, false);
    const cl::Context& context = test::context().cl();
    ProgramCache programs(context, device, {}, disk, Log(1, [&](const std::string& line) { log.add(line); }),
                          2);
    {
      const Rehearsal rehearsal;
      for (int value = 0; value < kPrograms; value++) {
        const Kernel kernel = programs.generated("p", source, "set", Defines().set("VALUE", value));
        REQUIRE((kernel.rehearsed() == nullptr) == known);
        if (!known) programs.prefetch(*kernel.rehearsed(), "set 1 1 m v8");
        if (!known) programs.prefetch(*kernel.rehearsed(), "set 1 2 m v8");
      }
    }
    for (int i = 0; !known && i < 6000 && programs.stats().built < kPrograms; i++)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(log.count("build elsewhere program=p ") == (known ? 0 : kPrograms));
    const Stream stream(test::context());
    const Tensor y(stream, {1}, DType::i32);
    for (int value = 0; value < kPrograms; value++) {
      const Kernel kernel = programs.generated("p", source, "set", Defines().set("VALUE", value));
      Launch(stream, kernel).arg(y).run({1}, {1});
      CHECK(read<int32_t>(stream, y).at(0) == value);
    }
    CHECK(log.count("build program=p ") == (known ? kPrograms : 0));
    if (known) CHECK(children() == 0);
  }
}

TEST_CASE("build processes: who needs a program while one has nothing to do has it compiled there",
          "[threads]") {
  const Device& device = test::context().device();
  if (!device.facts().keeps_programs) return;
  const TempDir folder;
  const std::string source = unique_source(kSet);
  Lines log;
  BinaryCache disk(folder / "cache", uint64_t{1} << 20, false);
  ProgramCache programs(test::context().cl(), device, {}, disk,
                        Log(1, [&](const std::string& line) { log.add(line); }), 1);
  int value = 0;  // the first is compiled here, and starts the process
  for (; value < 1000 && log.count("build elsewhere program=p ") == 0; value++) {
    programs.generated("p", source, "set", Defines().set("VALUE", value));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(log.count("build program=p ") == value - 1);
  CHECK(log.count("build elsewhere program=p ") == 1);
  const std::string broken = unique_source("__kernel void set(__global int* y) { y[0] = no_such_name; }");
  CHECK_THROWS_AS(programs.generated("broken", broken, "set", {}), BuildError);
}

TEST_CASE("build processes: they make kernels by launching them on zeros", "[threads]") {
  const DeviceFacts& facts = test::context().device().facts();
  const auto request = [&](const std::string& launch) {
    const std::string source = unique_source(R"(
typedef struct { int n, of[4]; } Sizes;
__kernel void add(int n, __global float* y, long offset, Sizes sizes, __local float* kept) {
  const int i = (int)get_global_id(0);
  kept[get_local_id(0)] = y[offset + i] / (float)sizes.n;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < n) y[offset + i] += kept[0];
})");
    return BuildRequest{
        facts.platform, std::to_string(facts.device_index), "add", source, "", launch, "", "0", "k"};
  };
  BuildProcess process;
  CHECK(process.build(request("add 1 4 v4 m v8 v20 l16")).empty());
  CHECK(process.build(request("add 2 2 2 v4 m v8 v20 l16")).empty());
  CHECK(process.build(request("")).empty());
  CHECK(process.build(request("subtract 1 4 v4 m v8 v20 l16")).find("clCreateKernel") != std::string::npos);
  CHECK(process.build(request("add 1 4 v8 m v8 v20 l16")).find("clSetKernelArg") != std::string::npos);
  CHECK(process.build(request("add 1 4 v4 m v8 v20")).find("clEnqueueNDRangeKernel") != std::string::npos);
  CHECK(process.build(request("add 1 4 v4 m v8 v20 l16")).empty());
}

TEST_CASE("build processes: one that ended is started again", "[threads]") {
  const TempDir folder;
  const DeviceFacts& facts = test::context().device().facts();
  const BuildRequest only_device{
      facts.platform, std::to_string(facts.device_index), "", "", "", "", "", "0", ""};
  const char* const named = std::getenv("DLPRIM_COMPILER");
  const std::string program =
      named ? named : std::filesystem::canonical("/proc/self/exe").parent_path() / "dlprim-compiler";
  test::put(folder / "compiler",
            cat("#!/bin/sh\nmkdir '", folder / "once", "' && exit\nexec '", program, "'\n"));
  std::filesystem::permissions(folder / "compiler", std::filesystem::perms::owner_all);
  const Compiler compiler(folder / "compiler");
  BuildProcess process;
  CHECK(process.build(only_device) == "dlprim-compiler ended");
  CHECK(process.build(only_device).empty());
}

TEST_CASE("what a rehearsal launches is made", "[.child]") {
  const Context context(test::context().device());
  const Stream stream(context);
  const Tensor y(stream, {64}, DType::i32);
  const std::string source = unique_source(R"(
__kernel void set(__global int* y, long offset) { y[offset + get_global_id(0)] = VALUE + (int)get_local_id(0); })");
  const auto launch = [&](int value, size_t group) {
    const Kernel kernel =
        context.state().programs.generated("p", source, "set", Defines().set("VALUE", value));
    Launch(stream, kernel).arg(y).run({64}, {group});
  };
  for (const bool rehearsed : {true, false}) {
    std::optional<Rehearsal> rehearsal;
    if (rehearsed) rehearsal.emplace();
    for (int value = 0; value < kPrograms; value++)
      for (const size_t group : {1, 4, 16}) {
        launch(value, group);
        if (rehearsed) continue;
        const std::vector<int32_t> values = read<int32_t>(stream, y);
        for (int i = 0; i < 64; i++) CHECK(values[i] == value + i % static_cast<int>(group));
      }
    rehearsal.reset();
    for (int i = 0; rehearsed && i < 6000 && compile_progress().pending > 0; i++)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(context.program_stats().built >= kPrograms);
}

TEST_CASE("build processes: kernels that a rehearsal launches in groups of several sizes are right after it",
          "[threads]") {
  const TempDir
      folder;  // without a name for it: DLPRIM_CACHE_DIR would have the library keep programs itself
  const test::Child child =
      test::run_child("what a rehearsal launches is made", {{"XDG_CACHE_HOME", folder / "cache"},
                                                            {"DLPRIM_BUILD_PROCESSES", "2"},
                                                            {"DLPRIM_CACHE_MB", "64"},
                                                            {"DLPRIM_LOG", "1"}});
  INFO(child.output);
  CHECK(child.passed);
  if (test::context().device().facts().keeps_programs && !std::getenv("DLPRIM_CACHE_DIR"))
    CHECK(child.output.find("build elsewhere program=p ") != std::string::npos);
}

TEST_CASE("a list of drivers cut short", "[.child]") {
  char* const list = std::getenv("OCL_ICD_FILENAMES");
  const std::string whole = list;
  *std::strrchr(list, ':') = 0;
  const TempDir folder;
  test::put(folder / "compiler",
            cat("#!/bin/sh\nprintf '%s' \"$OCL_ICD_FILENAMES\" > ", folder / "list", '\n'));
  std::filesystem::permissions(folder / "compiler", std::filesystem::perms::owner_all);
  const Compiler compiler(folder / "compiler");
  BuildProcess().build({"platform", "0", "p", "", "", "", "", "0", "k"});
  CHECK(test::bytes_of(folder / "list") == whole);
}

TEST_CASE("build processes: they have all drivers where the loader has cut its list short", "[small]") {
  const char* const listed = std::getenv("OCL_ICD_FILENAMES");
  const std::string drivers = cat(listed ? listed : "/nonexistent/a.so", ":/nonexistent/b.so");
  const test::Child child = test::run_child("a list of drivers cut short", {{"OCL_ICD_FILENAMES", drivers}});
  INFO(child.output);
  CHECK(child.passed);
}

TEST_CASE("build processes: without a rehearsal, without a folder, or for 0 of them there are none",
          "[threads]") {
  const std::string source = unique_source(kSet);
  const TempDir folder;
  for (const char* without : {"rehearsal", "folder", "processes"}) {
    INFO(without);
    ContextConfig config = two_processes(folder);
    Lines log;
    log.in(config);
    if (without == std::string("folder")) config.cache_folder = "";
    if (without == std::string("processes")) config.build_processes = 0;
    const Context context(test::context().device(), config);
    const std::string own = source + "// " + without;
    if (without == std::string("rehearsal"))
      CHECK(value_of(context, own, 3) == 3);
    else
      check_runs(context, own);
    CHECK(log.count("build elsewhere ") == 0);
    CHECK(log.count("build program=p ") > 0);
  }
}

TEST_CASE("build processes: what does not compile is said as ever", "[threads]") {
  const TempDir folder;
  const Context context(test::context().device(), two_processes(folder));
  const std::string broken = unique_source("__kernel void set(__global int* y) { y[0] = no_such_name; }");
  {
    const Rehearsal rehearsal;
    CHECK_NOTHROW(context.state().programs.generated("broken", broken, "set", {}));
  }
  CHECK_THROWS_AS(context.state().programs.generated("broken", broken, "set", {}), BuildError);
  check_runs(context, unique_source(kSet));
}

TEST_CASE("build processes: one that does not start, ends, or answers something else is done without",
          "[threads]") {
  const TempDir folder;
  test::put(folder / "no_program", "not executable");
  test::put(folder / "liar", "#!/bin/sh\nprintf 'dlprim verdict of another version' >&0\n");
  std::filesystem::permissions(folder / "liar", std::filesystem::perms::owner_all);
  for (const std::string& path :
       {folder / "no_program", folder / "liar", std::string("/nonexistent"), std::string("/bin/false")}) {
    INFO(path);
    const Compiler compiler(path);
    ContextConfig config = two_processes(folder);
    Lines log;
    log.in(config);
    {
      const Context context(test::context().device(), config);
      check_runs(context, unique_source(kSet));
      CHECK(log.count("build program=p ") == kPrograms);
      CHECK(log.count("not built elsewhere program=p: dlprim-compiler ") == kPrograms);
    }
    CHECK(children() == 0);
  }
}

TEST_CASE("build processes: while they start, who needs a program builds it, and nobody waits for them to",
          "[threads]") {
  const TempDir folder;
  const Compiler compiler(script(folder, "slow", kNeverReady));
  ContextConfig config = two_processes(folder);
  Lines log;
  log.in(config);
  {
    const Context context(test::context().device(), config);
    const std::string source = unique_source(kSet);
    rehearse(context, source);
    for (int value = 0; value < kPrograms; value++) CHECK(value_of(context, source, value) == value);
    CHECK(log.count("build program=p ") == kPrograms);
    CHECK(children() == 2);
  }
  CHECK(children() == 0);
}

TEST_CASE("build processes: the first program that has to be compiled starts them", "[threads]") {
  const TempDir folder;
  const std::string source = unique_source(kSet);
  for (const bool known : {false, true}) {
    INFO(known);
    const Context context(test::context().device(), two_processes(folder));
    CHECK(value_of(context, source, 1) == 1);
    int started = 0;
    for (int i = 0; i < (known ? 10 : 1000) && started < 2; i++) {
      started = children();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(started == (known ? 0 : 2));
  }
}

TEST_CASE("build processes: what is on disk is loaded in a rehearsal without any", "[threads]") {
  const TempDir folder;
  const std::string source = unique_source(kSet);
  check_runs(Context(test::context().device(), two_processes(folder)), source);
  const Compiler compiler(script(folder, "slow", kNeverReady));
  ContextConfig config = two_processes(folder);
  Lines log;
  log.in(config);
  const Context context(test::context().device(), config);
  const uint64_t known = context.program_stats().from_disk;
  rehearse(context, source);
  for (int i = 0; i < 1000 && context.program_stats().from_disk < known + kPrograms; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  INFO(log.all());
  CHECK(context.program_stats().from_disk == known + kPrograms);
  CHECK(log.count("load program=p ") == kPrograms);
  CHECK(children() == 0);
}

TEST_CASE("build processes: one ends though a child of ours has its socket open") {
  pid_t child = -1;
  {
    BuildProcess process;
    const std::string failure = process.build({"no such platform", "0", "p", "", "", "", "", "0", "k"});
    CHECK(failure == "device: no such platform has no device 0");
    child = fork();
    if (child == 0)
      for (;;) pause();
  }  // waits for the process
  REQUIRE(child > 0);
  kill(child, SIGKILL);
  CHECK(waitpid(child, nullptr, 0) == child);
  CHECK(children() == 0);
}

TEST_CASE("build processes: requests arrive as they were sent, and nothing else does", "[small]") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  BuildRequest sent{"platform", "3", "", std::string(3000000, 'x'), std::string("a\0b", 3), "l 1",
                    "f",        "1", "k"};
  std::thread sender([&] { send_request(ends[0], sent); });
  BuildRequest got;
  CHECK(receive_request(ends[1], got));
  sender.join();
  for (size_t i = 0; i < got.fields().size(); i++) CHECK(*got.fields()[i] == *sent.fields()[i]);

  std::string verdict = "none";
  CHECK((send_verdict(ends[1], "") && receive_verdict(ends[0], verdict)));
  CHECK(verdict.empty());
  CHECK((send_verdict(ends[1], "no device") && receive_verdict(ends[0], verdict)));
  CHECK(verdict == "no device");
  CHECK(send_verdict(ends[0], ""));  // an answer where a request should come
  CHECK_FALSE(receive_request(ends[1], got));
  close(ends[1]);
  CHECK_FALSE(receive_verdict(ends[0], verdict));
  CHECK_FALSE(send_request(ends[0], sent));  // and no signal
  close(ends[0]);
}

TEST_CASE("build processes: how many a device has", "[small]") {
  DeviceFacts one, other;
  one.compiles_one_at_a_time = true;
  one.global_memory = other.global_memory = uint64_t{80} << 30;
  unsetenv("DLPRIM_BUILD_PROCESSES");
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  CHECK(build_processes({}, one) == std::min(cores, 8));
  CHECK(build_processes({}, other) == 0);
  CHECK(build_processes(3, other) == 3);
  CHECK(build_processes(99, other) == 16);
  CHECK(build_processes(0, one) == 0);
  CHECK(build_processes(-1, one) == 0);
  one.global_memory = uint64_t{4} << 30;
  CHECK(build_processes({}, one) == 1);
  one.global_memory = uint64_t{3} << 30;
  CHECK(build_processes({}, one) == 0);
  setenv("DLPRIM_BUILD_PROCESSES", "2", 1);
  CHECK(build_processes({}, other) == 2);
  CHECK(build_processes(1, other) == 1);
  unsetenv("DLPRIM_BUILD_PROCESSES");
}
