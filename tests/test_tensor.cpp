// Tensors: making them, wrapping the user's buffers, and every view.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/tensor.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using test::error_of;

namespace {

/// The positions in the buffer of the tensor's elements, in row-major order, counted from `base`.
std::vector<int64_t> positions(const Tensor& x, int64_t base) {
  std::vector<int64_t> result;
  std::vector<int64_t> index(static_cast<size_t>(x.rank()), 0);
  for (int64_t n = x.numel(); n > 0; n--) {
    int64_t at = x.offset() - base;
    for (int i = 0; i < x.rank(); i++) at += index[static_cast<size_t>(i)] * x.strides()[i];
    result.push_back(at);
    for (int i = x.rank() - 1; i >= 0 && ++index[static_cast<size_t>(i)] == x.shape()[i]; i--)
      index[static_cast<size_t>(i)] = 0;
  }
  return result;
}

std::vector<int64_t> range(int64_t from, int64_t to, int64_t step = 1) {
  std::vector<int64_t> result;
  for (int64_t i = from; i < to; i += step) result.push_back(i);
  return result;
}

Tensor make(const Shape& shape, DType dtype = DType::f32) {
  return Tensor(test::context(), shape, dtype);
}

}  // namespace

TEST_CASE("tensor: new ones are row-major, aligned and described", "[tensor][small]") {
  const Tensor x = make({2, 3, 4}, DType::bf16);
  CHECK(x.defined());
  CHECK(x);
  CHECK(x.dtype() == DType::bf16);
  CHECK(x.shape() == Shape{2, 3, 4});
  CHECK(x.strides() == Strides{12, 4, 1});
  CHECK(x.rank() == 3);
  CHECK(x.numel() == 24);
  CHECK(x.bytes() == 48);
  CHECK(x.size(0) == 2);
  CHECK(x.size(-1) == 4);
  CHECK(x.is_contiguous());
  CHECK(x.describe() == "bf16[2, 3, 4]");
  CHECK(x.context() == test::context());
  CHECK(TensorDesc(x).aligned);
  CHECK(TensorDesc(x) == TensorDesc({2, 3, 4}, DType::bf16));
  CHECK_THROWS_AS(x.size(3), ValidationError);
  CHECK_THROWS_AS(x.size(-4), ValidationError);
}

TEST_CASE("tensor: rank 0, size 0 and sizes that cannot be", "[tensor][small]") {
  CHECK(make({}).numel() == 1);
  CHECK(make({}).bytes() == 4);
  const Tensor empty = make({3, 0, 2});
  CHECK(empty.defined());
  CHECK(empty.numel() == 0);
  CHECK(empty.is_contiguous());
  CHECK(empty.permute({1, 2, 0}).is_contiguous());
  CHECK_THROWS_AS(make({-1}), ValidationError);
  CHECK_THROWS_AS(make({int64_t{1} << 40, int64_t{1} << 40}), ValidationError);
}

TEST_CASE("tensor: the undefined one has no memory, no context and no views", "[tensor][small]") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK(none.numel() == 0);
  CHECK(none.describe() == "undefined tensor");
  CHECK(error_of<ValidationError>([&] { none.buffer(); }) == "tensor: is not defined");
  CHECK_THROWS_AS(none.context(), ValidationError);
  CHECK_THROWS_AS(none.reshape({}), ValidationError);
  CHECK_THROWS_AS(none.reshape({0}), ValidationError);
  CHECK_THROWS_AS(none.permute({}), ValidationError);
  CHECK_THROWS_AS(none.transpose(0, 0), ValidationError);
  CHECK_THROWS_AS(none.slice(0, 0, 0), ValidationError);
  CHECK_THROWS_AS(none.expand({2}), ValidationError);
  CHECK_THROWS_AS(none.reinterpret(DType::u8), ValidationError);
  CHECK_THROWS_AS(none.as_strided({1}, {1}), ValidationError);
}

TEST_CASE("tensor: reshape", "[tensor][small]") {
  const Tensor x = make({2, 3, 4});
  CHECK(x.reshape({6, 4}).shape() == Shape{6, 4});
  CHECK(x.reshape({4, -1}).shape() == Shape{4, 6});
  CHECK(x.reshape({-1}).strides() == Strides{1});
  CHECK(x.reshape({1, 24, 1}).numel() == 24);
  CHECK(x.reshape({24}).buffer()() == x.buffer()());
  CHECK(make({0, 3}).reshape({3, 0}).shape() == Shape{3, 0});
  CHECK(make({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
  CHECK(make({1}).reshape({}).rank() == 0);
  CHECK(error_of<ValidationError>([&] { x.reshape({5, 5}); }) == "shape: [5, 5] does not fit f32[2, 3, 4]");
  CHECK_THROWS_AS(x.reshape({-1, -1}), ValidationError);
  CHECK_THROWS_AS(x.reshape({5, -1}), ValidationError);
  CHECK_THROWS_AS(x.reshape({0, -1}), ValidationError);
  CHECK_THROWS_AS(x.reshape({-2, -12}), ValidationError);
  CHECK_THROWS_AS(x.reshape({-1, int64_t{1} << 40, int64_t{1} << 40}), ValidationError);
  CHECK(error_of<ValidationError>([&] { x.transpose(0, 1).reshape({24}); }).find("needs contiguous memory") !=
        std::string::npos);
}

TEST_CASE("tensor: permute and transpose reorder, and lose no element", "[tensor][small]") {
  const Tensor x = make({2, 3, 4});
  const Tensor p = x.permute({2, 0, 1});
  CHECK(p.shape() == Shape{4, 2, 3});
  CHECK(p.strides() == Strides{1, 12, 4});
  CHECK_FALSE(p.is_contiguous());
  CHECK(p.permute({1, 2, 0}).is_contiguous());
  CHECK(x.transpose(0, -1).shape() == Shape{4, 3, 2});
  CHECK(x.transpose(1, 1).strides() == x.strides());
  std::vector<int64_t> seen = positions(p, x.offset());
  std::sort(seen.begin(), seen.end());
  CHECK(seen == range(0, 24));
  CHECK(make({1, 5}).transpose(0, 1).is_contiguous());  // an axis of size 1 has no stride to keep
  CHECK_THROWS_AS(x.permute({0, 1}), ValidationError);
  CHECK_THROWS_AS(x.permute({0, 1, 1}), ValidationError);
  CHECK_THROWS_AS(x.permute({0, 1, 3}), ValidationError);
  CHECK_THROWS_AS(x.permute({0, 1, -1}), ValidationError);
  CHECK_THROWS_AS(x.transpose(0, 3), ValidationError);
}

TEST_CASE("tensor: slice", "[tensor][small]") {
  const Tensor x = make({10});
  CHECK(positions(x.slice(0, 2, 5), x.offset()) == range(2, 5));
  CHECK(positions(x.slice(0, 1, 10, 3), x.offset()) == range(1, 10, 3));
  CHECK(positions(x.slice(0, 0, 10, 10), x.offset()) == range(0, 1));
  CHECK(positions(x.slice(0, 3, 9).slice(0, 1, 6, 2), x.offset()) == range(4, 9, 2));
  CHECK(x.slice(0, 4, 4).numel() == 0);
  CHECK(x.slice(0, 10, 10).numel() == 0);
  CHECK(x.slice(0, 0, 10, INT64_MAX).numel() == 1);
  CHECK(x.slice(0, 0, 10, INT64_MAX).is_contiguous());
  const Tensor m = make({4, 6});
  CHECK(positions(m.slice(1, 4, 6), m.offset()) == std::vector<int64_t>{4, 5, 10, 11, 16, 17, 22, 23});
  CHECK(m.slice(-1, 0, 3).shape() == Shape{4, 3});
  CHECK_FALSE(m.slice(1, 0, 3).is_contiguous());
  CHECK(m.slice(0, 1, 3).is_contiguous());
  CHECK(error_of<ValidationError>([&] { x.slice(0, 2, 11); }) == "end: 11 behind 2 along axis 0 of f32[10]");
  CHECK(error_of<ValidationError>([&] { x.slice(0, -1, 3); }) == "start: -1 along axis 0 of f32[10]");
  CHECK(error_of<ValidationError>([&] { x.slice(0, 5, 3); }) == "end: 3 behind 5 along axis 0 of f32[10]");
  CHECK(error_of<ValidationError>([&] { x.slice(0, 0, 3, 0); }) == "step: 0 must be 1 or more");
  CHECK_THROWS_AS(x.slice(0, 0, 3, -1), ValidationError);
  CHECK_THROWS_AS(x.slice(1, 0, 3), ValidationError);
}

TEST_CASE("tensor: a view that is not 16-byte aligned says so", "[tensor][small]") {
  const Tensor x = make({64});
  CHECK(TensorDesc(x.slice(0, 4, 64)).aligned);
  CHECK_FALSE(TensorDesc(x.slice(0, 1, 64)).aligned);
  CHECK_FALSE(TensorDesc(make({64}, DType::u8).slice(0, 4, 64)).aligned);
}

TEST_CASE("tensor: expand stretches by stride 0", "[tensor][small]") {
  const Tensor x = make({3, 1});
  const Tensor y = x.expand({2, 3, 4});
  CHECK(y.shape() == Shape{2, 3, 4});
  CHECK(y.strides() == Strides{0, 1, 0});
  CHECK_FALSE(y.is_contiguous());
  CHECK(x.expand({3, 1}).strides() == Strides{1, 1});
  CHECK(x.expand({3, 0}).numel() == 0);
  CHECK(make({}).expand({5}).strides() == Strides{0});
  CHECK_THROWS_AS(x.expand({3}), ValidationError);
  CHECK_THROWS_AS(x.expand({2, 1}), ValidationError);
  CHECK_THROWS_AS(x.expand({3, -1}), ValidationError);
  CHECK_THROWS_AS(x.expand({int64_t{1} << 60, 3, 1}), ValidationError);
}

TEST_CASE("tensor: reinterpret", "[tensor][small]") {
  const Tensor x = make({4, 3});
  CHECK(x.reinterpret(DType::u8).shape() == Shape{48});
  CHECK(x.reinterpret(DType::f64).shape() == Shape{6});
  CHECK(x.reinterpret(DType::u8).offset() == x.offset() * 4);
  const Tensor tail = x.reinterpret(DType::i16).slice(0, 2, 24);
  CHECK(tail.reinterpret(DType::f32).offset() == x.offset() + 1);
  CHECK_THROWS_AS(x.reinterpret(DType::i16).slice(0, 1, 24).reinterpret(DType::f32), ValidationError);
  CHECK_THROWS_AS(make({3}).reinterpret(DType::f64), ValidationError);
  CHECK_THROWS_AS(x.transpose(0, 1).reinterpret(DType::u8), ValidationError);
}

TEST_CASE("tensor: as_strided stays inside the memory", "[tensor][small]") {
  const Tensor x = make({10});
  CHECK(positions(x.as_strided({2, 3}, {4, 2}, 1), x.offset()) == std::vector<int64_t>{1, 3, 5, 5, 7, 9});
  CHECK(x.as_strided({10}, {0}).numel() == 10);
  CHECK(x.as_strided({3, 4}, {3, 1}, -0).numel() == 12);  // rows overlap, all inside
  // A view's window may reach outside the view but not outside the memory.
  const Tensor middle = x.slice(0, 5, 6);
  CHECK(positions(middle.as_strided({2}, {4}), x.offset()) == std::vector<int64_t>{5, 9});
  CHECK(positions(middle.as_strided({10}, {1}, -5), x.offset()) == range(0, 10));
  CHECK(x.as_strided({0}, {1}, 1000).numel() == 0);
  const auto refused = [&](const Shape& shape, const Strides& strides, int64_t offset) {
    return error_of<ValidationError>([&] { x.as_strided(shape, strides, offset); });
  };
  CHECK(refused({11}, {1}, 0) == "shape: [11] with strides [1] at offset 0 leaves the memory of 40 bytes");
  CHECK(refused({10}, {1}, 1).find("leaves the memory") != std::string::npos);
  CHECK(refused({1}, {1}, -1).find("leaves the memory") != std::string::npos);
  CHECK(refused({1}, {1}, INT64_MAX).find("leaves the memory") != std::string::npos);
  CHECK(refused({1}, {1}, INT64_MIN).find("leaves the memory") != std::string::npos);
  CHECK(refused({3, 3}, {INT64_MAX, INT64_MAX}, 0).find("leaves the memory") != std::string::npos);
  CHECK(refused({2}, {-1}, 5) == "strides: negative stride in [-1]");
  CHECK(refused({2}, {1, 1}, 0) == "strides: [1, 1] for shape [2]");
  CHECK(refused({-2}, {1}, 0) == "shape: negative size in [-2]");
}

TEST_CASE("tensor: around the user's buffer", "[tensor][small]") {
  cl_int code = CL_SUCCESS;
  cl::Buffer buffer(clCreateBuffer(test::context().cl()(), CL_MEM_READ_WRITE, 100, nullptr, &code));
  REQUIRE(code == CL_SUCCESS);
  const auto references = [&] {
    cl_uint count = 0;
    clGetMemObjectInfo(buffer(), CL_MEM_REFERENCE_COUNT, sizeof count, &count, nullptr);
    return count;
  };
  const cl_uint before = references();
  {
    const Tensor x = Tensor::wrap(test::context(), buffer, {5, 5});
    const Tensor y = Tensor::wrap(test::context(), buffer, 3, {2, 3}, {8, 2}, DType::i16);
    CHECK(x.numel() == 25);
    CHECK(x.offset() == 0);
    CHECK(y.offset() == 3);
    CHECK(references() > before);
  }
  CHECK(references() == before);
  CHECK_THROWS_AS(Tensor::wrap(test::context(), buffer, {26}), ValidationError);
  CHECK_THROWS_AS(Tensor::wrap(test::context(), buffer, 1, {25}, {1}, DType::f32), ValidationError);
  CHECK_THROWS_AS(Tensor::wrap(test::context(), buffer, -1, {5}, {1}, DType::f32), ValidationError);
  CHECK_THROWS_AS(Tensor::wrap(test::context(), buffer, 0, {5}, {-1}, DType::f32), ValidationError);
  CHECK(error_of<ValidationError>([&] { Tensor::wrap(test::context(), cl::Buffer(), {1}); }) ==
        "buffer: is null");
  const Context other(test::context().device());
  CHECK(error_of<ValidationError>([&] { Tensor::wrap(other, buffer, {1}); }) ==
        "buffer: belongs to another OpenCL context");
}

TEST_CASE("tensor: a view keeps the memory alive", "[tensor][small]") {
  const Context context(test::context().device());
  Tensor view;
  {
    const Tensor x(context, {1000});
    view = x.slice(0, 500, 510);
  }
  CHECK(context.memory_stats().allocated > 0);
  view = {};
  CHECK(context.memory_stats().allocated == 0);
}
