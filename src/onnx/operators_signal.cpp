// Windows and spectra.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

void window(NodeImport& node) {
  node.result(node.emit("window", {node.in(0)},
                        {{"function", node.argument},
                         {"periodic", node.integer("periodic", 1) != 0},
                         {"dtype", node.dtype("output_datatype", ElementType::f32)}}));
}

void mel_weight_matrix(NodeImport& node) {
  node.result(node.emit("mel_weights", node.all_inputs(),
                        {{"dtype", node.dtype("output_datatype", ElementType::f32)}}));
}

/// The axis is an attribute before opset 20, 1 if there is none.
void dft(NodeImport& node) {
  Attributes attributes{{"inverse", node.integer("inverse", 0) != 0},
                        {"onesided", node.integer("onesided", 0) != 0}};
  std::vector<int> inputs{node.in(0)};
  if (node.input_count() > 1) inputs.push_back(node.in(1));
  if (node.opset < 20)
    attributes.emplace("axis", node.integer("axis", 1));
  else if (node.input_count() > 2)
    inputs.push_back(node.in(2));
  node.result(node.emit("dft", inputs, std::move(attributes)));
}

void stft(NodeImport& node) {
  node.result(node.emit("stft", node.all_inputs(), {{"onesided", node.integer("onesided", 1) != 0}}));
}

constexpr OperatorEntry kOperators[] = {
    {"BlackmanWindow", window, "blackman"}, {"DFT", dft},
    {"HammingWindow", window, "hamming"},   {"HannWindow", window, "hann"},
    {"MelWeightMatrix", mel_weight_matrix}, {"STFT", stft},
};

}  // namespace

OperatorList signal_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
