// The one way this project includes OpenCL: the C++ bindings, for OpenCL 1.2 and later.
// A user who needs other settings includes CL/opencl.hpp with them first.
#pragma once

#ifndef CL_HPP_TARGET_OPENCL_VERSION
#define CL_HPP_TARGET_OPENCL_VERSION 120
#endif
#ifndef CL_HPP_MINIMUM_OPENCL_VERSION
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#endif

#include <CL/opencl.hpp>
