// Normalisation as cases of `measure`: "norm kind=layer direction=forward size=8192x4096 dtype=f32
// layout=nchw"; kind is layer, rms, group (groups=32), instance, batch, batch_fused (a residual and ReLU) or
// batch_inference (forward only).
// layer and rms normalise the last axis. weight, bias and statistics are there; backward gives all gradients.
#include <dlprim/batch_norm.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/instance_norm.hpp>
#include <dlprim/layer_norm.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::context;
using test::stream;

/// Operands of one case; the statistics are those of x.
struct Operands {
  Tensor x, dy, weight, bias, y, dx, dweight, dbias, mean, inv_std, residual, dresidual;
};

std::unique_ptr<Case> rows_case(const Operands& o, bool rms, bool backward) {
  const auto forward = [o, rms] {
    if (rms)
      rms_norm(stream(), o.x, o.weight, 1, 1e-5, o.y, o.inv_std);
    else
      layer_norm(stream(), o.x, o.weight, o.bias, 1, 1e-5, o.y, o.mean, o.inv_std);
  };
  if (!backward) return moving_case(bytes_of({o.x, o.y}), {o.y}, forward);
  forward();
  std::vector<Tensor> gradients{o.dx, o.dweight};
  if (!rms) gradients.push_back(o.dbias);
  return moving_case(bytes_of({o.x, o.dy, o.dx}), gradients, [o, rms] {
    if (rms)
      rms_norm_backward(stream(), o.dy, o.x, o.weight, o.inv_std, 1, o.dx, o.dweight);
    else
      layer_norm_backward(stream(), o.dy, o.x, o.weight, o.mean, o.inv_std, 1, o.dx, o.dweight, o.dbias);
  });
}

std::unique_ptr<Case> groups_case(const Operands& o, int64_t groups, bool backward) {
  const auto forward = [o, groups] {
    group_norm(stream(), o.x, o.weight, o.bias, groups, 1e-5, o.y, o.mean, o.inv_std);
  };
  if (!backward) return moving_case(bytes_of({o.x, o.y}), {o.y}, forward);
  forward();
  return moving_case(bytes_of({o.x, o.dy, o.dx}), {o.dx, o.dweight, o.dbias}, [o, groups] {
    group_norm_backward(stream(), o.dy, o.x, o.weight, o.mean, o.inv_std, groups, o.dx, o.dweight, o.dbias);
  });
}

std::unique_ptr<Case> batch_case(const Operands& o, bool fused, bool backward) {
  BatchNormParams params;
  if (fused) params.activation = Activation::relu;
  const auto forward = [o, params] {
    batch_norm_training(stream(), o.x, o.weight, o.bias, o.residual, params, {}, {}, o.y, o.mean, o.inv_std);
  };
  if (!backward) return moving_case(bytes_of({o.x, o.residual, o.y}), {o.y}, forward);
  forward();
  const Tensor y = fused ? o.y : Tensor();
  std::vector<Tensor> gradients{o.dx, o.dweight, o.dbias};
  if (fused) gradients.push_back(o.dresidual);
  return moving_case(bytes_of({o.x, o.dy, y, o.dx, o.dresidual}), gradients, [o, y, params] {
    batch_norm_backward(stream(), o.dy, o.x, o.weight, o.bias, o.mean, o.inv_std, y, params.activation, o.dx,
                        o.dweight, o.dbias, o.dresidual);
  });
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string kind =
      line.word("kind", {"layer", "rms", "group", "instance", "batch", "batch_fused", "batch_inference"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const Form form(line);
  line.finish();
  const bool rows = kind == "layer" || kind == "rms", batch = kind.rfind("batch", 0) == 0;
  const Shape& x = form.shape;
  const int64_t channels = rows ? x.back() : x[1], groups = kind == "group" ? 32 : channels;
  // Batch normalisation keeps its parameters in full precision, and all of them their statistics.
  const DType full = form.dtype == DType::f64 ? DType::f64 : DType::f32, affine = batch ? full : form.dtype;
  Shape statistics = x;
  if (rows) statistics[x.size() - 1] = 1;
  if (!rows) statistics = batch ? Shape{channels} : Shape{x[0], groups};
  Operands o;
  o.x = form.input("x"), o.y = form.result();
  o.weight = random_tensor("weight", {channels}, affine), o.bias = random_tensor("bias", {channels}, affine);
  o.mean = Tensor(context(), statistics, full), o.inv_std = Tensor(context(), statistics, full);
  if (backward) {
    o.dy = form.input("dy"), o.dx = form.result();
    o.dweight = Tensor(context(), {channels}, affine), o.dbias = Tensor(context(), {channels}, affine);
  }
  if (kind == "batch_fused") {
    o.residual = form.input("residual");
    if (backward) o.dresidual = form.result();
  }
  if (kind == "batch_inference") {
    if (backward) throw Error("norm kind=batch_inference has no direction=backward");
    const Tensor variance =
        test::device_tensor({channels}, std::vector<float>(static_cast<size_t>(channels), 1.f), full);
    return moving_case(bytes_of({o.x, o.y}), {o.y}, [o, variance] {
      batch_norm_inference(stream(), o.x, o.weight, o.bias, {}, o.bias, variance, {}, o.y);
    });
  }
  if (rows) return rows_case(o, kind == "rms", backward);
  return batch ? batch_case(o, kind == "batch_fused", backward) : groups_case(o, groups, backward);
}
const CasesOf kNorm("norm", make);

}  // namespace
}  // namespace dlprim::bench
