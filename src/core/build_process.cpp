#include "core/build_process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#ifndef MSG_NOSIGNAL  // macOS asks for it otherwise
#define MSG_NOSIGNAL 0
#endif
#ifndef SOCK_CLOEXEC
#define SOCK_CLOEXEC 0
#endif

extern char** environ;

namespace dlprim::detail {
namespace {

namespace fs = std::filesystem;

constexpr char kRequest[] = "dlprim request " DLPRIM_VERSION;
constexpr char kVerdict[] = "dlprim verdict " DLPRIM_VERSION;
constexpr uint64_t kLongest = uint64_t{1} << 30;  // what no text of a request reaches

bool send_all(int socket, const void* from, size_t bytes) {
  for (auto at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* to, size_t bytes) {
  for (auto at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

template <size_t N>
bool receive_word(int socket, const char (&word)[N]) {
  char got[N];
  return receive_all(socket, got, N) && std::memcmp(got, word, N) == 0;
}

void append(std::string& all, const std::string& text) {
  const uint64_t size = text.size();
  all.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
}

bool receive_text(int socket, std::string& text) {
  uint64_t size = 0;
  if (!receive_all(socket, &size, sizeof size) || size > kLongest) return false;
  text.resize(size);
  return receive_all(socket, text.data(), size);
}

/// A list of drivers that Khronos' OpenCL loader cuts short, in its place, when it reads it: kept as the
/// library's own start found it.
constexpr char kDrivers[] = "OCL_ICD_FILENAMES";
const char* const kDriversAtStart = [] {
  const char* list = std::getenv(kDrivers);
  return list ? strdup((std::string(kDrivers) + "=" + list).c_str()) : nullptr;
}();

/// Our environment, with all drivers.
std::vector<char*> environment() {
  std::vector<char*> result;
  for (char** each = environ; *each; each++) {
    const bool drivers =
        std::strncmp(*each, kDrivers, sizeof kDrivers - 1) == 0 && (*each)[sizeof kDrivers - 1] == '=';
    result.push_back(drivers && kDriversAtStart ? const_cast<char*>(kDriversAtStart) : *each);
  }
  result.push_back(nullptr);
  return result;
}

/// The program: $DLPRIM_COMPILER, or one beside the library or the program that holds it, as it was built or
/// installed. Empty if there is none.
fs::path compiler() {
  if (const char* named = std::getenv("DLPRIM_COMPILER")) return named;
  Dl_info here{};
  if (!dladdr(reinterpret_cast<const void*>(&build_processes), &here) || !here.dli_fname) return {};
  std::error_code failed;
  const fs::path folder = fs::canonical(here.dli_fname, failed).parent_path();
  for (const char* at : {"../libexec/dlprim", "../../libexec/dlprim", "../bin", "."}) {
    const fs::path found = folder / at / "dlprim-compiler";
    if (!failed && access(found.c_str(), X_OK) == 0) return found;
  }
  return {};
}

}  // namespace

bool send_request(int socket, BuildRequest request) {
  std::string all(kRequest, sizeof kRequest);
  for (const std::string* field : request.fields()) append(all, *field);
  return send_all(socket, all.data(), all.size());
}

bool receive_request(int socket, BuildRequest& request) {
  if (!receive_word(socket, kRequest)) return false;
  for (std::string* field : request.fields())
    if (!receive_text(socket, *field)) return false;
  return true;
}

bool send_verdict(int socket, const std::string& failure) {
  std::string all(kVerdict, sizeof kVerdict);
  append(all, failure);
  return send_all(socket, all.data(), all.size());
}

bool receive_verdict(int socket, std::string& failure) {
  return receive_word(socket, kVerdict) && receive_text(socket, failure);
}

int build_processes(std::optional<int> configured, const DeviceFacts& device) {
  constexpr int kMost = 16, kUsual = 8;  // of 16 on 16 cores each took twice as long
  constexpr uint64_t kMemoryOfEach = uint64_t{4} << 30;
  if (const char* asked = std::getenv("DLPRIM_BUILD_PROCESSES"); asked && !configured)
    configured = std::atoi(asked);
  int wanted = std::clamp(configured.value_or(0), 0, kMost);
  if (!configured && device.compiles_one_at_a_time)
    wanted = static_cast<int>(std::min<uint64_t>(
        {kUsual, std::max(1U, std::thread::hardware_concurrency()), device.global_memory / kMemoryOfEach}));
  return wanted > 0 && !compiler().empty() ? wanted : 0;
}

BuildProcess::~BuildProcess() {
  end();
}

bool BuildProcess::prepare(const std::string& platform, const std::string& device) {
  constexpr int kPatience = 50;  // milliseconds
  BuildRequest only_device;
  only_device.platform = platform;
  only_device.device = device;
  if (!failed_ && socket_ < 0 && start()) preparing_ = send_request(socket_, only_device);
  if (!preparing_) return true;
  pollfd answer{socket_, POLLIN, 0};
  if (poll(&answer, 1, kPatience) == 0) return false;
  preparing_ = false;
  std::string failure;  // what builds will say, too
  failed_ = !receive_verdict(socket_, failure);
  if (failed_) end();
  return true;
}

std::string BuildProcess::build(const BuildRequest& request) {
  while (preparing_) prepare(request.platform, request.device);
  if (failed_ || (socket_ < 0 && !start())) return "dlprim-compiler does not run";
  std::string failure;
  failed_ = !send_request(socket_, request) || !receive_verdict(socket_, failure);
  if (!failed_) return failure;
  end();
  failed_ = --ends_left_ == 0;
  return "dlprim-compiler ended";
}

bool BuildProcess::start() {
  failed_ = true;  // unless all goes well
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) == 0) {
    const std::string path = compiler().string();
    std::string name = "dlprim-compiler";
    char* const arguments[] = {name.data(), nullptr};
    // The socket is its standard input; what compilers print there goes nowhere.
    failed_ = posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO) != 0 ||
              posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) != 0 ||
              posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) != 0;
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 34)  // what the process has open is none of its business
    failed_ = failed_ || posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1) != 0;
#endif
#endif
    failed_ = failed_ ||
              posix_spawn(&process_, path.c_str(), &actions, nullptr, arguments, environment().data()) != 0;
    posix_spawn_file_actions_destroy(&actions);
  }
  close(ends[1]);
  socket_ = ends[0];
  if (failed_) process_ = -1, end();
  return !failed_;
}

void BuildProcess::end() {
  if (socket_ >= 0) {
    shutdown(socket_, SHUT_RDWR);  // processes that were forked from this one may have it open, too
    close(socket_);
  }
  socket_ = -1;
  if (preparing_ && process_ > 0) kill(process_, SIGKILL);  // inside the driver, and nobody needs it
  preparing_ = false;
  if (process_ > 0)
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
}

}  // namespace dlprim::detail
