// Launching kernels: argument binding and the checks of ranges.
#include <cstring>
#include <string>
#include <vector>

#include "catch.hpp"
#include "child.hpp"
#include "core/kernel_source.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using test::error_of;

namespace {

constexpr const char* kSource = R"CLC(
__kernel void types(__global float* y, long y_offset, int a, long b, uint c, float d) {
  __global float* out = y + y_offset;
  const int i = (int)get_global_id(0);
  out[i] = (float)a + (float)b + (float)c + d + (float)i;
}
__kernel void is_null(__global int* y, long y_offset, __global const int* x, long x_offset) {
  y[y_offset] = x == 0 && x_offset == 0 ? 1 : 2;
}
__kernel void ids(__global int* y, long y_offset) {
  const int i = (int)(get_global_id(0) + get_global_size(0) * (get_global_id(1) + get_global_size(1) * get_global_id(2)));
  y[y_offset + i] = (int)(get_local_size(0) + 10 * get_local_size(1) + 100 * get_local_size(2));
}
)CLC";

Kernel kernel(const char* name) {
  return test::context().state().programs.generated("test_launch", kSource, name);
}

}  // namespace

TEST_CASE("launch: numbers of each kind and a tensor with an offset arrive", "[launch][small]") {
  const test::Guarded y({5});
  Launch(test::stream(), kernel("types"))
      .arg(y.tensor())
      .arg(int32_t{-3})
      .arg(int64_t{1000})
      .arg(uint32_t{20})
      .arg(0.5f)
      .run({5}, {1});
  CHECK(test::host_values(y.tensor()) == std::vector<float>{1017.5f, 1018.5f, 1019.5f, 1020.5f, 1021.5f});
  CHECK(y.intact());
}

TEST_CASE("launch: an undefined tensor is a null pointer", "[launch][small]") {
  const test::Guarded y({1}, DType::i32);
  Launch(test::stream(), kernel("is_null")).arg(y.tensor()).arg(Tensor()).run({1}, {1});
  CHECK(test::host_values(y.tensor()) == std::vector<float>{1});
}

TEST_CASE("launch: ranges of one to three dimensions", "[launch][small]") {
  const test::Guarded y({4, 2, 6}, DType::i32);
  Launch(test::stream(), kernel("ids")).arg(y.tensor()).run({6, 2, 4}, {3, 1, 2});
  CHECK(test::host_values(y.tensor()) == std::vector<float>(48, 213));
  Launch(test::stream(), kernel("ids")).arg(y.tensor()).run({12, 4}, {2, 2});
  CHECK(test::host_values(y.tensor()) == std::vector<float>(48, 122));
  CHECK(y.intact());
}

TEST_CASE("launch: a command without room is tried once more with an emptied cache", "[launch][small]") {
  const Context context(test::context().device());
  { const Tensor cached(context, {1000}); }
  REQUIRE(context.memory_stats().held > 0);
  std::vector<cl_int> codes{CL_SUCCESS, CL_MEM_OBJECT_ALLOCATION_FAILURE};
  const auto command = [&] {
    const cl_int code = codes.back();
    codes.pop_back();
    return code;
  };
  CHECK_NOTHROW(enqueue_command(context, "clEnqueueReadBuffer", {}, command));
  CHECK(codes.empty());
  CHECK(context.memory_stats().held == 0);
  codes.assign(2, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  CHECK(error_of<OutOfMemory>([&] { enqueue_command(context, "clEnqueueNDRangeKernel", "add", command); })
            .find("out of device memory: no room for the buffers of clEnqueueNDRangeKernel(add) while "
                  "holding 0 ") == 0);
  codes = {CL_INVALID_KERNEL_ARGS};
  CHECK(error_of<DeviceError>([&] { enqueue_command(context, "clEnqueueNDRangeKernel", "add", command); }) ==
        "clEnqueueNDRangeKernel(add) failed: CL_INVALID_KERNEL_ARGS (-52)");
}

TEST_CASE("launch: an empty range does nothing", "[launch][small]") {
  const test::Guarded y({4}, DType::i32);
  const std::vector<unsigned char> before = test::host_bytes(y.tensor());
  Launch(test::stream(), kernel("ids")).arg(y.tensor()).run({0}, {1});
  Launch(test::stream(), kernel("ids")).arg(y.tensor()).run({4, 0}, {2, 1});
  CHECK(test::host_bytes(y.tensor()) == before);
}

TEST_CASE("launch: wrong calls are refused, write nothing and leave the kernel usable", "[launch][small]") {
  const test::Guarded y({8}, DType::i32);
  const std::vector<unsigned char> before = test::host_bytes(y.tensor());
  const Stream& stream = test::stream();
  const auto text = [&](std::initializer_list<size_t> global, std::initializer_list<size_t> local) {
    return error_of<ValidationError>(
        [&] { Launch(stream, kernel("ids")).arg(y.tensor()).run(global, local); });
  };
  CHECK(error_of<ValidationError>([&] { Launch(stream, kernel("ids")).run({8}, {1}); }) ==
        "kernel: ids got 0 of 2 arguments");
  CHECK(text({8}, {3}) == "range: ids: 8 work-items do not divide into groups of 3");
  CHECK(text({8}, {0}) == "range: ids: 8 work-items do not divide into groups of 0");
  CHECK(text({8, 1}, {1}).find("range: ids: ") == 0);
  CHECK(text({}, {}).find("range: ids: ") == 0);
  CHECK(text({1, 1, 1, 1}, {1, 1, 1, 1}).find("range: ids: ") == 0);
  const DeviceFacts& facts = test::context().device().facts();
  const auto too_many = static_cast<size_t>(facts.max_work_group) * 2;
  CHECK(text({too_many}, {too_many}).find("range: ids: ") == 0);
  const auto along_z = static_cast<size_t>(facts.max_work_item_sizes[2]) * 2;
  CHECK(text({1, 1, along_z}, {1, 1, along_z}).find("exceed the device's") != std::string::npos);
  // A number where the kernel takes another size, and one argument too many.
  CHECK_THROWS_AS(Launch(stream, kernel("types")).arg(y.tensor()).arg(int64_t{1}), DeviceError);
  CHECK(error_of<DeviceError>([&] {
          Launch(stream, kernel("ids")).arg(y.tensor()).arg(1);
        }).find("clSetKernelArg(ids, 2) failed: ") == 0);
  const Tensor foreign(Context(test::context().device()), {8}, DType::i32);
  CHECK(error_of<ValidationError>([&] { Launch(stream, kernel("ids")).arg(foreign); }) ==
        "tensor: belongs to another context than the stream");
  CHECK(test::host_bytes(y.tensor()) == before);
  Launch(stream, kernel("ids")).arg(y.tensor()).run({8}, {1});
  CHECK(test::host_values(y.tensor()) == std::vector<float>(8, 111));
  CHECK(y.intact());
}

TEST_CASE("launch: two at once of one kernel keep their own arguments", "[launch][small]") {
  const test::Guarded y({2}, DType::f32), z({2}, DType::f32);
  const Kernel types = kernel("types");
  Launch first(test::stream(), types), second(test::stream(), types);
  first.arg(y.tensor());
  second.arg(z.tensor());
  first.arg(1);
  second.arg(2);
  first.arg(int64_t{0}).arg(0u).arg(0.0f);
  second.arg(int64_t{0}).arg(0u).arg(0.0f);
  second.run({2}, {1});
  first.run({2}, {1});
  CHECK(test::host_values(y.tensor()) == std::vector<float>{1, 2});
  CHECK(test::host_values(z.tensor()) == std::vector<float>{2, 3});
}

TEST_CASE("child: misaligned accesses", "[.]") {
  const std::string source = kernel_source("access") + R"CLC(
__kernel void words(__global const uchar* x, long x_o, __global uchar* y, long y_o, int from, int to) {
  WIDE_STORE(uint2, y + 2 * y_o + to, WIDE_LOAD(uint2, x + 2 * x_o + from));
}
__kernel void halves(__global const half* x, long x_o, __global half* y, long y_o, int from, int to) {
  WIDE_STORE_HALVES(4, y + y_o + to / 2, WIDE_LOAD_HALVES(4, x + x_o + from / 2));
}
)CLC";
  const auto run = [&](const char* name, int from, int to) {
    std::vector<float> numbers;
    for (int i = 0; i < 12; i++) numbers.push_back(static_cast<float>(i));
    const Tensor x = test::device_tensor({12}, numbers, DType::f16);
    const Tensor y = test::device_tensor({12}, std::vector<float>(12, 50.0f), DType::f16);
    const Kernel kernel = test::context().state().programs.generated("access", source, name);
    Launch(test::stream(), kernel).arg(x).arg(y).arg(from).arg(to).run({1}, {1});
    std::string text;
    for (const float v : test::host_values(y))
      text += v != v ? "? " : std::to_string(static_cast<int>(v)) + " ";
    return text;
  };
  for (const char* name : {"words", "halves"}) {
    INFO(name);
    CHECK(run(name, 8, 16) == "50 50 50 50 50 50 50 50 4 5 6 7 ");
    CHECK(run(name, 4, 8) == "50 50 50 50 ? ? ? ? 50 50 50 50 ");
    CHECK(run(name, 8, 14) == "50 50 50 50 ? ? ? ? 50 50 50 50 ");
  }
}

TEST_CASE("launch: with DLPRIM_CHECK_ACCESS misaligned accesses are poison, and are said",
          "[launch][small]") {
  const test::Child child = test::run_child("child: misaligned accesses", {{"DLPRIM_CHECK_ACCESS", "1"}});
  INFO(child.output);
  CHECK(child.passed);
  CHECK(child.output.find("misaligned access: 8 bytes, 4 beyond a multiple") != std::string::npos);
  CHECK(child.output.find("misaligned access: 8 bytes, 6 beyond a multiple") != std::string::npos);
}
