// Bytes that are no ONNX file: each way in which they can be broken has its message, and none is read beyond;
// the limits of what a file may hold.
#include <memory>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "onnx/proto.hpp"

using namespace dlprim;
using namespace dlprim::onnx;
using namespace dlprim::test;
namespace make = dlprim::test::onnx_writer;
using make::Message;

namespace {

/// Why a model of these bytes is refused.
std::string refusal_of(const std::string& bytes, const Limits& limits = {}) {
  try {
    parse_model(bytes, limits);
  } catch (const ValidationError& error) {
    CHECK(error.argument() == "bytes");
    const std::string text = error.what(), head = "bytes: no valid ONNX message: ";
    REQUIRE(text.substr(0, head.size()) == head);
    return text.substr(head.size());
  }
  return "(nothing was thrown)";
}
std::string refusal_of(const Message& model, const Limits& limits = {}) {
  return refusal_of(model.bytes(), limits);
}

/// A type that has `type` as what it is a sequence of.
Message sequence_of(const Message& type) {
  return Message().message(4, Message().message(1, type));
}

/// A model with something in every message that is read.
Message rich_model() {
  make::Graph inner;
  inner.nodes = {make::node("Identity", {"a"}, {"b"})};
  make::Graph parts;
  parts.nodes = {make::node(
      "If", {"c"}, {"d"},
      {make::graph_attribute("then_branch", make::graph(inner)), make::attribute("k", 7),
       make::attribute("f", 0.5f), make::attribute("s", "text"),
       make::attribute("is", std::vector<int64_t>{1, -2}), make::attribute("fs", std::vector<float>{1, 2}),
       make::attribute("ss", std::vector<std::string>{"x", ""}),
       make::tensor_attribute("t", make::tensor("", ElementType::f32, {1}, "abcd"))},
      "some.domain")};
  parts.initializers = {make::tensor("w", ElementType::i64, {2}).packed(7, std::vector<int64_t>{5, -6}),
                        make::external_tensor("e", ElementType::f32, {2}, {{"location", "x.bin"}})};
  parts.sparse_initializers = {make::sparse_tensor(make::tensor("v", ElementType::f32, {1}, "abcd"),
                                                   make::tensor("", ElementType::i64, {1}, "12345678"), {9})};
  parts.inputs = {make::value("c", ElementType::boolean, {}), make::value("x", ElementType::f32, {"N", 3})};
  parts.outputs = {make::value("d", ElementType::f32, {1, 2})};
  parts.values = {Message().text(1, "m").message(2, sequence_of(make::tensor_type(ElementType::f16)))};
  const Message function = Message()
                               .text(1, "F")
                               .text(4, "in")
                               .text(5, "out")
                               .text(6, "alpha")
                               .message(7, make::node("Neg", {"in"}, {"out"}))
                               .message(9, make::opset("", 20))
                               .text(10, "my")
                               .message(11, make::attribute("beta", 2))
                               .text(13, "o");
  return make::model(make::graph(parts)).message(14, make::entry("key", "value")).message(25, function);
}

}  // namespace

TEST_CASE("a list in very many pieces takes no square of time") {
  Message tensor;
  for (int i = 0; i < 300'000; i++)
    tensor.packed(7, std::vector<int64_t>{i}).packed(4, std::vector<float>{1});
  const TensorMessage parsed = parse_tensor(tensor.bytes());
  CHECK(parsed.int64_data.size() == 300'000);
  CHECK(parsed.int64_data.back() == 299'999);
  CHECK(parsed.float_data.size() == 300'000);
}

TEST_CASE("fields that are not known are skipped, of every wire type") {
  const Message unknown =
      Message().integer(1000, -1).real(1001, 1).text(1002, "text").number(1003, 1).integer(536870911, 1);
  const std::string text = unknown.bytes();
  Message model = Message().raw(text).integer(1, 8).raw(text);
  make::Graph parts;
  parts.nodes = {make::node("A", {"x"}, {"y"}, {make::attribute("k", 3).raw(text)}).raw(text)};
  parts.inputs = {make::value("x", ElementType::f32, {2}).raw(text)};
  parts.initializers = {make::tensor("w", ElementType::f32, {1}, "abcd").raw(text)};
  model.message(7, make::graph(parts).raw(text)).message(8, make::opset("", 9).raw(text));
  const ModelMessage parsed = parse_model(model.bytes());
  CHECK(parsed.ir_version == 8);
  CHECK(parsed.opsets.at(0).version == 9);
  CHECK(parsed.graph.nodes.at(0).attributes.at(0).integer == 3);
  CHECK(parsed.graph.inputs.at(0).type.shape.at(0).size == 2);
  CHECK(parsed.graph.initializers.at(0).raw_data == "abcd");
}

TEST_CASE("a model cut off anywhere is refused or read, never read beyond") {
  const std::string whole = rich_model().bytes();
  CHECK(parse_model(whole).functions.size() == 1);
  int refused = 0;
  for (size_t size = 0; size < whole.size(); size++) {
    // A copy of its own, so that a sanitizer sees one byte too much.
    const std::unique_ptr<char[]> copy(new char[size]);
    std::copy_n(whole.data(), size, copy.get());
    try {
      parse_model(std::string_view(copy.get(), size));
    } catch (const ValidationError& error) {
      CHECK_THAT(error.what(), contains("left") || contains("end inside of a number"));
      refused++;
    }
  }
  // All but where a field of the model itself ends.
  CHECK(refused == static_cast<int>(whole.size()) - 5);
}

TEST_CASE("every byte of a model may be another one") {
  const std::string whole = rich_model().bytes();
  int read = 0, refused = 0;
  for (size_t i = 0; i < whole.size(); i++)
    for (int change : {0x01, 0x02, 0x08, 0x80, 0xff}) {
      std::string broken = whole;
      broken[i] = static_cast<char>(broken[i] ^ change);
      try {
        parse_model(broken);
        read++;
      } catch (const ValidationError&) {
        refused++;
      }
    }
  CHECK(read > 100);
  CHECK(refused > 100);
}

TEST_CASE("the wire format's faults have their messages") {
  const auto bytes = [](std::initializer_list<int> values) {
    std::string text;
    for (int value : values) text += static_cast<char>(value);
    return text;
  };
  CHECK(refusal_of(bytes({0x08})) == "ModelProto, field 1 at byte 0: the bytes end inside of a number");
  CHECK(refusal_of(bytes({0x80})) == "ModelProto, field 0 at byte 0: the bytes end inside of a number");
  CHECK(refusal_of(bytes({0x00})) == "ModelProto, field 0 at byte 0: a field's number must not be 0");
  CHECK(refusal_of(bytes({0x08, 1, 0x0b})) ==
        "ModelProto, field 1 at byte 2: is a group, which ONNX does not have");
  CHECK(refusal_of(bytes({0x0c})) == "ModelProto, field 1 at byte 0: is a group, which ONNX does not have");
  CHECK(refusal_of(bytes({0x0e})) == "ModelProto, field 1 at byte 0: wire type 6 does not exist");
  CHECK(refusal_of(bytes({0x0f})) == "ModelProto, field 1 at byte 0: wire type 7 does not exist");
  CHECK(refusal_of(Message().raw_varint(uint64_t{1} << 32)) ==
        "ModelProto, field 0 at byte 0: the field's tag 4294967296 has more than 32 bits");
  CHECK(refusal_of(Message().tag(2, 2).raw_varint(3).raw("ab")) ==
        "ModelProto, field 2 at byte 0: needs 3 bytes, but 2 are left");
  CHECK(refusal_of(Message().integer(1, 7).number(1, 1)) ==
        "ModelProto, field 1 at byte 2: wire type 5 must be 0");
  CHECK(refusal_of(Message().integer(2, 7)) == "ModelProto, field 2 at byte 0: wire type 0 must be 2");
  for (uint32_t field : {1000u, 2u, 7u})  // skipped, a text, a message
    for (uint64_t length : {UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63, (uint64_t{1} << 63) - 1,
                            uint64_t{1} << 32, uint64_t{3}})
      CHECK_THAT(refusal_of(Message().tag(field, 2).raw_varint(length).raw("ab")),
                 contains("needs " + std::to_string(length) + " bytes, but 2 are left"));
  CHECK_THAT(refusal_of(Message().tag(1000, 1).raw("1234567")), contains("needs 8 bytes, but 7 are left"));
  CHECK_THAT(refusal_of(Message().tag(1000, 5).raw("123")), contains("needs 4 bytes, but 3 are left"));
}

TEST_CASE("errors count bytes from the start of the file and name the message") {
  const Message inner = Message().text(2, "graph").message(1, Message().text(4, "Conv").integer(4, 1));
  CHECK(refusal_of(Message().integer(1, 8).message(7, inner)) ==
        "NodeProto, field 4 at byte 19: wire type 0 must be 2");
  // A message ends where its own bytes end, though those of the outer one go on.
  const Message cut = Message().message(7, Message().tag(2, 2).raw_varint(4).raw("ab")).text(2, "producer");
  CHECK(refusal_of(cut) == "GraphProto, field 2 at byte 2: needs 4 bytes, but 2 are left");
}

TEST_CASE("numbers of more than ten bytes or 64 bits are refused") {
  const std::string nine(9, '\xff');
  CHECK(parse_model(Message().tag(1, 0).raw(nine + '\x01').bytes()).ir_version == -1);
  CHECK(parse_model(Message().tag(1, 0).raw(std::string("\x81\x80\x80\x00", 4)).bytes()).ir_version == 1);
  CHECK(parse_model(Message().tag(1, 0).raw("\x81" + std::string(8, '\x80') + '\0').bytes()).ir_version == 1);
  const std::string reason = "ModelProto, field 1 at byte 0: a number has more than 64 bits";
  CHECK(refusal_of(Message().tag(1, 0).raw(nine + '\x02')) == reason);
  CHECK(refusal_of(Message().tag(1, 0).raw(nine + '\x81' + '\0')) == reason);
  CHECK(refusal_of(Message().tag(1, 0).raw(std::string(20, '\x80'))) == reason);
}

TEST_CASE("numbers that do not fit are refused, and lists that are no whole count") {
  const auto tensor_refusal = [](const Message& tensor) {
    return refusal_of(Message().message(7, Message().message(5, tensor)));
  };
  CHECK_THAT(tensor_refusal(Message().integer(2, int64_t{1} << 31)),
             contains("2147483648 does not fit in 32"));
  CHECK_THAT(tensor_refusal(Message().integer(5, -(int64_t{1} << 32))),
             contains("-4294967296 does not fit in 32"));
  CHECK_THAT(tensor_refusal(Message().packed(5, std::vector<int64_t>{1, int64_t{1} << 40})),
             contains("1099511627776 does not fit in 32 bits"));
  CHECK_THAT(tensor_refusal(Message().text(4, "12345")),
             contains("a list of 5 bytes is no whole count of numbers of 4 bytes"));
  CHECK_THAT(tensor_refusal(Message().text(10, "1234")),
             contains("a list of 4 bytes is no whole count of numbers of 8 bytes"));
  CHECK_THAT(tensor_refusal(Message().text(7, "\x01\x80")), contains("the bytes end inside of a number"));
  // The list's last number must not take its end from the field behind it.
  CHECK_THAT(tensor_refusal(Message().text(7, "\x01\x80").text(8, "w")),
             contains("the bytes end inside of a number"));
  for (uint32_t field : {1u, 5u, 7u, 11u})
    CHECK_THAT(tensor_refusal(Message().number(field, 1)), contains("must be"));
  CHECK_THAT(tensor_refusal(Message().real(4, 1)), contains("wire type 1 must be 2"));
  CHECK_THAT(tensor_refusal(Message().number(10, 1)), contains("wire type 5 must be 2"));
}

TEST_CASE("graphs in graphs are read to the limit's depth") {
  const auto nested = [](int count) {
    Message graph = Message().text(2, "innermost");
    for (int i = 1; i < count; i++)
      graph = Message().message(1, Message().message(5, make::graph_attribute("body", graph)));
    return make::model(graph);
  };
  const std::string at_limit = nested(32).bytes();  // the message has views of it
  const ModelMessage model = parse_model(at_limit);
  const GraphMessage* graph = &model.graph;
  for (int i = 1; i < 32; i++) graph = &graph->nodes.at(0).attributes.at(0).graphs.at(0);
  CHECK(graph->name == "innermost");
  CHECK_THAT(refusal_of(nested(33)), contains("is nested more than 32 deep"));
  CHECK_THAT(refusal_of(nested(2000)), contains("is nested more than 32 deep"));
  Limits limits;
  limits.depth = 2;
  CHECK_NOTHROW(parse_model(nested(2).bytes(), limits));
  CHECK_THAT(refusal_of(nested(3), limits), contains("is nested more than 2 deep"));
  // Beside each other they are no deeper.
  Message wide;
  for (int i = 0; i < 40; i++)
    wide.message(1, Message().message(5, make::graph_attribute("body", Message().text(2, "g"))));
  CHECK(parse_model(make::model(wide).bytes()).graph.nodes.size() == 40);
}

TEST_CASE("types in types are read to the limit's depth") {
  const auto nested = [](int count) {
    Message type = make::tensor_type(ElementType::f32);
    for (int i = 1; i < count; i++) type = sequence_of(type);
    return Message().message(7, Message().message(13, Message().message(2, type)));
  };
  CHECK_NOTHROW(parse_model(nested(32).bytes()));
  CHECK_THAT(refusal_of(nested(33)), contains("is nested more than 32 deep"));
  CHECK_THAT(refusal_of(nested(2000)), contains("is nested more than 32 deep"));
}

TEST_CASE("the count of messages and the length of names are limited") {
  Limits limits;
  limits.messages = 4;  // a graph, a node, its two names
  const Message fits = Message().message(7, Message().message(1, Message().text(1, "a").text(2, "b")));
  CHECK_NOTHROW(parse_model(fits.bytes(), limits));
  const auto beyond = [&](Message node) {
    return refusal_of(Message().message(7, Message().message(1, node.text(1, "a").text(2, "b"))), limits);
  };
  const std::string reason = "the file has more than 4 messages and names";
  CHECK_THAT(beyond(Message().text(1, "c")), contains(reason));
  CHECK_THAT(beyond(Message().message(5, Message())), contains(reason));
  CHECK_THAT(refusal_of(Message()
                            .message(7, Message())
                            .message(7, Message())
                            .message(7, Message())
                            .message(7, Message())
                            .message(7, Message()),
                        limits),
             contains(reason));
  Message dimensions, strings;
  for (int i = 0; i < 5; i++) {
    dimensions.message(1, Message());
    strings.text(6, "");
  }
  CHECK_THAT(refusal_of(Message().message(7, Message().message(5, strings)), limits), contains(reason));
  Limits more = limits;
  more.messages = 8;  // of them five for the graph, the value, its type, the tensor's, its shape
  const auto shaped = Message().message(2, Message().message(1, Message().message(2, dimensions)));
  CHECK_THAT(refusal_of(Message().message(7, Message().message(11, shaped)), more),
             contains("more than 8 messages"));
  more.messages = 10;
  CHECK_NOTHROW(parse_model(Message().message(7, Message().message(11, shaped)).bytes(), more));

  limits.name_bytes = 3;
  CHECK(parse_model(Message().text(2, "abc").bytes(), limits).producer_name == "abc");
  CHECK_THAT(refusal_of(Message().text(2, "abcd"), limits), contains("a name of 4 bytes, must be at most 3"));
  CHECK_THAT(refusal_of(Message().message(7, Message().message(1, Message().text(1, "abcd"))), limits),
             contains("a name of 4 bytes, must be at most 3"));
  CHECK_NOTHROW(parse_model(Message().message(14, make::entry("abc", "a long value")).bytes(), limits));
  CHECK_THAT(refusal_of(Message().text(4, std::string(4097, 'a'))), contains("a name of 4097 bytes"));
}
