// Layer and RMS normalisation, both directions, every engine, against the references.
#include <dlprim/layer_norm.hpp>

#include <cmath>
#include <limits>

#include "cases/norm.hpp"
#include "catch.hpp"
#include "core/device_probe.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  Shape shape;
  int axes = 1;
  Placing placing = Placing::row_major;
  DType x = DType::f32, y = DType::f32, w = DType::f32;
  bool rms = false, weight = true, bias = true;
  double offset = 0;
  std::string engine = "auto";
  std::string backward = {};  ///< the backward direction's engine, if it is another

  std::string text() const {
    return std::string(rms ? "rms_norm" : "layer_norm") + " " + to_string(shape) +
           " axes=" + std::to_string(axes) + " " + name_of(placing) + " x=" + name_of(x) +
           " y=" + name_of(y) + " w=" + name_of(w) + " weight=" + std::to_string(weight) +
           " bias=" + std::to_string(bias) + " offset=" + std::to_string(static_cast<int>(offset)) +
           " engine=" + engine;
  }
  DType real() const { return x == DType::f64 || y == DType::f64 ? DType::f64 : DType::f32; }
};

/// The operands of both directions, and guarded results.
struct Operands {
  Shape normalized, row;
  Tensor x, dy, weight, bias;
  Guarded y, mean, inv_std, dx, dweight, dbias;

  explicit Operands(const Case& c)
      : normalized(sizes(c, true)),
        row(sizes(c, false)),
        y(c.shape, strides_in(c.placing, c.shape), c.y, 48),
        mean(row, c.real(), 37),
        inv_std(row, c.real(), 37),
        dx(c.shape, strides_in(c.placing, c.shape), c.x, 48),
        dweight(normalized, c.w, 37),
        dbias(normalized, c.w, 37) {
    Rng rng(7);
    const int64_t count = element_count(c.shape), columns = element_count(normalized);
    std::vector<float> values = reals(count, rng, c.offset - 1, c.offset + 1);
    if (c.offset != 0)  // rows whose means differ by more than their error
      for (int64_t i = count / 2; i < count; i++) values[static_cast<size_t>(i)] += 1;
    x = placed(c.placing, c.shape, values, c.x);
    std::vector<float> gradient = reals(count, rng), weights = reals(columns, rng, 0.5, 2);
    if (columns == 1)  // their products are exact, then
      for (auto* all : {&gradient, &weights})
        for (float& v : *all) v = std::round(16 * v) / 16;
    dy = placed(c.placing, c.shape, gradient, c.y);
    if (c.weight) weight = device_tensor(normalized, weights, c.w);
    if (c.bias) bias = device_tensor(normalized, reals(columns, rng), c.w);
  }
  bool intact() const {
    return y.intact() && mean.intact() && inv_std.intact() && dx.intact() && dweight.intact() &&
           dbias.intact();
  }

 private:
  static Shape sizes(const Case& c, bool last) {
    Shape result;
    const int split = c.shape.size() - c.axes;
    for (int i = 0; i < c.shape.size(); i++)
      if (i >= split || !last) result.push_back(last || i < split ? c.shape[i] : 1);
    return result;
  }
};

void run(const Case& c, const Operands& o) {
  const Tensor mean = c.rms ? Tensor() : o.mean.tensor();
  const LayerNorm forward(
      context(), {o.x, o.y.tensor(), described(o.weight), described(o.bias), c.axes, 1e-3, c.rms, true},
      engine(c.engine));
  forward.run(stream(), o.x, o.weight, o.bias, o.y.tensor(), mean, o.inv_std.tensor());
  const Tensor dbias = c.rms ? Tensor() : o.dbias.tensor();
  const LayerNormBackward backward(
      context(),
      {o.dy, o.x, described(o.weight), o.dx.tensor(), o.dweight.tensor(), described(dbias), c.axes, c.rms},
      engine(c.backward.empty() ? c.engine : c.backward));
  backward.run(stream(), o.dy, o.x, o.weight, mean, o.inv_std.tensor(), o.dx.tensor(), o.dweight.tensor(),
               dbias);
}

void check(const Case& c) {
  if (!is_selected(c.text())) return;
  INFO(again(c.text()));
  if (c.real() == DType::f64 && !has_doubles()) return;
  const Operands o(c), o2(c);
  run(c, o);
  const NormView view = layer_view(c.shape, c.axes);
  const Values x = values_of(o.x), dy = values_of(o.dy);
  const Values weight = c.weight ? values_of(o.weight) : Values(),
               bias = c.bias ? values_of(o.bias) : Values();
  const Normed expected = norm_reference(view, x, weight, bias, 1e-3, !c.rms);
  const NormGradients gradients = norm_backward_reference(view, dy, x, weight, 1e-3, !c.rms);

  // Sums of n terms, in lanes and blocks: 64 units hold for all lengths here. What the offset takes, x - mean
  // loses.
  const double of_mean = 64 * 0x1p-24, exact = of_mean + 8 * std::abs(c.offset) * 0x1p-24;
  CHECK(deviation(host_values(o.y.tensor()), expected.y) <= 4 * (exact + storage_roundoff(c.y)));
  if (!c.rms) CHECK(deviation_of_means(host_values(o.mean.tensor()), expected.mean, x) <= of_mean);
  CHECK(deviation(host_values(o.inv_std.tensor()), expected.inv_std) <= exact);
  // A row of one element is its own mean, whatever it is.
  const bool constant = !c.rms && view.weights == 1;
  CHECK(deviation(host_values(o.dx.tensor()), gradients.dx) <=
        (constant ? 0 : 4 * (exact + storage_roundoff(c.x))));
  const double summed = 4 * (exact + storage_roundoff(c.w)) + 16 * std::sqrt(view.rows) * 0x1p-24;
  CHECK(deviation(host_values(o.dweight.tensor()), gradients.dweight) <= summed);
  if (!c.rms) CHECK(deviation(host_values(o.dbias.tensor()), gradients.dbias) <= summed);
  CHECK(o.intact());

  run(c, o2);
  CHECK((same_bits(o.y, o2.y) && same_bits(o.inv_std, o2.inv_std) && same_bits(o.dx, o2.dx)));
  CHECK((same_bits(o.dweight, o2.dweight) && same_bits(o.dbias, o2.dbias)));
}

}  // namespace

TEST_CASE("layer normalisation by every engine, of short, odd and whole rows", "[small]") {
  for (const char* by : {"rows", "cpu", "generated"})
    for (bool rms : {false, true})
      for (const Shape& shape : {Shape{1, 1}, Shape{5, 7}, Shape{3, 2, 32}, Shape{37, 100}}) {
        if (rms && std::string(by) == "rows" && shape.back() < 32) continue;  // each is a kernel of its own
        check({shape, 1, Placing::row_major, DType::f32, DType::f32, DType::f32, rms, true, !rms, 0, by});
      }
}
TEST_CASE("layer normalisation over several axes") {
  for (const char* by : {"rows", "cpu", "generated"}) {
    Case c{{3, 4, 5, 6}, 3};
    c.engine = by;
    check(c);
    c.shape = {2, 1, 3, 1, 2, 1, 2, 2}, c.axes = 2;
    check(c);
    c.axes = 8;
    check(c);
    c.shape = {3, 1, 1}, c.axes = 2;  // rows of one element: y is the bias
    check(c);
  }
}

TEST_CASE("layer normalisation of long rows") {
  // 4 and 1024 lanes, more than one round of accesses, more than fits into registers backward.
  for (const char* by : {"rows", "cpu", "generated"})
    for (int64_t length : {4096, 6000, 40004}) {
      Case c{{3, length}};
      c.engine = by;
      if (length > 16384 && c.engine == "rows") c.backward = "generated";  // `rows` refuses: see below
      check(c);
    }
}

TEST_CASE("layer normalisation of all dtypes, mixed too") {
  struct Dtypes {
    DType x, y, w;
  };
  const DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16, f64 = DType::f64;
  const Dtypes kEach[] = {
      {f16, f16, f16}, {bf16, f32, f32}, {f64, f64, f64}, {bf16, bf16, bf16}, {f32, f64, f16}};
  for (const char* by : {"rows", "cpu", "generated"})
    for (const Dtypes& d : kEach) {
      Case c{{9, 64}};
      c.engine = by;
      c.x = d.x, c.y = d.y, c.w = d.w;
      if (c.engine == "cpu" || d.w != bf16) check(c);
      c.rms = true, c.bias = false;
      if (c.engine == "cpu" && d.w == bf16) check(c);
    }
}

TEST_CASE("layer normalisation without weight or bias", "[small]") {
  for (const char* by : {"rows", "cpu", "generated"})
    for (bool weight : {false, true}) {
      Case c{{4, 24}};
      c.engine = by;
      c.weight = weight, c.bias = !weight;
      check(c);
      c.weight = c.bias = false;
      check(c);
    }
}

TEST_CASE("layer normalisation of strided tensors and of none", "[small]") {
  for (Placing placing : {Placing::channels_last, Placing::gaps}) {
    Case c{{3, 5, 4, 7}, 2, placing};
    check(c);
    c.rms = true, c.bias = false;
    check(c);
  }
  for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}, Shape{0, 0}}) check({shape});
}

TEST_CASE("layer normalisation of rows with gaps between them stays with the row kernels", "[small]") {
  Rng rng(3);
  const Tensor whole = device_tensor({6, 48}, reals(6 * 48, rng));
  const Tensor x = whole.slice(1, 8, 24);
  const Guarded y({6, 16});
  const LayerNorm plan(context(), {x, y.tensor(), {}, {}, 1, 1e-5, false, false});
  CHECK(plan.engine() != "generated");
  CHECK(plan.workspace_size() == 0);
  plan.run(stream(), x, {}, {}, y.tensor(), {}, {});
  const Values expected = norm_reference(layer_view({6, 16}, 1), values_of(x), {}, {}, 1e-5).y;
  CHECK(deviation(host_values(y.tensor()), expected) <= 64 * 0x1p-24);
}

TEST_CASE("layer normalisation far from zero loses no more than the input did", "[small]") {
  // E[x^2] - E[x]^2 would have no correct digit left.
  for (const char* by : {"rows", "cpu", "generated"}) {
    Case c{{4, 300}};
    c.engine = by, c.offset = 4096;
    check(c);
    c.shape = {2, 40004};
    if (c.engine == "cpu" && !detail::driver_limits(context().device()).long_loops) {
      note_skipped("a long row for one work-item, whose loops the driver ends");
      continue;
    }
    if (c.engine == "rows") c.backward = "generated";
    check(c);
  }
}

TEST_CASE("layer normalisation: an outlier in front spoils nothing", "[small]") {
  // The generated kernels take differences from each lane's first element.
  std::vector<float> values(20000, 0.0f);
  values[0] = 1000;
  for (const char* by : {"rows", "cpu", "generated"}) {
    const Tensor x = device_tensor({1, 20000}, values);
    const Guarded y({1, 20000}), mean({1, 1}), inv_std({1, 1});
    const LayerNorm plan(context(), {x, y.tensor(), {}, {}, 1, 0, false, true}, engine(by));
    plan.run(stream(), x, {}, {}, y.tensor(), mean.tensor(), inv_std.tensor());
    const Normed expected = norm_reference(layer_view({1, 20000}, 1), values_of(x), {}, {}, 0);
    INFO(by);
    // At worst the number of a lane's elements, 20000 / 16, in units of the last place.
    CHECK(deviation(host_values(inv_std.tensor()), expected.inv_std) <= 1250 * 0x1p-24);
  }
}

TEST_CASE("layer normalisation of special values", "[small]") {
  for (const char* by : {"rows", "cpu", "generated"}) {
    INFO(by);
    // A NaN or an infinity spoils its own row only; a constant row has variance 0, of which epsilon is left.
    const Tensor x =
        device_tensor({4, 4}, {1, kNan, 2, 3, 1, kInfinity, 2, 3, 7, 7, 7, 7, 1e30f, -1e30f, 0, 1});
    const Guarded y({4, 4}), mean({4, 1}), inv_std({4, 1});
    const LayerNorm plan(context(), {x, y.tensor(), {}, {}, 1, 0.25, false, true}, engine(by));
    plan.run(stream(), x, {}, {}, y.tensor(), mean.tensor(), inv_std.tensor());
    const std::vector<float> made = host_values(y.tensor());
    for (size_t i = 0; i < 8; i++) CHECK(std::isnan(made[i]));
    for (size_t i = 8; i < 12; i++) CHECK(made[i] == 0);
    const std::vector<float> means = host_values(mean.tensor()), scales = host_values(inv_std.tensor());
    CHECK((std::isnan(means[0]) && means[2] == 7 && std::abs(means[3]) <= 0.25));
    CHECK((std::isnan(scales[0]) && scales[2] == 2 && scales[3] == 0));
    for (size_t i = 12; i < 16; i++) CHECK(made[i] == 0);  // the squares overflow, as in PyTorch
  }
}

TEST_CASE("layer normalisation gradients agree with finite differences", "[small]") {
  for (bool rms : {false, true}) {
    Case c{{3, 5}};
    c.rms = rms;
    const Operands o(c);
    run(c, o);
    const NormView view = layer_view(c.shape, 1);
    const Values x = values_of(o.x), dy = values_of(o.dy), w = values_of(o.weight), b = values_of(o.bias);
    const NormGradients expected = norm_numeric_gradients(view, dy, x, w, b, 1e-3, !rms);
    check_near(host_values(o.dx.tensor()), expected.dx);
    check_near(host_values(o.dweight.tensor()), expected.dweight);
    if (!rms) check_near(host_values(o.dbias.tensor()), expected.dbias);
  }
}

TEST_CASE("layer normalisation: each gradient alone, and in place", "[small]") {
  for (const char* by : {"rows", "cpu", "generated"}) {
    INFO(by);
    Case c{{6, 40}};
    c.engine = by;
    const Operands o(c), alone(c);
    run(c, o);
    const auto backward = [&](const Tensor& dy, const Tensor& dx, const Tensor& dweight,
                              const Tensor& dbias) {
      const LayerNormBackward plan(
          context(),
          {dy, o.x, described(o.weight), described(dx), described(dweight), described(dbias), 1, false},
          engine(by));
      plan.run(stream(), dy, o.x, o.weight, o.mean.tensor(), o.inv_std.tensor(), dx, dweight, dbias);
    };
    backward(o.dy, alone.dx.tensor(), {}, {});
    backward(o.dy, {}, alone.dweight.tensor(), {});
    backward(o.dy, {}, {}, alone.dbias.tensor());
    // The same sums, but not of the same order everywhere: compilers may contract other operations.
    const auto near = [](const Guarded& a, const Guarded& b) {
      return deviation(host_values(a.tensor()), host_values(b.tensor())) <= 16 * 0x1p-24;
    };
    CHECK(near(alone.dx, o.dx));
    CHECK(near(alone.dweight, o.dweight));
    CHECK(near(alone.dbias, o.dbias));
    backward(alone.dy, alone.dy, alone.dweight.tensor(), alone.dbias.tensor());
    CHECK(host_bytes(alone.dy) == host_bytes(o.dx.tensor()));
    CHECK(same_bits(alone.dweight, o.dweight));
    const LayerNorm forward(
        context(), {o.x, o.x, described(o.weight), described(o.bias), 1, 1e-3, false, false}, engine(by));
    forward.run(stream(), alone.x, o.weight, o.bias, alone.x, {}, {});
    CHECK(deviation(host_values(alone.x), host_values(o.y.tensor())) <= 16 * 0x1p-24);
  }
}

TEST_CASE("layer normalisation: the calls, and a workspace of the user's", "[small]") {
  const Case c{{6, 40}};
  const Operands o(c), t(c);
  layer_norm(stream(), o.x, o.weight, o.bias, 1, 1e-3, o.y.tensor(), o.mean.tensor(), o.inv_std.tensor());
  layer_norm_backward(stream(), o.dy, o.x, o.weight, o.mean.tensor(), o.inv_std.tensor(), 1, o.dx.tensor(),
                      o.dweight.tensor(), o.dbias.tensor());
  run(c, t);
  CHECK(same_bits(o.y, t.y));
  CHECK(same_bits(o.dx, t.dx));
  rms_norm(stream(), o.x, o.weight, 1, 1e-3, o.y.tensor(), o.inv_std.tensor());
  rms_norm_backward(stream(), o.dy, o.x, o.weight, o.inv_std.tensor(), 1, o.dx.tensor(), o.dweight.tensor());
  const NormView view = layer_view(c.shape, 1);
  const Values y = norm_reference(view, values_of(o.x), values_of(o.weight), {}, 1e-3, false).y;
  CHECK(deviation(host_values(o.y.tensor()), y) <= 64 * 0x1p-24);

  for (const char* by : {"rows", "cpu", "generated"}) {
    const LayerNormBackward plan(
        context(),
        {o.dy, o.x, described(o.weight), o.dx.tensor(), o.dweight.tensor(), o.dbias.tensor(), 1, false},
        engine(by));
    const Guarded workspace({static_cast<int64_t>(plan.workspace_size())}, DType::u8);
    plan.run(stream(), t.dy, t.x, t.weight, t.mean.tensor(), t.inv_std.tensor(), o.dx.tensor(),
             o.dweight.tensor(), o.dbias.tensor(), workspace.tensor());
    CHECK(workspace.intact());
    CHECK(deviation(host_values(o.dx.tensor()), host_values(t.dx.tensor())) <= 16 * 0x1p-24);
  }
}

TEST_CASE("layer normalisation refuses bad input", "[small]") {
  const Case c{{6, 40}};
  const Operands o(c);
  const auto forward = [&](const Tensor& x, int axes, const Tensor& w, double epsilon, const Tensor& y,
                           const Tensor& mean) {
    return refusal([&] { layer_norm(stream(), x, w, o.bias, axes, epsilon, y, mean, o.inv_std.tensor()); });
  };
  const Tensor y = o.y.tensor(), mean = o.mean.tensor();
  CHECK(forward({}, 1, o.weight, 1e-5, y, mean) == "x: is not defined");
  CHECK(forward(o.x, 0, o.weight, 1e-5, y, mean) == "axes: 0 must lie in [1, 2], the rank of x");
  CHECK(forward(o.x, 3, o.weight, 1e-5, y, mean) == "axes: 3 must lie in [1, 2], the rank of x");
  CHECK(forward(o.x, 2, o.weight, 1e-5, y, mean) == "weight: shape [40] must be [6, 40]");
  CHECK(forward(o.x, 1, o.weight, kNan, y, mean) == "epsilon: nan must be finite");
  CHECK(forward(o.x.slice(0, 0, 4), 1, o.weight, 1e-5, y, mean) == "y: shape [6, 40] must be [4, 40]");
  CHECK(forward(o.x, 1, o.weight, 1e-5, y, {}) == "mean: is not defined, though the other statistic is");
  CHECK(forward(o.x, 1, o.weight, 1e-5, y, mean.reshape({6})) == "mean: shape [6] must be [6, 1]");
  CHECK(forward(o.x, 1, o.weight, 1e-5, o.x.slice(0, 0, 6).expand({6, 40}), mean) == "(nothing was thrown)");
  CHECK(forward(o.x, 1, o.weight, 1e-5, y, o.inv_std.tensor()) == "inv_std: shares memory with mean");
  CHECK(refusal([&] {
          layer_norm_backward(stream(), o.dy, o.x, o.weight, mean, o.inv_std.tensor(), 1, {}, {}, {});
        }) == "dx: no gradient is wanted");
  CHECK(refusal([&] {
          layer_norm_backward(stream(), o.dy, o.x, o.weight, mean, o.inv_std.tensor(), 1, o.x, {}, {});
        }) == "dx: shares memory with x");
  const Tensor longer(context(), {2, 40000});
  CHECK(refusal([&] {
          const LayerNormBackward plan(context(), {longer, longer, {}, longer, {}, {}, 1, false},
                                       engine("rows"));
        }).find("rows of 40000 do not fit into registers") != std::string::npos);
}
