#include "ops/conv/conv_spread.hpp"

#include "ops/conv/conv_axes.hpp"
#include "ops/conv/conv_inner.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_spread.h"

namespace {

class Spread : public ConvImpl {
 public:
  Spread(const Context& context, const ConvProblem& p, const EngineOptions& options, MakeConv make)
      : p_(p), dense_(*conv_spread_inner(p, options)) {
    x_at_ = parts_.add(static_cast<size_t>(dense_.x_extent) * size_of(p.result_dtype));
    inner_.emplace(context, dense_, options, make, parts_);
    const size_t bytes = size_of(p.result_dtype);
    kernel_ = context.state().programs.kernel("conv_spread", "conv_spread",
                                              Defines().set("ELEMENT", bytes == 2   ? "ushort"
                                                                       : bytes == 4 ? "uint"
                                                                                    : "ulong"));
  }

  size_t workspace_size() const override { return parts_.size(); }
  void forget_constants() const override { inner_->forget_constants(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const Tensor memory = workspace_part(workspace, x_at_, {dense_.x_extent}, p_.result_dtype);
    const Spatial& from = dense_.x_space;
    const ConvStrides& s = dense_.x;
    const Tensor x =
        memory.as_strided({p_.n, p_.c, from[0], from[1], from[2]}, {s[0], s[1], s[2], s[3], s[4]});
    inner_->run(stream, {x, t.w, t.y, t.with}, workspace);
    const Spatial& to = p_.x_space;
    const int rows = p_.n * p_.c * to[0] * to[1];
    Launch launch(stream, kernel_);
    SpreadShape shape{};
    shape.y = long_strides_of(p_.x), shape.rows = rows, shape.c = divisor_of(p_.c);
    shape.d = divisor_of(to[0]), shape.h = divisor_of(to[1]), shape.w = divisor_of(to[2]);
    shape.stride_d = divisor_of(p_.stride[0]), shape.stride_h = divisor_of(p_.stride[1]);
    shape.stride_w = divisor_of(p_.stride[2]), shape.x = sizes_of(from);
    launch.arg(shape).arg(memory).arg(t.x);
    launch.run({items_in_groups(to[2], 64), items_in_groups(rows, 4)}, {64, 4});
  }

 private:
  const ConvProblem p_, dense_;
  WorkspaceParts parts_;
  std::optional<ConvInner> inner_;
  size_t x_at_ = 0;
  Kernel kernel_;
};

}  // namespace

std::optional<ConvProblem> conv_spread_inner(const ConvProblem& p, const Options&) {
  if (p.direction != ConvDirection::backward_data || p.taps() != 1 || p.has_epilogue()) return {};
  if (p.stride == Spatial{1, 1, 1} || p.pad != Spatial{0, 0, 0} || p.x[1] == 1) return {};
  ConvProblem inner = p;
  inner.stride = {1, 1, 1};
  inner.x_space = p.y_space;
  const Spatial& s = p.y_space;
  const int64_t pixels = p.y_pixels();
  inner.x = {p.c * pixels, pixels, int64_t{s[1]} * s[2], s[2], 1};
  inner.x_extent = p.n * p.c * pixels;
  inner.x_aligned = true;
  return inner;
}

std::unique_ptr<const ConvImpl> make_conv_spread(const Context& context, const ConvProblem& problem,
                                                 const EngineOptions& options, MakeConv make) {
  return std::make_unique<Spread>(context, problem, options, make);
}

}  // namespace dlprim::detail
