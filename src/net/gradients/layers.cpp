// Rules of layers: convolutions, products, pooling, normalisations, softmax, attention, losses.
#include <dlprim/activation.hpp>

#include "net/einsum.hpp"
#include "net/gradients/rule.hpp"

namespace dlprim::detail {
namespace {

/// dy without what an epilogue did behind the product.
int before_epilogue(GradientStep& step) {
  if (step.node().attributes.count("activation")) step.refuse("its activation is to be a node of its own");
  if (step.has(3)) step.give(3, step.dy());
  return step.dy();
}

void conv_rule(GradientStep& step) {
  const Attributes attributes = step.taken({"stride", "pad_begin", "pad_end", "dilation", "groups",
                                            "transposed", "output_pad", "same", "output_shape"});
  const int dy = before_epilogue(step);
  if (step.wanted(0))
    step.give(0, step.add("conv_backward_data", {dy, step.x(1), step.sizes(step.x(0))}, attributes));
  if (step.wanted(1))
    step.give(1, step.add("conv_backward_filter", {step.x(0), dy, step.sizes(step.x(1))}, attributes));
  if (step.wanted(2)) step.give(2, step.add("channel_sums", {dy}));
}

void matmul_rule(GradientStep& step) {
  const int dy = before_epilogue(step);
  for (size_t k : {0, 1}) {
    if (!step.wanted(k)) continue;
    Attributes attributes = step.taken({"alpha"});
    attributes.emplace("operand", static_cast<int64_t>(k));
    if (step.made_by(step.x(k), "transpose")) attributes.emplace("turned", true);
    step.give(k, step.add("matmul_backward", {dy, step.x(1 - k), step.sizes(step.x(k))}, attributes));
  }
  if (step.wanted(2)) step.give(2, step.add("sum_to", {dy, step.sizes(step.x(2))}));
}

/// The gradient of an input is the product of dy and the other inputs, summed to the input's axes. An axis
/// that this input alone has was summed away: ones spread dy over it.
void einsum_rule(GradientStep& step) {
  const auto* equation = attribute<std::string>(step.node(), "equation");
  const std::vector<std::string> terms = einsum_terms(equation ? *equation : "");
  const size_t count = step.node().inputs.size();
  if (terms.size() != count + 1) step.refuse("its equation does not fit its inputs");
  const bool dots = terms.back().find("...") != std::string::npos;
  for (size_t k = 0; k < count; k++) {
    if (!step.wanted(k)) continue;
    std::string letters, text = terms.back();
    for (const char c : terms[k]) {
      if (c == '.') continue;
      if (letters.find(c) != std::string::npos) step.refuse("an axis stands twice in one of its inputs");
      letters += c;
    }
    std::vector<int> inputs{step.dy()};
    for (size_t i = 0; i < count; i++)
      if (i != k) text += "," + terms[i], inputs.push_back(step.x(i));
    if (letters.find_first_not_of(text) != std::string::npos) {
      text += "," + letters;
      const int ones = step.add("fill", {step.sizes(step.x(k)), step.number(1)});
      inputs.push_back(step.add("cast", {ones, step.dy()}));
    }
    text += "->" + (dots ? "..." + letters : letters);
    const int dx = step.add("einsum", std::move(inputs), {{"equation", text}});
    step.give(k, step.add("sum_to", {dx, step.sizes(step.x(k))}));
  }
}

void pool_rule(GradientStep& step) {
  Attributes attributes = step.taken({"mode", "kernel", "stride", "pad_begin", "pad_end", "dilation", "same",
                                      "output", "ceil_mode", "count_include_pad", "norm"});
  const bool global = step.node().kind == "global_pool";
  const auto mode = attributes.find("mode");
  const std::string name = mode == attributes.end() ? "max" : std::get<std::string>(mode->second.value);
  std::vector<int> inputs{step.dy(), step.sizes(step.x(0))};
  if (global) attributes.emplace("global", true);
  if (name == "max") {
    if (step.node().outputs.size() < 2 || step.node().outputs[1] == NetGraph::kNone) {
      // The backward pass alone reads the indices: those that pooling itself gives.
      step.set("flat", false), step.set("column_major", false), step.set("narrow", true);
    } else {
      const Attributes counted = step.taken({"flat", "column_major"});
      attributes.insert(counted.begin(), counted.end());
    }
    inputs.push_back(step.y(1));
  } else if (name == "lp") {
    inputs.insert(inputs.end(), {NetGraph::kNone, step.x(0), step.y()});
  }
  step.give(0, step.add("pool_backward", std::move(inputs), std::move(attributes)));
}

/// The gradients of the inputs that these outputs are, in their order, of a node that gives those that are
/// wanted.
void give_by(GradientStep& step, const char* kind, std::vector<int> inputs, const std::vector<size_t>& of,
             Attributes attributes) {
  std::vector<bool> wanted;
  for (size_t k : of) wanted.push_back(step.wanted(k));
  const std::vector<int> gradients = step.add_many(kind, std::move(inputs), wanted, std::move(attributes));
  for (size_t i = 0; i < of.size(); i++)
    if (wanted[i]) step.give(of[i], gradients[i]);
}

void batch_norm_rule(GradientStep& step) {
  if (!has_flag(step.node(), "training")) step.refuse("it must be in training");
  if (has_flag(step.node(), "per_element")) step.refuse("it must have a channel for all of a plane");
  const Attributes attributes = step.taken({"activation"});
  for (const auto& [key, activation] : attributes) {
    const auto f = activation_named(std::get<std::string>(activation.value));
    if (!f || !is_told_from_result(*f)) step.refuse("its activation is to be a node of its own");
  }
  std::vector<int> inputs{step.dy(), step.x(0), step.x(1), step.y(3), step.y(4)};
  if (!attributes.empty()) {
    // Without a residual x tells the slope, and y need not be read.
    if (step.has(5))
      inputs.push_back(step.y());
    else
      inputs.insert(inputs.end(), {NetGraph::kNone, step.x(2)});
  }
  give_by(step, "batch_norm_backward", std::move(inputs), {0, 1, 2, 5}, attributes);
}

void layer_norm_rule(GradientStep& step) {
  const bool rms = has_flag(step.node(), "rms");
  const int weight = step.has(1) ? step.x(1) : NetGraph::kNone;
  const int mean = rms ? NetGraph::kNone : step.y(1), inverse = step.y(rms ? 1 : 2);
  give_by(step, "layer_norm_backward", {step.dy(), step.x(0), weight, mean, inverse}, {0, 1, 2},
          step.taken({"axis", "rms"}));
}

void group_norm_rule(GradientStep& step) {
  if (has_flag(step.node(), "per_group")) step.refuse("its weights may be those of groups");
  const int mean = step.y(1), inverse = step.y(2);
  give_by(step, "group_norm_backward", {step.dy(), step.x(0), step.x(1), mean, inverse}, {0, 1, 2},
          step.taken({"groups"}));
}

void softmax_rule(GradientStep& step) {
  step.give(0, step.add("softmax_backward", {step.dy(), step.y()}, step.taken({"axis", "log", "to_end"})));
}

void attention_rule(GradientStep& step) {
  if (step.has(4) || step.has(5)) step.refuse("it has a past");
  if (step.dy(1) != NetGraph::kNone || step.dy(2) != NetGraph::kNone || step.dy(3) != NetGraph::kNone)
    step.refuse("only its first output has one");
  if (step.wanted(3)) step.refuse("of its inputs only q, k and v have one");
  std::vector<int> inputs;
  for (size_t k = 0; k < 7; k++) inputs.push_back(step.has(k) ? step.x(k) : NetGraph::kNone);
  inputs.push_back(step.dy());
  give_by(step, "attention_backward", std::move(inputs), {0, 1, 2},
          step.taken({"heads", "kv_heads", "scale", "causal", "left_window", "right_window", "softcap"}));
}

void class_loss_rule(GradientStep& step) {
  if (step.dy(1) != NetGraph::kNone) step.refuse("only its first output has one");
  std::vector<int> inputs{step.dy(), step.x(0), step.x(1)};
  if (step.has(2)) inputs.push_back(step.x(2));
  step.give(0, step.add("class_loss_backward", std::move(inputs),
                        step.taken({"reduction", "ignore_index", "label_smoothing", "logits"})));
}

constexpr NamedRule kRules[] = {
    {"conv", conv_rule},
    {"matmul", matmul_rule},
    {"einsum", einsum_rule},
    {"pool", pool_rule},
    {"global_pool", pool_rule},
    {"batch_norm", batch_norm_rule},
    {"layer_norm", layer_norm_rule},
    {"group_norm", group_norm_rule},
    {"softmax", softmax_rule},
    {"attention", attention_rule},
    {"class_loss", class_loss_rule},
};

}  // namespace

RuleList layer_rules() {
  return rules_of(kRules);
}

}  // namespace dlprim::detail
