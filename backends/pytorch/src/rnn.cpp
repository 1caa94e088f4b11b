// Cells of recurrent networks behind their products of matrices: LSTM (Hochreiter and Schmidhuber, 1997) and
// GRU (Cho et al., 2014), each a kernel forward and one backward.
#include <ATen/Functions.h>

#include "compute.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using dlprim::Tensor;
using Tensors = std::vector<Tensor>;

#define SIGMOID(x) "1 / (1 + exp(-(" x ")))"

/// Appends the parts of [B, parts * H], or of [parts * H], along the last dimension.
void append(Tensors& to, const Tensor& t, int parts) {
  const int axis = t.shape().size() - 1;
  const int64_t size = t.shape()[axis] / parts;
  for (int i = 0; i < parts; i++) to.push_back(t.slice(axis, i * size, (i + 1) * size));
}

bool check_cell(const char* cell, const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                const at::Tensor& state, const OptionalTensor& input_bias, const OptionalTensor& hidden_bias,
                int64_t parts) {
  const bool biased = input_bias && input_bias->defined();
  TORCH_CHECK(biased == (hidden_bias && hidden_bias->defined()), cell, ": there is one bias, not two");
  TORCH_CHECK(input_gates.dim() == 2 && input_gates.sizes() == hidden_gates.sizes() && state.dim() == 2 &&
                  state.size(0) == input_gates.size(0) && parts * state.size(1) == input_gates.size(1) &&
                  (!biased || (input_bias->numel() == input_gates.size(1) &&
                               hidden_bias->numel() == input_gates.size(1))),
              cell, ": gates of sizes ", input_gates.sizes(), " and ", hidden_gates.sizes(),
              " do not fit a state of ", state.sizes());
  return biased;
}

// LSTM. The workspace holds the gates: input, forget, new, output.

#define LSTM(i, f, g, o)                                                        \
  "real i = " SIGMOID(i) ", f = " SIGMOID(f) ", g = tanh(" g "), o = " SIGMOID( \
      o) ", c = f * x8 + i * g; y0 = o * tanh(c); y1 = c; y2 = i; y3 = f; y4 = g; y5 = o"

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates,
                                                         const at::Tensor& hidden_gates, const at::Tensor& cx,
                                                         const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  static constexpr const char* kPlain = LSTM("x0 + x4", "x1 + x5", "x2 + x6", "x3 + x7");
  static constexpr const char* kBiased =
      LSTM("x0 + x4 + x9 + x13", "x1 + x5 + x10 + x14", "x2 + x6 + x11 + x15", "x3 + x7 + x12 + x16");
  const bool biased = check_cell("LSTM", input_gates, hidden_gates, cx, input_bias, hidden_bias, 4);
  const at::Tensor hy = at::empty_like(cx, at::MemoryFormat::Contiguous), cy = at::empty_like(hy),
                   gates = at::empty(input_gates.sizes(), input_gates.options());
  if (cx.numel() == 0) return {hy, cy, gates};
  Tensors inputs, outputs{view(hy), view(cy)};
  append(inputs, view(input_gates), 4);
  append(inputs, view(hidden_gates), 4);
  inputs.push_back(view(cx));
  append(outputs, view(gates), 4);
  if (biased) {
    append(inputs, view(*input_bias), 4);
    append(inputs, view(*hidden_bias), 4);
  }
  compute(home_of(cx), biased ? kBiased : kPlain, inputs, outputs);
  return {hy, cy, gates};
}

#define LSTM_BACKWARD(dhy, dcy)                                                     \
  "real i = x0, f = x1, g = x2, o = x3, t = tanh(x5), dh = " dhy ", dc = " dcy      \
  " + dh * o * (1 - t * t); y0 = dc * g * i * (1 - i); y1 = dc * x4 * f * (1 - f);" \
  " y2 = dc * i * (1 - g * g); y3 = dh * t * o * (1 - o); y4 = dc * f"

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                                  const OptionalTensor& grad_cy,
                                                                  const at::Tensor& cx, const at::Tensor& cy,
                                                                  const at::Tensor& gates, bool has_bias) {
  static constexpr const char* kBoth = LSTM_BACKWARD("x6", "x7");
  static constexpr const char* kHidden = LSTM_BACKWARD("x6", "0");
  static constexpr const char* kCell = LSTM_BACKWARD("0", "x6");
  const bool hidden = grad_hy && grad_hy->defined(), cell = grad_cy && grad_cy->defined();
  if (!hidden && !cell) return {};
  const at::Tensor grad_gates = at::empty(gates.sizes(), gates.options()),
                   grad_cx = at::empty_like(cx, at::MemoryFormat::Contiguous);
  if (cx.numel() != 0) {
    Tensors inputs, outputs;
    append(inputs, view(gates), 4);
    inputs.insert(inputs.end(), {view(cx), view(cy)});
    if (hidden) inputs.push_back(view(*grad_hy));
    if (cell) inputs.push_back(view(*grad_cy));
    append(outputs, view(grad_gates), 4);
    outputs.push_back(view(grad_cx));
    compute(home_of(cx), !cell ? kHidden : !hidden ? kCell : kBoth, inputs, outputs);
  }
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

// GRU. The workspace holds the gates reset, update and new, the old state, and what the reset gate
// multiplies.

#define GRU(r, z, hidden, n)               \
  "real r = " SIGMOID(r) ", z = " SIGMOID( \
      z) ", h = " hidden ", n = tanh(" n   \
         " + r * h);"                      \
         " y0 = n + z * (x6 - n); y1 = r; y2 = z; y3 = n; y4 = x6; y5 = h"

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& hx, const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  static constexpr const char* kPlain = GRU("x0 + x3", "x1 + x4", "x5", "x2");
  static constexpr const char* kBiased =
      GRU("x0 + x3 + x7 + x10", "x1 + x4 + x8 + x11", "x5 + x12", "x2 + x9");
  const bool biased = check_cell("GRU", input_gates, hidden_gates, hx, input_bias, hidden_bias, 3);
  const at::Tensor hy = at::empty_like(hx, at::MemoryFormat::Contiguous),
                   kept = at::empty({hx.size(0), 5 * hx.size(1)}, hx.options());
  if (hx.numel() == 0) return {hy, kept};
  Tensors inputs, outputs{view(hy)};
  append(inputs, view(input_gates), 3);
  append(inputs, view(hidden_gates), 3);
  inputs.push_back(view(hx));
  append(outputs, view(kept), 5);
  if (biased) {
    append(inputs, view(*input_bias), 3);
    append(inputs, view(*hidden_bias), 3);
  }
  compute(home_of(hx), biased ? kBiased : kPlain, inputs, outputs);
  return {hy, kept};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& kept, bool has_bias) {
  static constexpr const char* kBackward =
      "real r = x0, z = x1, n = x2, dn = x5 * (1 - z) * (1 - n * n), dr = dn * x4 * r * (1 - r),"
      " dz = x5 * (x3 - n) * z * (1 - z);"
      " y0 = dr; y1 = dz; y2 = dn; y3 = dr; y4 = dz; y5 = dn * r; y6 = x5 * z";
  const std::array<int64_t, 2> sizes{grad_hy.size(0), 3 * grad_hy.size(1)};
  const at::Tensor grad_input = at::empty(sizes, kept.options()),
                   grad_hidden = at::empty(sizes, kept.options()),
                   grad_hx = at::empty_like(grad_hy, at::MemoryFormat::Contiguous);
  if (grad_hy.numel() != 0) {
    Tensors inputs, outputs;
    append(inputs, view(kept), 5);
    inputs.push_back(view(grad_hy));
    append(outputs, view(grad_input), 3);
    append(outputs, view(grad_hidden), 3);
    outputs.push_back(view(grad_hx));
    compute(home_of(kept), kBackward, inputs, outputs);
  }
  if (!has_bias) return {grad_input, grad_hidden, grad_hx, at::Tensor(), at::Tensor()};
  return {grad_input, grad_hidden, grad_hx, grad_input.sum(0), grad_hidden.sum(0)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(_thnn_fused_lstm_cell, lstm_cell)
  OCL_FUNCTION(_thnn_fused_lstm_cell_backward_impl, lstm_cell_backward)
  OCL_FUNCTION(_thnn_fused_gru_cell, gru_cell)
  OCL_FUNCTION(_thnn_fused_gru_cell_backward, gru_cell_backward)
}

}  // namespace

}  // namespace ocl
