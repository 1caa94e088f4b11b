#include <cmath>
#include <map>
#include <numeric>

#include "cases/random_nodes.hpp"

namespace dlprim::test {
namespace {

/// Of more elements no value has.
constexpr int64_t kMostElements = 30000;

class Maker : RandomNodes {
 public:
  Maker(uint64_t seed, bool trained) : RandomNodes(seed), trained_(trained) {}

  RandomGraph make() {
    add_inputs();
    int64_t weights = 0;
    for (const Move& move : moves()) weights += move.weight;
    for (int64_t i = rng_.integer(4, 20); i > 0; i--) {
      int64_t at = rng_.integer(0, weights - 1);
      for (const Move& move : moves())
        if ((at -= move.weight) < 0) {
          (this->*move.make)();
          break;
        }
    }
    add_outputs();
    return std::move(made_);
  }

 private:
  /// Adds nodes, where there is a value that they suit.
  struct Move {
    int weight;
    void (Maker::*make)();
  };
  static const std::vector<Move>& moves() {
    static const std::vector<Move> list{{6, &Maker::conv},
                                        {12, &Maker::chain},
                                        {3, &Maker::batch_norm},
                                        {5, &Maker::activation},
                                        {5, &Maker::written_out},
                                        {6, &Maker::binary},
                                        {6, &Maker::with_constant},
                                        {2, &Maker::gate},
                                        {3, &Maker::pool},
                                        {3, &Maker::padded},
                                        {3, &Maker::joined},
                                        {3, &Maker::parted},
                                        {2, &Maker::turned},
                                        {2, &Maker::image_as_rows},
                                        {2, &Maker::rows_as_image},
                                        {6, &Maker::product},
                                        {2, &Maker::attention},
                                        {2, &Maker::norm},
                                        {2, &Maker::norm_written_out},
                                        {1, &Maker::softmax},
                                        {2, &Maker::reduced},
                                        {2, &Maker::gathered},
                                        {1, &Maker::no_op},
                                        {1, &Maker::resized},
                                        {1, &Maker::group_norm}};
    return list;
  }

  void add_inputs() {
    const int64_t samples = rng_.integer(1, 3), rows = rng_.integer(4, 9);
    const Shape image{samples, one_of<int64_t>({3, 8, 16, 20, 32}), rng_.integer(5, 12), rng_.integer(5, 12)};
    const Shape sequence{samples, rows, one_of<int64_t>({6, 8, 16, 20})};
    const int64_t which = rng_.integer(0, 3);
    if (which != 0) add_input(image);
    if (which != 1) add_input(sequence);
    if (once_in(4)) add_input(made_.inputs[0]);
  }
  void add_outputs() {
    std::map<int, int> readers;
    for (const NetGraph::Node& node : g().nodes)
      for (const int value : node.inputs) readers[value]++;
    int named = 0;
    for (const Place& place : places_)
      if (std::find(g().inputs.begin(), g().inputs.end(), place.value) == g().inputs.end() &&
          (readers[place.value] == 0 || once_in(12)))
        g().add_output("y" + std::to_string(named++), place.value);
    if (named == 0) g().add_output("y0", apply("tanh", {places_[0].value}));
  }

  /// A product or convolution and what is done to its result, mostly by nobody else read.
  void chain() {
    const size_t before = places_.size();
    once_in(2) ? conv() : product();
    if (places_.size() == before) return;
    in_chain_ = true;
    for (int64_t i = rng_.integer(2, 5); i > 0; i--)
      (this->*one_of<void (Maker::*)()>({&Maker::batch_norm, &Maker::with_constant, &Maker::written_out,
                                         &Maker::binary, &Maker::binary, &Maker::binary, &Maker::activation,
                                         &Maker::activation}))();
    in_chain_ = false;
  }
  void conv() {
    const std::optional<Place> x = any(4);
    if (!x) return;
    const int64_t channels = x->shape[1], kernel = one_of<int64_t>({1, 3, 3, 5}),
                  pad = once_in(3) ? 0 : kernel / 2, stride = once_in(4) ? 2 : 1,
                  dilation = once_in(8) ? 2 : 1;
    int64_t groups = once_in(5) ? channels : channels % 2 == 0 && once_in(6) ? 2 : 1;
    int64_t filters = one_of<int64_t>({4, 16, 24, 32});
    if (filters % groups != 0) filters = channels;
    Shape y{x->shape[0], filters};
    for (int axis = 2; axis < 4; axis++) {
      const int64_t room = x->shape[axis] + 2 * pad - dilation * (kernel - 1) - 1;
      if (room < 0) return;
      y.push_back(room / stride + 1);
    }
    if (element_count(y) > kMostElements) return;
    const double bound = 1.7 / std::sqrt(static_cast<double>(channels / groups * kernel * kernel));
    std::vector<int> inputs{x->value, parameter({filters, channels / groups, kernel, kernel}, -bound, bound)};
    if (once_in(2)) inputs.push_back(parameter({filters}, -0.5, 0.5));
    keep(add("conv", inputs,
             {{"stride", Integers{stride, stride}},
              {"pad_begin", Integers{pad, pad}},
              {"pad_end", Integers{pad, pad}},
              {"dilation", Integers{dilation, dilation}},
              {"groups", groups}}),
         y);
    if (once_in(2)) batch_norm();
    if (once_in(2)) activation();
  }
  void batch_norm() {
    const std::optional<Place> x = any(4);
    // The statistics of a few numbers are those of their rounding.
    if (!x || x->shape[0] * x->shape[2] * x->shape[3] < 16) return;
    const Shape of{x->shape[1]};
    const int weight = parameter(of, 0.5, 1.5), bias = parameter(of, -0.5, 0.5),
              mean = parameter(of, -0.2, 0.2), variance = parameter(of, 0.5, 1.5);
    keep(add("batch_norm", {x->value, weight, bias, mean, variance},
             {{"epsilon", 1e-2}, {"momentum", 0.9}, {"training", 0}}),
         x->shape);
  }
  void activation() {
    const std::optional<Place> x = any(0);
    const std::string function =
        once_in(2) ? one_of<std::string>({"relu", "relu6", "sigmoid", "tanh"})
                   : one_of<std::string>({"silu", "hardswish", "hardsigmoid", "gelu", "gelu_tanh", "elu",
                                          "leaky_relu", "softplus", "mish", "abs", "square"});
    int v = x->value;
    if (function == "square") v = apply("tanh", {v});  // numbers stay small
    keep(apply(function, {v}), x->shape);
  }
  void written_out() {
    const std::optional<Place> x = any(0);
    const int v = x->value;
    const auto clipped = [&](int of, double most) {
      return apply_either("minimum", apply_either("maximum", of, number(0)), number(most));
    };
    switch (rng_.integer(0, 5)) {
      case 0:
        return keep(apply_either("mul", v, apply("sigmoid", {v})), x->shape);
      case 1: {
        const int gate = clipped(apply_either("add", v, number(3)), 6);
        return keep(once_in(2) ? apply("div", {apply_either("mul", v, gate), number(6)})
                               : apply_either("mul", v, apply_either("mul", gate, number(1 / 6.))),
                    x->shape);
      }
      case 2: {
        const int e = apply("erf", {once_in(2) ? apply("div", {v, number(std::sqrt(2.))})
                                               : apply_either("mul", v, number(std::sqrt(0.5)))});
        const int sum = apply_either("add", e, number(1));
        return keep(once_in(2) ? apply_either("mul", apply_either("mul", v, sum), number(0.5))
                               : apply_either("mul", apply_either("mul", v, number(0.5)), sum),
                    x->shape);
      }
      case 3:
        return keep(clipped(v, once_in(2) ? 6 : 4), x->shape);
      case 4: {
        const int part = parameter({x->shape.back()}, -1, 1);
        return keep(apply("maximum", {v, apply_either("mul", v, part)}), x->shape);
      }
      default: {
        const int shifted = apply("sub", {v, number(0.25)});
        return keep(apply("tanh", {apply_either("mul", shifted, apply("neg", {shifted}))}), x->shape);
      }
    }
  }
  void binary() {
    const std::optional<Place> x = any(0), y = like(*x);
    const char* function = one_of<const char*>({"add", "add", "add", "sub", "mul", "maximum"});
    int b = y->value == x->value && !once_in(4) ? parameter(x->shape, -1, 1) : y->value;
    if (function == std::string("mul")) b = apply(once_in(2) ? "sigmoid" : "tanh", {b});
    keep(apply_either(function, x->value, b), x->shape);
    if (once_in(3)) activation();
  }
  /// A shape that broadcasts to x's.
  Shape smaller(const Shape& x) {
    Shape shape = x;
    switch (rng_.integer(0, 5)) {
      case 0:
        return {};
      case 1:
        return {x.back()};
      case 2:
      case 3:
        for (int axis = 0; axis < shape.size(); axis++)
          if (axis != 1) shape[axis] = 1;
        return shape;
      case 4:
        for (int axis = 0; axis < shape.size(); axis++)
          if (once_in(2)) shape[axis] = 1;
        return shape;
      default:
        return shape;
    }
  }
  void with_constant() {
    const std::optional<Place> x = any(0);
    const int how = one_of<int>({0, 0, 0, 1, 2, 3});
    const Shape shape = smaller(x->shape);
    if (how == 0) return keep(apply_either("add", x->value, parameter(shape, -1, 1)), x->shape);
    if (how == 1) return keep(apply("sub", {x->value, parameter(shape, -1, 1)}), x->shape);
    if (how == 2) return keep(apply("div", {x->value, parameter(shape, 0.7, 1.5)}), x->shape);
    keep(apply_either("mul", x->value, parameter(shape, -1.5, 1.5)), x->shape);
  }
  void gate() {
    const std::optional<Place> x = any(4);
    if (!x) return;
    const int64_t channels = x->shape[1];
    int v = once_in(2) ? add("global_pool", {x->value}, {{"mode", "average"}})
                       : add("reduce", {x->value},
                             {{"function", "mean"}, {"axes", Integers{2, 3}}, {"keep_dims", 1}});
    v = apply("relu", {add("conv", {v, parameter({4, channels, 1, 1}, -0.5, 0.5), parameter({4}, -1, 1)})});
    v = add("conv", {v, parameter({channels, 4, 1, 1}, -0.5, 0.5), parameter({channels}, -1, 1)});
    v = apply(once_in(2) ? "sigmoid" : "hardsigmoid", {v});
    keep(apply_either("mul", x->value, v), x->shape);
  }
  void pool() {
    const std::optional<Place> x = any(4);
    if (!x || x->shape[2] < 3 || x->shape[3] < 3) return;
    const int64_t kernel = rng_.integer(2, 3), stride = rng_.integer(1, 2), pad = rng_.integer(0, 1);
    const bool average = once_in(2);
    Shape y{x->shape[0], x->shape[1]};
    for (int axis = 2; axis < 4; axis++) y.push_back((x->shape[axis] + 2 * pad - kernel) / stride + 1);
    const Attributes attributes{{"mode", average ? "average" : "max"}, {"kernel", Integers{kernel, kernel}},
                                {"stride", Integers{stride, stride}},  {"pad_begin", Integers{pad, pad}},
                                {"pad_end", Integers{pad, pad}},       {"count_include_pad", once_in(2)}};
    keep(add("pool", {x->value}, attributes), y);
  }
  void padded() {
    const std::optional<Place> x = any(4);
    if (!x) return;
    Integers widths(8, 0);
    Shape y = x->shape;
    for (const int axis : {2, 3})
      for (const int end : {0, 4}) {
        const int64_t width = rng_.integer(0, 2);
        widths[static_cast<size_t>(axis + end)] = width;
        y[axis] += width;
      }
    if (element_count(y) > kMostElements) return;
    keep(add("pad", {x->value, g().add_constant(whole({8}, widths))}, {{"mode", "constant"}}), y);
    if (!once_in(4)) conv();
  }
  void joined() {
    const std::optional<Place> x = any(0);
    const int axis = once_in(2) ? 1 : some_axis(*x);
    std::vector<Place> fit;
    for (const Place& place : places_) {
      Shape shape = place.shape;
      if (shape.size() != x->shape.size()) continue;
      shape[axis] = x->shape[axis];
      if (shape == x->shape) fit.push_back(place);
    }
    std::vector<int> inputs{x->value};
    Shape y = x->shape;
    for (int64_t i = rng_.integer(1, 2); i > 0; i--) {
      const Place other = one_of(fit);
      inputs.push_back(other.value), y[axis] += other.shape[axis];
    }
    if (element_count(y) <= kMostElements) keep(add("concat", inputs, {{"axis", axis}}), y);
  }
  void parted() {
    const std::optional<Place> x = any(0);
    const int axis = some_axis(*x);
    const int64_t size = x->shape[axis];
    if (size < 2) return;
    const int64_t first = rng_.integer(1, size - 1);
    Shape front = x->shape, back = x->shape;
    front[axis] = first, back[axis] = size - first;
    if (once_in(2)) {
      const std::vector<int> parts =
          g().add_many("split", {x->value}, 2, {{"axis", axis}, {"sizes", Integers{first, size - first}}});
      keep(parts[0], front);
      keep(parts[1], back);
      return;
    }
    const auto number_of = [&](int64_t v) { return g().add_constant(whole({1}, {v})); };
    const auto slice = [&](int64_t begin, int64_t end) {
      return add("slice", {x->value, number_of(begin), number_of(end), number_of(axis)});
    };
    keep(slice(0, first), front);
    if (once_in(2)) keep(slice(first, once_in(2) ? size : 1 << 30), back);
  }
  void turned() {
    const std::optional<Place> x = any(0);
    Integers axes(static_cast<size_t>(x->shape.size()));
    std::iota(axes.begin(), axes.end(), 0);
    for (size_t i = axes.size() - 1; i > 0; i--)
      std::swap(axes[i], axes[static_cast<size_t>(rng_.integer(0, static_cast<int64_t>(i)))]);
    Shape y;
    for (const int64_t axis : axes) y.push_back(x->shape[static_cast<int>(axis)]);
    keep(add("transpose", {x->value}, {{"axes", axes}}), y);
  }
  void image_as_rows() {
    const std::optional<Place> x = any(4);
    if (!x) return;
    const Shape y{x->shape[0], x->shape[1], x->shape[2] * x->shape[3]};
    const int v = reshaped(x->value, y, *x);
    if (once_in(3)) return keep(v, y);
    keep(add("transpose", {v}, {{"axes", Integers{0, 2, 1}}}), {y[0], y[2], y[1]});
  }
  void rows_as_image() {
    const std::optional<Place> x = any(3);
    if (!x) return;
    const int64_t width = x->shape[2] % 4 == 0 ? 4 : x->shape[2] % 3 == 0 ? 3 : 1;
    const Shape y{x->shape[0], x->shape[1], x->shape[2] / width, width};
    keep(reshaped(x->value, y, *x), y);
  }
  int dense(int x, int64_t inputs, int64_t outputs, bool bias) {
    const double bound = 1.7 / std::sqrt(static_cast<double>(inputs));
    const int y = add("matmul", {x, parameter({inputs, outputs}, -bound, bound)});
    return bias ? apply_either("add", y, parameter({outputs}, -0.5, 0.5)) : y;
  }
  void product() {
    const std::optional<Place> x = any(once_in(4) ? 4 : 3);
    if (!x) return;
    Shape y = x->shape;
    const int64_t features = y.back(), count = once_in(3) ? rng_.integer(2, 3) : 1;
    y[y.size() - 1] = once_in(2) ? features : one_of<int64_t>({6, 8, 16, 20});
    if (element_count(y) > kMostElements) return;
    const bool bias = once_in(2);
    for (int64_t i = 0; i < count; i++) keep(dense(x->value, features, y.back(), bias), y);
    if (once_in(3)) binary();
    if (once_in(3)) activation();
  }
  void attention() {
    const std::optional<Place> x = any(3);
    if (!x || x->shape[1] > 64) return;
    const int64_t samples = x->shape[0], rows = x->shape[1], features = x->shape[2];
    const int64_t heads = features % 2 == 0 && once_in(2) ? 2 : 1, width = features / heads;
    const auto of_heads = [&](bool columns) {
      const int v = reshaped(dense(x->value, features, features, true), {samples, rows, heads, width}, *x);
      return add("transpose", {v}, {{"axes", columns ? Integers{0, 2, 3, 1} : Integers{0, 2, 1, 3}}});
    };
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    int q = of_heads(false);
    const bool before = once_in(2);
    if (before) q = apply_either("mul", q, number(scale));
    int scores = add("matmul", {q, of_heads(true)});
    if (!before)
      scores =
          once_in(2) ? apply("div", {scores, number(1 / scale)}) : apply_either("mul", scores, number(scale));
    if (once_in(3)) scores = apply_either("add", scores, parameter({rows, rows}, -2, 2));
    const int y = add("matmul", {add("softmax", {scores}, {{"axis", -1}}), of_heads(false)});
    keep(reshaped(add("transpose", {y}, {{"axes", Integers{0, 2, 1, 3}}}), x->shape, *x), x->shape);
    if (once_in(2)) keep(apply_either("add", places_.back().value, x->value), x->shape);
  }
  void norm() {
    const std::optional<Place> x = any(3);
    if (!x || x->shape[2] < 4) return;
    std::vector<int> inputs{x->value, parameter({x->shape[2]}, 0.5, 1.5)};
    if (once_in(2)) inputs.push_back(parameter({x->shape[2]}, -0.5, 0.5));
    keep(add("layer_norm", inputs, {{"epsilon", 1e-2}}), x->shape);
  }
  void norm_written_out() {
    const std::optional<Place> x = any(3);
    if (!x || x->shape[2] < 4) return;
    const auto mean = [&](int v) {
      return add("reduce", {v}, {{"function", "mean"}, {"axes", Integers{-1}}, {"keep_dims", 1}});
    };
    const bool rms = once_in(3);
    const int apart = rms ? x->value : apply("sub", {x->value, mean(x->value)});
    const int squares = once_in(2) ? apply("square", {apart}) : apply("mul", {apart, apart});
    const int root = apply("sqrt", {apply_either("add", mean(squares), number(1e-2))});
    int y =
        once_in(2) ? apply("div", {apart, root}) : apply_either("mul", apart, apply("reciprocal", {root}));
    y = apply_either("mul", y, parameter({x->shape[2]}, 0.5, 1.5));
    if (!rms) y = apply_either("add", y, parameter({x->shape[2]}, -0.5, 0.5));
    keep(y, x->shape);
  }
  void softmax() {
    const std::optional<Place> x = any(0);
    const int axis = once_in(2) ? -1 : some_axis(*x);
    keep(add("softmax", {x->value}, {{"axis", axis}}), x->shape);
  }
  void reduced() {
    const std::optional<Place> x = any(0);
    const int axis = some_axis(*x);
    Shape shape = x->shape;
    shape[axis] = 1;
    const char* function = one_of<const char*>({"mean", "max", "min", "sum_square", "l1"});
    int v = x->value;
    if (function == std::string("sum_square") || function == std::string("l1")) v = apply("tanh", {v});
    v = add("reduce", {v}, {{"function", function}, {"axes", Integers{axis}}, {"keep_dims", 1}});
    if (once_in(2)) return keep(v, shape);
    keep(apply("sub", {x->value, v}), x->shape);
  }
  void gathered() {
    const std::optional<Place> x = any(0);
    const int axis = some_axis(*x);
    const int64_t size = x->shape[axis];
    std::vector<int64_t> indices;
    const int64_t count = rng_.integer(1, 4), start = rng_.integer(0, size - 1);
    const bool in_row = once_in(2);
    for (int64_t i = 0; i < count; i++)
      indices.push_back(in_row ? (start + i) % size : rng_.integer(-size, size - 1));
    Shape y = x->shape;
    y[axis] = count;
    keep(add("gather", {x->value, g().add_constant(whole({count}, indices))}, {{"axis", axis}}), y);
  }
  void no_op() {
    const std::optional<Place> x = any(0);
    if (once_in(3)) return keep(add("identity", {x->value}), x->shape);
    if (once_in(2)) {
      const int v = add("unsqueeze", {x->value}, {{"axes", Integers{1}}});
      return keep(add("squeeze", {v}, {{"axes", Integers{1}}}), x->shape);
    }
    Integers axes(static_cast<size_t>(x->shape.size()));
    std::iota(axes.rbegin(), axes.rend(), 0);
    const int v = add("transpose", {x->value}, {{"axes", axes}});
    keep(add("transpose", {v}, {{"axes", axes}}), x->shape);
  }
  void resized() {
    const std::optional<Place> x = any(4);
    if (!x || trained_) return;
    const Shape y{x->shape[0], x->shape[1], 2 * x->shape[2], 2 * x->shape[3]};
    if (element_count(y) > kMostElements) return;
    const int scales = g().add_constant(host_tensor(DType::f32, {4}, std::vector<double>{1, 1, 2, 2}));
    keep(add("resize", {x->value, NetGraph::kNone, scales},
             {{"mode", once_in(2) ? "nearest" : "linear"}, {"coordinates", "half_pixel"}}),
         y);
  }
  void group_norm() {
    const std::optional<Place> x = any(4);
    if (!x || x->shape[1] % 2 != 0 || element_count(x->shape) / x->shape[0] < 32) return;
    const Shape of{x->shape[1]};
    keep(add("group_norm", {x->value, parameter(of, 0.5, 1.5), parameter(of, -0.5, 0.5)},
             {{"groups", 2}, {"epsilon", 1e-2}}),
         x->shape);
  }

  bool trained_;
};

}  // namespace

RandomGraph random_graph(uint64_t seed, bool trained) {
  return Maker(seed, trained).make();
}

}  // namespace dlprim::test
