// Triangular systems: right sides are made of solutions of small integers, so that every step is exact.
#include <dlprim/triangular_solve.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct System {
  int64_t batches = 1, n = 1, m = 1;
  bool upper = false, unit = false;
};

bool is_read(const System& s, int64_t i, int64_t j) {
  return s.upper ? j > i : j < i;
}

/// Diagonals are powers of 2, elements that must not be read NaN.
void check(const System& s, DType dtype, bool transposed, bool in_place) {
  INFO("batches " << s.batches << " n " << s.n << " m " << s.m << " upper " << s.upper << " unit " << s.unit);
  Rng rng(7);
  const auto at = [](int64_t k, int64_t rows, int64_t i, int64_t columns, int64_t j) {
    return static_cast<size_t>((k * rows + i) * columns + j);
  };
  std::vector<float> a(static_cast<size_t>(s.batches * s.n * s.n), NAN),
      turned = a, b(static_cast<size_t>(s.batches * s.n * s.m));
  const std::vector<float> x = integers(s.batches * s.n * s.m, rng);
  for (int64_t k = 0; k < s.batches; k++)
    for (int64_t i = 0; i < s.n; i++) {
      for (int64_t j = 0; j < s.n; j++) {
        float& value = a[at(k, s.n, i, s.n, j)];
        if (is_read(s, i, j)) value = static_cast<float>(rng.integer(-2, 2));
        if (i == j && !s.unit) value = rng.integer(0, 1) ? 2.0f : -0.5f;
        turned[at(k, s.n, j, s.n, i)] = value;
      }
      for (int64_t c = 0; c < s.m; c++) {
        double sum = 0;
        for (int64_t j = 0; j < s.n; j++) {
          const double factor = i == j && s.unit             ? 1
                                : is_read(s, i, j) || i == j ? static_cast<double>(a[at(k, s.n, i, s.n, j)])
                                                             : 0;
          sum += factor * static_cast<double>(x[at(k, s.n, j, s.m, c)]);
        }
        b[at(k, s.n, i, s.m, c)] = static_cast<float>(sum);
      }
    }
  const Shape matrix{s.batches, s.n, s.n}, sides{s.batches, s.n, s.m};
  const Tensor left =
      transposed ? device_tensor(matrix, turned, dtype).transpose(-1, -2) : device_tensor(matrix, a, dtype);
  const Guarded found(sides, dtype);
  const Tensor right = device_tensor(sides, b, dtype);
  if (in_place) copy(stream(), right, found.tensor());
  triangular_solve(stream(), left, in_place ? found.tensor() : right, s.upper, s.unit, found.tensor());
  CHECK(host_values(found.tensor()) == x);
  CHECK(found.intact());
}

}  // namespace

TEST_CASE("triangular_solve: exact, any side, in place or not", "[small]") {
  for (DType dtype : {DType::f32, DType::f64}) {
    if (dtype == DType::f64 && !has_doubles()) continue;
    for (bool upper : {false, true})
      for (bool unit : {false, true}) {
        check({1, 1, 1, upper, unit}, dtype, false, false);
        check({3, 5, 4, upper, unit}, dtype, false, true);
        check({2, 17, 1, upper, unit}, dtype, true, false);
        check({2, 65, 9, upper, unit}, dtype, true, true);
      }
  }
}

TEST_CASE("triangular_solve: one matrix for a batch, strided sides, none", "[small]") {
  const Tensor a = device_tensor({2, 2}, {2, NAN, 1, 4}),
               b = device_tensor({3, 2, 2}, {2, 4, 9, 6, 4, 2, 10, 1, 0, 2, 4, 5});
  const Guarded x({3, 2, 2});
  triangular_solve(stream(), a.as_strided({3, 2, 2}, {0, 2, 1}), b, false, false, x.tensor());
  CHECK(host_values(x.tensor()) == std::vector<float>{1, 2, 2, 1, 2, 1, 2, 0, 0, 1, 1, 1});
  const Guarded y({2, 3, 2});  // x's batch and rows in the other order
  triangular_solve(stream(), a.as_strided({3, 2, 2}, {0, 2, 1}), b, false, false,
                   y.tensor().permute({1, 0, 2}));
  CHECK(host_values(y.tensor()) == std::vector<float>{1, 2, 2, 1, 0, 1, 2, 1, 2, 0, 1, 1});
  CHECK((x.intact() && y.intact()));
  const Tensor none(stream(), {0, 3}), square(stream(), {0, 0});
  triangular_solve(stream(), square, none, false, false, Tensor(stream(), {0, 3}));
}

TEST_CASE("triangular_solve: refusals", "[small]") {
  const Tensor a(stream(), {2, 2}), b(stream(), {2, 3});
  const auto refusal = [](const auto& f) { return error_of<ValidationError>(f); };
  CHECK(refusal([&] { triangular_solve(stream(), a, b, false, false, {}); }) == "x: is not defined");
  CHECK(refusal([&] { triangular_solve(stream(), b, b, false, false, b); }) ==
        "a: shape [2, 3] must be [2, 2]");
  CHECK(refusal([&] { triangular_solve(stream(), a, a, false, false, b); }) ==
        "x: shape [2, 3] must be [2, 2]");
  CHECK(refusal([&] { triangular_solve(stream(), a, a, false, false, a); }) == "x: shares memory with a");
  const Tensor half(stream(), {2, 2}, DType::f16);
  CHECK(refusal([&] { triangular_solve(stream(), half, half, false, false, half); }) ==
        "a: dtype f16 must be f32 or f64");
}
