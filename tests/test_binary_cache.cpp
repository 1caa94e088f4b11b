// The binary cache on disk: round trips, damaged and foreign files, folders that cannot be written, the
// limit, and several processes at once. Uses no OpenCL, so it may fork.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "child.hpp"
#include "core/binary_cache.hpp"
#include "support.hpp"

using namespace dlprim;
using detail::BinaryCache;
using test::bytes_of;
using test::put;
using test::TempDir;

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLimit = 1 << 20;

/// A content that its key determines, so that any process can check what it loads.
std::string content_of(int key) {
  test::Rng rng(static_cast<uint64_t>(key));
  std::string text(static_cast<size_t>(rng.integer(0, 5000)), ' ');
  for (char& c : text) c = static_cast<char>(rng.integer(0, 255));
  return text;
}
std::string key_of(int key) {
  return "key " + std::to_string(key);
}

int files_in(const fs::path& path) {
  return static_cast<int>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}
uint64_t bytes_in(const fs::path& path) {
  uint64_t total = 0;
  for (const auto& entry : fs::directory_iterator(path)) total += entry.file_size();
  return total;
}

/// Runs `work` in a child process without the rights that root has; true if it returned true.
template <class F>
bool in_child(const F& work, bool as_nobody) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = (!as_nobody || getuid() != 0 || seteuid(65534) == 0) && work();
    } catch (...) {
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("binary cache: what was stored is loaded, byte for byte", "[binary_cache]") {
  const TempDir dir;
  BinaryCache cache(dir / "new/and/deep", kLimit);
  CHECK_FALSE(cache.load("a").has_value());
  const std::string bytes("zero \0 and \xff and newline \n", 26);
  cache.store("a", bytes);
  cache.store("b", "");
  cache.store("", "of the empty key");
  CHECK(cache.load("a") == bytes);
  CHECK(cache.load("b") == std::string());
  CHECK(cache.load("") == std::string("of the empty key"));
  CHECK_FALSE(cache.load("c").has_value());
  cache.store("a", "newer");
  CHECK(cache.load("a") == std::string("newer"));
  CHECK(BinaryCache(dir / "new/and/deep", kLimit).load("a") == std::string("newer"));
  CHECK(files_in(dir / "new/and/deep") == 3);  // no temporary file is left
}

TEST_CASE("binary cache: a damaged file is removed and rebuilt", "[binary_cache]") {
  const TempDir dir;
  BinaryCache cache(dir.path().string(), kLimit);
  const std::string path = cache.path_of("a"), content = content_of(1);
  cache.store("a", content);
  const std::string good = bytes_of(path);
  REQUIRE(good.size() > content.size());

  std::vector<std::string> damaged;
  for (size_t keep : {size_t{0}, size_t{7}, size_t{31}, size_t{32}, good.size() / 2, good.size() - 1})
    damaged.push_back(good.substr(0, keep));                                            // truncated
  for (size_t at = 0; at < 40; at++) damaged.push_back(good), damaged.back()[at] ^= 1;  // a bit of the header
  damaged.push_back(good), damaged.back().back() ^= 0x40;                          // a bit of the content
  damaged.push_back(good + "x");                                                   // too long
  damaged.push_back(std::string(200, 'x'));                                        // foreign
  damaged.push_back(good), damaged.back().replace(16, 8, std::string(8, '\xff'));  // says 2^64 bytes
  damaged.push_back(good), damaged.back().replace(16, 8, std::string("\0\0\0\0\0\0\0\0", 8));  // says none
  for (const std::string& text : damaged) {
    put(path, text);
    INFO("size " << text.size());
    CHECK_FALSE(cache.load("a").has_value());
    CHECK_FALSE(fs::exists(path));
    cache.store("a", content);
    CHECK(cache.load("a") == content);
  }
}

TEST_CASE("binary cache: another key's file under this name is not believed", "[binary_cache]") {
  const TempDir dir;
  BinaryCache cache(dir.path().string(), kLimit);
  cache.store("a", "of a");
  fs::rename(cache.path_of("a"), cache.path_of("b"));
  CHECK_FALSE(cache.load("b").has_value());
}

TEST_CASE("binary cache: no folder, no cache, no error", "[binary_cache]") {
  BinaryCache off("", kLimit);
  CHECK_NOTHROW(off.store("a", "x"));
  CHECK_FALSE(off.load("a").has_value());
  CHECK_NOTHROW(off.trim());

  const TempDir dir;
  put(dir / "file", "not a folder");
  BinaryCache below_file(dir / "file", kLimit);
  CHECK_NOTHROW(below_file.store("a", "x"));
  CHECK_FALSE(below_file.load("a").has_value());
  CHECK(bytes_of(dir / "file") == "not a folder");

  BinaryCache taken(dir / "taken", kLimit);
  fs::create_directories(taken.path_of("a") + "/full");  // a folder where the file should be
  CHECK_NOTHROW(taken.store("a", "x"));
  CHECK_FALSE(taken.load("a").has_value());
  CHECK(fs::exists(taken.path_of("a") + "/full"));
  taken.store("b", "y");
  CHECK(taken.load("b") == std::string("y"));
}

TEST_CASE("binary cache: a folder that may only be read serves what it has", "[binary_cache]") {
  const TempDir dir;
  const std::string folder = dir / "cache";
  BinaryCache cache(folder, kLimit);
  cache.store("good", "content");
  cache.store("bad", "content");
  put(cache.path_of("bad"), "damaged");
  chmod(dir.path().c_str(), 0755);
  chmod(folder.c_str(), 0555);
  CHECK(in_child(
      [&] {
        BinaryCache mine(folder, kLimit);
        mine.store("new", "x");
        mine.trim();
        return mine.load("good") == std::string("content") && !mine.load("bad") && !mine.load("new");
      },
      true));
  chmod(folder.c_str(), 0000);
  CHECK(in_child(
      [&] {
        BinaryCache mine(folder, kLimit);
        mine.store("new", "x");
        return !mine.load("good") && !mine.load("new");
      },
      true));
  chmod(folder.c_str(), 0755);
  CHECK(cache.load("good") == std::string("content"));
}

TEST_CASE("binary cache: past the limit the oldest files go", "[binary_cache]") {
  const TempDir dir;
  BinaryCache cache(dir.path().string(), 100000);
  const std::string content(9000, 'x');
  for (int i = 0; i < 10; i++) {
    cache.store(key_of(i), content);
    // Ages in minutes, the first one the oldest.
    fs::last_write_time(cache.path_of(key_of(i)),
                        fs::file_time_type::clock::now() - std::chrono::minutes(60 - i));
  }
  cache.trim();
  CHECK(files_in(dir.path()) == 10);         // 90 KB and headers fit
  CHECK(cache.load(key_of(0)).has_value());  // used: the newest now
  put(dir / ".tmp-1-2", "left by a crash, long ago");
  fs::last_write_time(dir / ".tmp-1-2", fs::file_time_type::clock::now() - std::chrono::hours(3));
  put(dir / ".tmp-1-3", "being written");
  cache.store(key_of(10), content);
  cache.store(key_of(11), content);
  cache.trim();
  CHECK(bytes_in(dir.path()) <= 75000 + 100);
  CHECK(bytes_in(dir.path()) >= 60000);
  CHECK_FALSE(cache.load(key_of(1)).has_value());
  CHECK_FALSE(cache.load(key_of(2)).has_value());
  CHECK(cache.load(key_of(0)).has_value());
  CHECK(cache.load(key_of(11)).has_value());
  CHECK_FALSE(fs::exists(dir / ".tmp-1-2"));
  CHECK(fs::exists(dir / ".tmp-1-3"));
}

TEST_CASE("binary cache: storing alone keeps the folder bounded", "[binary_cache]") {
  const TempDir dir;
  BinaryCache cache(dir.path().string(), 100000);
  for (int i = 0; i < 100; i++) cache.store(key_of(i), std::string(5000, 'x'));
  // Between two looks at the folder sixteen files may come in.
  CHECK(bytes_in(dir.path()) <= 100000 + 16 * 5100);
  CHECK(cache.load(key_of(99)).has_value());
  CHECK_NOTHROW(cache.store("huge", std::string(100001, 'x')));
  CHECK_FALSE(cache.load("huge").has_value());
}

TEST_CASE("binary cache: foreign files in the folder are left alone", "[binary_cache]") {
  const TempDir dir;
  BinaryCache cache(dir.path().string(), 1000);
  put(dir / "notes.txt", std::string(5000, 'n'));
  fs::create_directory(dir / "folder.bin");
  for (int i = 0; i < 40; i++) cache.store(key_of(i), std::string(300, 'x'));
  cache.trim();
  CHECK(fs::exists(dir / "notes.txt"));
  CHECK(fs::exists(dir / "folder.bin"));
}

TEST_CASE("binary cache: what is no regular file is not read, and not waited for", "[binary_cache]") {
  const TempDir dir;
  BinaryCache cache(dir.path().string(), kLimit);
  const std::vector<std::pair<const char*, std::function<bool(const std::string&)>>> kinds = {
      {"pipe", [](const std::string& path) { return mkfifo(path.c_str(), 0600) == 0; }},
      {"link to a pipe",
       [&](const std::string& path) {
         return mkfifo((dir / "pipe").c_str(), 0600) == 0 &&
                symlink((dir / "pipe").c_str(), path.c_str()) == 0;
       }},
      {"link to /dev/zero", [](const std::string& path) { return symlink("/dev/zero", path.c_str()) == 0; }},
      {"link to nothing",
       [](const std::string& path) { return symlink("/no/such/file", path.c_str()) == 0; }},
      {"link to itself", [](const std::string& path) { return symlink(path.c_str(), path.c_str()) == 0; }},
      {"socket",
       [](const std::string& path) {
         const int end = socket(AF_UNIX, SOCK_STREAM, 0);
         sockaddr_un address{};
         address.sun_family = AF_UNIX;
         path.copy(address.sun_path, sizeof address.sun_path - 1);
         const bool bound = bind(end, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
         close(end);
         return bound;
       }},
      {"file of a terabyte", [](const std::string& path) {
         put(path, "");
         return truncate(path.c_str(), int64_t{1} << 40) == 0;
       }}};
  for (const auto& [name, make] : kinds) {
    INFO(name);
    const std::string path = cache.path_of(name);
    REQUIRE(make(path));
    CHECK(in_child(
        [&, &key = name] {
          alarm(20);  // ends the child where load() waits
          cache.trim();
          return !cache.load(key).has_value();
        },
        false));
    cache.store(name, "content");
    CHECK(cache.load(name) == std::string("content"));
    CHECK(fs::symlink_status(path).type() == fs::file_type::regular);
  }
  cache.store("a", "content");
  fs::rename(cache.path_of("a"), dir / "elsewhere");
  fs::create_symlink(dir / "elsewhere", cache.path_of("a"));
  CHECK(cache.load("a") == std::string("content"));  // a link to a regular file is as good
}

TEST_CASE("binary cache: several processes and threads at once", "[binary_cache][threads]") {
  const TempDir dir;
  constexpr int kKeys = 40, kRounds = 15;
  // The limit makes every process trim while the others read and write.
  const auto work = [&](int seed) {
    BinaryCache cache(dir.path().string(), 60000);
    test::Rng rng(static_cast<uint64_t>(seed));
    for (int i = 0; i < kKeys * kRounds; i++) {
      const int key = static_cast<int>(rng.integer(0, kKeys - 1));
      if (const auto loaded = cache.load(key_of(key))) {
        if (*loaded != content_of(key)) return false;
      } else {
        cache.store(key_of(key), content_of(key));
      }
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int p = 0; p < 3; p++) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = false;
      try {
        good = work(p);
      } catch (...) {
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  std::vector<int> good(3, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) threads.emplace_back([&, t] { good[static_cast<size_t>(t)] = work(10 + t); });
  for (std::thread& thread : threads) thread.join();
  CHECK(good == std::vector<int>(3, 1));
  for (pid_t child : children) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  for (const auto& entry : fs::directory_iterator(dir.path())) CHECK(entry.path().extension() == ".bin");
}

TEST_CASE("child: user cache", "[.]") {
  BinaryCache::user().store("key", "content");
  std::printf("directory=%s loaded=%d\n", BinaryCache::user().directory().c_str(),
              static_cast<int>(BinaryCache::user().load("key").has_value()));
  CHECK(true);
}

TEST_CASE("binary cache: the user's folder follows the environment", "[binary_cache]") {
  const TempDir dir;
  const auto says = [&](const std::vector<std::pair<std::string, std::string>>& variables,
                        const std::vector<std::string>& without = {}) {
    const test::Child child = test::run_child("child: user cache", variables, without);
    CHECK(child.passed);
    const size_t at = child.output.find("directory=");
    return child.output.substr(at, child.output.find('\n', at) - at);
  };
  const std::string home = dir.path().string();
  CHECK(says({{"DLPRIM_CACHE_DIR", dir / "own"}}) == "directory=" + home + "/own loaded=1");
  CHECK(says({{"DLPRIM_CACHE_DIR", ""}}) == "directory= loaded=0");
  CHECK(says({{"XDG_CACHE_HOME", home}}, {"DLPRIM_CACHE_DIR"}) == "directory=" + home + "/dlprim loaded=1");
  CHECK(says({{"HOME", home}}, {"DLPRIM_CACHE_DIR", "XDG_CACHE_HOME"}) ==
        "directory=" + home + "/.cache/dlprim loaded=1");
  CHECK(says({}, {"DLPRIM_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) == "directory= loaded=0");
  CHECK(says({{"DLPRIM_CACHE_DIR", dir / "none"}, {"DLPRIM_CACHE_MB", "0"}}) ==
        "directory=" + home + "/none loaded=0");
}
