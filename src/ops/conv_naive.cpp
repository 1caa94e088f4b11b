// The naive engine: direct convolution, one work-item an output element. Accepts every valid problem.
#include "core/launch.hpp"
#include "core/state.hpp"
#include "ops/conv_problem.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kGroup = 64;

class Naive : public ConvImpl {
 public:
  Naive(const Context& context, const ConvProblem& problem) : p_(problem) {
    Defines defines;
    if (p_.direction == ConvDirection::forward)
      defines.set("ACTIVATION", name_of(p_.activation)).set("HAS_BIAS", p_.bias);
    const char* name = p_.direction == ConvDirection::forward         ? "conv_forward"
                       : p_.direction == ConvDirection::backward_data ? "conv_backward_data"
                                                                      : "conv_backward_filter";
    kernel_ = context.state().programs.kernel("conv_naive", name, defines);
  }

  void run(const Stream& stream, const ConvTensors& t, const Tensor&) const override {
    Launch launch(stream, kernel_);
    switch (p_.direction) {
      case ConvDirection::forward:
        launch.arg(t.x).arg(t.w).arg(t.bias).arg(t.y);
        break;
      case ConvDirection::backward_data:
        launch.arg(t.y).arg(t.w).arg(t.x);
        break;
      case ConvDirection::backward_filter:
        launch.arg(t.x).arg(t.y).arg(t.w);
        break;
    }
    for (int value : {p_.n, p_.c, p_.h, p_.w, p_.k, p_.r, p_.s, p_.p, p_.q, p_.group_c(), p_.group_k(),
                      p_.stride[0], p_.stride[1], p_.pad[0], p_.pad[1], p_.dilation[0], p_.dilation[1]})
      launch.arg(value);
    for (const Strides& strides : {p_.x, p_.y})
      for (int64_t stride : strides) launch.arg(stride);
    const Tensor& output = p_.direction == ConvDirection::forward         ? t.y
                           : p_.direction == ConvDirection::backward_data ? t.x
                                                                          : t.w;
    launch.run({static_cast<size_t>(round_up(output.numel(), kGroup))}, {kGroup});
  }

 private:
  ConvProblem p_;
  Kernel kernel_;
};

std::string refuse(const Context&, const ConvProblem&, const Options&) {
  return {};
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& problem, const Options&) {
  return std::make_unique<Naive>(context, problem);
}

}  // namespace

const ConvEngine kConvNaive = {"naive", refuse, make};

}  // namespace dlprim::detail
