// ONNX's messages from their bytes: every field, lists packed or not, values and messages that stand twice.
// Broken bytes are tried in test_onnx_wire.cpp.
#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "onnx/proto.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::onnx;
using namespace dlprim::test;
namespace make = dlprim::test::onnx_writer;
using make::Message;
using Type = AttributeMessage::Type;
using Kind = TypeMessage::Kind;

namespace {

GraphMessage parsed_graph(const Message& graph) {
  return parse_model(make::model(graph).bytes()).graph;
}
AttributeMessage parsed_attribute(const Message& attribute) {
  return parsed_graph(Message().message(1, make::node("Op", {}, {}, {attribute})))
      .nodes.at(0)
      .attributes.at(0);
}
/// Why an attribute is refused, without the part that says where.
std::string attribute_refusal(const Message& attribute) {
  const std::string text = refusal([&] { parsed_attribute(attribute); });
  const size_t place = text.find(" at byte ");
  REQUIRE(place != std::string::npos);
  return text.substr(text.find(": ", place) + 2);
}
TypeMessage parsed_type(const Message& type) {
  return parsed_graph(Message().message(11, Message().text(1, "x").message(2, type))).inputs.at(0).type;
}

/// A type that has `type` as what it is a sequence of.
Message sequence_of(const Message& type) {
  return Message().message(4, Message().message(1, type));
}

}  // namespace

TEST_CASE("a model has its fields") {
  const Message model = Message()
                            .integer(1, 8)
                            .text(2, "producer")
                            .text(3, "1.2")
                            .text(4, "org.me")
                            .integer(5, 3)
                            .text(6, "documentation")
                            .message(7, Message().text(2, "main"))
                            .message(8, make::opset("", 17))
                            .message(8, make::opset("com.microsoft", 1))
                            .message(14, make::entry("key", "value"))
                            .message(20, Message().message(1, Message()))
                            .message(26, Message().text(1, "device"));
  const ModelMessage parsed = parse_model(model.bytes());
  CHECK(parsed.ir_version == 8);
  CHECK(parsed.producer_name == "producer");
  CHECK(parsed.producer_version == "1.2");
  CHECK(parsed.domain == "org.me");
  CHECK(parsed.has_graph);
  CHECK(parsed.graph.name == "main");
  REQUIRE(parsed.opsets.size() == 2);
  CHECK((parsed.opsets[0].domain.empty() && parsed.opsets[0].version == 17));
  CHECK((parsed.opsets[1].domain == "com.microsoft" && parsed.opsets[1].version == 1));
  REQUIRE(parsed.metadata.size() == 1);
  CHECK((parsed.metadata[0].key == "key" && parsed.metadata[0].value == "value"));
  CHECK_FALSE(parse_model("").has_graph);
}

TEST_CASE("a graph and its nodes have their fields") {
  const Message graph =
      Message()
          .message(1, Message()
                          .text(1, "a")
                          .text(1, "")
                          .text(2, "y")
                          .text(3, "node")
                          .text(4, "Conv")
                          .message(5, make::attribute("k", 1))
                          .text(6, "documentation")
                          .text(7, "ai.onnx")
                          .text(8, "over")
                          .message(9, make::entry("k", "v")))
          .text(2, "main")
          .message(5, make::tensor("w", ElementType::f32, {}))
          .text(10, "documentation")
          .message(11, make::value("i", ElementType::f32, {}))
          .message(12, make::value("o", ElementType::f32, {}))
          .message(13, make::value("v", ElementType::f32, {}))
          .message(14, Message().text(1, "quantized"))
          .message(15, make::sparse_tensor(make::tensor("s", ElementType::f32, {1}),
                                           make::tensor("i", ElementType::i64, {1}), {4, 5}));
  const GraphMessage parsed = parsed_graph(graph);
  CHECK(parsed.name == "main");
  REQUIRE(parsed.nodes.size() == 1);
  const NodeMessage& node = parsed.nodes[0];
  CHECK(node.inputs == std::vector<std::string>{"a", ""});
  CHECK(node.outputs == std::vector<std::string>{"y"});
  CHECK(node.name == "node");
  CHECK(node.op_type == "Conv");
  CHECK(node.domain == "ai.onnx");
  CHECK(node.overload == "over");
  CHECK(node.attributes.size() == 1);
  CHECK(parsed.initializers.at(0).name == "w");
  CHECK(parsed.inputs.at(0).name == "i");
  CHECK(parsed.outputs.at(0).name == "o");
  CHECK(parsed.value_infos.at(0).name == "v");
  const SparseTensorMessage& sparse = parsed.sparse_initializers.at(0);
  CHECK(sparse.values.name == "s");
  CHECK(sparse.indices.name == "i");
  CHECK(sparse.dims == std::vector<int64_t>{4, 5});
}

TEST_CASE("a function has its fields") {
  const Message message = Message()
                              .text(1, "F")
                              .text(4, "in")
                              .text(5, "out")
                              .text(6, "alpha")
                              .message(7, make::node("Neg", {"in"}, {"out"}))
                              .message(9, make::opset("", 20))
                              .text(10, "my")
                              .message(11, make::attribute("beta", 2))
                              .text(8, "documentation")
                              .message(12, make::value("in", ElementType::f32, {}))
                              .text(13, "o");
  const FunctionMessage function = parse_model(Message().message(25, message).bytes()).functions.at(0);
  CHECK(function.name == "F");
  CHECK(function.inputs == std::vector<std::string>{"in"});
  CHECK(function.outputs == std::vector<std::string>{"out"});
  CHECK(function.attributes == std::vector<std::string>{"alpha"});
  CHECK(function.nodes.at(0).op_type == "Neg");
  CHECK(function.opsets.at(0).version == 20);
  CHECK(function.domain == "my");
  CHECK(function.attribute_defaults.at(0).integer == 2);
  CHECK(function.overload == "o");
}

TEST_CASE("an attribute of every type has its value") {
  CHECK(parsed_attribute(make::attribute("a", 1.5f)).number == 1.5f);
  CHECK(parsed_attribute(make::attribute("a", -3)).integer == -3);
  CHECK(parsed_attribute(make::attribute("a", INT64_MIN)).integer == INT64_MIN);
  CHECK(parsed_attribute(make::attribute("a", "text")).string == "text");
  CHECK(parsed_attribute(make::attribute("a", std::vector<float>{1, 2})).numbers == std::vector<float>{1, 2});
  CHECK(parsed_attribute(make::attribute("a", std::vector<int64_t>{1, -2})).integers ==
        std::vector<int64_t>{1, -2});
  CHECK(parsed_attribute(make::attribute("a", std::vector<std::string>{"x", ""})).strings ==
        std::vector<std::string>{"x", ""});
  const Message tensor = make::tensor("t", ElementType::f32, {2});
  const Message sparse = make::sparse_tensor(tensor, tensor, {5});
  const Message graph = Message().text(2, "g");
  const Message type = make::tensor_type(ElementType::i8);
  const auto of = [](Type its_type) { return make::typed_attribute("a", its_type); };
  CHECK(parsed_attribute(of(Type::tensor).message(5, tensor)).tensors.at(0).name == "t");
  CHECK(parsed_attribute(of(Type::tensors).message(10, tensor).message(10, tensor)).tensors.size() == 2);
  CHECK(parsed_attribute(of(Type::graph).message(6, graph)).graphs.at(0).name == "g");
  CHECK(parsed_attribute(of(Type::graphs).message(11, graph).message(11, graph)).graphs.size() == 2);
  CHECK(parsed_attribute(of(Type::sparse_tensor).message(22, sparse)).sparse_tensors.at(0).dims.at(0) == 5);
  CHECK(parsed_attribute(of(Type::sparse_tensors).message(23, sparse)).sparse_tensors.at(0).dims.at(0) == 5);
  CHECK(parsed_attribute(of(Type::type).message(14, type)).types.at(0).element == ElementType::i8);
  CHECK(parsed_attribute(of(Type::types).message(15, type).message(15, type)).types.size() == 2);
  const AttributeMessage reference =
      parsed_attribute(make::reference_attribute("a", Type::tensor, "alpha").text(13, "documentation"));
  CHECK(reference.name == "a");
  CHECK(reference.reference == "alpha");
  CHECK(reference.type == Type::tensor);
  CHECK(reference.tensors.empty());
}

TEST_CASE("an attribute's type, if the file does not say it, is that of its one value") {
  const Message tensor = make::tensor("t", ElementType::f32, {2});
  const Message graph = Message().text(2, "g");
  const auto type_with = [&](Message attribute) { return parsed_attribute(attribute.text(1, "a")).type; };
  CHECK(type_with(Message()) == Type::undefined);
  CHECK(type_with(Message().number(2, 0)) == Type::number);
  CHECK(type_with(Message().integer(3, 0)) == Type::integer);
  CHECK(type_with(Message().text(4, "")) == Type::string);
  CHECK(type_with(Message().message(5, tensor)) == Type::tensor);
  CHECK(type_with(Message().message(6, graph)) == Type::graph);
  CHECK(type_with(Message().number(7, 0)) == Type::numbers);
  CHECK(type_with(Message().integer(8, 0)) == Type::integers);
  CHECK(type_with(Message().text(9, "")) == Type::strings);
  CHECK(type_with(Message().message(10, tensor)) == Type::tensors);
  CHECK(type_with(Message().message(11, graph)) == Type::graphs);
  CHECK(type_with(Message().message(14, Message())) == Type::type);
  CHECK(type_with(Message().message(15, Message())) == Type::types);
  CHECK(type_with(Message().message(22, Message())) == Type::sparse_tensor);
  CHECK(type_with(Message().message(23, Message())) == Type::sparse_tensors);
  CHECK(attribute_refusal(Message().text(1, "a").integer(3, 1).number(2, 1)) ==
        "attribute 'a' has values of several types and does not say which counts");
}

TEST_CASE("an attribute has the value of its type and no other") {
  const Message tensor = make::tensor("t", ElementType::f32, {2});
  const AttributeMessage integer =
      parsed_attribute(make::attribute("a", 4).number(2, 1.5f).message(5, tensor).integer(8, 1));
  CHECK(integer.integer == 4);
  CHECK(integer.number == 0);
  CHECK(integer.tensors.empty());
  CHECK(integer.integers.empty());
  const AttributeMessage tensors =
      parsed_attribute(make::typed_attribute("a", Type::tensors).message(5, tensor));
  CHECK(tensors.tensors.empty());
  CHECK(parsed_attribute(make::typed_attribute("a", Type::integer)).integer == 0);  // as writers of proto3 do
  CHECK(attribute_refusal(make::typed_attribute("a", Type::tensor)) ==
        "attribute 'a' is a tensor but has none");
  CHECK(attribute_refusal(make::typed_attribute("a", Type::graph)) ==
        "attribute 'a' is a graph but has none");
  CHECK(attribute_refusal(make::typed_attribute("a", Type::sparse_tensor)) ==
        "attribute 'a' is a sparse tensor but has none");
  CHECK(attribute_refusal(make::typed_attribute("a", Type::type)) == "attribute 'a' is a type but has none");
  CHECK(attribute_refusal(Message().integer(20, 15)) == "attribute type 15 does not exist");
  CHECK(attribute_refusal(Message().integer(20, -1)) == "attribute type -1 does not exist");
}

TEST_CASE("a tensor has its fields") {
  const std::string bytes = Message()
                                .packed(1, std::vector<int64_t>{2, 3})
                                .integer(2, 7)
                                .packed(4, std::vector<float>{1.5f, -2})
                                .packed(5, std::vector<int32_t>{-1, INT32_MAX, INT32_MIN})
                                .text(6, "one")
                                .text(6, "")
                                .packed(7, std::vector<int64_t>{INT64_MIN, 0, INT64_MAX})
                                .text(8, "w")
                                .text(9, "raw")
                                .packed(10, std::vector<double>{0.1, 1e300})
                                .packed(11, std::vector<uint64_t>{UINT64_MAX, 1})
                                .text(12, "documentation")
                                .message(13, make::entry("location", "x"))
                                .integer(14, 1)
                                .message(16, make::entry("k", "v"))
                                .bytes();
  const TensorMessage tensor = parse_tensor(bytes);
  CHECK(tensor.dims == std::vector<int64_t>{2, 3});
  CHECK(tensor.type == ElementType::i64);
  CHECK(tensor.float_data == std::vector<float>{1.5f, -2});
  CHECK(tensor.int32_data == std::vector<int32_t>{-1, INT32_MAX, INT32_MIN});
  CHECK(tensor.string_data == std::vector<std::string>{"one", ""});
  CHECK(tensor.int64_data == std::vector<int64_t>{INT64_MIN, 0, INT64_MAX});
  CHECK(tensor.name == "w");
  CHECK(tensor.has_raw_data);
  CHECK(tensor.raw_data == "raw");
  CHECK((tensor.raw_data.data() > bytes.data() && tensor.raw_data.data() < bytes.data() + bytes.size()));
  CHECK(tensor.double_data == std::vector<double>{0.1, 1e300});
  CHECK(tensor.uint64_data == std::vector<uint64_t>{UINT64_MAX, 1});
  CHECK(tensor.is_external);
  CHECK((tensor.external.at(0).key == "location" && tensor.external.at(0).value == "x"));
  CHECK_FALSE(parse_tensor("").has_raw_data);
  CHECK_THROWS_WITH(parse_tensor(Message().message(3, Message()).bytes()),
                    contains("a tensor in segments is not supported"));
  CHECK_THROWS_WITH(parse_tensor(Message().integer(14, 2).bytes()),
                    contains("data_location 2 does not exist"));
}

TEST_CASE("lists of numbers are read packed, one by one, and in pieces") {
  Message tensor;
  tensor.integer(1, 1)
      .packed(1, std::vector<int64_t>{2, 300})
      .packed(1, std::vector<int64_t>{})
      .integer(1, 4);
  tensor.number(4, 1).packed(4, std::vector<float>{2, 3}).number(4, 4);
  tensor.integer(5, -1).packed(5, std::vector<int32_t>{-2, 3}).integer(5, 4);
  tensor.real(10, 1).packed(10, std::vector<double>{2, 3}).real(10, 4);
  tensor.integer(11, -1).packed(11, std::vector<uint64_t>{2, 3}).integer(11, 4);
  const TensorMessage parsed = parse_tensor(tensor.bytes());
  CHECK(parsed.dims == std::vector<int64_t>{1, 2, 300, 4});
  CHECK(parsed.float_data == std::vector<float>{1, 2, 3, 4});
  CHECK(parsed.int32_data == std::vector<int32_t>{-1, -2, 3, 4});
  CHECK(parsed.double_data == std::vector<double>{1, 2, 3, 4});
  CHECK(parsed.uint64_data == std::vector<uint64_t>{UINT64_MAX, 2, 3, 4});
}

TEST_CASE("a type of every kind has its parts") {
  const TypeMessage tensor =
      parsed_type(make::tensor_type(ElementType::f16, {"batch", 3, 0}).text(6, "IMAGE"));
  CHECK(tensor.kind == Kind::tensor);
  CHECK(tensor.element == ElementType::f16);
  CHECK(tensor.has_shape);
  REQUIRE(tensor.shape.size() == 3);
  CHECK((tensor.shape[0].size == -1 && tensor.shape[0].symbol == "batch"));
  CHECK((tensor.shape[1].size == 3 && tensor.shape[1].symbol.empty()));
  CHECK(tensor.shape[2].size == 0);
  CHECK_FALSE(parsed_type(make::tensor_type(ElementType::f16)).has_shape);
  CHECK(parsed_type(make::tensor_type(ElementType::f16, {})).has_shape);
  CHECK(parsed_type(make::tensor_type(ElementType::f16, {-7})).shape.at(0).size == -1);

  const Message element = Message().integer(1, 1).message(2, make::shape({5}));
  const TypeMessage sparse = parsed_type(Message().message(8, element));
  CHECK(sparse.kind == Kind::sparse_tensor);
  CHECK(sparse.shape.at(0).size == 5);
  const TypeMessage sequence = parsed_type(sequence_of(sequence_of(make::tensor_type(ElementType::u8))));
  CHECK(sequence.kind == Kind::sequence);
  REQUIRE(sequence.inner);
  CHECK(sequence.inner->kind == Kind::sequence);
  REQUIRE(sequence.inner->inner);
  CHECK(sequence.inner->inner->element == ElementType::u8);
  const TypeMessage optional = parsed_type(Message().message(9, Message().message(1, Message())));
  CHECK(optional.kind == Kind::optional);
  REQUIRE(optional.inner);
  CHECK(optional.inner->kind == Kind::none);
  const TypeMessage map = parsed_type(
      Message().message(5, Message().integer(1, 7).message(2, make::tensor_type(ElementType::f32))));
  CHECK(map.kind == Kind::map);
  CHECK(map.element == ElementType::i64);
  REQUIRE(map.inner);
  CHECK(map.inner->element == ElementType::f32);
  CHECK(parsed_type(Message().message(7, Message().text(1, "d").text(2, "n"))).kind == Kind::opaque);
  CHECK(parsed_type(Message()).kind == Kind::none);
}

TEST_CASE("of a value that stands twice the last one counts") {
  const std::string bytes =
      Message().text(8, "a").text(8, "b").integer(2, 1).integer(2, 7).text(9, "12").text(9, "345").bytes();
  const TensorMessage tensor = parse_tensor(bytes);
  CHECK(tensor.name == "b");
  CHECK(tensor.type == ElementType::i64);
  CHECK(tensor.raw_data == "345");
  CHECK(parsed_attribute(make::attribute("a", 1).integer(3, 2)).integer == 2);
  // Of values that exclude each other as well.
  const Message size_then_name = Message().message(1, Message().integer(1, 4).text(2, "N"));
  const Message name_then_size = Message().message(1, Message().text(2, "N").integer(1, 4));
  const auto dimension = [](const Message& shape) {
    return parsed_type(Message().message(1, Message().message(2, shape))).shape.at(0);
  };
  CHECK((dimension(size_then_name).size == -1 && dimension(size_then_name).symbol == "N"));
  CHECK((dimension(name_then_size).size == 4 && dimension(name_then_size).symbol.empty()));
  const TypeMessage type =
      parsed_type(make::tensor_type(ElementType::f32, {1}).message(4, Message()).message(9, Message()));
  CHECK(type.kind == Kind::optional);
  CHECK(type.element == ElementType::undefined);
  CHECK_FALSE(type.has_shape);
  CHECK(type.shape.empty());
  // No value of what was replaced comes back with its kind.
  CHECK_FALSE(
      parsed_type(make::tensor_type(ElementType::f32, {1}).message(4, Message()).message(1, Message()))
          .has_shape);
}

TEST_CASE("messages that stand twice are merged") {
  const std::string twice = Message()
                                .message(7, Message().text(2, "first").message(1, make::node("A", {}, {})))
                                .message(7, Message().message(1, make::node("B", {}, {})))
                                .bytes();
  const ModelMessage model = parse_model(twice);
  CHECK(model.graph.name == "first");
  REQUIRE(model.graph.nodes.size() == 2);
  CHECK(model.graph.nodes[1].op_type == "B");

  const AttributeMessage tensor = parsed_attribute(make::typed_attribute("a", Type::tensor)
                                                       .message(5, Message().text(8, "t").integer(1, 2))
                                                       .message(5, Message().integer(1, 3).integer(2, 1)));
  REQUIRE(tensor.tensors.size() == 1);
  CHECK(tensor.tensors[0].name == "t");
  CHECK(tensor.tensors[0].dims == std::vector<int64_t>{2, 3});
  CHECK(tensor.tensors[0].type == ElementType::f32);

  const TypeMessage type = parsed_type(Message()
                                           .message(1, Message().integer(1, 10).message(2, make::shape({1})))
                                           .message(1, Message().message(2, make::shape({"N"}))));
  CHECK(type.element == ElementType::f16);
  CHECK(type.shape.size() == 2);
  const Message shape_alone = Message().message(1, Message().message(2, make::shape({2})));
  const TypeMessage sequence = parsed_type(
      sequence_of(make::tensor_type(ElementType::f16)).message(4, Message().message(1, shape_alone)));
  REQUIRE(sequence.inner);
  CHECK(sequence.inner->element == ElementType::f16);
  CHECK(sequence.inner->shape.size() == 1);
  const SparseTensorMessage sparse =
      parsed_graph(Message().message(
                       15, Message().message(1, Message().text(8, "v")).message(1, Message().integer(2, 1))))
          .sparse_initializers.at(0);
  CHECK((sparse.values.name == "v" && sparse.values.type == ElementType::f32));
}

TEST_CASE("element types have ONNX's names") {
  CHECK(name_of(ElementType::f32) == "float");
  CHECK(name_of(ElementType::i64) == "int64");
  CHECK(name_of(ElementType::boolean) == "bool");
  CHECK(name_of(ElementType::bf16) == "bfloat16");
  CHECK(name_of(ElementType::f8e5m2fnuz) == "float8e5m2fnuz");
  CHECK(name_of(ElementType::i2) == "int2");
  CHECK(name_of(static_cast<ElementType>(27)) == "type 27");
  CHECK(name_of(static_cast<ElementType>(-1)) == "type -1");
}
