// The messages of an ONNX file (onnx.proto3 of onnx 1.23, IR 14) as plain structs: what parse_model() makes
// of the bytes. Nothing here says what an operator means. Field numbers stand in proto.cpp and
// proto_graph.cpp alone.
//
// A tensor's raw_data points into the file's bytes, which must outlive the message.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dlprim/error.hpp>

namespace dlprim::onnx {

/// TensorProto.DataType, by its numbers.
enum class ElementType : int32_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  complex64 = 14,
  complex128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26
};
/// "float", "int64", ... as ONNX writes them; "type 99" for a number it does not know.
std::string name_of(ElementType type);

struct Entry {
  std::string key, value;
};

struct TensorMessage {
  std::string name;
  ElementType type = ElementType::undefined;
  std::vector<int64_t> dims;
  bool has_raw_data = false;
  std::string_view raw_data;
  std::vector<float> float_data;
  std::vector<int32_t> int32_data;
  std::vector<int64_t> int64_data;
  std::vector<double> double_data;
  std::vector<uint64_t> uint64_data;
  std::vector<std::string> string_data;
  bool is_external = false;  ///< its bytes are in another file, which `external` describes
  std::vector<Entry> external;
};

struct SparseTensorMessage {
  TensorMessage values, indices;
  std::vector<int64_t> dims;
};

struct DimensionMessage {
  int64_t size = -1;   ///< -1: not said, or negative in the file
  std::string symbol;  ///< "batch"; empty: none
};

struct TypeMessage {
  enum class Kind : uint8_t {
    none,
    tensor,
    sparse_tensor,
    sequence,
    optional,
    map,
    opaque
  } kind = Kind::none;
  ElementType element = ElementType::undefined;  ///< of a tensor; of a map: the key's
  bool has_shape = false;
  std::vector<DimensionMessage> shape;
  std::shared_ptr<const TypeMessage> inner;  ///< of a sequence, an optional, a map's value
};

struct ValueInfoMessage {
  std::string name;
  TypeMessage type;
};

struct GraphMessage;

/// Only the value of its type is filled in, whatever else the file has. A tensor, graph, sparse tensor or
/// type is the one element of its list, and is there unless the attribute is a reference.
struct AttributeMessage {
  /// AttributeProto.AttributeType, by its numbers.
  enum class Type : int32_t {
    undefined = 0,
    number = 1,
    integer = 2,
    string = 3,
    tensor = 4,
    graph = 5,
    numbers = 6,
    integers = 7,
    strings = 8,
    tensors = 9,
    graphs = 10,
    sparse_tensor = 11,
    sparse_tensors = 12,
    type = 13,
    types = 14
  };
  std::string name;
  std::string reference;        ///< inside a function: the function's attribute whose value it has
  Type type = Type::undefined;  ///< where the file does not say (IR 1), that of the field that is there
  float number = 0;
  int64_t integer = 0;
  std::string string;
  std::vector<float> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string> strings;
  std::vector<TensorMessage> tensors;  ///< also the one of `tensor`
  std::vector<SparseTensorMessage> sparse_tensors;
  std::vector<GraphMessage> graphs;  ///< also the one of `graph`
  std::vector<TypeMessage> types;
};

struct NodeMessage {
  std::string name, op_type, domain, overload;
  std::vector<std::string> inputs, outputs;  ///< an empty name: left out
  std::vector<AttributeMessage> attributes;
};

struct GraphMessage {
  std::string name;
  std::vector<NodeMessage> nodes;
  std::vector<TensorMessage> initializers;
  std::vector<SparseTensorMessage> sparse_initializers;
  std::vector<ValueInfoMessage> inputs, outputs, value_infos;
};

struct OpsetMessage {
  std::string domain;  ///< "" is "ai.onnx"
  int64_t version = 0;
};

struct FunctionMessage {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;  ///< those without a default
  std::vector<AttributeMessage> attribute_defaults;
  std::vector<NodeMessage> nodes;
  std::vector<OpsetMessage> opsets;
};

struct ModelMessage {
  int64_t ir_version = 0;
  std::string producer_name, producer_version, domain;
  std::vector<OpsetMessage> opsets;
  GraphMessage graph;
  bool has_graph = false;
  std::vector<FunctionMessage> functions;
  std::vector<Entry> metadata;
};

/// What a file may hold at most. Anything beyond is refused before memory is taken for it.
struct Limits {
  int depth = 32;                ///< graphs in graphs, types in types
  int64_t messages = 2'000'000;  ///< nodes, tensors, attributes, dimensions, ... together
  int64_t name_bytes = 4096;     ///< of one name
};

/// Reads a ModelProto. Throws ValidationError that says what is wrong, in which message and at which byte:
/// truncated or overlong fields, wrong wire types, varints of more than ten bytes, limits. Unknown fields are
/// skipped, as protobuf does; of a field that may stand once and stands twice the last one counts, and
/// messages are merged, as protobuf does.
ModelMessage parse_model(std::string_view bytes, const Limits& limits = {});
/// Reads a TensorProto by itself, such as ONNX's test data.
TensorMessage parse_tensor(std::string_view bytes, const Limits& limits = {});

}  // namespace dlprim::onnx
