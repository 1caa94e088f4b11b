// What the two halves of the reader of ONNX's messages (proto.cpp and proto_graph.cpp) know of each other,
// and the limits that both count against. Users want proto.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/text.hpp"
#include "onnx/proto.hpp"
#include "onnx/wire.hpp"

namespace dlprim::onnx {

/// What is left of the limits while a file is read.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), messages_left_(limits.messages) {}

  /// Counts one message, or one text of a list: each takes some hundred bytes of memory for two of the file.
  void count(const Cursor& at) {
    if (messages_left_-- <= 0)
      at.refuse(detail::cat("the file has more than ", limits_.messages, " messages and names"));
  }
  /// The message that is the field's value, counted.
  Cursor message(Cursor& in, const char* name) {
    count(in);
    return in.message(name);
  }
  std::string name(Cursor& in) const {
    const std::string_view name = in.bytes();
    if (static_cast<int64_t>(name.size()) > limits_.name_bytes)
      in.refuse(detail::cat("a name of ", name.size(), " bytes, must be at most ", limits_.name_bytes));
    return std::string(name);
  }
  void append_name(Cursor& in, std::vector<std::string>& names) {
    count(in);
    names.push_back(name(in));
  }
  void append_text(Cursor& in, std::vector<std::string>& texts) {
    count(in);
    texts.push_back(in.text());
  }

  /// One graph in a graph, or one type in a type, as long as it lives.
  class Level {
   public:
    Level(int& depth, int most, const Cursor& at) : depth_(depth) {
      if (depth >= most) at.refuse(detail::cat("is nested more than ", most, " deep"));
      depth++;
    }
    ~Level() { depth_--; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };
  Level graph_level(const Cursor& at) { return {graphs_, limits_.depth, at}; }
  Level type_level(const Cursor& at) { return {types_, limits_.depth, at}; }

 private:
  Limits limits_;
  int64_t messages_left_;
  int graphs_ = 0, types_ = 0;
};

/// Each puts a message's fields into what may hold those of the same field's earlier message: lists grow,
/// other values are replaced, messages are merged.
void read(Cursor in, Entry& entry, Budget& budget);
void read(Cursor in, TensorMessage& tensor, Budget& budget);
void read(Cursor in, SparseTensorMessage& sparse, Budget& budget);
void read(Cursor in, TypeMessage& type, Budget& budget);
void read(Cursor in, ValueInfoMessage& info, Budget& budget);
void read(Cursor in, AttributeMessage& attribute, Budget& budget);
void read(Cursor in, NodeMessage& node, Budget& budget);
void read(Cursor in, GraphMessage& graph, Budget& budget);
void read(Cursor in, OpsetMessage& opset, Budget& budget);
void read(Cursor in, FunctionMessage& function, Budget& budget);
void read(Cursor in, ModelMessage& model, Budget& budget);

/// Reads the field's message into a new element of `list`.
template <class Message>
void append(Cursor& in, const char* name, std::vector<Message>& list, Budget& budget) {
  const Cursor inner = budget.message(in, name);
  list.emplace_back();
  read(inner, list.back(), budget);
}

}  // namespace dlprim::onnx
