// The half of ONNX's messages that describes what is computed: attributes, nodes, graphs, functions, models.
// The other half is proto.cpp. Numbers of fields are those of onnx.proto3. Not read: documentation, metadata
// of other messages than the model, quantization annotations, training, devices.
#include <optional>
#include <utility>

#include "onnx/proto_parts.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;
using Type = AttributeMessage::Type;

/// All that an attribute's fields said, before its type decides which of it counts.
struct Fields {
  AttributeMessage lists;
  std::optional<float> number;
  std::optional<int64_t> integer;
  std::optional<std::string> string;
  std::optional<TensorMessage> tensor;
  std::optional<SparseTensorMessage> sparse_tensor;
  std::optional<GraphMessage> graph;
  std::optional<TypeMessage> type;
};

/// A field that may stand once: of an earlier one's message the values stay.
template <class Message>
void merge(Cursor& in, const char* name, std::optional<Message>& message, Budget& budget) {
  const Cursor inner = budget.message(in, name);
  if (!message) message.emplace();
  read(inner, *message, budget);
}

/// False if the field is none that holds a value.
bool read_value(Cursor& in, Fields& fields, Budget& budget) {
  switch (in.field()) {
    case 2:
      return fields.number = in.number(), true;
    case 3:
      return fields.integer = in.integer(), true;
    case 4:
      return fields.string = in.text(), true;
    case 5:
      return merge(in, "TensorProto", fields.tensor, budget), true;
    case 6:
      return merge(in, "GraphProto", fields.graph, budget), true;
    case 7:
      return in.append_to(fields.lists.numbers), true;
    case 8:
      return in.append_to(fields.lists.integers), true;
    case 9:
      return budget.append_text(in, fields.lists.strings), true;
    case 10:
      return append(in, "TensorProto", fields.lists.tensors, budget), true;
    case 11:
      return append(in, "GraphProto", fields.lists.graphs, budget), true;
    case 14:
      return merge(in, "TypeProto", fields.type, budget), true;
    case 15:
      return append(in, "TypeProto", fields.lists.types, budget), true;
    case 22:
      return merge(in, "SparseTensorProto", fields.sparse_tensor, budget), true;
    case 23:
      return append(in, "SparseTensorProto", fields.lists.sparse_tensors, budget), true;
    default:
      return false;
  }
}

/// The type that the fields suggest where the file does not name one.
Type guessed_type(const Cursor& in, const Fields& fields) {
  const AttributeMessage& lists = fields.lists;
  const std::pair<bool, Type> there[] = {{fields.number.has_value(), Type::number},
                                         {fields.integer.has_value(), Type::integer},
                                         {fields.string.has_value(), Type::string},
                                         {fields.tensor.has_value(), Type::tensor},
                                         {fields.graph.has_value(), Type::graph},
                                         {fields.sparse_tensor.has_value(), Type::sparse_tensor},
                                         {fields.type.has_value(), Type::type},
                                         {!lists.numbers.empty(), Type::numbers},
                                         {!lists.integers.empty(), Type::integers},
                                         {!lists.strings.empty(), Type::strings},
                                         {!lists.tensors.empty(), Type::tensors},
                                         {!lists.graphs.empty(), Type::graphs},
                                         {!lists.sparse_tensors.empty(), Type::sparse_tensors},
                                         {!lists.types.empty(), Type::types}};
  Type type = Type::undefined;
  for (const auto& [is_there, its_type] : there) {
    if (!is_there) continue;
    if (type != Type::undefined)
      in.refuse(
          cat("attribute '", lists.name, "' has values of several types and does not say which counts"));
    type = its_type;
  }
  return type;
}

/// Puts the one message of a type that has one into `list`. An attribute that refers to a function's has
/// none.
template <class Message>
void settle_message(const Cursor& in, const AttributeMessage& attribute, const char* name,
                    std::optional<Message>& message, std::vector<Message>& list) {
  if (!message && attribute.reference.empty())
    in.refuse(cat("attribute '", attribute.name, "' is a ", name, " but has none"));
  if (message) list.push_back(std::move(*message));
}

/// Takes the value that the type names, and no other. A number or a text that is not there is 0 or empty:
/// some writers leave out what they take for a default.
void settle(const Cursor& in, Fields& fields, AttributeMessage& attribute) {
  AttributeMessage& lists = fields.lists;
  switch (attribute.type) {
    case Type::undefined:
      return;
    case Type::number:
      return void(attribute.number = fields.number.value_or(0.0f));
    case Type::integer:
      return void(attribute.integer = fields.integer.value_or(0));
    case Type::string:
      return void(attribute.string = std::move(fields.string).value_or(""));
    case Type::tensor:
      return settle_message(in, attribute, "tensor", fields.tensor, attribute.tensors);
    case Type::graph:
      return settle_message(in, attribute, "graph", fields.graph, attribute.graphs);
    case Type::sparse_tensor:
      return settle_message(in, attribute, "sparse tensor", fields.sparse_tensor, attribute.sparse_tensors);
    case Type::type:
      return settle_message(in, attribute, "type", fields.type, attribute.types);
    case Type::numbers:
      return attribute.numbers.swap(lists.numbers);
    case Type::integers:
      return attribute.integers.swap(lists.integers);
    case Type::strings:
      return attribute.strings.swap(lists.strings);
    case Type::tensors:
      return attribute.tensors.swap(lists.tensors);
    case Type::graphs:
      return attribute.graphs.swap(lists.graphs);
    case Type::sparse_tensors:
      return attribute.sparse_tensors.swap(lists.sparse_tensors);
    case Type::types:
      return attribute.types.swap(lists.types);
  }
}

}  // namespace

void read(Cursor in, AttributeMessage& attribute, Budget& budget) {
  Fields fields;
  while (in.next()) {
    if (read_value(in, fields, budget)) continue;
    switch (in.field()) {
      case 1:
        attribute.name = budget.name(in);
        break;
      case 20: {
        const int64_t type = in.integer();
        if (type < 0 || type > static_cast<int64_t>(Type::types))
          in.refuse(cat("attribute type ", type, " does not exist"));
        attribute.type = static_cast<Type>(type);
        break;
      }
      case 21:
        attribute.reference = budget.name(in);
        break;
      default:
        in.skip();
    }
  }
  fields.lists.name = attribute.name;
  if (attribute.type == Type::undefined) attribute.type = guessed_type(in, fields);
  settle(in, fields, attribute);
}

void read(Cursor in, NodeMessage& node, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:
        budget.append_name(in, node.inputs);
        break;
      case 2:
        budget.append_name(in, node.outputs);
        break;
      case 3:
        node.name = budget.name(in);
        break;
      case 4:
        node.op_type = budget.name(in);
        break;
      case 5:
        append(in, "AttributeProto", node.attributes, budget);
        break;
      case 7:
        node.domain = budget.name(in);
        break;
      case 8:
        node.overload = budget.name(in);
        break;
      default:
        in.skip();
    }
}

void read(Cursor in, GraphMessage& graph, Budget& budget) {
  const Budget::Level level = budget.graph_level(in);
  while (in.next()) switch (in.field()) {
      case 1:
        append(in, "NodeProto", graph.nodes, budget);
        break;
      case 2:
        graph.name = budget.name(in);
        break;
      case 5:
        append(in, "TensorProto", graph.initializers, budget);
        break;
      case 11:
        append(in, "ValueInfoProto", graph.inputs, budget);
        break;
      case 12:
        append(in, "ValueInfoProto", graph.outputs, budget);
        break;
      case 13:
        append(in, "ValueInfoProto", graph.value_infos, budget);
        break;
      case 15:
        append(in, "SparseTensorProto", graph.sparse_initializers, budget);
        break;
      default:
        in.skip();
    }
}

void read(Cursor in, OpsetMessage& opset, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:
        opset.domain = budget.name(in);
        break;
      case 2:
        opset.version = in.integer();
        break;
      default:
        in.skip();
    }
}

void read(Cursor in, FunctionMessage& function, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:
        function.name = budget.name(in);
        break;
      case 4:
        budget.append_name(in, function.inputs);
        break;
      case 5:
        budget.append_name(in, function.outputs);
        break;
      case 6:
        budget.append_name(in, function.attributes);
        break;
      case 7:
        append(in, "NodeProto", function.nodes, budget);
        break;
      case 9:
        append(in, "OperatorSetIdProto", function.opsets, budget);
        break;
      case 10:
        function.domain = budget.name(in);
        break;
      case 11:
        append(in, "AttributeProto", function.attribute_defaults, budget);
        break;
      case 13:
        function.overload = budget.name(in);
        break;
      default:
        in.skip();
    }
}

void read(Cursor in, ModelMessage& model, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:
        model.ir_version = in.integer();
        break;
      case 2:
        model.producer_name = budget.name(in);
        break;
      case 3:
        model.producer_version = budget.name(in);
        break;
      case 4:
        model.domain = budget.name(in);
        break;
      case 7:
        model.has_graph = true;
        read(budget.message(in, "GraphProto"), model.graph, budget);
        break;
      case 8:
        append(in, "OperatorSetIdProto", model.opsets, budget);
        break;
      case 14:
        append(in, "StringStringEntryProto", model.metadata, budget);
        break;
      case 25:
        append(in, "FunctionProto", model.functions, budget);
        break;
      default:
        in.skip();
    }
}

ModelMessage parse_model(std::string_view bytes, const Limits& limits) {
  ModelMessage model;
  Budget budget(limits);
  read(Cursor(bytes, "ModelProto"), model, budget);
  return model;
}

}  // namespace dlprim::onnx
