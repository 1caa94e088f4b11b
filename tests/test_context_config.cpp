// ContextConfig: folders, the log, bounds and memory that a user gives to one context, beside others that
// keep to the environment.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

#include "catch.hpp"
#include "child.hpp"
#include "core/check.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
namespace fs = std::filesystem;

namespace {

using Lines = std::vector<std::string>;

constexpr uint64_t kMiB = uint64_t{1} << 20;

Context made(const ContextConfig& config) {
  return Context(test::context().device(), config);
}

/// A program of its own number, run once: x = number.
void run_program(const Context& context, int number) {
  const Stream stream(context);
  const Tensor x(stream, {8});
  pointwise(stream, {}, {x}, {}, "y0 = " + std::to_string(number) + ".0f");
  CHECK(read<float>(stream, x) == std::vector<float>(8, static_cast<float>(number)));
}

int count(const Lines& lines, const std::string& part) {
  return static_cast<int>(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(part) != std::string::npos;
  }));
}

uint64_t bytes_in(const std::string& folder) {
  uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".bin") sum += entry.file_size();
  return sum;
}

/// Buffers that the pool has now; whether all work was done on those that it gave back.
struct Buffers {
  explicit Buffers(uint64_t room) : room_(room) {}

  ContextConfig config() {
    ContextConfig result;
    result.allocate = [this](uint64_t bytes) {
      if (bytes > room_) return cl::Buffer();
      cl_int code = CL_SUCCESS;
      cl::Buffer buffer(clCreateBuffer(context(), CL_MEM_READ_WRITE, bytes, nullptr, &code));
      cl_check(code, "clCreateBuffer");
      room_ -= bytes;
      made++;
      live.insert(buffer());
      return buffer;
    };
    result.free = [this](const cl::Buffer& buffer) {
      size_t bytes = 0;
      cl_check(clGetMemObjectInfo(buffer(), CL_MEM_SIZE, sizeof bytes, &bytes, nullptr),
               "clGetMemObjectInfo");
      room_ += bytes;
      idle = idle && (!last_work || last_work->done());
      CHECK(live.erase(buffer()) == 1);
    };
    return result;
  }

  cl::Context context;
  std::set<cl_mem> live;
  const Event* last_work = nullptr;
  int made = 0;
  bool idle = true;

 private:
  uint64_t room_;
};

cl::Context opencl_context() {
  const cl_device_id id = test::context().device().cl()();
  cl_int code = CL_SUCCESS;
  cl::Context result(clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
  cl_check(code, "clCreateContext");
  return result;
}

}  // namespace

TEST_CASE("context config: each context logs to its own sink", "[context_config]") {
  Lines first, second, silent;
  ContextConfig config;
  config.log = [&](const std::string& line) { first.push_back(line); };
  const Context a = made(config);
  config.log = [&](const std::string& line) { second.push_back(line); };
  config.log_level = 2;
  const Context b = made(config);
  config.log = [&](const std::string& line) { silent.push_back(line); };
  config.log_level = 0;
  const Context c = made(config);
  for (const Context& context : {a, b, c}) run_program(context, 101);
  CHECK(count(first, "op=pointwise") == 1);
  CHECK(count(first, "program=pointwise") == 1);
  CHECK(count(first, "kernel name=") == 0);  // a sink alone means level 1
  CHECK(count(second, "op=pointwise") == 1);
  CHECK(count(second, "kernel name=") >= 1);
  CHECK(count(second, "buffer bytes=") >= 1);
  CHECK(silent.empty());
  for (const Lines& lines : {first, second}) {
    CHECK(count(lines, "dlprim: ") == 0);
    for (const std::string& line : lines)  // a compiler's remarks are several lines
      CHECK((line.find("remarks on ") == 0 || line.find('\n') == std::string::npos));
  }
}

TEST_CASE("context config: what a sink throws is dropped", "[context_config][small]") {
  ContextConfig config;
  int lines = 0;
  config.log = [&](const std::string&) {
    lines++;
    throw std::runtime_error("sink");
  };
  run_program(made(config), 102);
  CHECK(lines >= 2);
}

TEST_CASE("context config: a folder of its own for compiled programs", "[context_config]") {
  const test::TempDir dir;
  ContextConfig config;
  config.cache_folder = dir / "programs";
  config.cache_bytes = 64 * kMiB;  // whatever the environment says
  const auto stats_of = [&] {
    const Context context = made(config);
    run_program(context, 103);
    return context.program_stats();
  };
  const ProgramStats first = stats_of(), second = stats_of();
  CHECK(first.from_disk == 0);
  CHECK(first.built >= 1);
  CHECK(second.from_disk == first.built);
  CHECK(second.built == 0);
  CHECK(bytes_in(dir / "programs") > 0);

  config.cache_folder = "";
  const ProgramStats none = stats_of();
  CHECK(none.from_disk == 0);
  CHECK(none.built == first.built);
}

TEST_CASE("context config: most bytes of compiled programs", "[context_config]") {
  const test::TempDir dir;
  ContextConfig config;
  config.cache_folder = dir / "programs";
  config.cache_bytes = 64 * kMiB;
  run_program(made(config), 104);
  const uint64_t one = bytes_in(dir / "programs");
  REQUIRE(one > 0);
  config.cache_bytes = 3 * one;
  {
    const Context context = made(config);
    for (int i = 0; i < 40; i++) run_program(context, 200 + i);
    context.state().disk.trim();
  }
  CHECK(bytes_in(dir / "programs") <= 3 * one);

  const test::TempDir other;
  config.cache_folder = other / "programs";
  config.cache_bytes = 0;
  run_program(made(config), 104);
  CHECK_FALSE(fs::exists(other / "programs"));
}

TEST_CASE("context config: the tuning database", "[context_config][small]") {
  const test::TempDir dir;
  ContextConfig config;
  config.cache_folder = dir / "programs";
  CHECK(made(config).state().tuning.database().path == dir / "programs/tuning.sqlite");
  config.tuning_database = dir / "mine.sqlite";
  CHECK(made(config).state().tuning.database().path == dir / "mine.sqlite");
  config.tuning_database = "";
  CHECK(made(config).state().tuning.database().path.empty());
  config.tuning_database.reset();
  config.cache_folder = "";
  CHECK(made(config).state().tuning.database().path.empty());
}

TEST_CASE("context config: a memory limit", "[context_config][small]") {
  ContextConfig config;
  config.memory_limit = 3 * kMiB;
  const Context context = made(config);
  CHECK(context.memory_stats().limit == 3 * kMiB);
  const Tensor x(context, {static_cast<int64_t>(2 * kMiB)}, DType::u8);
  CHECK_THROWS_AS(Tensor(context, {static_cast<int64_t>(2 * kMiB)}, DType::u8), OutOfMemory);
}

TEST_CASE("context config: the user's allocator makes and frees all buffers", "[context_config]") {
  Buffers buffers(64 * kMiB);
  buffers.context = opencl_context();
  Event work;
  {
    const Context context(buffers.context, test::context().device(), buffers.config());
    const Stream stream(context);
    {
      const Tensor x(stream, {4 * 1024 * 1024}), small(stream, {10});
      CHECK(buffers.live.size() == 2);
      CHECK(buffers.live.count(x.buffer()()) == 1);
      for (int i = 0; i < 20; i++) pointwise(stream, {x}, {x}, {}, "y0 = sin(x0) + 1.0f");
      fill(stream, 1, small);
      work = stream.record();
      buffers.last_work = &work;
    }
    context.empty_cache();  // waits for what still uses them
    CHECK(buffers.live.empty());
    CHECK(buffers.idle);
    CHECK(context.memory_stats().held == 0);

    const Tensor y(stream, {1000});
    fill(stream, 2, y);
    CHECK(read<float>(stream, y) == std::vector<float>(1000, 2.0f));
    CHECK(buffers.live.size() == 1);
  }
  CHECK(buffers.live.empty());
  CHECK(buffers.made == 3);
}

TEST_CASE("context config: an allocator without room", "[context_config]") {
  Buffers buffers(12 * kMiB);
  buffers.context = opencl_context();
  const Context context(buffers.context, test::context().device(), buffers.config());
  Tensor x(context, {static_cast<int64_t>(10 * kMiB + 1)}, DType::u8);
  CHECK_THROWS_AS(Tensor(context, {static_cast<int64_t>(8 * kMiB)}, DType::u8), OutOfMemory);
  x = {};  // cached, and given back for the next
  const Tensor y(context, {static_cast<int64_t>(11 * kMiB)}, DType::u8);
  CHECK(buffers.live.size() == 1);
  CHECK(buffers.made == 2);
}

TEST_CASE("context config: bad allocators are refused", "[context_config][small]") {
  ContextConfig config;
  config.allocate = [](uint64_t) { return cl::Buffer(); };
  CHECK(test::error_of<ValidationError>([&] { made(config); }).find("config.free") == 0);
  config.free = [](const cl::Buffer&) {};
  const auto message = [&] {
    const Context context = made(config);
    return test::error_of<ValidationError>([&] { Tensor(context, {1000}); });
  };
  const auto buffer_of = [](const cl::Context& context, size_t bytes) {
    cl_int code = CL_SUCCESS;
    cl::Buffer result(clCreateBuffer(context(), CL_MEM_READ_WRITE, bytes, nullptr, &code));
    cl_check(code, "clCreateBuffer");
    return result;
  };
  config.allocate = [&](uint64_t bytes) { return buffer_of(test::context().cl(), bytes); };
  CHECK(message() == "ContextConfig::allocate: gave a buffer of another OpenCL context");

  const cl::Context own = opencl_context();
  config.allocate = [&](uint64_t) { return buffer_of(own, 4096); };
  const Context context(own, test::context().device(), config);
  CHECK(test::error_of<ValidationError>([&] {
          Tensor(context, {1000});
        }).find("ContextConfig::allocate: gave 4096 bytes, asked for ") == 0);
  CHECK(context.memory_stats().held == 0);

  config.free = nullptr;
  config.allocate = nullptr;
  config.free = [](const cl::Buffer&) {};
  CHECK(test::error_of<ValidationError>([&] { made(config); }).find("config.allocate") == 0);
}
