// A cursor over protobuf's wire format: the fields of one message, in the order in which they stand. It knows
// no message and no field; it never reads beyond the bytes it was given, and takes memory only for numbers
// whose bytes are there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <dlprim/error.hpp>

namespace dlprim::onnx {

/// How a field's value is stored, by the numbers of the format. Groups, 3 and 4, are refused: no ONNX file
/// has them.
enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Used as
///   while (in.next()) switch (in.field()) { case 1: x = in.integer(); break; default: in.skip(); }
/// After next() the value is to be taken once, by the function of its type, or skipped. Everything that is
/// not as the format has it throws the ValidationError of refuse().
class Cursor {
 public:
  /// A message that is all of `bytes`; `message` is its name in errors, and must live as long as the cursor.
  Cursor(std::string_view bytes, const char* message)
      : whole_(bytes), end_(bytes.size()), message_(message) {}

  /// Goes to the next field; false if there is none.
  bool next();
  uint32_t field() const noexcept { return field_; }

  int64_t integer();
  /// Of a value beyond 32 bits, protobuf would take the lower ones: it is refused here.
  int32_t small_integer();
  float number();
  std::string_view bytes();
  std::string text() { return std::string(bytes()); }
  /// The message that is the field's value.
  Cursor message(const char* name);
  void skip();

  /// A repeated field's numbers, one or a packed list of them, are put behind those of `list`.
  void append_to(std::vector<float>& list);
  void append_to(std::vector<double>& list);
  void append_to(std::vector<int32_t>& list);
  void append_to(std::vector<int64_t>& list);
  void append_to(std::vector<uint64_t>& list);

  /// Throws ValidationError of "bytes": names the message, the field and the byte where it begins, which is
  /// counted from the start of the bytes that the first cursor was given.
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  uint64_t read_varint();
  int32_t narrowed(uint64_t value) const;
  std::string_view take(uint64_t count);
  void expect(WireType type) const;
  template <class T>
  void append_fixed(std::vector<T>& list, WireType single);
  template <class T>
  void append_varints(std::vector<T>& list);

  std::string_view whole_;
  size_t at_ = 0, end_ = 0;
  size_t field_at_ = 0;
  uint32_t field_ = 0;
  WireType type_ = WireType::varint;
  const char* message_;
};

}  // namespace dlprim::onnx
