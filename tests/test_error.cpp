// What errors say, and the checks that all operators share.
#include <cmath>
#include <string>

#include <dlprim/error.hpp>
#include <dlprim/opencl.hpp>

#include "catch.hpp"
#include "core/check.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::detail;
using test::error_of;

TEST_CASE("error: each names what failed and the values", "[error]") {
  const ValidationError validation("x", "rank 3 must be 4");
  CHECK(std::string(validation.what()) == "x: rank 3 must be 4");
  CHECK(validation.argument() == "x");

  const DeviceError device("clFinish", -5);
  CHECK(std::string(device.what()) == "clFinish failed: CL_OUT_OF_RESOURCES (-5)");
  CHECK(device.call() == "clFinish");
  CHECK(device.code() == -5);

  const OutOfMemory memory(100, 30, 120);
  CHECK(std::string(memory.what()) ==
        "out of device memory: asked for 100 bytes while holding 30 of at most 120");
  CHECK(memory.asked() == 100);
  CHECK(memory.held() == 30);
  CHECK(memory.limit() == 120);

  const BuildError build("gemm", "-DM=4", "line 3: no");
  CHECK(std::string(build.what()) == "program 'gemm' did not build with options '-DM=4':\nline 3: no");
  CHECK(build.program() == "gemm");
  CHECK(build.options() == "-DM=4");
  CHECK(build.log() == "line 3: no");
}

TEST_CASE("error: all are caught as dlprim::Error and as std::runtime_error", "[error]") {
  CHECK_THROWS_AS(throw ValidationError("a", "b"), Error);
  CHECK_THROWS_AS(throw DeviceError("a", -1), Error);
  CHECK_THROWS_AS(throw OutOfMemory(1, 2, 3), Error);
  CHECK_THROWS_AS(throw BuildError("a", "b", "c"), std::runtime_error);
}

TEST_CASE("error: OpenCL codes have names", "[error]") {
  CHECK(std::string(opencl_error_name(0)) == "CL_SUCCESS");
  CHECK(std::string(opencl_error_name(-4)) == "CL_MEM_OBJECT_ALLOCATION_FAILURE");
  CHECK(std::string(opencl_error_name(-11)) == "CL_BUILD_PROGRAM_FAILURE");
  CHECK(std::string(opencl_error_name(-54)) == "CL_INVALID_WORK_GROUP_SIZE");
  CHECK(std::string(opencl_error_name(-1001)) == "CL_PLATFORM_NOT_FOUND_KHR");
  CHECK(std::string(opencl_error_name(12345)) == "unknown OpenCL error");
  CHECK(error_of<DeviceError>([] { cl_check(CL_INVALID_KERNEL_ARGS, "clEnqueueNDRangeKernel"); }) ==
        "clEnqueueNDRangeKernel failed: CL_INVALID_KERNEL_ARGS (-52)");
  CHECK_NOTHROW(cl_check(CL_SUCCESS, "clFinish"));
}

TEST_CASE("check: descriptions are refused with the argument's name and both values", "[error]") {
  const TensorDesc x({2, 3, 4});
  CHECK_NOTHROW(require_rank("x", x, 3));
  CHECK(error_of<ValidationError>([&] { require_rank("x", x, 4); }) ==
        "x: rank 3 must be 4, shape is [2, 3, 4]");
  CHECK(error_of<ValidationError>([&] { require_dtype("w", x, DType::i64); }) == "w: dtype f32 must be i64");
  CHECK(error_of<ValidationError>([&] {
          require_shape("y", x, {2, 3});
        }) == "y: shape [2, 3, 4] must be [2, 3]");
  CHECK(to_int("n", -5) == -5);
  CHECK(error_of<ValidationError>([] { to_int("n", int64_t{1} << 31); }) ==
        "n: 2147483648 does not fit in 32 bits");
  CHECK(normalize_axis("axis", -1, 3) == 2);
  CHECK(normalize_axis("axis", 0, 3) == 0);
  CHECK(error_of<ValidationError>([] { normalize_axis("axis", 3, 3); }) ==
        "axis: axis 3 of a tensor of rank 3");
  CHECK_THROWS_AS(normalize_axis("axis", -4, 3), ValidationError);
  CHECK_THROWS_AS(normalize_axis("axis", 0, 0), ValidationError);
}

TEST_CASE("check: outputs whose elements share an address are refused", "[error]") {
  const auto writable = [](const Shape& shape, const Strides& strides) {
    require_writable("y", TensorDesc(shape, strides, DType::f32, true));
  };
  CHECK_NOTHROW(writable({2, 3}, {3, 1}));
  CHECK_NOTHROW(writable({2, 3}, {1, 2}));   // transposed
  CHECK_NOTHROW(writable({2, 3}, {10, 2}));  // with gaps
  CHECK_NOTHROW(writable({1, 3}, {0, 1}));   // a stride that is never taken
  CHECK_NOTHROW(writable({0, 3}, {0, 0}));   // no element at all
  CHECK_NOTHROW(writable({}, {}));
  CHECK_THROWS_AS(writable({2, 3}, {0, 1}), ValidationError);
  CHECK_THROWS_AS(writable({2, 3}, {2, 1}), ValidationError);
  CHECK_THROWS_AS(writable({4, 4}, {1, 1}), ValidationError);
  CHECK(error_of<ValidationError>([&] {
          writable({2, 3}, {0, 1});
        }).find("y: strides [0, 1] of shape [2, 3]") == 0);
}

TEST_CASE("check: extents", "[error]") {
  CHECK(extent_of(TensorDesc({2, 3})) == 6);
  CHECK(extent_of(TensorDesc({2, 3}, {10, 2}, DType::f32, true)) == 15);
  CHECK(extent_of(TensorDesc({2, 0})) == 0);
  CHECK(extent_of(TensorDesc(Shape{})) == 1);
  CHECK(extent_of(TensorDesc({5}, {0}, DType::f32, true)) == 1);
}

TEST_CASE("check: tensors are refused by what differs", "[error]") {
  Context& context = test::context();
  const Tensor x(context, {4, 6});
  CHECK_NOTHROW(require_tensor("x", x, context, TensorDesc({4, 6})));
  CHECK(error_of<ValidationError>([&] {
          require_tensor("x", {}, context, TensorDesc({4, 6}));
        }) == "x: is not defined");
  CHECK(error_of<ValidationError>([&] {
          require_tensor("x", x, context, TensorDesc({4, 6}, DType::i32));
        }) == "x: dtype f32 must be i32");
  CHECK(error_of<ValidationError>([&] {
          require_tensor("x", x, context, TensorDesc({6, 4}));
        }) == "x: shape [4, 6] must be [6, 4]");
  CHECK(error_of<ValidationError>([&] {
          require_tensor("x", x.as_strided({4, 6}, {1, 4}), context, TensorDesc({4, 6}));
        }) == "x: strides [1, 4] must be [6, 1]");
  CHECK_NOTHROW(require_tensor("x", x.as_strided({1, 6}, {99, 1}), context, TensorDesc({1, 6})));
  CHECK(renamed(ValidationError("inputs[0]", "is null"), "x").what() == std::string("x: is null"));
  const Tensor shifted = x.slice(0, 1, 4).reshape({18}).slice(0, 1, 5);
  CHECK(error_of<ValidationError>([&] {
          require_tensor("x", shifted, context, TensorDesc({4}));
        }).find("16-byte alignment") != std::string::npos);
  CHECK_NOTHROW(require_tensor("x", shifted, context, TensorDesc(shifted)));
  const Context other(context.device());
  CHECK(error_of<ValidationError>([&] {
          require_tensor("x", Tensor(other, {4, 6}), context, TensorDesc({4, 6}));
        }) == "x: belongs to another context");
}

TEST_CASE("check: overlap of memory", "[error]") {
  Context& context = test::context();
  const Tensor x(context, {4, 6});
  const Tensor y(context, {4, 6});
  CHECK_FALSE(memory_overlaps(x, y));
  CHECK(memory_overlaps(x, x));
  CHECK(memory_overlaps(x, x.slice(0, 3, 4)));
  CHECK_FALSE(memory_overlaps(x.slice(0, 0, 2), x.slice(0, 2, 4)));
  CHECK(memory_overlaps(x.slice(0, 0, 3), x.slice(0, 2, 4)));
  CHECK_FALSE(memory_overlaps(x, Tensor()));
  CHECK_FALSE(memory_overlaps(x, x.slice(0, 2, 2)));  // nothing, in the middle of x
  CHECK(error_of<ValidationError>([&] { require_no_overlap("y", x, "x", x); }) == "y: shares memory with x");
}

TEST_CASE("check: views that are interleaved do not overlap", "[error]") {
  const Tensor x(test::context(), {4, 6, 8});
  const auto apart = [](const Tensor& a, const Tensor& b) {
    return !memory_overlaps(a, b) && !memory_overlaps(b, a);
  };
  for (int axis = 0; axis < 3; axis++) {
    CHECK(apart(x.slice(axis, 0, 2), x.slice(axis, 2, 4)));
    CHECK(apart(x.slice(axis, 0, 1), x.slice(axis, 1, 4)));
    CHECK(apart(x.slice(axis, 0, 4, 2), x.slice(axis, 1, 4, 2)));
    CHECK_FALSE(apart(x.slice(axis, 0, 3), x.slice(axis, 2, 4)));
    CHECK_FALSE(apart(x.slice(axis, 0, 4, 2), x.slice(axis, 2, 4)));
    CHECK_FALSE(apart(x.slice(axis, 0, 2), x.slice(axis, 0, 2)));
  }
  // One row of the left half against all of the right one, other dtypes, and columns that step over a row's
  // end.
  CHECK(apart(x.slice(2, 0, 4).slice(0, 3, 4), x.slice(2, 4, 8)));
  const Tensor m(test::context(), {4, 8});
  const Tensor halves = m.reinterpret(DType::f16).reshape({4, 16});
  CHECK(apart(m.slice(1, 0, 4), halves.slice(1, 8, 16)));
  CHECK_FALSE(apart(m.slice(1, 0, 4), halves.slice(1, 7, 16)));
  CHECK_FALSE(apart(m.slice(1, 0, 4), m.as_strided({3, 6}, {8, 1}, 4)));
}

TEST_CASE("check: descriptions whose strides make no sense are refused", "[error]") {
  const auto refusal = [](const Shape& shape, const Strides& strides) {
    return error_of<ValidationError>(
        [&] { require_strides("x", TensorDesc(shape, strides, DType::f32, true)); });
  };
  CHECK_NOTHROW(require_strides("x", TensorDesc({2, 3}, {0, 5}, DType::f32, true)));
  CHECK_NOTHROW(require_strides("x", TensorDesc({2, 1}, {1, INT64_MAX}, DType::f32, true)));
  CHECK_NOTHROW(require_strides("x", TensorDesc({0, 3}, {3, 1}, DType::f32, true)));
  CHECK(refusal({2, 3}, {1}) == "x: strides [1] do not fit shape [2, 3]");
  CHECK(refusal({2, 3}, {-3, 1}) == "x: strides [-3, 1] must not be negative");
  CHECK(refusal({-2, 3}, {3, 1}) == "x: shape [-2, 3] must not be negative");
  CHECK(refusal({3, 3}, {INT64_MAX, 1}).find("reach too far") != std::string::npos);
  CHECK(refusal({INT64_MAX, INT64_MAX}, {0, 0}).find("too many elements") != std::string::npos);
  CHECK_THROWS_AS(require_writable("y", TensorDesc({3}, {-1}, DType::f32, true)), ValidationError);
}
