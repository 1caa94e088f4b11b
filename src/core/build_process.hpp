// BuildProcess: the program dlprim-compiler, which compiles for us. Some drivers compile one program at a
// time in a process, however many threads ask; several processes compile several. What they compiled comes
// through the folder of compiled programs, and through the driver's own.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>

#include <dlprim/device.hpp>

namespace dlprim::detail {

/// A program to be compiled, and where its binary is to be kept; all as texts, as they travel. Without a
/// folder the driver keeps it. Without a key only a context is made for the device, which takes longer than
/// compiling most programs.
struct BuildRequest {
  std::string platform, device;  ///< the platform's name, the device's number among the platform's
  std::string name, source, options;
  /// Empty, or a kernel that is to be made as well, where the driver makes it when it is launched: its name,
  /// the number of axes, the group's size along each, and its arguments in order: "m" a buffer, "v8" a number
  /// or struct of 8 bytes, "l64" local memory of 64.
  std::string launch;
  std::string folder, bytes, key;  ///< of the BinaryCache: where, its limit, under what

  std::array<std::string*, 9> fields() {
    return {&platform, &device, &name, &source, &options, &launch, &folder, &bytes, &key};
  }
};

/// These return false if the other end is gone, or sends something else.
bool send_request(int socket, BuildRequest request);
bool receive_request(int socket, BuildRequest& request);
bool send_verdict(int socket, const std::string& failure);
bool receive_verdict(int socket, std::string& failure);

/// How many processes are to compile for a device: `configured`; or as $DLPRIM_BUILD_PROCESSES says; or,
/// where the driver compiles one program at a time, as many as there are cores, at most 8, and one for each
/// 4 GiB of the device's memory, since each makes a context there. 0 without the program dlprim-compiler.
int build_processes(std::optional<int> configured, const DeviceFacts& device);

/// Starts with the first request and ends with the object. Of one thread.
class BuildProcess {
 public:
  BuildProcess() = default;
  ~BuildProcess();
  BuildProcess(const BuildProcess&) = delete;
  BuildProcess& operator=(const BuildProcess&) = delete;

  /// Has it make a context for the device. False while it does; a call waits for 50 ms at most.
  bool prepare(const std::string& platform, const std::string& device);
  /// Empty if the program was compiled and is kept. Else why not, for the log: compile it here, where errors
  /// can be told. A process that ended is started again, a few times; one that did not start is not.
  std::string build(const BuildRequest& request);

 private:
  bool start();
  void end();

  int socket_ = -1;
  pid_t process_ = -1;
  bool preparing_ = false, failed_ = false;
  int ends_left_ = 8;  ///< so often it may still end
};

}  // namespace dlprim::detail
