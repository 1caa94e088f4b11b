// The table that cmake/EmbedKernels.cmake generates out of src/kernels.
#pragma once

namespace dlprim::detail {

struct EmbeddedKernel {
  const char* name;  ///< the file's name without .cl; null ends the table
  const char* text;
};
const EmbeddedKernel* embedded_kernels();

}  // namespace dlprim::detail
