// Softmax, log-softmax, both under masks, and logsumexp.
#include <dlprim/softmax.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"
#include "core/text.hpp"

using namespace dlprim;
using namespace dlprim::test;
using dlprim::detail::cat;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

/// exp's few units, and the rounding of a sum of `terms` terms.
double tolerance(int64_t terms, DType dtype) {
  return (16 + static_cast<double>(terms)) * 0x1p-24 + storage_roundoff(dtype);
}

void forward(bool log, const Tensor& x, int axis, const Tensor& y, const Tensor& mask = {}) {
  log ? log_softmax(stream(), x, mask, axis, y) : softmax(stream(), x, mask, axis, y);
}
void backward(bool log, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx,
              const Tensor& mask = {}) {
  log ? log_softmax_backward(stream(), dy, y, mask, axis, dx)
      : softmax_backward(stream(), dy, y, mask, axis, dx);
}

const char* const kEngines[] = {"row", "cpu", "generated"};

struct Case {
  Shape shape;
  int axis;
  Placing placing = Placing::row_major;
  DType dtype = DType::f32, y_dtype = dtype;
  bool log = false;
  int64_t padding = 37;  // of results; 64 leaves them aligned
};

std::string text_of(const Case& c, const char* engine) {
  return cat(engine, " ", c.log ? "log_softmax" : "softmax", " of ", name_of(c.dtype), to_string(c.shape),
             " to ", name_of(c.y_dtype), " along ", c.axis, ", ", name_of(c.placing));
}

/// Forward and backward, twice each, by one engine.
void check(const Case& c, const char* engine_name) {
  const std::string text = text_of(c, engine_name);
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(11);
  const int64_t count = element_count(c.shape), terms = c.shape[c.axis];
  const Tensor x = placed(c.placing, c.shape, reals(count, rng, -5, 5), c.dtype);
  const Tensor dy = placed(c.placing, c.shape, reals(count, rng), c.dtype);
  const Strides strides = strides_in(c.placing, c.shape);
  const Guarded y(c.shape, strides, c.y_dtype, c.padding), second(c.shape, strides, c.y_dtype, c.padding),
      dx(c.shape, strides, c.y_dtype, c.padding);
  const Softmax plan(context(), {x, y.tensor(), c.axis, c.log}, engine(engine_name));
  CHECK(plan.engine() == engine_name);
  plan.run(stream(), x, {}, y.tensor());
  plan.run(stream(), x, {}, second.tensor());
  const double storage = storage_roundoff(c.y_dtype);
  CHECK(deviation(host_values(y.tensor()), softmax_reference(values_of(x), c.shape, c.axis, c.log)) <=
        tolerance(terms, DType::f32) + storage);
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(second.tensor()));

  const SoftmaxBackward back(context(), {dy, y.tensor(), dx.tensor(), c.axis, c.log}, engine(engine_name));
  back.run(stream(), dy, y.tensor(), {}, dx.tensor());
  const Values expected =
      softmax_backward_reference(values_of(dy), values_of(y.tensor()), c.shape, c.axis, c.log);
  CHECK(deviation(host_values(dx.tensor()), expected) <= tolerance(terms, DType::f32) + storage);
  CHECK(dx.intact());
}

}  // namespace

TEST_CASE("softmax along every axis and in every form of memory", "[small]") {
  for (Placing placing : kPlacings)
    for (int axis = 0; axis < 4; axis++) {
      const bool log = axis % 2 != 0;
      check({{3, 5, 2, 7}, axis, placing, DType::f32, DType::f32, log}, "cpu");
      if (axis == 1) check({{3, 5, 2, 7}, axis, placing, DType::f32, DType::f32, log}, "row");
    }
  check({{3, 5, 2, 7}, 2, Placing::row_major}, "generated");
}

TEST_CASE("softmax of other dtypes", "[small]") {
  for (const char* by : {"row", "cpu"}) {
    check({{3, 5, 2, 8}, 3, Placing::row_major, DType::f16, DType::f16}, by);
    check({{3, 16}, 1, Placing::row_major, DType::bf16, DType::bf16, true}, by);
    if (has_doubles()) check({{3, 5}, 1, Placing::row_major, DType::f64, DType::f32, true}, by);
  }
  check({{3, 5, 2, 7}, 1, Placing::gaps, DType::bf16, DType::f32}, "generated");
}

TEST_CASE("softmax of doubles has a double's error", "[small]") {
  if (!has_doubles()) return;
  for (const char* by : kEngines) {
    INFO(by);
    const Tensor x = device_tensor({1, 3}, {1, 2, 4}, DType::f64);
    const Guarded y({1, 3}, DType::f64);
    Softmax(context(), {x, y.tensor()}, engine(by)).run(stream(), x, {}, y.tensor());
    double values[3];
    read(stream(), y.tensor(), values, sizeof values);
    const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(4.0);
    for (int i = 0; i < 3; i++) CHECK(std::fabs(values[i] - std::exp(i == 2 ? 4.0 : i + 1.0) / sum) < 1e-15);
  }
}

TEST_CASE("softmax of edge shapes", "[small]") {
  for (const char* by : kEngines) {
    check({{1}, 0}, by);
    check({{0}, 0}, by);
    check({{4, 0, 3}, 1}, by);
    check({{4, 0, 3}, 0}, by);
    check({{1, 33}, 1}, by);
    check({{33, 1}, 1}, by);
  }
}

TEST_CASE("softmax of rows that start anywhere goes in vectors", "[small]") {
  const auto row = [](const Shape& shape, DType from, DType to, bool log) {
    check({shape, shape.size() - 1, Placing::row_major, from, to, log, 64}, "row");
  };
  row({9, 1031}, DType::f32, DType::f32, false);
  row({5, 1027}, DType::bf16, DType::bf16, true);
  row({3, 2, 1025}, DType::f16, DType::f32, true);
  row({2, 1029}, DType::f32, DType::bf16, false);
}

TEST_CASE("softmax of long rows and of many rows") {
  check({{3, 40001}, 1, Placing::row_major, DType::f32, DType::f32, false, 64}, "row");
  check({{3, 70001}, 1, Placing::row_major, DType::bf16, DType::bf16, true, 64}, "row");
  for (const char* by : kEngines) {
    check({{3, 20001}, 1}, by);
    check({{2, 40004}, 1, Placing::row_major, DType::f32, DType::f32, true}, by);
    check({{2001, 10}, 1}, by);
    check({{16, 512}, 1}, by);
    check({{2, 21, 16, 15}, 1, Placing::row_major}, by);
    check({{2, 300, 5}, 1, Placing::row_major, DType::f32, DType::f32, true}, by);
  }
}

TEST_CASE("softmax in eight dimensions, none of which merge", "[small]") {
  const Shape wide{2, 3, 2, 3, 2, 3, 2, 3};
  Shape half = wide;
  for (int i = 0; i < 8; i++) half[i] = wide[i] - 1;
  Rng rng(2);
  const std::vector<float> values = reals(element_count(wide), rng, -2, 2);
  Tensor x = device_tensor(wide, values);
  for (int i = 0; i < 8; i++) x = x.slice(i, 0, half[i] + (i % 2 == 0));
  for (const char* by : kEngines) {
    INFO(by);
    const Guarded y(x.shape());
    Softmax(context(), {x, y.tensor(), 6}, engine(by)).run(stream(), x, {}, y.tensor());
    CHECK(deviation(host_values(y.tensor()), softmax_reference(values_of(x), x.shape(), 6, false)) <=
          tolerance(2, DType::f32));
    CHECK(y.intact());
  }
}

TEST_CASE("softmax under a mask", "[small]") {
  // Broadcast along the first and third axis; row [.., 1] has nothing left.
  const Shape shape{2, 3, 2, 4}, mask_shape{3, 1, 4};
  const std::vector<float> keep = {1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0};
  std::vector<float> added;
  for (float k : keep) added.push_back(k != 0 ? 0.5f : -kInf);
  Rng rng(3);
  const int64_t count = element_count(shape);
  const std::vector<float> values = reals(count, rng, -3, 3), slopes = reals(count, rng);
  for (const char* by : kEngines)
    for (bool additive : {false, true})
      for (bool log : {false, true}) {
        INFO(by << (additive ? " added" : " bool") << (log ? " log" : ""));
        const Tensor x = device_tensor(shape, values), dy = device_tensor(shape, slopes);
        const Tensor mask =
            device_tensor(mask_shape, additive ? added : keep, additive ? DType::f32 : DType::boolean);
        const Guarded y(shape), dx(shape);
        Softmax(context(), {x, y.tensor(), -1, log, TensorDesc(mask)}, engine(by))
            .run(stream(), x, mask, y.tensor());
        Values expected = values_of(x);
        for (size_t i = 0; i < expected.size(); i++)
          expected[i] = keep[i / 8 % 3 * 4 + i % 4] != 0 ? expected[i] + (additive ? 0.5 : 0) : -kInf;
        expected = softmax_reference(expected, shape, 3, log);
        for (size_t i = 0; i < expected.size(); i++)
          if (i / 8 % 3 == 1) expected[i] = log ? -kInf : 0;
        CHECK(deviation(host_values(y.tensor()), expected) <= tolerance(4, DType::f32));
        CHECK(y.intact());
        if (additive) continue;
        SoftmaxBackward(context(), {dy, y.tensor(), dx.tensor(), -1, log, TensorDesc(mask)}, engine(by))
            .run(stream(), dy, y.tensor(), mask, dx.tensor());
        Values back = softmax_backward_reference(values_of(dy), expected, shape, 3, log);
        for (size_t i = 0; i < back.size(); i++)
          if (keep[i / 8 % 3 * 4 + i % 4] == 0) back[i] = 0;
        CHECK(deviation(host_values(dx.tensor()), back) <= tolerance(4, DType::f32));
      }
}

TEST_CASE("logsumexp and its gradient", "[small]") {
  const std::vector<float> values = {1000, 1001, 1002, -kInf, -kInf, -kInf, kInf, 1,
                                     2,    kNan, 1,    2,     -200,  -201,  -kInf};
  const Values expected = {1002.40760596, -kInf, kInf, kNan, -199.68673831};
  for (const char* by : kEngines) {
    INFO(by);
    const Tensor x = device_tensor({5, 3}, values);
    const Guarded y({5, 1}), across({1, 5}), none({3, 1});
    LogSumExp(context(), {x, y.tensor(), 1}, engine(by)).run(stream(), x, y.tensor());
    CHECK(deviation(host_values(y.tensor()), expected) <= tolerance(3, DType::f32));
    const Tensor turned = device_tensor({5, 3}, values).transpose(0, 1);
    LogSumExp(context(), {turned, across.tensor(), 0}, engine(by)).run(stream(), turned, across.tensor());
    CHECK(deviation(host_values(across.tensor()), expected) <= tolerance(3, DType::f32));
    const Tensor empty(context(), {3, 0});
    LogSumExp(context(), {empty, none.tensor(), 1}, engine(by)).run(stream(), empty, none.tensor());
    CHECK(host_values(none.tensor()) == std::vector<float>(3, -kInf));
  }
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, -1, 0, 4}), dy = device_tensor({1, 3}, {1, -2, 0.5f});
  const Guarded y({1, 3}), dx({2, 3});
  logsumexp(stream(), x, 0, y.tensor());
  logsumexp_backward(stream(), dy, x, y.tensor(), 0, dx.tensor());
  const auto f = [&](const Values& v) {
    double sum = 0;
    for (size_t i = 0; i < 3; i++) sum += host_values(dy)[i] * std::log(std::exp(v[i]) + std::exp(v[i + 3]));
    return sum;
  };
  const std::vector<float> gradient = host_values(dx.tensor());
  for (size_t i = 0; i < 6; i++)
    CHECK(gradient[i] == Approx(numeric_gradient(f, values_of(x), i)).margin(2e-6));
}

TEST_CASE("softmax of special values", "[small]") {
  const std::vector<float> rows = {1000,  1001,   1002,   // beyond exp's range
                                   -1000, -1001,  -1002,  //
                                   1e38f, -1e38f, 1e38f,  //
                                   -kInf, 2,      3,      // excluded entries
                                   -kInf, -kInf,  5,      //
                                   -kInf, -kInf,  -kInf,  // nothing left: NaN
                                   kInf,  1,      2,      // inf - inf
                                   kNan,  1,      2,      //
                                   1,     2,      kNan};
  const Tensor x = device_tensor({9, 3}, rows);
  for (const char* by : kEngines)
    for (bool log : {false, true}) {
      INFO(by << (log ? " log_softmax" : " softmax"));
      const Guarded y({9, 3});
      Softmax(context(), {x, y.tensor(), 1, log}, engine(by)).run(stream(), x, {}, y.tensor());
      Values expected = softmax_reference(values_of(x), {9, 3}, 1, log);
      for (size_t i = 15; i < 27; i++) expected[i] = kNan;
      CHECK(deviation(host_values(y.tensor()), expected) <= tolerance(3, DType::f32));
      for (size_t i = 0; i < 15; i++) CHECK_FALSE(std::isnan(expected[i]));
    }
}

TEST_CASE("softmax in place", "[small]") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor x = device_tensor({2, 3}, values);
  log_softmax(stream(), x, {}, -1, x);
  const Values y = softmax_reference({values.begin(), values.end()}, {2, 3}, 1, true);
  CHECK(deviation(host_values(x), y) <= tolerance(3, DType::f32));
  const Tensor dy = device_tensor({2, 3}, {1, 0, 0, 0, 2, 0});
  const Values expected = softmax_backward_reference(values_of(dy), values_of(x), {2, 3}, 1, true);
  log_softmax_backward(stream(), dy, x, {}, -1, dy);
  CHECK(deviation(host_values(dy), expected) <= tolerance(3, DType::f32));
}

TEST_CASE("softmax gradients agree with finite differences", "[small]") {
  const Shape shape{2, 4, 3};
  Rng rng(5);
  const std::vector<float> at = reals(24, rng, -2, 2), weights = reals(24, rng);
  for (bool log : {false, true}) {
    INFO((log ? "log_softmax" : "softmax"));
    const Tensor x = device_tensor(shape, at), dy = device_tensor(shape, weights);
    const Guarded y(shape), dx(shape);
    forward(log, x, 1, y.tensor());
    backward(log, dy, y.tensor(), 1, dx.tensor());
    const auto loss = [&](const Values& v) {
      const Values out = softmax_reference(v, shape, 1, log);
      double sum = 0;
      for (size_t i = 0; i < out.size(); i++) sum += out[i] * weights[i];
      return sum;
    };
    const std::vector<float> gradient = host_values(dx.tensor());
    for (size_t i = 0; i < at.size(); i++)
      CHECK(gradient[i] == Approx(numeric_gradient(loss, values_of(x), i)).margin(2e-6));
  }
}

TEST_CASE("softmax with a workspace of the user's", "[small]") {
  const Softmax plan(context(), {TensorDesc({5, 7}), TensorDesc({5, 7}), 1, false}, engine("generated"));
  CHECK(plan.engine() == "generated");
  CHECK(plan.workspace_size() > 0);
  Rng rng(1);
  const Tensor x = device_tensor({5, 7}, reals(35, rng));
  const Guarded y({5, 7}), workspace({static_cast<int64_t>(plan.workspace_size())}, DType::u8);
  plan.run(stream(), x, {}, y.tensor(), workspace.tensor());
  CHECK(deviation(host_values(y.tensor()), softmax_reference(values_of(x), {5, 7}, 1, false)) <=
        tolerance(7, DType::f32));
  CHECK(workspace.intact());
  const Tensor small = workspace.tensor().slice(0, 0, static_cast<int64_t>(plan.workspace_size()) - 1);
  CHECK(error_of<ValidationError>([&] {
          plan.run(stream(), x, {}, y.tensor(), small);
        }).find("workspace: ") == 0);
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), x, {}, y.tensor(), x); }) ==
        "workspace: shares memory with x");
  const Tensor foreign(Context(context().device()), workspace.tensor().shape(), DType::u8);
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), x, {}, y.tensor(), foreign); }) ==
        "workspace: belongs to another context");
}

TEST_CASE("softmax keeps to the limit of its workspace", "[small]") {
  const Shape shape{1, 1 << 16};
  Rng rng(1);
  const Tensor x = device_tensor(shape, reals(1 << 16, rng));
  const Guarded y(shape);
  Options options = engine("generated");
  const SoftmaxDesc desc{TensorDesc(shape), TensorDesc(shape), 1, false};
  const size_t wanted = Softmax(context(), desc, options).workspace_size();
  REQUIRE(wanted > 128);  // the maximum and the sum, and parts of a long row
  options.workspace_limit = 128;
  const Softmax plan(context(), desc, options);
  CHECK(plan.workspace_size() == 128);
  plan.run(stream(), x, {}, y.tensor());
  CHECK(deviation(host_values(y.tensor()), softmax_reference(values_of(x), shape, 1, false)) <=
        tolerance(1 << 16, DType::f32));
  options.workspace_limit = 127;
  CHECK(error_of<ValidationError>([&] { Softmax(context(), desc, options); }) ==
        "engine: softmax: generated refused:\n  generated: needs 128 bytes of workspace, the limit is 127");
}

TEST_CASE("softmax refuses bad input", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y = device_tensor({2, 3}, {0, 0, 0, 0, 0, 0});
  const auto refused = [&](const Tensor& from, int axis, const Tensor& to) {
    return error_of<ValidationError>([&] { softmax(stream(), from, {}, axis, to); });
  };
  CHECK(refused({}, 0, y) == "x: is not defined");
  CHECK(refused(x, 2, y) == "axis: axis 2 of a tensor of rank 2");
  CHECK(refused(x, -3, y) == "axis: axis -3 of a tensor of rank 2");
  CHECK(refused(x, 0, y.transpose(0, 1)) == "y: shape [3, 2] must be [2, 3]");
  CHECK(refused(device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DType::u8), 0, y) ==
        "x: dtype u8 must be f32, f16, bf16 or f64");
  CHECK(refused(x.slice(1, 0, 2), 0, x.slice(1, 1, 3)) ==
        "y: shares memory with x without being the same tensor");
  CHECK(error_of<ValidationError>([&] { softmax_backward(stream(), x, y, {}, 0, y); }) ==
        "dx: shares memory with y");
  const auto with_mask = [&](const Tensor& mask) {
    return error_of<ValidationError>([&] { softmax(stream(), x, mask, 1, y); });
  };
  CHECK(with_mask(device_tensor({2, 3}, {1, 1, 1, 1, 1, 1}, DType::i32)) ==
        "mask: dtype i32 must be bool, f32, f16, bf16 or f64");
  CHECK(with_mask(device_tensor({1, 2, 3}, {1, 1, 1, 1, 1, 1})) ==
        "mask: shape [1, 2, 3] does not broadcast to x's [2, 3]");
  CHECK(error_of<ValidationError>([&] { softmax_backward(stream(), x, x, x, 1, y); }) ==
        "mask: dtype f32 must be bool");
  CHECK(error_of<ValidationError>([&] { logsumexp(stream(), x, 1, y); }) == "y: shape [2, 3] must be [2, 1]");
  CHECK(host_values(y) == std::vector<float>(6, 0.0f));
}

TEST_CASE("softmax of 16 bits with a mask of f32 whose place is a multiple of 16 bytes, not of 32",
          "[small]") {
  Rng rng(6);
  const std::vector<float> values = reals(3 * 64, rng, -4, 4);
  std::vector<float> memory = values;
  memory.insert(memory.begin(), 4, 100.0f);
  const Tensor x = device_tensor({3, 64}, reals(3 * 64, rng, -4, 4), DType::f16),
               there = device_tensor({3, 64}, values),
               between = device_tensor({4 + 3 * 64}, memory).as_strided({3, 64}, {64, 1}, 4);
  const Guarded a({3, 64}, DType::f16), b({3, 64}, DType::f16);
  for (const auto& [mask, y] : {std::pair(&there, &a), std::pair(&between, &b)}) {
    const Softmax plan(context(), {x, y->tensor(), 1, false, *mask}, engine("row"));
    plan.run(stream(), x, *mask, y->tensor());
    CHECK(y->intact());
  }
  Values sums = values_of(x);
  for (size_t i = 0; i < sums.size(); i++) sums[i] += values[i];
  CHECK(deviation(host_values(a.tensor()), softmax_reference(sums, {3, 64}, 1, false)) <=
        tolerance(64, DType::f16));
  CHECK(host_bytes(b.tensor()) == host_bytes(a.tensor()));
}
