// The naive engine: direct convolution, one work-item an output element. Accepts every valid problem.
#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv_parts.hpp"
#include "ops/conv_problem.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kGroup = 64;

class Naive : public ConvImpl {
 public:
  Naive(const Context& context, const ConvProblem& problem, const Options& options)
      : p_(problem), wide_(!refuse_large(problem).empty()) {
    Defines defines;
    defines.set("INDEX", wide_ ? "long" : "int");
    const char* name = "conv_forward";
    if (p_.direction == ConvDirection::forward) {
      defines.set("ACTIVATION", name_of(p_.activation)).set("HAS_BIAS", p_.bias);
    } else if (p_.direction == ConvDirection::backward_data) {
      name = "conv_backward_data";
    } else {
      name = "conv_backward_filter";
      parts_ = conv_parts_for(p_.n, 1, ceil_div(p_.w_extent, kGroup), context.device(), p_.w_extent,
                              static_cast<int64_t>(options.workspace_limit / sizeof(float)));
      if (parts_.count > 1) add_ = conv_add_parts_kernel(context);
    }
    kernel_ = context.state().programs.kernel("conv_naive", name, defines);
  }

  size_t workspace_size() const override {
    return parts_.count > 1 ? static_cast<size_t>(parts_.count * p_.w_extent) * sizeof(float) : 0;
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor sums = parts_.count > 1 ? workspace.reinterpret(DType::f32) : t.w;
    int64_t outputs = 0;
    Launch launch(stream, kernel_);
    switch (p_.direction) {
      case ConvDirection::forward:
        launch.arg(t.x).arg(t.w).arg(t.bias).arg(t.y);
        outputs = t.y.numel();
        break;
      case ConvDirection::backward_data:
        launch.arg(t.y).arg(t.w).arg(t.x);
        outputs = t.x.numel();
        break;
      case ConvDirection::backward_filter:
        launch.arg(t.x).arg(t.y).arg(sums).arg(parts_.steps);
        outputs = t.w.numel();
        break;
    }
    bind_geometry(launch);
    launch.run({static_cast<size_t>(round_up(outputs, kGroup)), static_cast<size_t>(parts_.count)},
               {static_cast<size_t>(kGroup), 1});
    if (parts_.count > 1) conv_add_parts(stream, add_, sums, t.w, parts_.count);
  }

 private:
  void bind_geometry(Launch& launch) const {
    for (int value : {p_.n, p_.c, p_.h, p_.w, p_.k, p_.r, p_.s, p_.p, p_.q, p_.group_c(), p_.group_k(),
                      p_.stride[0], p_.stride[1], p_.pad[0], p_.pad[1], p_.dilation[0], p_.dilation[1]})
      launch.arg(value);
    if (wide_) {
      for (const Strides& strides : {p_.x, p_.y})
        for (int64_t stride : strides) launch.arg(stride);
    } else {
      for (int stride : used_strides(p_.x, p_.x_sizes())) launch.arg(stride);
      for (int stride : used_strides(p_.y, p_.y_sizes())) launch.arg(stride);
    }
  }

  ConvProblem p_;
  bool wide_;  ///< indices need 64 bits
  ConvParts parts_;
  Kernel kernel_, add_;
};

std::string refuse(const Context&, const ConvProblem&, const Options&) {
  return {};
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem,
                                     const Options& options) {
  return std::make_unique<Naive>(context, problem, options);
}

}  // namespace

const ConvEngine kConvNaive = {"naive", refuse, make};

}  // namespace dlprim::detail
