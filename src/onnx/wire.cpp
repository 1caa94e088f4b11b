// Reading protobuf's wire format, https://protobuf.dev/programming-guides/encoding. Every length comes from a
// file that is somebody else's: it is compared with the bytes that are left before anything is done with it.
#include "onnx/wire.hpp"

#include <algorithm>
#include <cstring>

#include "core/text.hpp"

namespace dlprim::onnx {

using detail::cat;

void Cursor::refuse(const std::string& reason) const {
  throw ValidationError("bytes", cat("no valid ONNX message: ", message_, ", field ", field_, " at byte ",
                                     field_at_, ": ", reason));
}

bool Cursor::next() {
  if (at_ == end_) return false;
  field_at_ = at_;
  field_ = 0;
  const uint64_t tag = read_varint();
  if (tag > UINT32_MAX) refuse(cat("the field's tag ", tag, " has more than 32 bits"));
  field_ = static_cast<uint32_t>(tag >> 3);
  if (field_ == 0) refuse("a field's number must not be 0");
  const auto type = static_cast<uint8_t>(tag & 7);
  if (type == 3 || type == 4) refuse("is a group, which ONNX does not have");
  if (type > 5) refuse(cat("wire type ", int{type}, " does not exist"));
  type_ = static_cast<WireType>(type);
  return true;
}

uint64_t Cursor::read_varint() {
  uint64_t value = 0;
  for (unsigned i = 0; i < 10; i++) {
    if (at_ == end_) refuse("the bytes end inside of a number");
    const auto byte = static_cast<unsigned char>(whole_[at_++]);
    if (i == 9 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return value;
  }
  refuse("a number has more than 64 bits");
}

std::string_view Cursor::take(uint64_t count) {
  const size_t left = end_ - at_;
  if (count > left) refuse(cat("needs ", count, " bytes, but ", left, " are left"));
  const std::string_view taken = whole_.substr(at_, static_cast<size_t>(count));
  at_ += static_cast<size_t>(count);
  return taken;
}

void Cursor::expect(WireType type) const {
  if (type_ != type) refuse(cat("wire type ", static_cast<int>(type_), " must be ", static_cast<int>(type)));
}

int32_t Cursor::narrowed(uint64_t value) const {
  // A negative number of 32 bits is written as one of 64.
  const auto wide = static_cast<int64_t>(value);
  if (wide < INT32_MIN || wide > INT32_MAX) refuse(cat(wide, " does not fit in 32 bits"));
  return static_cast<int32_t>(wide);
}

int64_t Cursor::integer() {
  expect(WireType::varint);
  return static_cast<int64_t>(read_varint());
}

int32_t Cursor::small_integer() {
  expect(WireType::varint);
  return narrowed(read_varint());
}

float Cursor::number() {
  expect(WireType::fixed32);
  float value = 0;
  std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  return value;
}

std::string_view Cursor::bytes() {
  expect(WireType::bytes);
  return take(read_varint());
}

Cursor Cursor::message(const char* name) {
  const std::string_view inner = bytes();
  Cursor cursor(whole_, name);  // all of the bytes, so that its errors count from their start
  cursor.end_ = at_;
  cursor.at_ = cursor.field_at_ = at_ - inner.size();
  return cursor;
}

void Cursor::skip() {
  switch (type_) {
    case WireType::varint:
      read_varint();
      break;
    case WireType::fixed64:
      take(8);
      break;
    case WireType::fixed32:
      take(4);
      break;
    case WireType::bytes:
      take(read_varint());
      break;
  }
}

template <class T>
void Cursor::append_fixed(std::vector<T>& list, WireType single) {
  const std::string_view packed = type_ == single ? take(sizeof(T)) : bytes();
  if (packed.size() % sizeof(T) != 0)
    refuse(cat("a list of ", packed.size(), " bytes is no whole count of numbers of ", sizeof(T), " bytes"));
  if (packed.empty()) return;  // memcpy must not be given the null of an empty vector
  const size_t before = list.size();
  list.resize(before + packed.size() / sizeof(T));
  std::memcpy(list.data() + before, packed.data(), packed.size());
}

template <class T>
void Cursor::append_varints(std::vector<T>& list) {
  const auto append = [&](uint64_t value) {
    if constexpr (sizeof(T) == 4)
      list.push_back(narrowed(value));
    else
      list.push_back(static_cast<T>(value));
  };
  if (type_ == WireType::varint) return append(read_varint());
  const std::string_view packed = bytes();
  // Each number ends with the one byte of it that is below 128. At least doubled, as a file may have one list
  // in many small pieces.
  const auto ends = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
  const size_t needed = list.size() + static_cast<size_t>(std::count_if(packed.begin(), packed.end(), ends));
  if (needed > list.capacity()) list.reserve(std::max(needed, 2 * list.capacity()));
  const size_t list_end = at_, message_end = end_;
  at_ -= packed.size();
  end_ = list_end;
  while (at_ < list_end) append(read_varint());
  end_ = message_end;
}

void Cursor::append_to(std::vector<float>& list) {
  append_fixed(list, WireType::fixed32);
}
void Cursor::append_to(std::vector<double>& list) {
  append_fixed(list, WireType::fixed64);
}
void Cursor::append_to(std::vector<int32_t>& list) {
  append_varints(list);
}
void Cursor::append_to(std::vector<int64_t>& list) {
  append_varints(list);
}
void Cursor::append_to(std::vector<uint64_t>& list) {
  append_varints(list);
}

}  // namespace dlprim::onnx
