// Compiling one program. Shared by the library and by the program dlprim-compiler (core/compiler).
#pragma once

#include <string>

#include <dlprim/opencl.hpp>

namespace dlprim::detail {

/// `name` stands in errors. Throws BuildError and DeviceError.
cl::Program compile_program(const cl::Context& context, cl_device_id device, const std::string& name,
                            const std::string& source, const std::string& options);

}  // namespace dlprim::detail
