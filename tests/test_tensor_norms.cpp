// Norms of each tensor of a list against plain loops.
#include <dlprim/tensor_norms.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

const std::vector<Shape> kShapes = {{3, 5}, {1}, {0, 4}, {64, 3, 2, 2}, {}, {7}, {1, 4099}, {2, 3000}};

struct List {
  std::vector<Tensor> tensors;
  std::vector<std::vector<float>> values;  ///< what the dtype holds of them

  List(const std::vector<Shape>& shapes, DType dtype, uint64_t seed) {
    Rng rng(seed);
    for (const Shape& shape : shapes) {
      tensors.push_back(device_tensor(shape, reals(element_count(shape), rng, -2, 2), dtype));
      values.push_back(host_values(tensors.back()));
    }
  }
  std::vector<double> norms(NormOrder order) const {
    std::vector<double> result;
    for (const std::vector<float>& list : values) {
      double sum = 0;
      for (const double v : list)
        sum = order == NormOrder::infinity ? std::max(sum, std::fabs(v))
                                           : sum + (order == NormOrder::two ? v * v : std::fabs(v));
      result.push_back(order == NormOrder::two ? std::sqrt(sum) : sum);
    }
    return result;
  }
};

constexpr NormOrder kOrders[] = {NormOrder::one, NormOrder::two, NormOrder::infinity};

/// Each within so many units of its own size.
bool near(const std::vector<float>& got, const std::vector<double>& expected, double unit) {
  if (got.size() != expected.size()) return false;
  for (size_t i = 0; i < got.size(); i++)
    if (!(std::fabs(got[i] - expected[i]) <= unit * expected[i])) return false;
  return true;
}

}  // namespace

TEST_CASE("tensor_norms: each tensor's norm, in every dtype and order", "[small]") {
  for (const DType x : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const DType y : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      if ((x == DType::f64) != (y == DType::f64)) continue;
      if (x == DType::f64 && !context().device().probes().fp64) continue;
      const List list(kShapes, x, 3);
      const auto n = static_cast<int64_t>(kShapes.size());
      for (const NormOrder order : kOrders) {
        const Guarded norms({n}, y);
        tensor_norms(stream(), list.tensors, order, norms.tensor());
        INFO("x " << name_of(x) << " y " << name_of(y) << " order " << static_cast<int>(order));
        CHECK(near(host_values(norms.tensor()), list.norms(order),
                   y == DType::bf16  ? 0x1p-8
                   : y == DType::f16 ? 0x1p-11
                                     : 4 * 0x1p-24));
        CHECK(norms.intact());
      }
    }
}

TEST_CASE("tensor_norms: hundreds of tensors, neighbours in memory, any step of y, the same bits each time",
          "[small]") {
  const Tensor all(context(), {120, 3});
  Rng rng(5);
  const std::vector<float> values = reals(360, rng, -1, 1);
  write(stream(), all, values);
  std::vector<Tensor> rows;
  std::vector<double> expected;
  for (int64_t i = 0; i < 120; i++) {
    rows.push_back(all.slice(0, i, i + 1));
    double sum = 0;
    for (size_t k = 0; k < 3; k++)
      sum += std::fabs(static_cast<double>(values[static_cast<size_t>(i) * 3 + k]));
    expected.push_back(sum);
  }
  const Guarded y({120, 2});
  const Tensor column = y.tensor().slice(1, 1, 2).as_strided({120}, {2}),
               other = y.tensor().as_strided({120}, {2});
  const std::vector<float> before = host_values(other);
  tensor_norms(stream(), rows, NormOrder::one, column);
  const std::vector<float> first = host_values(column);
  CHECK(near(first, expected, 4 * 0x1p-24));
  tensor_norms(stream(), rows, NormOrder::one, column);
  CHECK(host_values(column) == first);
  const std::vector<float> after = host_values(other);
  CHECK(std::equal(before.begin(), before.end(), after.begin(),
                   [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }));
  CHECK(y.intact());
  tensor_norms(stream(), {}, NormOrder::two, Tensor(context(), {0}));
}

TEST_CASE("tensor_norms: NaN and infinity stay with their tensor", "[small]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Tensor> x = {device_tensor({3}, {1, nan, 2}), device_tensor({2}, {3, 4}),
                                 device_tensor({2}, {-inf, 4})};
  const Tensor y(context(), {3});
  for (const NormOrder order : kOrders) {
    tensor_norms(stream(), x, order, y);
    const std::vector<float> got = host_values(y);
    CHECK(std::isnan(got[0]));
    CHECK(got[1] == (order == NormOrder::one ? 7.0f : order == NormOrder::two ? 5.0f : 4.0f));
    CHECK(got[2] == inf);
  }
}

TEST_CASE("tensor_norms: errors name what is wrong", "[small]") {
  const Tensor x(context(), {4, 2}), y(context(), {1});
  const auto fails = [](const std::vector<Tensor>& list, const Tensor& to, const char* text,
                        NormOrder order = NormOrder::two) {
    CHECK_THROWS_WITH(tensor_norms(stream(), list, order, to), Catch::Contains(text));
  };
  fails({x}, Tensor(context(), {2}), "y: shape [2] must be [1]");
  fails({x}, Tensor(context(), {1}, DType::i32), "y: dtype i32 is not floating");
  fails({Tensor(context(), {3}, DType::i32)}, y, "x: dtype i32 is not floating");
  fails({x.slice(1, 0, 1)}, y, "leave gaps");
  fails({x}, x.slice(0, 0, 1).as_strided({1}, {1}), "shares memory");
  fails({x}, y, "order: number 7 does not exist", static_cast<NormOrder>(7));
  fails({x, Tensor(context(), {2}, DType::f16)}, Tensor(context(), {2}), "x[1]: dtype f16 must be f32");
}
