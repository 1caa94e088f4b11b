// LSTM, GRU, RNN.
#include <algorithm>
#include <cctype>

#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

/// Activations' alpha and beta stand in lists of their own, only for those that have them: one for each here.
struct Activations {
  std::vector<std::string> names;
  std::vector<double> alphas, betas;
};

Activations activations(NodeImport& node) {
  struct Usual {
    const char* name;
    bool has_alpha, has_beta;
    double alpha, beta;
  };
  static constexpr Usual kUsual[] = {
      {"affine", true, true, 1, 0},           {"leakyrelu", true, false, 0.01, 0},
      {"thresholdedrelu", true, false, 1, 0}, {"scaledtanh", true, true, 1, 1},
      {"hardsigmoid", true, true, 0.2, 0.5},  {"elu", true, false, 1, 0}};
  const std::vector<double> alphas = node.numbers("activation_alpha"),
                            betas = node.numbers("activation_beta");
  Activations list;
  size_t alpha = 0, beta = 0;
  for (std::string name : node.texts("activations")) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    Usual usual{"", false, false, 0, 0};
    for (const Usual& u : kUsual)
      if (name == u.name) usual = u;
    list.names.push_back(name);
    list.alphas.push_back(usual.has_alpha && alpha < alphas.size() ? alphas[alpha++] : usual.alpha);
    list.betas.push_back(usual.has_beta && beta < betas.size() ? betas[beta++] : usual.beta);
  }
  if (alpha < alphas.size() || beta < betas.size())
    node.refuse("has more alphas or betas than its activations take");
  return list;
}

void recurrent(NodeImport& node) {
  const std::string cell = node.argument, direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    node.refuse("has direction '" + direction + "'");
  Attributes attributes{{"cell", cell}, {"direction", direction}, {"batch_first", node.integer("layout", 0)}};
  node.ignore("hidden_size");  // r's shape says it
  const Activations list = activations(node);
  if (!list.names.empty()) {
    attributes.emplace("activations", list.names);
    attributes.emplace("alphas", list.alphas);
    attributes.emplace("betas", list.betas);
  }
  if (node.has("clip")) attributes.emplace("clip", node.number("clip", 0));
  if (cell == "gru") attributes.emplace("reset_after", node.integer("linear_before_reset", 0));
  if (cell == "lstm") attributes.emplace("input_forget", node.integer("input_forget", 0));
  const size_t outputs = cell == "lstm" ? 3 : 2;
  node.results(node.emit_many("recurrent", node.all_inputs(), outputs, std::move(attributes)));
}

constexpr OperatorEntry kOperators[] = {
    {"GRU", recurrent, "gru"},
    {"LSTM", recurrent, "lstm"},
    {"RNN", recurrent, "rnn"},
};

}  // namespace

OperatorList recurrent_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
