// dlprim-compiler: compiles programs for a process that uses the library, one after the other, as its
// standard input asks, a socket; ends with it. Not for people.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/binary_cache.hpp"
#include "core/build_process.hpp"
#include "core/check.hpp"
#include "core/compile.hpp"
#include "core/program_binary.hpp"

using namespace dlprim::detail;

namespace {

/// The device that requests are for, with a context. A process asks for one device, as a rule.
class Target {
 public:
  void set(const std::string& platform, const std::string& number) {
    if (platform == platform_ && number == number_) return;
    device_ = cl::Device();
    std::vector<cl::Platform> platforms;
    cl_check(cl::Platform::get(&platforms), "clGetPlatformIDs");
    for (const cl::Platform& each : platforms) {
      std::string name;
      std::vector<cl::Device> devices;
      const size_t at = std::stoul(number);
      if (each.getInfo(CL_PLATFORM_NAME, &name) != CL_SUCCESS || name.c_str() != platform ||
          each.getDevices(CL_DEVICE_TYPE_ALL, &devices) != CL_SUCCESS || at >= devices.size())
        continue;
      device_ = devices[at];
      cl_int code = CL_SUCCESS;
      context_ = cl::Context(device_, nullptr, nullptr, nullptr, &code);
      cl_check(code, "clCreateContext");
      break;
    }
    require(device_() != nullptr, "device", platform, " has no device ", number);
    platform_ = platform;
    number_ = number;
  }
  cl_device_id device() const { return device_(); }
  const cl::Context& context() const { return context_; }

 private:
  std::string platform_, number_;
  cl::Device device_;
  cl::Context context_;
};

/// Why it failed; empty if it did not.
std::string serve(Target& target, const BuildRequest& request) {
  try {
    target.set(request.platform, request.device);
    if (request.key.empty()) return "";
    const cl::Program program =
        compile_program(target.context(), target.device(), request.name, request.source, request.options);
    const std::string binary = program_binary(program);
    require(!binary.empty(), "program", "has no binary");
    BinaryCache(request.folder, std::stoull(request.bytes)).store(request.key, binary);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

int main() {
  Target target;
  BuildRequest request;
  while (receive_request(STDIN_FILENO, request))
    if (!send_verdict(STDIN_FILENO, serve(target, request))) break;
  _exit(0);  // drivers need not take themselves apart for it
}
