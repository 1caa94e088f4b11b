// Instance normalisation: group normalisation, and a reduction over images for each running statistic.
#include <dlprim/group_norm.hpp>
#include <dlprim/instance_norm.hpp>
#include <dlprim/pointwise.hpp>

#include "ops/norm/group_norm_impl.hpp"

namespace dlprim {

using namespace detail;

void instance_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const InstanceNormParams& params, const Tensor& running_mean, const Tensor& running_var,
                   const Tensor& y, const Tensor& given_mean, const Tensor& given_inv_std) {
  require_defined({{"x", x}, {"y", y}});
  require(x.rank() >= 2, "x", "rank ", x.rank(), " must be 2 or more, [N, C, ...]");
  int64_t plane = 1;
  for (int i = 2; i < x.rank(); i++) plane *= x.shape()[i];
  require(plane >= 2 || x.numel() == 0, "x", "shape ", x.shape(), " has ", plane,
          " values a channel of an image, a variance needs at least 2");
  require(given_mean.defined() == given_inv_std.defined(), given_mean.defined() ? "inv_std" : "mean",
          "is not defined, though the other statistic is");
  require(running_mean.defined() == running_var.defined(),
          running_mean.defined() ? "running_var" : "running_mean",
          "is not defined, though the other running statistic is");
  const double momentum = params.momentum;
  require(momentum >= 0 && momentum <= 1, "momentum", momentum, " must lie in [0, 1]");

  const bool running = running_mean.defined();
  const DType real = x.dtype() == DType::f64 || y.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Shape images{x.shape()[0], x.shape()[1]}, channels{x.shape()[1]};
  Tensor mean = given_mean, inv_std = given_inv_std, variance;
  if (running) {
    for (const Named& t : {Named{"running_mean", running_mean}, Named{"running_var", running_var}}) {
      require_tensor(t.name, t.tensor, stream.context(), {channels, Strides{1}, real, false});
      for (const Named& other : {Named{"x", x}, Named{"weight", weight}, Named{"bias", bias}, Named{"y", y},
                                 Named{"mean", mean}, Named{"inv_std", inv_std}})
        require_no_overlap(t.name, t.tensor, other.name, other.tensor);
    }
    require_no_overlap("running_var", running_var, "running_mean", running_mean);
    variance = Tensor(stream, images, real);
    if (!mean.defined()) mean = Tensor(stream, images, real), inv_std = Tensor(stream, images, real);
  }
  const GroupNormDesc desc{x,
                           y,
                           described(weight),
                           described(bias),
                           std::max<int64_t>(channels[0], 1),
                           params.epsilon,
                           mean.defined(),
                           running};
  cached_plan<GroupNorm>(stream, "instance_norm", desc)
      ->run(stream, x, weight, bias, y, mean, inv_std, variance);
  if (!running || images[0] == 0) return;
  // A reduction's output is none of its inputs.
  const Tensor means(stream, channels, real), variances(stream, channels, real);
  const double share = 1 / static_cast<double>(images[0]);
  Reduction averages{2, "a0 = 0; a1 = 0", "a0 += x0; a1 += x1", "a0 += b0; a1 += b1",
                     "y0 = a0 * s0; y1 = a1 * s0"};
  reduce(stream, {mean, variance}, {means, variances}, {share}, averages);
  pointwise(stream, {running_mean, running_var, means, variances}, {running_mean, running_var},
            {1 - momentum, momentum}, "y0 = s0 * x0 + s1 * x2; y1 = s0 * x1 + s1 * x3");
}

void instance_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& dx,
                            const Tensor& dweight, const Tensor& dbias) {
  require_defined({{"x", x}});
  require(x.rank() >= 2, "x", "rank ", x.rank(), " must be 2 or more, [N, C, ...]");
  group_norm_backward(stream, dy, x, std::max<int64_t>(x.shape()[1], 1), weight, mean, inv_std, dx, dweight,
                      dbias);
}

}  // namespace dlprim
