// Numbers of ONNX's tensors: raw, in each of the lists, in another file, sparse; and what is refused, by
// name.
#include <filesystem>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "onnx/constant.hpp"
#include "onnx/narrow.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::onnx;
using namespace dlprim::test;
namespace make = dlprim::test::onnx_writer;
using make::Message;

namespace {

HostTensor constant(const std::string& bytes) {
  ExternalFiles none;
  return constant_of(parse_tensor(bytes), none);
}
HostTensor constant(const Message& tensor) {
  return constant(tensor.bytes());
}
std::string refusal_of(const Message& tensor) {
  return refusal([&] { constant(tensor); });
}

template <class T>
std::vector<T> values(const HostTensor& tensor) {
  std::vector<T> numbers(tensor.data.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), tensor.data.data(), tensor.data.size());
  return numbers;
}

/// A tensor "w" of one dimension with `count` numbers.
Message tensor(ElementType type, int64_t count) {
  return make::tensor("w", type, {count});
}
template <class T>
Message indices(const std::vector<T>& numbers, const std::vector<int64_t>& dims) {
  return make::tensor("i", ElementType::i64, dims, make::raw_bytes(numbers));
}

HostTensor dense(const Message& values, const Message& indices, const std::vector<int64_t>& dims) {
  const std::string graph = Message().message(15, make::sparse_tensor(values, indices, dims)).bytes();
  const std::string model = Message().text(7, graph).bytes();
  ExternalFiles none;
  return constant_of(parse_model(model).graph.sparse_initializers.at(0), none);
}
std::string dense_refusal(const Message& values, const Message& indices, const std::vector<int64_t>& dims) {
  return refusal([&] { dense(values, indices, dims); });
}

const std::vector<std::pair<ElementType, DType>> kTypes = {
    {ElementType::f32, DType::f32},         {ElementType::f16, DType::f16}, {ElementType::bf16, DType::bf16},
    {ElementType::f64, DType::f64},         {ElementType::i8, DType::i8},   {ElementType::u8, DType::u8},
    {ElementType::i16, DType::i16},         {ElementType::i32, DType::i32}, {ElementType::i64, DType::i64},
    {ElementType::boolean, DType::boolean}, {ElementType::u16, DType::u16}, {ElementType::u32, DType::u32},
    {ElementType::u64, DType::u64}};

}  // namespace

TEST_CASE("raw data of every type is taken as it is") {
  for (const auto& [type, dtype] : kTypes) {
    CHECK(dtype_of(type) == dtype);
    std::string raw;
    for (size_t i = 0; i < 6 * size_of(dtype); i++)
      raw += static_cast<char>(dtype == DType::boolean ? i % 2 : i * 37 + 200);
    const HostTensor made = constant(make::tensor("w", type, {2, 3}, raw));
    INFO(name_of(type));
    CHECK(made.name == "w");
    CHECK(made.dtype == dtype);
    CHECK(made.shape == Shape{2, 3});
    CHECK(std::string(made.data.begin(), made.data.end()) == raw);
    CHECK_THAT(refusal_of(make::tensor("w", type, {2, 3}, raw + "\1")),
               contains("bytes of data, shape [2, 3] needs"));
    raw.pop_back();
    CHECK_THAT(refusal_of(make::tensor("w", type, {2, 3}, raw)),
               contains("bytes of data, shape [2, 3] needs"));
  }
}

TEST_CASE("numbers in lists are those of the type") {
  CHECK(values<float>(constant(tensor(ElementType::f32, 2).packed(4, std::vector<float>{1.5f, -2}))) ==
        std::vector<float>{1.5f, -2});
  CHECK(values<double>(constant(tensor(ElementType::f64, 2).packed(10, std::vector<double>{0.1, -2}))) ==
        std::vector<double>{0.1, -2});
  CHECK(
      values<int64_t>(constant(tensor(ElementType::i64, 2).packed(7, std::vector<int64_t>{INT64_MIN, 3}))) ==
      std::vector<int64_t>{INT64_MIN, 3});
  const auto list = [](ElementType type, const std::vector<int32_t>& numbers) {
    return constant(tensor(type, static_cast<int64_t>(numbers.size())).packed(5, numbers));
  };
  CHECK(values<int32_t>(list(ElementType::i32, {INT32_MIN, -1, INT32_MAX})) ==
        std::vector<int32_t>{INT32_MIN, -1, INT32_MAX});
  CHECK(values<int16_t>(list(ElementType::i16, {-32768, -1, 32767})) ==
        std::vector<int16_t>{-32768, -1, 32767});
  CHECK(values<int8_t>(list(ElementType::i8, {-128, -1, 127})) == std::vector<int8_t>{-128, -1, 127});
  CHECK(values<uint8_t>(list(ElementType::u8, {0, 128, 255})) == std::vector<uint8_t>{0, 128, 255});
  CHECK(values<uint8_t>(list(ElementType::boolean, {0, 1, 1})) == std::vector<uint8_t>{0, 1, 1});
  for (ElementType type : {ElementType::f16, ElementType::bf16, ElementType::u16})
    CHECK(values<uint16_t>(list(type, {0, 0x3c00, 0xffff})) == std::vector<uint16_t>{0, 0x3c00, 0xffff});
}

TEST_CASE("the list of 64 unsigned bits is for uint32 and uint64") {
  const std::vector<uint64_t> narrow = {0, UINT32_MAX, 1u << 31}, wide = {UINT64_MAX, 0, uint64_t{1} << 63};
  CHECK(values<uint32_t>(constant(tensor(ElementType::u32, 3).packed(11, narrow))) ==
        std::vector<uint32_t>{0, UINT32_MAX, 1u << 31});
  CHECK(values<uint64_t>(constant(tensor(ElementType::u64, 3).packed(11, wide))) == wide);
  CHECK(refusal_of(tensor(ElementType::u32, 1).packed(11, std::vector<uint64_t>{uint64_t{1} << 32})) ==
        "tensor: 'w' of type uint32: has the value 4294967296, which is not from 0 to 4294967295");
  CHECK_THAT(refusal_of(tensor(ElementType::u32, 1).packed(5, std::vector<int32_t>{1})),
             contains("has numbers in a list of another type"));
  CHECK_THAT(refusal_of(tensor(ElementType::i64, 3).packed(11, narrow)),
             contains("has numbers in a list of another type"));
}

TEST_CASE("a number that its type does not have is refused") {
  const auto refused = [](ElementType type, int32_t number) {
    return refusal_of(tensor(type, 2).packed(5, std::vector<int32_t>{0, number}));
  };
  CHECK(refused(ElementType::i8, 128) ==
        "tensor: 'w' of type int8: has the value 128, which is not from -128 to 127");
  CHECK_THAT(refused(ElementType::i8, -129), contains("has the value -129"));
  CHECK_THAT(refused(ElementType::u8, 256), contains("is not from 0 to 255"));
  CHECK_THAT(refused(ElementType::u8, -1), contains("is not from 0 to 255"));
  CHECK_THAT(refused(ElementType::i16, 32768), contains("is not from -32768 to 32767"));
  CHECK_THAT(refused(ElementType::i16, -32769), contains("is not from -32768 to 32767"));
  CHECK_THAT(refused(ElementType::f16, 65536), contains("is not from 0 to 65535"));
  CHECK_THAT(refused(ElementType::f16, -1), contains("is not from 0 to 65535"));
  CHECK_THAT(refused(ElementType::bf16, 65536), contains("is not from 0 to 65535"));
  CHECK_THAT(refused(ElementType::u16, 65536), contains("is not from 0 to 65535"));
  CHECK_THAT(refused(ElementType::u16, -1), contains("is not from 0 to 65535"));
  CHECK_THAT(refused(ElementType::boolean, 2), contains("is not from 0 to 1"));
  CHECK_THAT(refused(ElementType::boolean, -1), contains("is not from 0 to 1"));
  CHECK(refusal_of(make::tensor("w", ElementType::boolean, {2}, "\1\2")) ==
        "tensor: 'w' of type bool: has a byte that is neither 0 nor 1");
}

TEST_CASE("a list must have the numbers that the shape needs") {
  const auto refused = [](ElementType type, auto field, const auto& numbers) {
    CHECK_THAT(refusal_of(tensor(type, 3).packed(field, numbers)),
               contains("has 2 numbers, shape [3] needs 3"));
    CHECK_THAT(refusal_of(tensor(type, 1).packed(field, numbers)),
               contains("has 2 numbers, shape [1] needs 1"));
  };
  refused(ElementType::f32, 4, std::vector<float>{1, 2});
  refused(ElementType::f64, 10, std::vector<double>{1, 2});
  refused(ElementType::i64, 7, std::vector<int64_t>{1, 2});
  refused(ElementType::u32, 11, std::vector<uint64_t>{1, 2});
  for (ElementType type : {ElementType::f16, ElementType::bf16, ElementType::i8, ElementType::u8,
                           ElementType::i16, ElementType::i32, ElementType::boolean})
    refused(type, 5, std::vector<int32_t>{1, 0});
  CHECK(refusal_of(tensor(ElementType::f32, 3)) ==
        "tensor: 'w' of type float: has 0 bytes of data, shape [3] needs 12");
}

TEST_CASE("scalars and empty tensors are read") {
  const HostTensor scalar = constant(make::tensor("", ElementType::f32, {}).number(4, 3));
  CHECK(scalar.shape == Shape{});
  CHECK(values<float>(scalar) == std::vector<float>{3});
  CHECK(constant(make::tensor("", ElementType::f32, {2, 0})).data.empty());
  CHECK(constant(make::tensor("", ElementType::f32, {0}, "")).shape == Shape{0});
  // Raw data that is there, but empty, beside a list: only one of them has the numbers.
  CHECK(values<float>(constant(make::tensor("", ElementType::f32, {1}, "").number(4, 3))) ==
        std::vector<float>{3});
  CHECK_THAT(refusal_of(make::tensor("", ElementType::f32, {0}).number(4, 1)), contains("shape [0] needs 0"));
}

TEST_CASE("shapes that are not ours are refused") {
  CHECK(constant(make::tensor("w", ElementType::u8, {1, 1, 1, 1, 1, 1, 1, 1}, "x")).shape.size() == 8);
  CHECK(refusal_of(make::tensor("w", ElementType::u8, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "x")) ==
        "tensor: 'w' of type uint8: has 9 dimensions, must be at most 8");
  CHECK(refusal_of(make::tensor("w", ElementType::u8, {-1}, "x")) ==
        "tensor: 'w' of type uint8: shape: negative size in [-1]");
  CHECK_THAT(refusal_of(make::tensor("w", ElementType::u8, {-1, -1}, "x")), contains("negative size"));
  const int64_t large = int64_t{1} << 32;
  CHECK_THAT(refusal_of(make::tensor("w", ElementType::u8, {large, large}, "")),
             contains("too many elements"));
  CHECK_THAT(refusal_of(make::tensor("w", ElementType::f64, {INT64_MAX}, "")), contains("too many elements"));
  // No memory is taken for what is not there.
  CHECK(refusal_of(make::tensor("w", ElementType::f32, {int64_t{1} << 50}, "abcd")) ==
        "tensor: 'w' of type float: has 4 bytes of data, shape [1125899906842624] needs 4503599627370496");
}

TEST_CASE("types that dlprim does not have are refused by name") {
  const std::vector<std::pair<ElementType, const char*>> types = {{ElementType::undefined, "undefined"},
                                                                  {ElementType::string, "string"},
                                                                  {ElementType::complex64, "complex64"},
                                                                  {ElementType::complex128, "complex128"},
                                                                  {static_cast<ElementType>(99), "type 99"}};
  size_t narrow = 0;  // test_onnx_narrow has these
  for (int type = 0; type < 27; type++) narrow += find_narrow(static_cast<ElementType>(type)) != nullptr;
  CHECK(types.size() + kTypes.size() + narrow == 28);  // all that there are, and one that is not
  for (const auto& [type, name] : types) {
    CHECK_FALSE(dtype_of(type).has_value());
    CHECK(refusal_of(make::tensor("w", type, {1}, "12345678")) ==
          std::string("tensor: 'w' of type ") + name + ": dlprim does not have this type");
  }
}

TEST_CASE("data in two places, or in a list of another type, is refused") {
  const std::vector<float> floats{1};
  CHECK(refusal_of(make::tensor("w", ElementType::f32, {1}, "abcd").packed(4, floats)) ==
        "tensor: 'w' of type float: has raw data and a list of numbers");
  const std::string other = "has numbers in a list of another type";
  CHECK_THAT(refusal_of(tensor(ElementType::i32, 1).packed(4, floats)), contains(other));
  CHECK_THAT(refusal_of(tensor(ElementType::f32, 1).packed(5, std::vector<int32_t>{1})), contains(other));
  CHECK_THAT(refusal_of(tensor(ElementType::i32, 1).packed(7, std::vector<int64_t>{1})), contains(other));
  CHECK_THAT(refusal_of(tensor(ElementType::f32, 1).packed(10, std::vector<double>{1})), contains(other));
  CHECK_THAT(refusal_of(tensor(ElementType::i64, 1).packed(11, std::vector<uint64_t>{1})), contains(other));
  CHECK_THAT(refusal_of(tensor(ElementType::f32, 1).text(6, "x")), contains(other));
  CHECK_THAT(refusal_of(make::tensor("w", ElementType::i32, {1}, "abcd").packed(7, std::vector<int64_t>{1})),
             contains(other));
  const std::vector<std::pair<std::string, std::string>> where = {{"location", "w.bin"}};
  const Message external = make::external_tensor("w", ElementType::f32, {1}, where);
  CHECK_THAT(refusal_of(Message(external).text(9, "abcd")),
             contains("has data in the model and in another file"));
  CHECK_THAT(refusal_of(Message(external).packed(4, floats)),
             contains("has data in the model and in another file"));
  CHECK_THAT(refusal_of(external), contains("the model was not read from a folder"));
}

TEST_CASE("data in another file is taken, of the right size") {
  const TempDir folder;
  put(folder / "model.onnx", "model");
  put(folder / "w.bin", "0123456789");
  ExternalFiles files(folder / "model.onnx");
  const auto read = [&](const std::vector<int64_t>& dims, ElementType type, const std::string& offset,
                        const std::string& length) {
    const std::string bytes =
        make::external_tensor("w", type, dims,
                              {{"location", "w.bin"}, {"offset", offset}, {"length", length}})
            .bytes();
    return constant_of(parse_tensor(bytes), files);
  };
  const HostTensor made = read({2}, ElementType::i16, "3", "4");
  CHECK(made.shape == Shape{2});
  CHECK(std::string(made.data.begin(), made.data.end()) == "3456");
  CHECK_THROWS_WITH(read({3}, ElementType::i16, "3", "4"), contains("length 4 must be 6"));
  CHECK_THROWS_WITH(read({3}, ElementType::i16, "5", "6"), contains("are not in 'w.bin'"));
  CHECK_THROWS_WITH(read({4}, ElementType::boolean, "0", "4"), contains("neither 0 nor 1"));
  CHECK(read({0}, ElementType::f32, "0", "0").data.empty());
}

TEST_CASE("a sparse tensor becomes a dense one") {
  const Message three =
      make::tensor("s", ElementType::f32, {3}, make::raw_bytes(std::vector<float>{1, 2, 3}));
  const std::vector<float> expected{0, 2, 0, 3, 0, 1};
  const HostTensor listed = dense(three, indices<int64_t>({5, 1, 3}, {3}), {2, 3});
  CHECK(listed.name == "s");
  CHECK(listed.dtype == DType::f32);
  CHECK(listed.shape == Shape{2, 3});
  CHECK(values<float>(listed) == expected);
  CHECK(values<float>(dense(three, indices<int64_t>({1, 2, 0, 1, 1, 0}, {3, 2}), {2, 3})) == expected);
  const Message none = make::tensor("s", ElementType::u8, {0});
  CHECK(dense(none, indices<int64_t>({}, {0}), {3}).data == std::vector<unsigned char>(3));
  CHECK(dense(none, indices<int64_t>({}, {0, 2}), {3, 1}).data == std::vector<unsigned char>(3));
  CHECK(dense(none, indices<int64_t>({}, {0}), {3, 0}).data.empty());
  const Message one = make::tensor("s", ElementType::u8, {1}, "x");
  CHECK(dense(one, indices<int64_t>({0}, {1}), {}).data == std::vector<unsigned char>{'x'});
}

TEST_CASE("a sparse tensor's indices must be places of it") {
  const Message two = make::tensor("s", ElementType::u8, {2}, "xy");
  const std::string head = "tensor: 's' of type uint8: ";
  const auto listed = [&](const std::vector<int64_t>& numbers) {
    return dense_refusal(two, indices(numbers, {2}), {2, 3});
  };
  CHECK(listed({0, 6}) == head + "has index 6, which is not from 0 to 5 in shape [2, 3]");
  CHECK_THAT(listed({-1, 0}), contains("has index -1"));
  CHECK_THAT(listed({INT64_MAX, 0}), contains("has index 9223372036854775807"));
  CHECK_THAT(listed({INT64_MIN, 0}), contains("has index -9223372036854775808"));
  CHECK(listed({4, 4}) == head + "has one index twice");
  const auto coordinates = [&](const std::vector<int64_t>& numbers) {
    return dense_refusal(two, indices(numbers, {2, 2}), {2, 3});
  };
  CHECK_THAT(coordinates({0, 3, 0, 0}), contains("has index 3, which is not from 0 to 2"));
  CHECK_THAT(coordinates({2, 0, 0, 0}), contains("has index 2, which is not from 0 to 1"));
  CHECK_THAT(coordinates({1, -3, 0, 0}), contains("has index -3"));
  CHECK(coordinates({1, 2, 1, 2}) == head + "has one index twice");
  CHECK_THAT(dense_refusal(two, indices<int64_t>({0, 1}, {2}), {3, 0}), contains("has index 0"));
}

TEST_CASE("a sparse tensor's parts must fit") {
  const Message two = make::tensor("s", ElementType::u8, {2}, "xy");
  const auto places = indices<int64_t>({0, 1}, {2});
  CHECK_THAT(dense_refusal(make::tensor("s", ElementType::u8, {1, 2}, "xy"), places, {3}),
             contains("has sparse values of shape [1, 2], must be of one dimension"));
  CHECK_THAT(dense_refusal(make::tensor("s", ElementType::string, {2}), places, {3}),
             contains("dlprim does not have this type"));
  CHECK_THAT(dense_refusal(two, make::tensor("i", ElementType::i32, {2}, "12345678"), {3}),
             contains("has indices of type int32, must be int64"));
  CHECK_THAT(dense_refusal(two, indices<int64_t>({0, 1, 2}, {3}), {3}),
             contains("has indices of shape [3], must be [2] or [2, 1]"));
  CHECK_THAT(dense_refusal(two, indices<int64_t>({0, 1}, {2, 1}), {3, 1}),
             contains("has indices of shape [2, 1], must be [2] or [2, 2]"));
  CHECK_THAT(dense_refusal(two, indices<int64_t>({0, 1}, {2, 1, 1}), {3}), contains("must be [2] or [2, 1]"));
  CHECK_THAT(dense_refusal(two, places, {-3}), contains("negative size"));
  CHECK_THAT(dense_refusal(two, places, {1, 1, 1, 1, 1, 1, 1, 1, 2}), contains("has 9 dimensions"));
  CHECK_THAT(dense_refusal(two, places, {INT64_MAX, 2}), contains("too many elements"));
  CHECK_THAT(dense_refusal(two, places, {(int64_t{1} << 30) + 1}),
             contains("takes 1073741825 bytes as a dense tensor, must be at most 1073741824"));
}
