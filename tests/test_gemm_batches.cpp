// Batches of products with any number of dimensions in front of the matrices.
#include <algorithm>
#include <string>
#include <vector>

#include <dlprim/gemm.hpp>

#include "cases/gemm.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// A tensor of `shape` whose dimensions lie in memory in the order of `order`, the slowest first, with `gap`
/// elements behind each row along dimension `behind`; those named in `expanded` have stride 0.
Tensor laid_out(const Shape& shape, const std::vector<int>& order, const std::vector<int>& expanded,
                DType dtype, const std::vector<float>& values, int64_t gap = 0, int behind = -1) {
  Strides strides = Strides::filled(shape.size(), 0);
  int64_t step = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (std::find(expanded.begin(), expanded.end(), *axis) != expanded.end()) continue;
    strides[*axis] = step;
    step = step * shape[*axis] + (*axis == behind ? gap : 0);
  }
  const auto count = static_cast<std::ptrdiff_t>(std::max<int64_t>(step, 1));
  const std::vector<float> some(values.begin(), values.begin() + count);
  return device_tensor({count}, some, dtype).as_strided(shape, strides);
}

/// values[offset of the element] for each element, row-major.
std::vector<float> elements(const Tensor& x, const std::vector<float>& values) {
  std::vector<float> result;
  for (int64_t i = 0; i < x.numel(); i++) {
    int64_t rest = i, offset = 0;
    for (int d = x.rank() - 1; d >= 0; d--) {
      offset += rest % x.size(d) * x.strides()[d];
      rest /= x.size(d);
    }
    result.push_back(values[static_cast<size_t>(offset)]);
  }
  return result;
}

struct Case {
  Shape front;
  std::vector<int> a_order, b_order, c_order;  ///< of all dimensions
  std::vector<int> a_expanded = {}, b_expanded = {};
  DType dtype = DType::f32;
  int64_t gap = 0;  ///< of A and B, see laid_out
  int behind = -1;
};

void check(const Case& t, const std::string& engine, int64_t m, int64_t n, int64_t k) {
  Rng rng(7);
  const auto shaped = [&](int64_t rows, int64_t columns) {
    Shape result = t.front;
    result.push_back(rows), result.push_back(columns);
    return result;
  };
  const std::vector<float> a_values = integers(200000, rng), b_values = integers(200000, rng);
  const Tensor a = laid_out(shaped(m, k), t.a_order, t.a_expanded, t.dtype, a_values, t.gap, t.behind);
  const Tensor b = laid_out(shaped(k, n), t.b_order, t.b_expanded, t.dtype, b_values, t.gap, t.behind);
  // C, the residual and what is given to the activation lie alike.
  const Shape c_shape = shaped(m, n);
  const Strides c_strides = laid_out(c_shape, t.c_order, {}, t.dtype, a_values).strides();
  const Guarded c(c_shape, c_strides, t.dtype), kept(c_shape, c_strides, t.dtype);
  const std::vector<float> residual_values = integers(element_count(c_shape), rng),
                           bias_values = integers(n, rng);
  const Tensor residual = laid_out(c_shape, t.c_order, {}, t.dtype, residual_values);
  EpilogueTensors with(device_tensor({n}, bias_values, t.dtype));
  with.residual = residual;
  with.preactivation = kept.tensor();
  GemmParams params;
  params.activation = Activation::relu;
  gemm(stream(), a, b, with, params, c.tensor(), gemm_engine(engine));

  const std::vector<float> of_a = elements(a, a_values), of_b = elements(b, b_values),
                           of_residual = elements(residual, residual_values);
  std::vector<float> before(of_residual.size()), after(of_residual.size());
  const int64_t batches = element_count(t.front);
  for (int64_t z = 0; z < batches; z++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
          sum += static_cast<double>(of_a[static_cast<size_t>((z * m + i) * k + l)]) *
                 of_b[static_cast<size_t>((z * k + l) * n + j)];
        const auto at = static_cast<size_t>((z * m + i) * n + j);
        before[at] = static_cast<float>(sum + bias_values[static_cast<size_t>(j)] + of_residual[at]);
        after[at] = std::max(before[at], 0.0f);
      }
  const auto rounded = [&](const std::vector<float>& values) {
    return host_values(device_tensor(c_shape, values, t.dtype));
  };
  CHECK(host_values(c.tensor()) == rounded(after));
  CHECK(host_values(kept.tensor()) == rounded(before));
  CHECK(c.intact());
  CHECK(kept.intact());
}

const Case kCases[] = {
    {{2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}},              // one batch of six
    {{2, 3}, {0, 2, 1, 3}, {0, 2, 1, 3}, {0, 2, 1, 3}},              // heads of attention, [B, S, H, D]
    {{2, 3}, {0, 2, 1, 3}, {0, 1, 3, 2}, {0, 1, 2, 3}},              // B transposed
    {{2, 3}, {1, 0, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}},              // no two dimensions lie as one
    {{2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {}, {0, 1}},  // one B for all
    {{2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {1}, {0}},
    {{1, 4}, {0, 2, 1, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}},
    {{1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}},
    {{2, 1, 3}, {2, 0, 1, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}},
    {{2, 2, 3}, {1, 0, 2, 3, 4}, {0, 2, 1, 3, 4}, {2, 1, 0, 3, 4}, {}, {1}},
    {{3, 2}, {1, 0, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {}, {}, DType::f16},
    {{3, 2}, {1, 0, 2, 3}, {1, 0, 3, 2}, {0, 1, 2, 3}, {}, {}, DType::bf16, 3, 3},
    // The products of a plan start on 16-byte boundaries, those of its second run do not.
    {{2, 4}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {}, {}, DType::f16, 3, 1},
    {{2, 4}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {}, {}, DType::f32, 1, 1},
};

}  // namespace

TEST_CASE("gemm: batches of any number of dimensions are exact", "[gemm][small]") {
  for (const std::string& engine : serving_gemm_engines()) {
    INFO("engine=" << engine);
    for (const Case& t : kCases) {
      INFO("case " << &t - kCases);
      check(t, engine, 5, 8, 8);
    }
  }
}

TEST_CASE("gemm: batches of larger products of any number of dimensions are exact", "[gemm]") {
  for (const Case& t : kCases) {
    INFO("case " << &t - kCases);
    check(t, "auto", 24, 16, 40);
  }
}

TEST_CASE("gemm: batches without elements", "[gemm][small]") {
  const Tensor a(context(), {2, 0, 3, 4}), b(context(), {2, 0, 4, 5}), c(context(), {2, 0, 3, 5});
  gemm(stream(), a, b, {}, {}, c);
  const Tensor no_k(context(), {2, 2, 3, 0}), none(context(), {2, 2, 0, 5});
  const Guarded y({2, 2, 3, 5});
  gemm(stream(), no_k, none, {}, {}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>(60, 0.0f));
}

TEST_CASE("gemm: bad batches are refused by name", "[gemm][small]") {
  const auto refused = [](const Shape& a, const Shape& b, const Shape& c) {
    return error_of<ValidationError>([&] { Gemm(context(), {TensorDesc(a), TensorDesc(b), TensorDesc(c)}); });
  };
  CHECK(refused({2, 3, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}) == "b: rank 3 must be 4, shape is [3, 5, 6]");
  CHECK(refused({2, 3, 4, 5}, {2, 1, 5, 6}, {2, 3, 4, 6}) ==
        "b: shape [2, 1, 5, 6]: dimension 1 must be 3, as a's");
  CHECK(refused({2, 3, 4, 5}, {2, 3, 5, 6}, {1, 3, 4, 6}) ==
        "c: shape [1, 3, 4, 6]: dimension 0 must be 2, as a's");
  CHECK(refused({2, 3, 4, 5}, {2, 3, 6, 6}, {2, 3, 4, 6}).find("b: shape ") == 0);
  const Tensor x(context(), {2, 3, 4, 4}), y(context(), {3, 4, 4});
  CHECK(error_of<ValidationError>([&] {
          gemm(stream(), x, x, {}, {}, y.expand({2, 3, 4, 4}));
        }).find("c: ") == 0);
}
