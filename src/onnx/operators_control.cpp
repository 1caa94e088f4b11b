// Branches and loops: nodes with graphs in them.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

/// A node with bodies whose outputs are the node's.
void with_bodies(NodeImport& node, const char* kind, std::vector<int> inputs, Attributes attributes,
                 std::vector<std::shared_ptr<const NetGraph>> bodies) {
  const std::vector<int> results = node.emit_many(
      kind, std::move(inputs), static_cast<size_t>(node.output_count()), std::move(attributes));
  node.last().bodies = std::move(bodies);
  node.results(results);
}

void branch(NodeImport& node) {
  std::vector<int> inputs{node.in(0)}, of_else;
  const auto then = node.body("then_branch", inputs), otherwise = node.body("else_branch", of_else);
  inputs.insert(inputs.end(), of_else.begin(), of_else.end());
  with_bodies(node, "if", std::move(inputs), {}, {then, otherwise});
}

void loop(NodeImport& node) {
  if (node.input_count() < 2) node.refuse("must have two inputs or more");
  std::vector<int> inputs = node.all_inputs();
  const auto body = node.body("body", inputs);
  with_bodies(node, "loop", std::move(inputs), {{"carried", node.input_count() - 2}}, {body});
}

void scan(NodeImport& node) {
  std::vector<int> inputs = node.all_inputs();
  const auto own = static_cast<int64_t>(inputs.size());
  const auto body = node.body("body", inputs);
  Attributes attributes{{"sequences", node.integer("num_scan_inputs", 1)},
                        {"used", static_cast<int64_t>(inputs.size()) - own}};
  const auto list = [&](const char* from, const char* to) {
    if (node.has(from)) attributes.emplace(to, node.integers(from));
  };
  list("scan_input_axes", "axes");
  list("scan_input_directions", "directions");
  list("scan_output_axes", "output_axes");
  list("scan_output_directions", "output_directions");
  with_bodies(node, "scan", std::move(inputs), std::move(attributes), {body});
}

constexpr OperatorEntry kOperators[] = {
    {"If", branch},
    {"Loop", loop},
    {"Scan", scan, nullptr, 9},
};

}  // namespace

OperatorList control_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
