#include "core/compile.hpp"

#include "core/check.hpp"
#include "core/device_ptx.hpp"
#include "core/program_binary.hpp"

namespace dlprim::detail {

cl::Program compile_program(const cl::Context& context, cl_device_id device, const std::string& name,
                            const std::string& source, const std::string& options) {
  const char* text = source.c_str();
  const size_t size = source.size();
  cl_int code = CL_SUCCESS;
  cl::Program program(clCreateProgramWithSource(context(), 1, &text, &size, &code));
  cl_check(code, "clCreateProgramWithSource");
  code = clBuildProgram(program(), 1, &device, options.c_str(), nullptr, nullptr);
  if (code == CL_BUILD_PROGRAM_FAILURE || code == CL_INVALID_BUILD_OPTIONS)
    throw BuildError(name, options, program_log(program, device));
  cl_check(code, "clBuildProgram");
  const bool covered = has_covered_ptx(source) && has_covered_ptx(program_binary(program));
  return covered ? uncover_ptx(context, device, program, name) : program;
}

}  // namespace dlprim::detail
