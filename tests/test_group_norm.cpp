// Group and instance normalisation, both directions, every engine, against the references.
#include <dlprim/group_norm.hpp>
#include <dlprim/instance_norm.hpp>

#include <cmath>
#include <limits>

#include "cases/norm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  Shape shape;
  int64_t groups = 1;
  Placing placing = Placing::row_major;
  DType x = DType::f32, y = DType::f32, w = DType::f32;
  bool weight = true, bias = true;
  double offset = 0;
  std::string engine = "auto";

  std::string text() const {
    return "group_norm " + to_string(shape) + " groups=" + std::to_string(groups) + " " + name_of(placing) +
           " x=" + name_of(x) + " y=" + name_of(y) + " w=" + name_of(w) +
           " weight=" + std::to_string(weight) + " bias=" + std::to_string(bias) +
           " offset=" + std::to_string(static_cast<int>(offset)) + " engine=" + engine;
  }
  DType real() const { return x == DType::f64 || y == DType::f64 ? DType::f64 : DType::f32; }
};

struct Operands {
  Tensor x, dy, weight, bias;
  Guarded y, mean, inv_std, variance, dx, dweight, dbias;

  explicit Operands(const Case& c)
      : y(c.shape, strides_in(c.placing, c.shape), c.y, 48),
        mean({c.shape[0], c.groups}, c.real(), 37),
        inv_std({c.shape[0], c.groups}, c.real(), 37),
        variance({c.shape[0], c.groups}, c.real(), 37),
        dx(c.shape, strides_in(c.placing, c.shape), c.x, 48),
        dweight({c.shape[1]}, c.w, 37),
        dbias({c.shape[1]}, c.w, 37) {
    Rng rng(7);
    const int64_t count = element_count(c.shape);
    x = placed(c.placing, c.shape, reals(count, rng, c.offset - 1, c.offset + 1), c.x);
    dy = placed(c.placing, c.shape, reals(count, rng), c.y);
    if (c.weight) weight = device_tensor({c.shape[1]}, reals(c.shape[1], rng, 0.5, 2), c.w);
    if (c.bias) bias = device_tensor({c.shape[1]}, reals(c.shape[1], rng), c.w);
  }
  bool intact() const {
    return y.intact() && mean.intact() && inv_std.intact() && variance.intact() && dx.intact() &&
           dweight.intact() && dbias.intact();
  }
};

void run(const Case& c, const Operands& o) {
  const GroupNorm forward(
      context(), {o.x, o.y.tensor(), described(o.weight), described(o.bias), c.groups, 1e-3, true, true},
      engine(c.engine));
  forward.run(stream(), o.x, o.weight, o.bias, o.y.tensor(), o.mean.tensor(), o.inv_std.tensor(),
              o.variance.tensor());
  group_norm_backward(stream(), o.dy, o.x, o.weight, o.mean.tensor(), o.inv_std.tensor(), c.groups,
                      o.dx.tensor(), o.dweight.tensor(), o.dbias.tensor());
}

void check(const Case& c) {
  if (!is_selected(c.text())) return;
  INFO(again(c.text()));
  if (c.real() == DType::f64 && !has_doubles()) return;
  const Operands o(c), o2(c);
  run(c, o);
  const NormView view = group_view(c.shape, c.groups);
  const Values x = values_of(o.x), dy = values_of(o.dy);
  const Values weight = c.weight ? values_of(o.weight) : Values(),
               bias = c.bias ? values_of(o.bias) : Values();
  const Normed expected = norm_reference(view, x, weight, bias, 1e-3);
  const NormGradients gradients = norm_backward_reference(view, dy, x, weight, 1e-3);

  // Sums of n terms, in lanes and blocks: 64 units hold for all sizes here. What the offset takes, x - mean
  // loses.
  const double exact = (64 + 8 * std::abs(c.offset)) * 0x1p-24;
  CHECK(deviation(host_values(o.y.tensor()), expected.y) <= 4 * (exact + storage_roundoff(c.y)));
  CHECK(deviation(host_values(o.mean.tensor()), expected.mean) <= exact);
  CHECK(deviation(host_values(o.inv_std.tensor()), expected.inv_std) <= exact);
  CHECK(deviation(host_values(o.variance.tensor()), expected.unbiased) <= exact);
  CHECK(deviation(host_values(o.dx.tensor()), gradients.dx) <= 4 * (exact + storage_roundoff(c.x)));
  const double terms =
      static_cast<double>(view.count) / static_cast<double>(std::max<int64_t>(c.shape[1], 1));
  const double summed = 4 * (exact + storage_roundoff(c.w)) + 16 * std::sqrt(terms) * 0x1p-24;
  CHECK(deviation(host_values(o.dweight.tensor()), gradients.dweight) <= summed);
  CHECK(deviation(host_values(o.dbias.tensor()), gradients.dbias) <= summed);
  CHECK(o.intact());

  run(c, o2);
  CHECK((same_bits(o.y, o2.y) && same_bits(o.inv_std, o2.inv_std) && same_bits(o.dx, o2.dx)));
  CHECK((same_bits(o.dweight, o2.dweight) && same_bits(o.dbias, o2.dbias)));
}

}  // namespace

TEST_CASE("group normalisation by every engine", "[small]") {
  for (const char* by : {"rows", "cpu", "generated"}) {
    for (int64_t groups : {1, 3, 6}) {
      Case c{{3, 6, 4, 5}, groups};
      c.engine = by;
      check(c);
    }
    Case c{{2, 8}, 4};
    c.engine = by;
    check(c);
  }
}

TEST_CASE("group normalisation of strided tensors, 8 dimensions and none", "[small]") {
  check({{3, 6, 4, 5}, 2, Placing::channels_last});
  check({{3, 6, 4, 5}, 3, Placing::gaps});
  check({{2, 4, 1, 2, 1, 3, 1, 2}, 2});
  check({{2, 4, 1, 2, 1, 3, 1, 2}, 2, Placing::channels_last});
  for (const Shape& shape : {Shape{0, 4, 3}, Shape{2, 4, 0}}) check({shape, 2});
}

TEST_CASE("group normalisation of larger tensors and far from zero") {
  for (const char* by : {"rows", "cpu", "generated"}) {
    Case c{{2, 32, 28, 28}, 8};
    c.engine = by;
    check(c);
    c.shape = {1, 4, 9, 7}, c.groups = 2, c.offset = 4096;
    check(c);
  }
}

TEST_CASE("group normalisation of other dtypes, without weight or bias") {
  for (const char* by : {"rows", "cpu"}) {
    Case c{{2, 4, 16}, 2};
    c.engine = by;
    c.x = c.y = c.w = DType::f16, c.bias = false;
    check(c);
    c.x = c.y = DType::bf16, c.w = DType::f32, c.weight = false, c.bias = true;
    check(c);
    c.x = c.y = c.w = DType::f64, c.weight = c.bias = false;
    check(c);
  }
  Case c{{2, 4, 16}, 2, Placing::channels_last};
  c.x = c.y = DType::bf16, c.w = DType::f32;
  check(c);
}

TEST_CASE("group normalisation gradients agree with finite differences", "[small]") {
  const Case c{{2, 4, 3}, 2};
  const Operands o(c);
  run(c, o);
  const NormView view = group_view(c.shape, c.groups);
  const Values x = values_of(o.x), dy = values_of(o.dy), w = values_of(o.weight), b = values_of(o.bias);
  const NormGradients expected = norm_numeric_gradients(view, dy, x, w, b, 1e-3);
  check_near(host_values(o.dx.tensor()), expected.dx);
  check_near(host_values(o.dweight.tensor()), expected.dweight);
  check_near(host_values(o.dbias.tensor()), expected.dbias);
}

TEST_CASE("group normalisation: each gradient alone, in place, special values", "[small]") {
  const Case c{{2, 6, 5}, 3};
  const Operands o(c), t(c);
  run(c, o);
  const auto backward = [&](const Tensor& dy, const Tensor& dx, const Tensor& dw, const Tensor& db) {
    group_norm_backward(stream(), dy, o.x, o.weight, o.mean.tensor(), o.inv_std.tensor(), 3, dx, dw, db);
  };
  backward(o.dy, {}, t.dweight.tensor(), {});
  CHECK(same_bits(t.dweight, o.dweight));
  backward(o.dy, {}, {}, t.dbias.tensor());
  CHECK(same_bits(t.dbias, o.dbias));
  backward(t.dy, t.dy, {}, {});
  CHECK(host_bytes(t.dy) == host_bytes(o.dx.tensor()));
  group_norm(stream(), t.x, t.weight, t.bias, 3, 1e-3, t.x);
  CHECK(deviation(host_values(t.x), host_values(o.y.tensor())) <= 16 * 0x1p-24);

  const Tensor x = device_tensor({1, 4, 2}, {1, kNan, 2, 3, 5, 5, 5, 5});
  const Guarded y({1, 4, 2});
  group_norm(stream(), x, {}, device_tensor({4}, {0, 0, 0, 0.5f}), 2, 1e-5, y.tensor());
  const std::vector<float> made = host_values(y.tensor());
  for (size_t i = 0; i < 4; i++) CHECK(std::isnan(made[i]));
  CHECK(std::vector<float>(made.begin() + 4, made.end()) == std::vector<float>{0, 0, 0.5f, 0.5f});
}

TEST_CASE("instance normalisation, its running statistics and inference", "[small]") {
  for (Placing placing : {Placing::row_major, Placing::channels_last}) {
    INFO(name_of(placing));
    Case c{{3, 4, 5, 2}, 4, placing};
    const Operands o(c);
    Rng rng(5);
    const Tensor running_mean = device_tensor({4}, reals(4, rng)),
                 running_var = device_tensor({4}, reals(4, rng, 1, 2));
    const Values mean_before = values_of(running_mean), var_before = values_of(running_var);
    instance_norm(stream(), o.x, o.weight, o.bias, {1e-3, 0.2}, running_mean, running_var, o.y.tensor(),
                  o.mean.tensor(), o.inv_std.tensor());
    const Values x = values_of(o.x), w = values_of(o.weight), b = values_of(o.bias);
    const Normed expected = norm_reference(group_view(c.shape, 4), x, w, b, 1e-3);
    Values mean = mean_before, var = var_before;
    for (size_t i = 0; i < 4; i++) mean[i] *= 0.8, var[i] *= 0.8;
    for (size_t i = 0; i < 12; i++) {
      mean[i % 4] += 0.2 / 3 * expected.mean[i];
      var[i % 4] += 0.2 / 3 * expected.unbiased[i];
    }
    CHECK(deviation(host_values(o.y.tensor()), expected.y) <= 256 * 0x1p-24);
    CHECK(deviation(host_values(running_mean), mean) <= 64 * 0x1p-24);
    CHECK(deviation(host_values(running_var), var) <= 64 * 0x1p-24);
    instance_norm_backward(stream(), o.dy, o.x, o.weight, o.mean.tensor(), o.inv_std.tensor(), o.dx.tensor(),
                           o.dweight.tensor(), o.dbias.tensor());
    const NormGradients g = norm_backward_reference(group_view(c.shape, 4), values_of(o.dy), x, w, 1e-3);
    CHECK(deviation(host_values(o.dx.tensor()), g.dx) <= 256 * 0x1p-24);
    CHECK(deviation(host_values(o.dweight.tensor()), g.dweight) <= 256 * 0x1p-24);
    CHECK(o.y.intact());
    // Without running statistics nothing but y is written.
    const Guarded y(c.shape, strides_in(placing, c.shape), DType::f32);
    instance_norm(stream(), o.x, o.weight, o.bias, {1e-3, 0.2}, {}, {}, y.tensor());
    CHECK(deviation(host_values(y.tensor()), expected.y) <= 256 * 0x1p-24);
  }
}

TEST_CASE("group and instance normalisation refuse bad input", "[small]") {
  const Case c{{2, 6, 5}, 3};
  const Operands o(c);
  const auto forward = [&](const Tensor& x, int64_t groups, const Tensor& w, double epsilon) {
    return error_of<ValidationError>(
        [&] { group_norm(stream(), x, w, o.bias, groups, epsilon, o.y.tensor()); });
  };
  CHECK(forward({}, 3, o.weight, 1e-5) == "x: is not defined");
  CHECK(forward(o.x, 4, o.weight, 1e-5) == "groups: 4 must divide 6 channels");
  CHECK(forward(o.x, 0, o.weight, 1e-5) == "groups: 0 must divide 6 channels");
  CHECK(forward(o.x, 3, o.weight, INFINITY) == "epsilon: inf must be finite");
  CHECK(forward(o.x, 3, o.weight.slice(0, 0, 4), 1e-5) == "weight: shape [4] must be [6]");
  CHECK(error_of<ValidationError>([&] {
          group_norm_backward(stream(), o.dy, o.x, {}, o.mean.tensor(), o.inv_std.tensor(), 3, {}, {}, {});
        }) == "dx: no gradient is wanted");
  CHECK(error_of<ValidationError>([&] {
          group_norm_backward(stream(), o.dy, o.x, {}, o.mean.tensor().slice(0, 0, 1), o.inv_std.tensor(), 3,
                              o.dx.tensor(), {}, {});
        }) == "mean: shape [1, 3] must be [2, 3]");
  const Tensor one(context(), {2, 3, 1}), y(context(), {2, 3, 1});
  CHECK(error_of<ValidationError>([&] { instance_norm(stream(), one, {}, {}, {}, {}, {}, y); }) ==
        "x: shape [2, 3, 1] has 1 values a channel of an image, a variance needs at least 2");
}
