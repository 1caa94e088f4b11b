// The zip archive around several arrays: its list of contents, at the end of the file, and entries that are
// stored or deflated. No encryption, no zip64, no archive in several parts.
#include <zlib.h>

#include "file_bytes.hpp"
#include "npy.hpp"

namespace dlprim::cli {
namespace {

constexpr uint64_t kMostBytes = uint64_t{8} << 30;  // of one array, whatever its entry says

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw ValidationError("path", "'" + name + "' is no .npz file that dlprim reads: " + why);
}

/// Little-endian numbers at places of the file, which are checked.
class Bytes {
 public:
  Bytes(const std::string& name, std::string_view bytes) : name_(name), bytes_(bytes) {}
  uint64_t number(uint64_t at, int size) const {
    const std::string_view part = text(at, static_cast<uint64_t>(size));
    uint64_t value = 0;
    for (int i = size; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(part[static_cast<size_t>(i)]);
    return value;
  }
  std::string_view text(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) refuse(name_, "it ends early");
    return bytes_.substr(at, size);
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  const std::string& name_;
  std::string_view bytes_;
};

std::string inflated(const std::string& name, std::string_view packed, uint64_t size) {
  // Deflate packs to a thousandth at most: more is not in there.
  if (size > kMostBytes || size > packed.size() * 1040 + 64)
    refuse(name, "an entry says that it has " + std::to_string(size) + " bytes");
  std::string out(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) refuse(name, "zlib does not start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status =
      packed.size() > UINT32_MAX || size > UINT32_MAX ? Z_BUF_ERROR : inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.total_out == size;
  inflateEnd(&stream);
  if (!whole) refuse(name, "an entry is damaged");
  return out;
}

}  // namespace

std::map<std::string, HostTensor> parse_npz(const std::string& name, std::string_view text) {
  const Bytes bytes(name, text);
  constexpr uint64_t kEnd = 22, kLongestComment = 65535;
  uint64_t end = bytes.size() < kEnd ? 0 : bytes.size() - kEnd;
  const uint64_t first = end > kLongestComment ? end - kLongestComment : 0;
  while (end > first && bytes.number(end, 4) != 0x06054b50) end--;
  if (bytes.size() < kEnd || bytes.number(end, 4) != 0x06054b50) refuse(name, "it is no zip archive");
  const uint64_t count = bytes.number(end + 10, 2);
  uint64_t at = bytes.number(end + 16, 4);
  std::map<std::string, HostTensor> arrays;
  for (uint64_t i = 0; i < count; i++) {
    if (bytes.number(at, 4) != 0x02014b50) refuse(name, "its list of contents is damaged");
    const uint64_t flags = bytes.number(at + 8, 2), method = bytes.number(at + 10, 2),
                   packed = bytes.number(at + 20, 4), size = bytes.number(at + 24, 4),
                   name_size = bytes.number(at + 28, 2), local = bytes.number(at + 42, 4);
    std::string entry(bytes.text(at + 46, name_size));
    at += 46 + name_size + bytes.number(at + 30, 2) + bytes.number(at + 32, 2);
    if (flags & 1 || (method != 0 && method != 8)) refuse(name, "'" + entry + "' is packed in another way");
    if (bytes.number(local, 4) != 0x04034b50) refuse(name, "'" + entry + "' is damaged");
    const uint64_t data = local + 30 + bytes.number(local + 26, 2) + bytes.number(local + 28, 2);
    const std::string_view raw = bytes.text(data, packed);
    if (method == 0 && packed != size) refuse(name, "'" + entry + "' is damaged");
    const std::string array = method == 0 ? std::string(raw) : inflated(name, raw, size);
    if (entry.size() > 4 && entry.substr(entry.size() - 4) == ".npy") entry.resize(entry.size() - 4);
    if (!arrays.emplace(entry, parse_npy(name + ":" + entry, array)).second)
      refuse(name, "'" + entry + "' stands twice");
  }
  return arrays;
}

std::map<std::string, HostTensor> read_npz(const std::string& path) {
  return parse_npz(path, file_bytes(path));
}

}  // namespace dlprim::cli
