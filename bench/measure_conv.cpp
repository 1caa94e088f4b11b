// Convolution as a case of `measure`: "conv direction=forward n=64 c=64 size=56x56 k=64 window=3x3 stride=1x1
// pad=1x1 dilation=1x1 groups=1 dtype=f32 math=strict layout=nchw weights=nchw engine=auto constant=w". size,
// window, ... have a number for each spatial axis; the padding is the same in front and behind.
#include <dlprim/conv.hpp>

#include "cases/conv.hpp"
#include "measure.hpp"

namespace dlprim::bench {
namespace {

using test::context;
using test::ConvCase;
using test::Layout;
using test::stream;

ConvCase problem_of(detail::ProblemLine& line) {
  ConvCase c;
  c.n = line.size("n"), c.c = line.size("c"), c.k = line.size("k");
  c.size = line.sizes("size", {}), c.window = line.sizes("window", {});
  c.params.stride = line.sizes("stride", {1}), c.params.dilation = line.sizes("dilation", {1});
  c.params.pad_begin = c.params.pad_end = line.sizes("pad", {0});
  c.params.groups = line.size("groups", 1);
  c.dtype = line.dtype("dtype", DType::f32);
  const auto layout_of = [](const std::string& name) { return name == "nhwc" ? Layout::nhwc : Layout::nchw; };
  const std::string layout = line.word("layout", {"nchw", "nhwc"});
  c.x_layout = c.y_layout = layout_of(layout);
  c.w_layout = layout_of(line.word("weights", {layout.c_str(), layout == "nhwc" ? "nchw" : "nhwc"}));
  return c;
}

struct Operands {
  Operands(const ConvCase& c)
      : x(random("x", c.x_layout, c.x_shape(), c.dtype)),
        w(random("w", c.w_layout, c.w_shape(), c.dtype)),
        y(random("dy", c.y_layout, c.y_shape(), c.dtype)) {}
  Tensor x, w, y;

 private:
  /// Memory without gaps.
  static Tensor random(const char* name, Layout layout, const Shape& shape, DType dtype) {
    const Tensor x =
        Tensor(context(), {element_count(shape)}, dtype).as_strided(shape, test::strides_in(layout, shape));
    copy(stream(), random_tensor(name, shape, DType::f32), x);
    return x;
  }
};

template <class P>
struct ConvRun : Case {
  ConvRun(const ConvCase& c, bool constant_w, const Options& options)
      : t(c),
        plan(context(), test::conv_desc_of<P>(desc(c, t, constant_w)), options),
        workspace(context(), {static_cast<int64_t>(plan.workspace_size())}, DType::u8) {}
  void run() override {
    if constexpr (std::is_same_v<P, ConvBackwardData>)
      plan.run(stream(), t.y, t.w, t.x, workspace);
    else if constexpr (std::is_same_v<P, ConvBackwardFilter>)
      plan.run(stream(), t.x, t.y, {}, t.w, workspace);
    else
      plan.run(stream(), t.x, t.w, {}, t.y, workspace);
  }
  std::vector<Tensor> results() const override {
    return {std::is_same_v<P, ConvBackwardData> ? t.x : std::is_same_v<P, ConvBackwardFilter> ? t.w : t.y};
  }

 private:
  static ConvDesc desc(const ConvCase& c, const Operands& t, bool constant_w) {
    ConvDesc d{t.x, t.w, t.y, c.params};
    d.constant_w = constant_w;
    return d;
  }

  Operands t;
  P plan;
  Tensor workspace;
};

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string direction = line.word("direction", {"forward", "backward_data", "backward_filter"});
  const ConvCase c = problem_of(line);
  const bool constant_w = line.text("constant", "") == "w";
  const Options options = options_of(line);
  line.finish();
  if (direction == "backward_data")
    return std::make_unique<ConvRun<ConvBackwardData>>(c, constant_w, options);
  if (direction == "backward_filter")
    return std::make_unique<ConvRun<ConvBackwardFilter>>(c, constant_w, options);
  return std::make_unique<ConvRun<Conv>>(c, constant_w, options);
}
const CasesOf kConv("conv", make);

}  // namespace
}  // namespace dlprim::bench
