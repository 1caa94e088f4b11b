// Random numbers. Without a seed they come out of the model's own stream: see src/net/nodes/random.cpp.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

Attributes seeded(NodeImport& node, Attributes attributes = {}) {
  if (node.has("seed")) attributes.emplace("seed", node.number("seed", 0));
  return attributes;
}
void dtype_if_given(NodeImport& node, Attributes& attributes) {
  if (node.has("dtype")) attributes.emplace("dtype", node.dtype("dtype", ElementType::undefined));
}

Attributes distribution(NodeImport& node) {
  const std::string name = node.argument;
  if (name == "uniform")
    return seeded(node,
                  {{"distribution", name}, {"low", node.number("low", 0)}, {"high", node.number("high", 1)}});
  return seeded(
      node,
      {{"distribution", name}, {"mean", node.number("mean", 0)}, {"deviation", node.number("scale", 1)}});
}
void random(NodeImport& node) {
  Attributes attributes = distribution(node);
  if (!node.has("shape")) node.refuse("has no shape");
  attributes.emplace("shape", node.integers("shape"));
  attributes.emplace("dtype", node.dtype("dtype", ElementType::f32));
  node.result(node.emit("random", {}, std::move(attributes)));
}
void random_like(NodeImport& node) {
  Attributes attributes = distribution(node);
  dtype_if_given(node, attributes);
  node.result(node.emit("random", {node.in(0)}, std::move(attributes)));
}

void bernoulli(NodeImport& node) {
  Attributes attributes = seeded(node);
  dtype_if_given(node, attributes);
  node.result(node.emit("bernoulli", {node.in(0)}, std::move(attributes)));
}

void multinomial(NodeImport& node) {
  Attributes attributes = seeded(node, {{"count", node.integer("sample_size", 1)}});
  attributes.emplace("dtype", node.dtype("dtype", ElementType::i32));
  node.result(node.emit("multinomial", {node.in(0)}, std::move(attributes)));
}

constexpr OperatorEntry kOperators[] = {
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial},
    {"RandomNormal", random, "normal"},
    {"RandomNormalLike", random_like, "normal"},
    {"RandomUniform", random, "uniform"},
    {"RandomUniformLike", random_like, "uniform"},
};

}  // namespace

OperatorList random_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
