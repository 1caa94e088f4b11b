// Softmax, log-softmax and the negative log-likelihood loss.
#include <dlprim/softmax.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
const DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

/// exp's few units, and the rounding of a sum of `terms` terms.
double tolerance(int64_t terms, DType dtype) {
  return (16 + static_cast<double>(terms)) * 0x1p-24 + storage_roundoff(dtype);
}

void forward(bool log, const Tensor& x, int axis, const Tensor& y) {
  log ? log_softmax(stream(), x, axis, y) : softmax(stream(), x, axis, y);
}
void backward(bool log, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx) {
  log ? log_softmax_backward(stream(), dy, y, axis, dx) : softmax_backward(stream(), dy, y, axis, dx);
}

void check(const Shape& shape, int axis, Placing placing, DType dtype) {
  Rng rng(11);
  const int64_t count = element_count(shape), terms = shape[axis];
  const Tensor x = placed(placing, shape, reals(count, rng, -5, 5), dtype);
  const Tensor dy = placed(placing, shape, reals(count, rng), dtype);
  for (bool log : {false, true}) {
    INFO((log ? "log_softmax" : "softmax")
         << " of " << name_of(dtype) << to_string(shape) << " along " << axis << ", " << name_of(placing));
    const Strides strides = strides_in(placing, shape);
    const Guarded y(shape, strides, dtype, 37), again(shape, strides, dtype, 37),
        dx(shape, strides, dtype, 37);
    forward(log, x, axis, y.tensor());
    forward(log, x, axis - shape.size(), again.tensor());
    CHECK(deviation(host_values(y.tensor()), softmax_reference(values_of(x), shape, axis, log)) <=
          tolerance(terms, dtype));
    CHECK(y.intact());
    CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));

    backward(log, dy, y.tensor(), axis, dx.tensor());
    const Values expected =
        softmax_backward_reference(values_of(dy), values_of(y.tensor()), shape, axis, log);
    CHECK(deviation(host_values(dx.tensor()), expected) <= tolerance(terms, dtype));
    CHECK(dx.intact());
  }
}

Tensor targets(const std::vector<float>& values, DType dtype) {
  return device_tensor({static_cast<int64_t>(values.size())}, values, dtype);
}

}  // namespace

TEST_CASE("softmax along every axis and in every form of memory", "[small]") {
  for (Placing placing : kPlacings)
    for (int axis = 0; axis < 4; axis++) check({3, 5, 2, 7}, axis, placing, DType::f32);
}

TEST_CASE("softmax of 16-bit floats", "[small]") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    check({3, 5, 2, 7}, 1, Placing::row_major, dtype);
    check({3, 5, 2, 7}, 3, Placing::gaps, dtype);
  }
}

TEST_CASE("softmax of edge shapes", "[small]") {
  check({1}, 0, Placing::row_major, DType::f32);
  check({0}, 0, Placing::row_major, DType::f32);
  check({4, 0, 3}, 1, Placing::row_major, DType::f32);
  check({4, 0, 3}, 0, Placing::row_major, DType::f32);
  check({1, 33}, 1, Placing::row_major, DType::f32);
  check({33, 1}, 1, Placing::row_major, DType::f32);
}

TEST_CASE("softmax of long rows and of many rows") {
  check({3, 20001}, 1, Placing::row_major, DType::f32);
  check({20001, 10}, 1, Placing::row_major, DType::f32);
  check({128, 10}, 1, Placing::row_major, DType::f32);
  check({2, 21, 64, 63}, 1, Placing::channels_last, DType::f32);
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
  for (bool log : {false, true}) {
    INFO((log ? "log_softmax" : "softmax"));
    const Guarded y({9, 3});
    forward(log, x, 1, y.tensor());
    Values expected = softmax_reference(values_of(x), {9, 3}, 1, log);
    for (size_t i = 15; i < 27; i++) expected[i] = kNan;
    CHECK(deviation(host_values(y.tensor()), expected) <= tolerance(3, DType::f32));
    for (size_t i = 0; i < 15; i++) CHECK_FALSE(std::isnan(expected[i]));
  }
}

TEST_CASE("softmax in place", "[small]") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor x = device_tensor({2, 3}, values);
  log_softmax(stream(), x, -1, x);
  const Values y = softmax_reference({values.begin(), values.end()}, {2, 3}, 1, true);
  CHECK(deviation(host_values(x), y) <= tolerance(3, DType::f32));
  const Tensor dy = device_tensor({2, 3}, {1, 0, 0, 0, 2, 0});
  const Values expected = softmax_backward_reference(values_of(dy), values_of(x), {2, 3}, 1, true);
  log_softmax_backward(stream(), dy, x, -1, dy);
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
  const Softmax plan(context(), {TensorDesc({5, 7}), TensorDesc({5, 7}), {}, 1, false});
  CHECK(plan.engine() == "generated");
  CHECK(plan.workspace_size() > 0);
  Rng rng(1);
  const Tensor x = device_tensor({5, 7}, reals(35, rng));
  const Guarded y({5, 7}), workspace({static_cast<int64_t>(plan.workspace_size())}, DType::u8);
  plan.run(stream(), x, y.tensor(), workspace.tensor());
  CHECK(deviation(host_values(y.tensor()), softmax_reference(values_of(x), {5, 7}, 1, false)) <=
        tolerance(7, DType::f32));
  CHECK(workspace.intact());
  const Tensor small = workspace.tensor().slice(0, 0, static_cast<int64_t>(plan.workspace_size()) - 1);
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), x, y.tensor(), small); }).find("workspace: ") ==
        0);
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), x, y.tensor(), x); }) ==
        "workspace: shares memory with x");
  const Tensor foreign(Context(context().device()), workspace.tensor().shape(), DType::u8);
  CHECK(error_of<ValidationError>([&] { plan.run(stream(), x, y.tensor(), foreign); }) ==
        "workspace: belongs to another context");
}

TEST_CASE("softmax keeps to the limit of its workspace", "[small]") {
  const Shape shape{1, 1 << 16};
  Rng rng(1);
  const Tensor x = device_tensor(shape, reals(1 << 16, rng));
  const Guarded y(shape);
  Options options;
  const SoftmaxDesc desc{TensorDesc(shape), TensorDesc(shape), {}, 1, false};
  const size_t wanted = Softmax(context(), desc, options).workspace_size();
  REQUIRE(wanted > 128);  // the maximum and the sum, and parts of a long row
  options.workspace_limit = 128;
  const Softmax plan(context(), desc, options);
  CHECK(plan.workspace_size() == 128);
  plan.run(stream(), x, y.tensor());
  CHECK(deviation(host_values(y.tensor()), softmax_reference(values_of(x), shape, 1, false)) <=
        tolerance(1 << 16, DType::f32));
  options.workspace_limit = 127;
  CHECK(error_of<ValidationError>([&] { Softmax(context(), desc, options); }) ==
        "workspace_limit: softmax: generated needs 128 bytes of workspace, the limit is 127");
}

TEST_CASE("softmax refuses bad input", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y = device_tensor({2, 3}, {0, 0, 0, 0, 0, 0});
  const auto refused = [&](const Tensor& from, int axis, const Tensor& to) {
    return error_of<ValidationError>([&] { softmax(stream(), from, axis, to); });
  };
  CHECK(refused({}, 0, y) == "x: is not defined");
  CHECK(refused(x, 2, y) == "axis: axis 2 of a tensor of rank 2");
  CHECK(refused(x, -3, y) == "axis: axis -3 of a tensor of rank 2");
  CHECK(refused(x, 0, y.transpose(0, 1)) == "y: shape [3, 2] must be [2, 3]");
  CHECK(refused(device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DType::u8), 0, y) ==
        "x: dtype u8 must be f32, f16, bf16 or f64");
  CHECK(refused(x.slice(1, 0, 2), 0, x.slice(1, 1, 3)) ==
        "y: shares memory with x without being the same tensor");
  CHECK(error_of<ValidationError>([&] { softmax_backward(stream(), x, y, 0, y); }) ==
        "dx: shares memory with y");
  CHECK(host_values(y) == std::vector<float>(6, 0.0f));
}

TEST_CASE("nll_loss in every form of memory and dtype", "[small]") {
  struct Case {
    int64_t rows, classes;
  };
  for (const Case& c : {Case{1, 1}, Case{7, 10}, Case{33, 3}, Case{5, 70}, Case{1500, 10}})
    for (DType dtype : kFloats)
      for (DType target_dtype : {DType::i32, DType::i64, DType::u8})
        for (Placing placing : kPlacings) {
          INFO("nll_loss of " << name_of(dtype) << "[" << c.rows << ", " << c.classes << "] "
                              << name_of(placing) << ", target " << name_of(target_dtype));
          Rng rng(13);
          const Tensor log_p =
              placed(placing, {c.rows, c.classes}, reals(c.rows * c.classes, rng, -4, 0), dtype);
          std::vector<float> classes;
          for (int64_t b = 0; b < c.rows; b++)
            classes.push_back(static_cast<float>(rng.integer(0, c.classes - 1)));
          const std::vector<int64_t> target(classes.begin(), classes.end());
          const Tensor t = placed(placing, {c.rows}, classes, target_dtype);
          const Guarded loss({1}, dtype, 37), again({1}, dtype, 37);
          nll_loss(stream(), log_p, t, loss.tensor());
          nll_loss(stream(), log_p, t, again.tensor());
          CHECK(deviation(host_values(loss.tensor()),
                          {nll_loss_reference(values_of(log_p), target, c.classes)}) <= tolerance(8, dtype));
          CHECK(loss.intact());
          CHECK(host_bytes(loss.tensor()) == host_bytes(again.tensor()));

          const Tensor dloss = placed(placing, {1}, {1.5f}, dtype);
          const Guarded d({c.rows, c.classes}, strides_in(placing, {c.rows, c.classes}), dtype, 37);
          nll_loss_backward(stream(), dloss, t, d.tensor());
          CHECK(deviation(host_values(d.tensor()), nll_loss_backward_reference(1.5, target, c.classes)) <=
                tolerance(1, dtype));
          CHECK(d.intact());
        }
}

TEST_CASE("nll_loss leaves out targets that are no class", "[small]") {
  const Tensor log_p = device_tensor({4, 2}, {-1, -2, -3, -4, -5, -6, kNan, kNan});
  const Guarded loss({1}), d({4, 2});
  const Tensor t = targets({0, 1, -100, 2}, DType::i64), none = targets({-1, 2, 3, -7}, DType::i64);
  nll_loss(stream(), log_p, t, loss.tensor());
  CHECK(host_values(loss.tensor()) == std::vector<float>{2.5f});
  nll_loss_backward(stream(), device_tensor({1}, {3}), t, d.tensor());
  CHECK(host_values(d.tensor()) == std::vector<float>{-1.5f, 0, 0, -1.5f, 0, 0, 0, 0});
  nll_loss(stream(), log_p, none, loss.tensor());
  CHECK(std::isnan(host_values(loss.tensor())[0]));
  nll_loss_backward(stream(), device_tensor({1}, {3}), none, d.tensor());
  CHECK(host_values(d.tensor()) == std::vector<float>(8, 0.0f));
}

TEST_CASE("nll_loss of no rows", "[small]") {
  const Tensor log_p(context(), {0, 3}), t(context(), {0}, DType::i32);
  const Guarded loss({1});
  nll_loss(stream(), log_p, t, loss.tensor());
  CHECK(std::isnan(host_values(loss.tensor())[0]));
  CHECK(loss.intact());
  nll_loss_backward(stream(), device_tensor({1}, {1}), t, log_p);
}

TEST_CASE("nll_loss gradients agree with finite differences", "[small]") {
  Rng rng(17);
  const std::vector<float> at = reals(15, rng, -3, 0);
  const std::vector<int64_t> target = {2, 0, 9, 1, 2};
  const Tensor t = targets({2, 0, 9, 1, 2}, DType::i32);
  const Guarded d({5, 3});
  nll_loss_backward(stream(), device_tensor({1}, {2}), t, d.tensor());
  const auto loss = [&](const Values& v) { return 2 * nll_loss_reference(v, target, 3); };
  const std::vector<float> gradient = host_values(d.tensor());
  for (size_t i = 0; i < at.size(); i++)
    CHECK(gradient[i] == Approx(numeric_gradient(loss, {at.begin(), at.end()}, i)).margin(1e-6));
}

TEST_CASE("nll_loss refuses bad input", "[small]") {
  const Tensor log_p = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), t = targets({0, 1}, DType::i32);
  const Tensor loss = device_tensor({1}, {0});
  const auto refused = [&](const Tensor& p, const Tensor& target, const Tensor& y) {
    return error_of<ValidationError>([&] { nll_loss(stream(), p, target, y); });
  };
  CHECK(refused(log_p, {}, loss) == "target: is not defined");
  CHECK(refused(log_p, targets({0, 1}, DType::f32), loss) == "target: dtype f32 must be i32, i64 or u8");
  CHECK(refused(log_p, targets({0}, DType::i32), loss) == "target: shape [1] must be [2]");
  CHECK(refused(t, t, loss) == "log_p: dtype i32 must be f32, f16 or bf16");
  CHECK(refused(log_p.slice(0, 0, 1).reshape({3}), t, loss) == "log_p: rank 1 must be 2, shape is [3]");
  CHECK(refused(log_p, t, log_p.reshape({6}).slice(0, 0, 1)) == "loss: shares memory with log_p");
  CHECK(refused(log_p, t, log_p) == "loss: shape [2, 3] must be [1]");
}
