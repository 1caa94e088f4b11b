// What a shared library shows: everything else in it is hidden, so that the library's own copies of
// inline functions from CL/opencl.hpp never mix with the user's (who may compile them with exceptions).
#pragma once

#if defined(_WIN32)
#define DLPRIM_API
#else
#define DLPRIM_API __attribute__((visibility("default")))
#endif
