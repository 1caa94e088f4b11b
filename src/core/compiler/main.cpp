// dlprim-compiler: compiles programs for a process that uses the library, one after the other, as its
// standard input asks, a socket; ends with it. `dlprim-compiler platforms` prints how many platforms there
// are, for programs that fork before they use one: some loaders have drivers start threads when they are
// asked. Not for people.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
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
  /// Has the driver make a kernel of the program; see BuildRequest::launch. One group of it runs, on
  /// zeros: most kernels then have nothing to do.
  void launch(const cl::Program& program, const std::string& text) {
    std::istringstream words(text);
    std::string name, argument;
    cl_uint axes = 0, number = 0;
    size_t local[3] = {1, 1, 1};
    words >> name >> axes;
    for (cl_uint i = 0; i < axes && i < 3; i++) words >> local[i];
    cl_int code = CL_SUCCESS;
    cl::Kernel kernel(clCreateKernel(program(), name.c_str(), &code));
    cl_check(code, "clCreateKernel");
    const cl::CommandQueue queue(context_, device_, 0, &code);
    cl_check(code, "clCreateCommandQueue");
    std::vector<char> zeros(kScratch);
    cl::Buffer scratch(context_, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, zeros.size(), zeros.data(), &code);
    cl_check(code, "clCreateBuffer");
    const cl_mem buffer = scratch();
    for (; words >> argument; number++) {
      const size_t bytes = argument == "m" ? sizeof buffer : std::stoul(argument.substr(1));
      const std::vector<char> value(bytes);
      const void* given = nullptr;
      if (argument[0] == 'm') given = &buffer;
      if (argument[0] == 'v') given = value.data();
      cl_check(clSetKernelArg(kernel(), number, bytes, given), "clSetKernelArg");
    }
    alarm(kPatience);
    cl_check(clEnqueueNDRangeKernel(queue(), kernel(), axes, nullptr, local, local, 0, nullptr, nullptr),
             "clEnqueueNDRangeKernel");
    cl_check(clFinish(queue()), "clFinish");
    alarm(0);
  }

  cl_device_id device() const { return device_(); }
  const cl::Context& context() const { return context_; }

 private:
  static constexpr size_t kScratch = size_t{1} << 20;
  static constexpr unsigned kPatience = 60;  // seconds in which a kernel is made, and runs

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
    if (!request.launch.empty()) target.launch(program, request.launch);
    if (request.folder.empty()) return "";
    const std::string binary = program_binary(program);
    require(!binary.empty(), "program", "has no binary");
    BinaryCache(request.folder, std::stoull(request.bytes)).store(request.key, binary);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::string(arguments[1]) == "platforms") {
    cl_uint platforms = 0;
    clGetPlatformIDs(0, nullptr, &platforms);
    std::printf("%u\n", platforms);
    std::fflush(stdout);
    _exit(0);
  }
  // With such arguments a kernel may divide by zero or leave its buffers. By then it is made.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) signal(fault, [](int) { _exit(0); });
  Target target;
  BuildRequest request;
  while (receive_request(STDIN_FILENO, request))
    if (!send_verdict(STDIN_FILENO, serve(target, request))) break;
  _exit(0);  // drivers need not take themselves apart for it
}
