// Which kinds of nodes and which ONNX operators have gradients, found by asking: each operator is imported as
// a node of its own, and gradients of its first output by each of its inputs are added. docs/gradients.md has
// the tables.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <dlprim/net_training.hpp>
#include <dlprim/onnx.hpp>

#include "cases/onnx_writer.hpp"
#include "net/gradients/rule.hpp"
#include "onnx/operators.hpp"

namespace dlprim::test {

/// Attributes that an operator does not come without.
inline std::vector<onnx_writer::Message> needed_attributes(const std::string& op) {
  using onnx_writer::attribute;
  const std::vector<int64_t> window{2, 2};
  if (op == "AveragePool" || op == "MaxPool" || op == "LpPool" || op == "MaxUnpool")
    return {attribute("kernel_shape", window)};
  if (op == "MaxRoiPool") return {attribute("pooled_shape", window)};
  if (op == "BatchNormalization") return {attribute("training_mode", 1)};
  if (op == "Cast") return {attribute("to", 1)};
  if (op == "BitCast") return {attribute("to", 6)};
  if (op == "BitShift") return {attribute("direction", "LEFT")};
  if (op == "DepthToSpace" || op == "SpaceToDepth") return {attribute("blocksize", 2)};
  if (op == "GroupNormalization") return {attribute("num_groups", 1)};
  if (op == "Einsum") return {attribute("equation", "ij,jk->ik")};
  if (op == "LinearAttention" || op == "Attention" || op == "GroupQueryAttention")
    return {attribute("q_num_heads", 1), attribute("kv_num_heads", 1)};
  return {};
}

/// The model of one node with inputs i0, i1, ... of f32, of any shape, and its first output.
inline NetGraph node_alone(const onnx::OperatorEntry& entry, int inputs, int outputs,
                           std::vector<onnx_writer::Message> attributes) {
  using namespace onnx_writer;
  Graph g;
  std::vector<std::string> in, out;
  for (int k = 0; k < inputs; k++) {
    in.push_back("i" + std::to_string(k));
    g.inputs.push_back(Message().text(1, in.back()).message(2, tensor_type(ElementType::f32)));
  }
  for (int k = 0; k < outputs; k++) out.push_back("o" + std::to_string(k));
  g.outputs = {Message().text(1, "o0").message(2, tensor_type(ElementType::f32))};
  g.nodes = {node(entry.name, in, out, attributes, entry.domain)};
  Message made = model(graph(g), 28);
  if (*entry.domain) made.message(8, opset(entry.domain, 1));
  return onnx::parse_graph(made.bytes());
}

/// The inputs by which an operator's first output has gradients: "0 1"; "none".
inline std::string gradient_inputs(const onnx::OperatorEntry& entry) {
  constexpr int kMostInputs = 8;
  const std::string op = entry.name;
  std::set<int> found;
  for (int outputs : {1, 3})
    for (int inputs = kMostInputs; inputs >= 1; inputs--) {
      NetGraph graph;
      try {
        graph = node_alone(entry, inputs, outputs, needed_attributes(op));
      } catch (const Error&) {
        continue;  // it takes fewer inputs, or gives fewer outputs
      }
      for (int k = 0; k < inputs; k++) {
        NetGraph grown = graph;
        try {
          if (add_gradients(grown, graph.outputs[0], {graph.inputs[static_cast<size_t>(k)]})[0] !=
              NetGraph::kNone)
            found.insert(k);
        } catch (const ValidationError&) {  // it has none
        }
      }
    }
  std::string text;
  for (int k : found) text += (text.empty() ? "" : " ") + std::to_string(k);
  return found.empty() ? "none" : text;
}

/// The tables of docs/gradients.md.
inline std::string gradient_tables() {
  std::string with, without;
  for (const std::string& kind : node_kinds()) {
    std::string& list = detail::find_gradient_rule(kind) ? with : without;
    list += (list.empty() ? "`" : ", `") + kind + "`";
  }
  std::string text = "Kinds of nodes with gradients: " + with + ".\n\nWithout: " + without +
                     ".\n\n| operator | inputs with gradients |\n| --- | --- |\n";
  std::map<std::string, std::string> rows;
  for (const onnx::OperatorEntry* entry : onnx::all_operators()) {
    const std::string name = (*entry->domain ? std::string(entry->domain) + "." : "") + entry->name;
    if (rows.count(name) == 0)
      rows[name] = gradient_inputs(*onnx::find_operator(entry->domain, entry->name, *entry->domain ? 1 : 28));
  }
  for (const auto& [name, inputs] : rows) text += "| " + name + " | " + inputs + " |\n";
  return text;
}

}  // namespace dlprim::test
