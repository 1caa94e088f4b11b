// Programs to binaries and back.
#pragma once

#include <string>

#include <dlprim/error.hpp>
#include <dlprim/opencl.hpp>

namespace dlprim::detail {

/// What the compiler said; empty if the driver does not tell.
std::string program_log(const cl::Program& program, cl_device_id device);
/// The program's binary; empty where the driver gives none.
std::string program_binary(const cl::Program& program);
/// A built program out of a binary; empty if the driver does not take it, `log` then says why if it knows.
cl::Program program_from_binary(const cl::Context& context, cl_device_id device, const std::string& binary,
                                const std::string& options, std::string* log = nullptr);

}  // namespace dlprim::detail
