// IDX files: a magic number that says type and rank, the sizes as big-endian 32-bit numbers, the bytes.
#include "dataset.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>

#include <zlib.h>

#include <dlprim/error.hpp>

namespace dlprim::cli {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw Error("'" + path + "' " + reason);
}

/// The file's path, with or without ".gz".
std::string find_file(const std::string& directory, const std::string& name) {
  const std::string plain = (std::filesystem::path(directory) / name).string();
  std::error_code code;
  for (const std::string& path : {plain + ".gz", plain})
    if (std::filesystem::is_regular_file(path, code)) return path;
  throw Error("there is no " + name + " or " + name + ".gz in '" + directory +
              "'. On Debian and Ubuntu, 'sudo apt install dataset-fashion-mnist' puts Fashion-MNIST into "
              "/usr/share/datasets/fashion-mnist.");
}

/// The bytes of a file, unpacked if it is gzipped. (Not by zlib's gzread: it does not notice a missing
/// checksum.)
class ByteFile {
 public:
  explicit ByteFile(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const auto size = static_cast<std::streamoff>(file ? file.tellg() : std::streampos(-1));
    if (size < 0) fail(path, "cannot be opened");
    bytes_.resize(static_cast<size_t>(size));
    file.seekg(0);
    if (!file.read(reinterpret_cast<char*>(bytes_.data()), size)) fail(path, "cannot be read");
    packed_ = bytes_.size() >= 2 && bytes_[0] == 0x1f && bytes_[1] == 0x8b;
    zlib_.next_in = bytes_.data();
    zlib_.avail_in =
        static_cast<unsigned>(std::min<size_t>(bytes_.size(), std::numeric_limits<unsigned>::max()));
    constexpr int kGzip = 16 + MAX_WBITS;
    if (packed_ && inflateInit2(&zlib_, kGzip) != Z_OK) fail(path, "cannot be unpacked: no memory");
  }
  ~ByteFile() {
    if (packed_) inflateEnd(&zlib_);
  }
  ByteFile(const ByteFile&) = delete;
  ByteFile& operator=(const ByteFile&) = delete;

  /// Up to `count` bytes; fewer only at the end.
  std::vector<unsigned char> read(uint64_t count) {
    // A header may promise more than the file has: memory grows with what really comes.
    constexpr uint64_t kChunk = 1 << 20;
    std::vector<unsigned char> out;
    while (out.size() < count) {
      const size_t before = out.size();
      const auto wanted = static_cast<unsigned>(std::min(kChunk, count - before));
      out.resize(before + wanted);
      const unsigned got = packed_ ? unpack(out.data() + before, wanted) : take(out.data() + before, wanted);
      out.resize(before + got);
      if (got < wanted) break;
    }
    return out;
  }
  /// Throws unless everything was read, and the packed data ended as it should.
  void expect_end() {
    if (!read(1).empty()) fail(path_, "has more bytes than its header says");
    if (zlib_.avail_in > 0) fail(path_, "has bytes behind its packed data");
  }

 private:
  unsigned take(unsigned char* out, unsigned wanted) {
    const unsigned got = std::min(wanted, zlib_.avail_in);
    std::copy_n(zlib_.next_in, got, out);
    zlib_.next_in += got;
    zlib_.avail_in -= got;
    return got;
  }
  unsigned unpack(unsigned char* out, unsigned wanted) {
    zlib_.next_out = out;
    zlib_.avail_out = wanted;
    while (zlib_.avail_out > 0 && !ended_) {
      const int code = inflate(&zlib_, Z_NO_FLUSH);
      ended_ = code == Z_STREAM_END;
      if (code == Z_BUF_ERROR) fail(path_, "cannot be unpacked: it was cut off");
      if (code != Z_OK && !ended_)
        fail(path_, std::string("cannot be unpacked: ") + (zlib_.msg ? zlib_.msg : "it is damaged"));
    }
    return wanted - zlib_.avail_out;
  }

  std::string path_;
  std::vector<unsigned char> bytes_;
  z_stream zlib_{};
  bool packed_ = false, ended_ = false;
};

struct Idx {
  std::string path;
  std::vector<int64_t> sizes;
  std::vector<unsigned char> bytes;
};

Idx read_idx(const std::string& path, size_t rank) {
  ByteFile file(path);
  const std::vector<unsigned char> header = file.read(4 + 4 * rank);
  if (header.size() < 4 + 4 * rank) fail(path, "is too short for an IDX header");
  if (header[0] != 0 || header[1] != 0 || header[2] != 8 || header[3] != rank)
    fail(path, "is no IDX file of unsigned bytes with " + std::to_string(rank) + " dimension(s)");
  Idx idx{path, {}, {}};
  uint64_t total = 1;
  for (size_t i = 0; i < rank; i++) {
    uint32_t size = 0;
    for (size_t b = 0; b < 4; b++) size = size << 8 | header[4 + 4 * i + b];
    constexpr uint32_t kMost = 100'000'000;
    if (size == 0 || size > kMost) fail(path, "has a dimension of size " + std::to_string(size));
    if (i > 0 && size > 4096) fail(path, "has images with a side of " + std::to_string(size) + " pixels");
    idx.sizes.push_back(size);
    total *= size;
  }
  idx.bytes = file.read(total);
  if (idx.bytes.size() < total)
    fail(path, "ends after " + std::to_string(idx.bytes.size()) + " of " + std::to_string(total) + " bytes");
  file.expect_end();
  return idx;
}

}  // namespace

Dataset read_dataset(const std::string& directory, const std::string& part) {
  const Idx images = read_idx(find_file(directory, part + "-images-idx3-ubyte"), 3);
  const Idx labels = read_idx(find_file(directory, part + "-labels-idx1-ubyte"), 1);
  if (images.sizes[0] != labels.sizes[0])
    fail(labels.path, "has " + std::to_string(labels.sizes[0]) + " labels for " +
                          std::to_string(images.sizes[0]) + " images");
  const auto worst = std::max_element(labels.bytes.begin(), labels.bytes.end());
  if (*worst >= kClasses)
    fail(labels.path, "has label " + std::to_string(*worst) + " at place " +
                          std::to_string(worst - labels.bytes.begin()) + "; labels are 0 to 9");
  return {images.sizes[0], images.sizes[1], images.sizes[2], images.bytes, labels.bytes};
}

std::vector<uint32_t> shuffled(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  std::seed_seq mix{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                    static_cast<uint32_t>(epoch)};
  std::mt19937_64 numbers(mix);
  // By hand: what std::shuffle does with the numbers is left to the implementation.
  for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[numbers() % i]);
  return order;
}

}  // namespace dlprim::cli
