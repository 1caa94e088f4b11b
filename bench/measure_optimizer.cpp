// Optimizers over a net's parameters as cases of `measure`: "optimizer f=adamw net=resnet50 dtype=f32". f:
// sgd, momentum, nesterov, adam, adamw, amsgrad, rmsprop, adagrad; average; add (an expression); norm (of
// gradients), clip (by their norm), clip_value, unscale. net: resnet50's 161 tensors, or `flat`: as many
// elements in one.
#include <dlprim/copy.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/multi_pointwise.hpp>
#include <dlprim/optimizer.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::context;
using test::stream;

std::vector<Shape> resnet50() {
  std::vector<Shape> shapes;
  const auto convolution = [&](int64_t k, int64_t c, int64_t window) {
    shapes.push_back({k, c, window, window});
    shapes.insert(shapes.end(), 2, Shape{k});
  };
  convolution(64, 3, 7);
  int64_t channels = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; stage++)
    for (int block = 0; block < blocks[stage]; block++) {
      const int64_t width = int64_t{64} << stage;
      convolution(width, channels, 1);
      convolution(width, width, 3);
      convolution(4 * width, width, 1);
      if (block == 0) convolution(4 * width, channels, 1);
      channels = 4 * width;
    }
  shapes.push_back({1000, 2048});
  shapes.push_back({1000});
  return shapes;
}

/// Named NAME0, NAME1, ...
std::vector<Tensor> random_tensors(const std::string& name, const std::vector<Shape>& shapes, DType dtype) {
  std::vector<Tensor> list;
  for (const Shape& shape : shapes)
    list.push_back(random_tensor(name + std::to_string(list.size()), shape, dtype));
  return list;
}

std::vector<Tensor> zeros(const std::vector<Shape>& shapes, DType dtype) {
  std::vector<Tensor> list;
  for (const Shape& shape : shapes) {
    list.emplace_back(context(), shape, dtype);
    fill(stream(), 0, list.back());
  }
  return list;
}

OptimizerDesc desc_of(const std::string& f, DType dtype) {
  OptimizerDesc d;
  d.w = d.dw = dtype;
  if (f == "sgd" || f == "momentum" || f == "nesterov") {
    d.momentum = f != "sgd";
    d.nesterov = f == "nesterov";
  } else if (f == "rmsprop" || f == "adagrad") {
    d.method = f == "rmsprop" ? OptimizerMethod::rmsprop : OptimizerMethod::adagrad;
  } else {
    d.method = OptimizerMethod::adam;
    d.decoupled = f == "adamw";
    d.amsgrad = f == "amsgrad";
  }
  return d;
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f =
      line.word("f", {"sgd", "momentum", "nesterov", "adam", "adamw", "amsgrad", "rmsprop", "adagrad",
                      "average", "add", "norm", "clip", "clip_value", "unscale"});
  const std::string net = line.word("net", {"resnet50", "flat"});
  const DType dtype = parse_dtype(line.text("dtype", "f32"));
  line.finish();
  std::vector<Shape> shapes = resnet50();
  if (net == "flat") {
    int64_t count = 0;
    for (const Shape& shape : shapes) count += element_count(shape);
    shapes = {{count}};
  }
  const std::vector<Tensor> dw = random_tensors("dw", shapes, dtype);
  const double once = bytes_of(dw);
  const Tensor number = test::device_tensor({1}, {1}), found = test::device_tensor({1}, {0});
  if (f == "norm")
    return moving_case(once, {number}, [=] { gradient_norm(stream(), dw, {NormOrder::two}, number); });
  if (f == "clip")
    return moving_case(3 * once, dw, [=] {
      clip_gradients_by_norm(stream(), {NormOrder::two, 1}, dw, number);
    });
  if (f == "clip_value") return moving_case(2 * once, dw, [=] { clip_gradients_by_value(stream(), 1, dw); });
  if (f == "unscale")
    return moving_case(2 * once, dw, [=] { unscale_gradients(stream(), number, dw, found); });
  const std::vector<Tensor> w = random_tensors("w", shapes, dtype);
  if (f == "add") {
    MultiPointwiseTensors tensors;
    tensors.inputs = {w, dw};
    tensors.outputs = {zeros(shapes, dtype)};
    return moving_case(3 * once, tensors.outputs[0],
                       [=] { multi_pointwise(stream(), tensors, {0.5}, {}, "y0 = x0 + s0 * x1"); });
  }
  if (f == "average") return moving_case(3 * once, w, [=] { update_averages(stream(), dw, 0.999, w); });
  const OptimizerDesc desc = desc_of(f, dtype);
  OptimizerTensors all{w, dw, {}, {}};
  double bytes = 3 * once;
  for (int k = 0; k < Optimizer::states(desc); k++) {
    all.states.push_back(zeros(shapes, dtype == DType::f64 ? dtype : DType::f32));
    bytes += 2 * bytes_of(all.states.back());
  }
  const auto step = std::make_shared<OptimizerStep>();
  step->momentum = desc.momentum ? 0.9 : 0;
  step->learning_rate = 0.1;  // large, so that bf16 shows what a step did
  return moving_case(bytes, w, [=] {
    optimize(stream(), desc, *step, all);
    step->step++;
  });
}
const CasesOf kOptimizer("optimizer", make);

}  // namespace
}  // namespace dlprim::bench
