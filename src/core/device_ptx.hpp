// NVIDIA's OpenCL compiles for sm_90, which refuses the instructions of sm_90a (Hopper's matrix units and
// bulk copies). Kernels hold those as PTX comments, "//@instruction"; the program's binary is PTX text, so
// they can be uncovered in it, and a program made from it.
#pragma once

#include <string>

#include <dlprim/opencl.hpp>

namespace dlprim::detail {

/// True if the kernel source holds covered instructions.
bool has_covered_ptx(const std::string& source);

/// A built program with the instructions of `program` uncovered, and directives of kernels, which stand in
/// their bodies as
/// "//@entry .directive", moved in front of those. Throws BuildError under `name`, which says what the
/// assembler did.
cl::Program uncover_ptx(const cl::Context& context, cl_device_id device, const cl::Program& program,
                        const std::string& name);

}  // namespace dlprim::detail
