// Changes of files at random, for the fuzz drivers.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace dlprim::test::fuzz {

using Random = std::mt19937_64;

inline size_t below(Random& random, size_t end) {
  return end == 0 ? 0 : static_cast<size_t>(random() % end);
}

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// Numbers at which readers fail, as the format writes them.
inline std::string extreme_number(Random& random) {
  constexpr uint64_t kExtremes[] = {0,          1,          0x7f,       0x80,       0x3fff,     0x7fffffff,
                                    0x80000000, 0xffffffff, 1ull << 32, 1ull << 40, 1ull << 62, 1ull << 63,
                                    ~0ull >> 1, ~0ull - 1,  ~0ull,      1ull << 30, 25,         33};
  uint64_t value = kExtremes[below(random, std::size(kExtremes))];
  if (random() % 4 == 0) value += random() % 16 - 8;
  std::string bytes = varint(value);
  if (random() % 16 == 0) bytes.back() = static_cast<char>(bytes.back() | 0x80);  // longer than it should be
  return bytes;
}

inline size_t varint_length(const std::string& bytes, size_t at) {
  size_t length = 1;
  while (length < 10 && at + length < bytes.size() && (bytes[at + length - 1] & 0x80)) length++;
  return length;
}

inline void mutate(std::string& bytes, const std::string& other, Random& random) {
  if (bytes.empty()) bytes = "\n";
  const size_t at = below(random, bytes.size());
  const size_t length = 1 + below(random, random() % 4 == 0 ? 256 : 8);
  switch (random() % 7) {
    case 0:  // one bit
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 1:  // one byte
      bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes.insert(at, extreme_number(random));
      break;
    case 3:
      bytes.erase(at, length);
      break;
    case 4: {  // a piece of another file, or of this one
      const std::string& from = random() % 2 ? other : bytes;
      if (from.empty()) break;
      const std::string piece = from.substr(below(random, from.size()), length);
      if (random() % 2)
        bytes.insert(at, piece);
      else
        bytes.replace(at, piece.size(), piece);
      break;
    }
    case 5:
      bytes.replace(at, varint_length(bytes, at), extreme_number(random));
      break;
    default:  // cut off
      if (random() % 4 == 0) bytes.resize(at);
  }
}

inline std::string file_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace dlprim::test::fuzz
