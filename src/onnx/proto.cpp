// The half of ONNX's messages that describes values: tensors, types, names with types. The other half is
// proto_graph.cpp. Numbers of fields are those of onnx.proto3.
#include "onnx/proto.hpp"

#include <algorithm>
#include <iterator>

#include "onnx/proto_parts.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;
using Kind = TypeMessage::Kind;

void read_dimension(Cursor in, DimensionMessage& dimension, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:  // dim_value; some programs write -1, or another negative number, for a size they do not know
        dimension = {std::max<int64_t>(in.integer(), -1), {}};
        break;
      case 2:  // dim_param
        dimension = {-1, budget.name(in)};
        break;
      default:
        in.skip();
    }
}

void read_shape(Cursor in, std::vector<DimensionMessage>& shape, Budget& budget) {
  while (in.next()) {
    if (in.field() != 1) {
      in.skip();
      continue;
    }
    const Cursor inner = budget.message(in, "TensorShapeProto.Dimension");
    shape.emplace_back();
    read_dimension(inner, shape.back(), budget);
  }
}

/// The type inside of `outer`, made if there is none yet.
TypeMessage& inner_of(TypeMessage& outer) {
  // Const is meant for those who get the message; the reader itself made it, and merges into it.
  if (!outer.inner) outer.inner = std::make_shared<TypeMessage>();
  return const_cast<TypeMessage&>(*outer.inner);
}

/// The field's message is of type.kind. What the fields of each kind mean: both kinds of tensors have an
/// element and a shape, a sequence and an optional a type as field 1, a map a key and a type.
void read_kind(Cursor in, TypeMessage& type, Budget& budget) {
  const bool is_tensor = type.kind == Kind::tensor || type.kind == Kind::sparse_tensor;
  const bool is_opaque = type.kind == Kind::opaque;
  const uint32_t element = is_tensor || type.kind == Kind::map ? 1 : 0;
  const uint32_t inner = is_tensor || is_opaque ? 0 : type.kind == Kind::map ? 2 : 1;
  while (in.next()) {
    if (in.field() == element) {
      type.element = static_cast<ElementType>(in.small_integer());
    } else if (is_tensor && in.field() == 2) {
      type.has_shape = true;
      read_shape(budget.message(in, "TensorShapeProto"), type.shape, budget);
    } else if (in.field() == inner) {
      const Cursor value = budget.message(in, "TypeProto");
      read(value, inner_of(type), budget);
    } else {
      in.skip();
    }
  }
}

struct KindField {
  uint32_t field;
  Kind kind;
  const char* name;
};
constexpr KindField kKinds[] = {{1, Kind::tensor, "TypeProto.Tensor"},
                                {4, Kind::sequence, "TypeProto.Sequence"},
                                {5, Kind::map, "TypeProto.Map"},
                                {7, Kind::opaque, "TypeProto.Opaque"},
                                {8, Kind::sparse_tensor, "TypeProto.SparseTensor"},
                                {9, Kind::optional, "TypeProto.Optional"}};

/// Fields of a tensor that hold numbers, in a list for each type. False if the field is another one.
bool read_numbers(Cursor& in, TensorMessage& tensor) {
  switch (in.field()) {
    case 1:
      in.append_to(tensor.dims);
      return true;
    case 4:
      in.append_to(tensor.float_data);
      return true;
    case 5:
      in.append_to(tensor.int32_data);
      return true;
    case 7:
      in.append_to(tensor.int64_data);
      return true;
    case 10:
      in.append_to(tensor.double_data);
      return true;
    case 11:
      in.append_to(tensor.uint64_data);
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string name_of(ElementType type) {
  constexpr const char* kNames[] = {
      "undefined",      "float",    "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "double",   "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
      "uint2",          "int2"};
  const auto number = static_cast<int32_t>(type);
  if (number < 0 || static_cast<size_t>(number) >= std::size(kNames)) return cat("type ", number);
  return kNames[number];
}

void read(Cursor in, Entry& entry, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:
        entry.key = budget.name(in);
        break;
      case 2:
        entry.value = in.text();
        break;
      default:
        in.skip();
    }
}

void read(Cursor in, TensorMessage& tensor, Budget& budget) {
  while (in.next()) {
    if (read_numbers(in, tensor)) continue;
    switch (in.field()) {
      case 2:
        tensor.type = static_cast<ElementType>(in.small_integer());
        break;
      case 3:
        in.refuse("a tensor in segments is not supported");
      case 6:
        budget.append_text(in, tensor.string_data);
        break;
      case 8:
        tensor.name = budget.name(in);
        break;
      case 9:
        tensor.has_raw_data = true;
        tensor.raw_data = in.bytes();
        break;
      case 13:
        append(in, "StringStringEntryProto", tensor.external, budget);
        break;
      case 14: {
        const int64_t location = in.integer();
        if (location != 0 && location != 1) in.refuse(cat("data_location ", location, " does not exist"));
        tensor.is_external = location == 1;
        break;
      }
      default:
        in.skip();
    }
  }
}

void read(Cursor in, SparseTensorMessage& sparse, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:
        read(budget.message(in, "TensorProto"), sparse.values, budget);
        break;
      case 2:
        read(budget.message(in, "TensorProto"), sparse.indices, budget);
        break;
      case 3:
        in.append_to(sparse.dims);
        break;
      default:
        in.skip();
    }
}

void read(Cursor in, TypeMessage& type, Budget& budget) {
  const Budget::Level level = budget.type_level(in);
  while (in.next()) {
    const KindField* known = nullptr;
    for (const KindField& kind : kKinds)
      if (kind.field == in.field()) known = &kind;
    if (!known) {
      in.skip();
      continue;
    }
    const Cursor value = budget.message(in, known->name);
    if (type.kind != known->kind) {  // of several kinds the last one counts
      type = {};
      type.kind = known->kind;
    }
    read_kind(value, type, budget);
  }
}

void read(Cursor in, ValueInfoMessage& info, Budget& budget) {
  while (in.next()) switch (in.field()) {
      case 1:
        info.name = budget.name(in);
        break;
      case 2:
        read(budget.message(in, "TypeProto"), info.type, budget);
        break;
      default:
        in.skip();
    }
}

TensorMessage parse_tensor(std::string_view bytes, const Limits& limits) {
  TensorMessage tensor;
  Budget budget(limits);
  read(Cursor(bytes, "TensorProto"), tensor, budget);
  return tensor;
}

}  // namespace dlprim::onnx
