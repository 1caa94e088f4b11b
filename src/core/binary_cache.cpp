// Files of the binary cache: written aside and renamed, checked when read, the oldest deleted.
#include "core/binary_cache.hpp"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "core/regular_file.hpp"

namespace dlprim::detail {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'d', 'l', 'p', 'r', 'i', 'm', 'B', '1'};
constexpr const char* kSuffix = ".bin";
constexpr const char* kTemporary = ".tmp-";

struct Header {
  char magic[8];
  uint64_t key_check;  ///< a hash of the key that is independent of the one in the file's name
  uint64_t content_size;
  uint64_t content_check;
};

uint64_t hash_of(const std::string& text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

Header header_for(const std::string& key, const std::string& content) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_check = hash_of(key, 2);
  header.content_size = content.size();
  header.content_check = hash_of(content, 3);
  return header;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

BinaryCache& BinaryCache::user() {
  static BinaryCache cache(
      [] {
        if (std::getenv("DLPRIM_CACHE_DIR")) return environment("DLPRIM_CACHE_DIR");
        const std::string xdg = environment("XDG_CACHE_HOME"), home = environment("HOME");
        if (!xdg.empty()) return xdg + "/dlprim";
        return home.empty() ? std::string() : home + "/.cache/dlprim";
      }(),
      [] {
        const std::string text = environment("DLPRIM_CACHE_MB");
        const long megabytes = text.empty() ? 512 : std::atol(text.c_str());
        return static_cast<uint64_t>(std::max(megabytes, 0L)) << 20;
      }(),
      std::getenv("DLPRIM_CACHE_DIR") != nullptr);
  return cache;
}

std::unique_ptr<BinaryCache> BinaryCache::configured(const ContextConfig& config) {
  if (!config.cache_folder && !config.cache_bytes) return nullptr;
  return std::make_unique<BinaryCache>(config.cache_folder.value_or(user().directory_),
                                       config.cache_bytes.value_or(user().limit_),
                                       config.cache_folder || user().chosen_);
}

std::string BinaryCache::path_of(const std::string& key) const {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), 1);
  char name[33];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return directory_ + "/" + name + kSuffix;
}

bool BinaryCache::has(const std::string& key) const {
  std::error_code error;
  return !directory_.empty() && fs::exists(path_of(key), error);
}

std::optional<std::string> BinaryCache::load(const std::string& key) const {
  if (directory_.empty()) return std::nullopt;
  const std::string path = path_of(key);
  std::optional<std::string> content = read_regular_file(path, limit_);
  if (!content) return std::nullopt;
  Header header{};
  const bool whole = content->size() >= sizeof header;
  if (whole) std::memcpy(&header, content->data(), sizeof header);
  content->erase(0, sizeof header);
  const Header expected = header_for(key, *content);
  std::error_code error;
  if (!whole || std::memcmp(&header, &expected, sizeof header) != 0) {
    fs::remove(path, error);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // trim() keeps what is used
  return content;
}

void BinaryCache::store(const std::string& key, const std::string& content) {
  if (directory_.empty() || sizeof(Header) + content.size() > limit_) return;
  std::error_code error;
  fs::create_directories(directory_, error);
  const unsigned serial = stores_++;
  const std::string path = path_of(key);
  // Process ids repeat among containers that share a directory: chance keeps the names apart.
  std::random_device chance;
  const std::string temporary = directory_ + "/" + kTemporary + std::to_string(getpid()) + "-" +
                                std::to_string(chance()) + "-" + std::to_string(chance());
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  const Header header = header_for(key, content);
  file.write(reinterpret_cast<const char*>(&header), sizeof header);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (file) fs::rename(temporary, path, error);
  if (!file || error) fs::remove(temporary, error);
  if (serial % 16 == 0) trim();
}

void BinaryCache::trim() const {
  struct File {
    fs::path path;
    fs::file_time_type time;
    uint64_t size;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another process may remove files meanwhile
    const std::string name = it->path().filename().string();
    const File file{it->path(), it->last_write_time(gone), it->file_size(gone)};
    if (gone) continue;
    if (name.rfind(kTemporary, 0) == 0 && now - file.time > std::chrono::hours(1))
      fs::remove(file.path, gone);
    if (it->path().extension() != kSuffix) continue;
    files.push_back(file);
    total += file.size;
  }
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& file : files) {
    if (total <= limit_ / 4 * 3) break;
    fs::remove(file.path, error);
    if (!error) total -= file.size;  // also when another process was faster
  }
}

}  // namespace dlprim::detail
