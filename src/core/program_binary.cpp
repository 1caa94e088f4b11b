#include "core/program_binary.hpp"

namespace dlprim::detail {

std::string program_log(const cl::Program& program, cl_device_id device) {
  size_t size = 0;
  if (clGetProgramBuildInfo(program(), device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS)
    return "";
  std::string log(size, '\0');
  clGetProgramBuildInfo(program(), device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return log.c_str();
}

std::string program_binary(const cl::Program& program) {
  cl_uint devices = 0;
  size_t size = 0;
  if (clGetProgramInfo(program(), CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, nullptr) != CL_SUCCESS ||
      devices != 1 ||
      clGetProgramInfo(program(), CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS ||
      !size)
    return "";
  std::string binary(size, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(binary.data());
  if (clGetProgramInfo(program(), CL_PROGRAM_BINARIES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS)
    return "";
  return binary;
}

cl::Program program_from_binary(const cl::Context& context, cl_device_id device, const std::string& binary,
                                const std::string& options, std::string* log) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  cl_int code = CL_SUCCESS, status = CL_SUCCESS;
  cl::Program program(clCreateProgramWithBinary(context(), 1, &device, &size, &bytes, &status, &code));
  if (code != CL_SUCCESS || status != CL_SUCCESS) return {};
  if (clBuildProgram(program(), 1, &device, options.c_str(), nullptr, nullptr) == CL_SUCCESS) return program;
  if (log) *log = program_log(program, device);
  return {};
}

}  // namespace dlprim::detail
