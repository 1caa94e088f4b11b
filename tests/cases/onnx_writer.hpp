// Writes ONNX messages for tests: a small writer of protobuf's wire format, and on it what tests say often:
// tensors, attributes, nodes, values, graphs, models. It checks nothing, so that broken messages can be
// written as well.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "onnx/proto.hpp"

namespace dlprim::test::onnx_writer {

using onnx::AttributeMessage;
using onnx::ElementType;

/// A message's bytes, a field behind the other.
class Message {
 public:
  Message& tag(uint32_t field, int wire_type) {
    return raw_varint(uint64_t{field} << 3 | unsigned(wire_type));
  }
  Message& raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  Message& raw(const std::string& bytes) { return bytes_ += bytes, *this; }
  template <class T>
  Message& raw_value(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    return raw(std::string(bytes, sizeof(T)));
  }

  Message& integer(uint32_t field, int64_t value) {
    return tag(field, 0).raw_varint(static_cast<uint64_t>(value));
  }
  Message& number(uint32_t field, float value) { return tag(field, 5).raw_value(value); }
  Message& real(uint32_t field, double value) { return tag(field, 1).raw_value(value); }
  Message& text(uint32_t field, const std::string& bytes) {
    return tag(field, 2).raw_varint(bytes.size()).raw(bytes);
  }
  Message& message(uint32_t field, const Message& inner) { return text(field, inner.bytes_); }

  /// A list of numbers, packed into one field or each one a field, as writers do either.
  template <class T>
  Message& packed(uint32_t field, const std::vector<T>& values) {
    Message list;
    for (T value : values) list.raw_number(value);
    return message(field, list);
  }
  template <class T>
  Message& unpacked(uint32_t field, const std::vector<T>& values) {
    const int wire_type = std::is_integral_v<T> ? 0 : sizeof(T) == 4 ? 5 : 1;
    for (T value : values) tag(field, wire_type).raw_number(value);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  void raw_number(T value) {
    if constexpr (std::is_integral_v<T>)
      raw_varint(static_cast<uint64_t>(static_cast<int64_t>(value)));
    else
      raw_value(value);
  }

  std::string bytes_;
};

inline Message entry(const std::string& key, const std::string& value) {
  return Message().text(1, key).text(2, value);
}
inline Message opset(const std::string& domain, int64_t version) {
  return Message().text(1, domain).integer(2, version);
}

/// The bytes of values, as raw_data has them.
template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  Message bytes;
  for (T value : values) bytes.raw_value(value);
  return bytes.bytes();
}

/// TensorProto without data; with raw data; with data in another file.
inline Message tensor(const std::string& name, ElementType type, const std::vector<int64_t>& dims) {
  return Message().unpacked(1, dims).integer(2, static_cast<int64_t>(type)).text(8, name);
}
inline Message tensor(const std::string& name, ElementType type, const std::vector<int64_t>& dims,
                      const std::string& raw_data) {
  return tensor(name, type, dims).text(9, raw_data);
}
inline Message external_tensor(const std::string& name, ElementType type, const std::vector<int64_t>& dims,
                               const std::vector<std::pair<std::string, std::string>>& entries) {
  Message made = tensor(name, type, dims);
  for (const auto& [key, value] : entries) made.message(13, entry(key, value));
  return made.integer(14, 1);
}
inline Message sparse_tensor(const Message& values, const Message& indices,
                             const std::vector<int64_t>& dims) {
  return Message().message(1, values).message(2, indices).unpacked(3, dims);
}

/// A size, or a name for it.
struct Dimension {
  Dimension(int64_t value) : size(value) {}                // NOLINT: a list of sizes is the usual case
  Dimension(int value) : size(value) {}                    // NOLINT
  Dimension(const char* name) : size(-1), symbol(name) {}  // NOLINT
  int64_t size;
  std::string symbol;
};
inline Message shape(const std::vector<Dimension>& dims) {
  Message made;
  for (const Dimension& dim : dims)
    made.message(1, dim.symbol.empty() ? Message().integer(1, dim.size) : Message().text(2, dim.symbol));
  return made;
}
/// TypeProto of a tensor, with a shape or without.
inline Message tensor_type(ElementType type) {
  return Message().message(1, Message().integer(1, static_cast<int64_t>(type)));
}
inline Message tensor_type(ElementType type, const std::vector<Dimension>& dims) {
  return Message().message(1, Message().integer(1, static_cast<int64_t>(type)).message(2, shape(dims)));
}
inline Message value(const std::string& name, ElementType type, const std::vector<Dimension>& dims) {
  return Message().text(1, name).message(2, tensor_type(type, dims));
}

/// AttributeProto, of each type.
inline Message typed_attribute(const std::string& name, AttributeMessage::Type type) {
  return Message().text(1, name).integer(20, static_cast<int64_t>(type));
}
inline Message attribute(const std::string& name, int64_t value) {
  return typed_attribute(name, AttributeMessage::Type::integer).integer(3, value);
}
inline Message attribute(const std::string& name, int value) {
  return attribute(name, int64_t{value});
}
inline Message attribute(const std::string& name, float value) {
  return typed_attribute(name, AttributeMessage::Type::number).number(2, value);
}
inline Message attribute(const std::string& name, const std::string& value) {
  return typed_attribute(name, AttributeMessage::Type::string).text(4, value);
}
inline Message attribute(const std::string& name, const char* value) {
  return attribute(name, std::string(value));
}
inline Message attribute(const std::string& name, const std::vector<int64_t>& values) {
  return typed_attribute(name, AttributeMessage::Type::integers).unpacked(8, values);
}
inline Message attribute(const std::string& name, const std::vector<float>& values) {
  return typed_attribute(name, AttributeMessage::Type::numbers).unpacked(7, values);
}
inline Message attribute(const std::string& name, const std::vector<std::string>& values) {
  Message made = typed_attribute(name, AttributeMessage::Type::strings);
  for (const std::string& text : values) made.text(9, text);
  return made;
}
inline Message tensor_attribute(const std::string& name, const Message& tensor) {
  return typed_attribute(name, AttributeMessage::Type::tensor).message(5, tensor);
}
inline Message graph_attribute(const std::string& name, const Message& graph) {
  return typed_attribute(name, AttributeMessage::Type::graph).message(6, graph);
}
/// Inside a function: the value of the function's attribute `reference`.
inline Message reference_attribute(const std::string& name, AttributeMessage::Type type,
                                   const std::string& reference) {
  return typed_attribute(name, type).text(21, reference);
}

inline Message node(const std::string& op_type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {},
                    const std::string& domain = {}) {
  Message made;
  for (const std::string& input : inputs) made.text(1, input);
  for (const std::string& output : outputs) made.text(2, output);
  made.text(4, op_type);
  for (const Message& one : attributes) made.message(5, one);
  if (!domain.empty()) made.text(7, domain);
  return made;
}

/// What a graph is made of.
struct Graph {
  std::vector<Message> nodes, initializers, inputs, outputs, values, sparse_initializers;
  std::string name = "graph";
};
inline Message graph(const Graph& parts) {
  Message made;
  const auto all = [&](uint32_t field, const std::vector<Message>& messages) {
    for (const Message& message : messages) made.message(field, message);
  };
  all(1, parts.nodes);
  made.text(2, parts.name);
  all(5, parts.initializers);
  all(11, parts.inputs);
  all(12, parts.outputs);
  all(13, parts.values);
  all(15, parts.sparse_initializers);
  return made;
}

/// ModelProto of IR 10 with the usual operators of `version`; more fields may be put behind it.
inline Message model(const Message& graph, int64_t version = 21) {
  return Message().integer(1, 10).message(7, graph).message(8, opset("", version));
}

}  // namespace dlprim::test::onnx_writer
