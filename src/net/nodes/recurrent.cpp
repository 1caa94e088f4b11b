// LSTM, GRU and simple recurrent layers by composition: products of all places at once for what comes from x,
// one product and one expression a place for what comes from the state.
#include <array>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

enum Input { kX, kW, kR, kBias, kLengths, kState, kCell, kPeepholes };

struct Layer {
  std::string cell;  ///< "lstm", "gru", "rnn"
  int64_t gates, places, batch, width, directions;
  bool batch_first;
};

Layer layer_of(const NodeStep& step) {
  Layer layer;
  layer.cell = step.text("cell");
  require(layer.cell == "lstm" || layer.cell == "gru" || layer.cell == "rnn", "cell", "'", layer.cell,
          "' must be lstm, gru or rnn");
  layer.gates = layer.cell == "lstm" ? 4 : layer.cell == "gru" ? 3 : 1;
  layer.batch_first = step.flag("batch_first");
  require(step.rank(kX) == 3 && step.rank(kW) == 3 && step.rank(kR) == 3, "inputs", "x ", step.shape(kX),
          ", w ", step.shape(kW), ", r ", step.shape(kR), " must have three axes");
  layer.places = step.shape(kX)[layer.batch_first ? 1 : 0];
  layer.batch = step.shape(kX)[layer.batch_first ? 0 : 1];
  layer.directions = step.shape(kW)[0];
  layer.width = step.shape(kR)[2];
  require(step.shape(kR) == Shape{layer.directions, layer.gates * layer.width, layer.width}, "inputs",
          "r is ", step.shape(kR));
  require(step.shape(kW) == Shape{layer.directions, layer.gates * layer.width, step.shape(kX)[2]}, "inputs",
          "w is ", step.shape(kW));
  return layer;
}

/// An activation as an expression of `x`.
std::string activation_text(const std::string& name, double alpha, double beta, const std::string& x) {
  const std::string a = "(real)" + cat(alpha), b = "(real)" + cat(beta);
  if (name == "sigmoid") return "1 / (1 + exp(-" + x + "))";
  if (name == "tanh") return "tanh(" + x + ")";
  if (name == "relu") return "(" + x + " > 0 ? " + x + " : 0)";
  if (name == "affine") return "(" + a + " * " + x + " + " + b + ")";
  if (name == "leakyrelu") return "(" + x + " >= 0 ? " + x + " : " + a + " * " + x + ")";
  if (name == "thresholdedrelu") return "(" + x + " >= " + a + " ? " + x + " : 0)";
  if (name == "scaledtanh") return "(" + a + " * tanh(" + b + " * " + x + "))";
  if (name == "hardsigmoid") return "fmin(fmax(" + a + " * " + x + " + " + b + ", (real)0), (real)1)";
  if (name == "elu") return "(" + x + " >= 0 ? " + x + " : " + a + " * expm1(" + x + "))";
  if (name == "softsign") return "(" + x + " / (1 + fabs(" + x + ")))";
  if (name == "softplus") return "log1p(exp(" + x + "))";
  throw ValidationError("activations", "'" + name + "' is no activation of recurrent layers");
}

/// The k-th activation of a direction, of the variable `x`, which is clipped first.
std::string activation_of(const NodeStep& step, const Layer& layer, int64_t direction, size_t k,
                          const std::string& x) {
  static constexpr std::array<const char*, 3> kUsual{"sigmoid", "tanh", "tanh"};
  const std::vector<std::string> names = step.texts("activations");
  const std::vector<double> alphas = step.numbers("alphas"), betas = step.numbers("betas");
  const size_t each = layer.cell == "lstm"  ? 3
                      : layer.cell == "gru" ? 2
                                            : 1,
               at = static_cast<size_t>(direction) * each + k;
  require(names.empty() || names.size() == each * static_cast<size_t>(layer.directions), "activations",
          names.size(), " names, must be ", each * static_cast<size_t>(layer.directions));
  const std::string name = names.empty() ? (layer.cell == "rnn" ? "tanh" : kUsual[k]) : names[at];
  const double clip = step.number("clip", 0);
  const std::string inner =
      clip > 0 ? "fmin(fmax((real)" + x + ", (real)" + cat(-clip) + "), (real)" + cat(clip) + ")" : x;
  return activation_text(name, at < alphas.size() ? alphas[at] : 0, at < betas.size() ? betas[at] : 0,
                         "(" + inner + ")");
}

/// One direction of a layer.
class Direction {
 public:
  Direction(NodeStep& step, const Layer& layer, int64_t which)
      : step_(step),
        layer_(layer),
        which_(which),
        backwards_(step.text("direction", "forward") == "reverse" || which == 1),
        type_(step.dtype(kX)),
        r_(of(kR)) {
    if (step.has(kBias)) {
      const Tensor both = of(kBias);
      const int64_t all = layer.gates * layer.width;
      x_bias_ = both.slice(0, 0, all), h_bias_ = both.slice(0, all, 2 * all);
    }
    begin(kState, 1, old_h_, h_);
    if (layer.cell == "lstm") begin(kCell, 2, old_c_, c_);
    if (step.has(kLengths)) lengths_ = step.dense(kLengths).reshape({layer.batch, 1});
  }

  /// `y`: [T, B, H] of this direction, undefined if nobody wants it.
  void run(const Tensor& y) {
    gates_ = from_x();
    const Tensor nowhere = y.defined() ? Tensor() : step_.scratch({layer_.batch, layer_.width}, type_);
    for (int64_t i = 0; i < layer_.places; i++) {
      const int64_t t = backwards_ ? layer_.places - 1 - i : i;
      place(t, y.defined() ? at_place(y, t) : nowhere);
    }
    if (lengths_.defined()) clear_empty();
  }

 private:
  /// Input `k` of this direction.
  Tensor of(int k) {
    const Tensor dense = step_.dense(k);
    Shape shape;
    for (int i = 1; i < dense.rank(); i++) shape.push_back(dense.shape()[i]);
    return dense.slice(0, which_, which_ + 1).reshape(shape);
  }

  /// The first state, input `k`, zeros without one, and where later ones lie, output `to`: [B, H].
  void begin(int k, int to, Tensor& first, Tensor& later) {
    const Shape shape{layer_.batch, layer_.width};
    const auto own = [&](const Tensor& all) {
      const Tensor t = layer_.batch_first ? all.transpose(0, 1) : all;
      return t.as_strided(shape, {t.strides()[1], t.strides()[2]}, which_ * t.strides()[0]);
    };
    later = step_.wanted(to) ? own(step_.y(to)) : step_.scratch(shape, type_);
    first = step_.has(k) ? own(step_.dense(k)) : later;
    if (!step_.has(k))
      fill(step_.stream, 0, later, step_.options);
    else if (layer_.places == 0)
      copy(step_.stream, first, later, step_.options);
  }

  /// x W^T + bias of all places: [T, B, gates H].
  Tensor from_x() {
    const int64_t all = layer_.gates * layer_.width;
    const Tensor x = step_.dense(layer_.batch_first ? step_.x(kX).transpose(0, 1) : step_.x(kX));
    const Tensor gates = step_.scratch({layer_.places * layer_.batch, all}, type_);
    gemm(step_.stream, x.reshape({layer_.places * layer_.batch, step_.shape(kX)[2]}), of(kW).transpose(0, 1),
         x_bias_, {}, gates, step_.options);
    return gates.reshape({layer_.places, layer_.batch, all});
  }

  /// Place t of [T, B, N]: [B, N].
  static Tensor at_place(const Tensor& x, int64_t t) {
    return x.as_strided({x.shape()[1], x.shape()[2]}, {x.strides()[1], x.strides()[2]}, t * x.strides()[0]);
  }
  Tensor gate(const Tensor& gates, int64_t k) const {
    return gates.slice(1, k * layer_.width, (k + 1) * layer_.width);
  }

  /// c = h R^T + bias + beta c, of the gates from `first` on.
  void from_state(const Tensor& h, int64_t first, int64_t count, double beta, const Tensor& c) {
    const int64_t begin = first * layer_.width, end = (first + count) * layer_.width;
    GemmParams params;
    params.beta = beta;
    gemm(step_.stream, h, r_.slice(0, begin, end).transpose(0, 1),
         h_bias_.defined() ? h_bias_.slice(0, begin, end) : Tensor(), params, c, step_.options);
  }

  /// Samples of length 0 end in a state of 0, whatever they began with.
  void clear_empty() {
    for (const auto& [to, state] : {std::pair(1, h_), std::pair(2, c_)})
      if (state.defined() && step_.wanted(to))
        dlprim::pointwise(step_.stream, {state, lengths_}, {state}, {}, "y0 = x1 > 0 ? x0 : 0",
                          step_.options);
  }

  std::string act(size_t k, const std::string& x) const { return activation_of(step_, layer_, which_, k, x); }

  /// Runs an expression that makes h_ (and c_) new where the sample is as long as place t, and else keeps
  /// them. Outputs: y0 the new state, y1 what is left at this place, y2 the new cell.
  void update(std::vector<Tensor> inputs, const std::string& values, const Tensor& y, int64_t t, bool cell) {
    std::string live = "1";
    inputs.push_back(old_h_);
    const std::string old = "x" + cat(inputs.size() - 1);
    if (lengths_.defined()) {
      inputs.push_back(lengths_);
      live = "s0 < x" + cat(inputs.size() - 1);
    }
    std::string body = values + "; y0 = " + live + " ? h_ : " + old + "; y1 = " + live + " ? h_ : 0";
    std::vector<Tensor> outputs{h_, y};
    if (cell) {
      body += "; y2 = " + live + " ? c_ : old_c_";
      outputs.push_back(c_);
    }
    dlprim::pointwise(step_.stream, inputs, outputs, {t}, body, step_.options);
    old_h_ = h_, old_c_ = c_;
  }

  void place(int64_t t, const Tensor& y) {
    const Tensor gates = at_place(gates_, t);
    if (layer_.cell == "gru") return gru(gates, y, t);
    from_state(old_h_, 0, layer_.gates, 1, gates);
    if (layer_.cell == "rnn") return update({gates}, "real v_ = x0; real h_ = " + act(0, "v_"), y, t, false);
    std::vector<Tensor> inputs{gate(gates, 0), gate(gates, 1), gate(gates, 2), gate(gates, 3), old_c_};
    std::string in = "x0", out = "x1", forget = "x2";
    if (step_.has(kPeepholes)) {
      const Tensor p = of(kPeepholes);
      for (int64_t k = 0; k < 3; k++) inputs.push_back(p.slice(0, k * layer_.width, (k + 1) * layer_.width));
      in += " + x5 * old_c_", out += " + x6 * c_", forget += " + x7 * old_c_";
    }
    const std::string values = "real old_c_ = x4; real vi_ = " + in + "; real i_ = " + act(0, "vi_") +
                               "; real vf_ = " + forget +
                               "; real f_ = " + (step_.flag("input_forget") ? "1 - i_" : act(0, "vf_")) +
                               "; real vg_ = x3; real g_ = " + act(1, "vg_") +
                               "; real c_ = f_ * old_c_ + i_ * g_; real vo_ = " + out +
                               "; real o_ = " + act(0, "vo_") + "; real h_ = o_ * " + act(2, "c_");
    update(std::move(inputs), values, y, t, true);
  }

  /// Gates: update, reset, hidden.
  void gru(const Tensor& gates, const Tensor& y, int64_t t) {
    const Tensor first_two = gates.slice(1, 0, 2 * layer_.width), hidden = gate(gates, 2);
    from_state(old_h_, 0, 2, 1, first_two);
    const Tensor reset = step_.scratch({layer_.batch, layer_.width}, type_);
    if (step_.flag("reset_after")) {
      from_state(old_h_, 2, 1, 0, reset);
      dlprim::pointwise(step_.stream, {gate(gates, 1), reset, hidden}, {hidden}, {},
                        "real v_ = x0; y0 = x2 + " + act(0, "v_") + " * x1", step_.options);
    } else {
      dlprim::pointwise(step_.stream, {gate(gates, 1), old_h_}, {reset}, {},
                        "real v_ = x0; y0 = " + act(0, "v_") + " * x1", step_.options);
      from_state(reset, 2, 1, 1, hidden);
    }
    update({gate(gates, 0), hidden, old_h_},
           "real vz_ = x0; real z_ = " + act(0, "vz_") + "; real vn_ = x1; real n_ = " + act(1, "vn_") +
               "; real h_ = (1 - z_) * n_ + z_ * x2",
           y, t, false);
  }

  NodeStep& step_;
  const Layer& layer_;
  const int64_t which_;
  const bool backwards_;
  const DType type_;
  const Tensor r_;
  Tensor x_bias_, h_bias_;  ///< of the products with x and with the state
  Tensor old_h_, old_c_;    ///< the state in front of a place
  Tensor h_, c_;            ///< behind it
  Tensor lengths_, gates_;
};

/// Inputs: x [T, B, I], w [D, G H, I], r [D, G H, H], bias [D, 2 G H], lengths [B], state and cell [D, B, H],
/// peepholes [D, 3 H]. Outputs: y [T, D, B, H], the last state and cell [D, B, H], 0 where a length is 0.
/// Gates as ONNX orders them: i o f g; z r h. Attributes: cell, direction (forward, reverse, bidirectional),
/// activations with alphas and betas, clip, batch_first ([B, T, ...] and [B, D, H]), reset_after (GRU),
/// input_forget (LSTM).
void infer_recurrent(NodeStep& step) {
  const Layer l = layer_of(step);
  const Shape state =
      l.batch_first ? Shape{l.batch, l.directions, l.width} : Shape{l.directions, l.batch, l.width};
  step.output(0, step.dtype(kX),
              l.batch_first ? Shape{l.batch, l.places, l.directions, l.width}
                            : Shape{l.places, l.directions, l.batch, l.width});
  step.output(1, step.dtype(kX), state);
  step.output(2, step.dtype(kX), state);
}
void run_recurrent(NodeStep& step) {
  const Layer layer = layer_of(step);
  for (int64_t d = 0; d < layer.directions; d++) {
    Tensor y;
    if (step.wanted(0)) {
      const Tensor all = layer.batch_first ? step.y(0).permute({1, 2, 0, 3}) : step.y(0);  // [T, D, B, H]
      y = all.as_strided({layer.places, layer.batch, layer.width},
                         {all.strides()[0], all.strides()[2], all.strides()[3]}, d * all.strides()[1]);
    }
    Direction(step, layer, d).run(y);
  }
}

constexpr NodeKind kKinds[] = {
    {"recurrent", 3, 8, infer_recurrent, run_recurrent},
};

}  // namespace

KindList recurrent_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
