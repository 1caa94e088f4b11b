// An OpenCL driver that is broken: the loader takes it and finds one platform, which fails when it is asked
// for its devices. For the test that such a platform harms nothing.
#include <CL/cl.h>
#include <CL/cl_icd.h>

#include <cstring>

namespace {

cl_int CL_API_CALL platform_info(cl_platform_id, cl_platform_info what, size_t size, void* value,
                                 size_t* needed) {
  const char* text = what == CL_PLATFORM_NAME         ? "A broken platform"
                     : what == CL_PLATFORM_VERSION    ? "OpenCL 1.2 broken"
                     : what == CL_PLATFORM_PROFILE    ? "FULL_PROFILE"
                     : what == CL_PLATFORM_EXTENSIONS ? "cl_khr_icd"
                                                      : "broken";
  const size_t length = std::strlen(text) + 1;
  if (needed) *needed = length;
  if (value && size < length) return CL_INVALID_VALUE;
  if (value) std::memcpy(value, text, length);
  return CL_SUCCESS;
}

cl_int CL_API_CALL device_ids(cl_platform_id, cl_device_type, cl_uint, cl_device_id*, cl_uint*) {
  return CL_OUT_OF_HOST_MEMORY;
}

cl_int CL_API_CALL platform_ids(cl_uint, cl_platform_id*, cl_uint*);

struct Platform {
  cl_icd_dispatch* dispatch;  // first, where the loader looks for it
};

Platform* platform() {
  static cl_icd_dispatch table = [] {
    cl_icd_dispatch t{};
    t.clGetPlatformIDs = platform_ids;
    t.clGetPlatformInfo = platform_info;
    t.clGetDeviceIDs = device_ids;
    return t;
  }();
  static Platform instance{&table};
  return &instance;
}

cl_int CL_API_CALL platform_ids(cl_uint room, cl_platform_id* ids, cl_uint* count) {
  if (count) *count = 1;
  if (ids && room > 0) ids[0] = reinterpret_cast<cl_platform_id>(platform());
  return CL_SUCCESS;
}

}  // namespace

extern "C" {

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t size,
                                                  void* value, size_t* needed) {
  return platform_info(id, what, size, value, needed);
}

CL_API_ENTRY void* CL_API_CALL clGetExtensionFunctionAddress(const char* name) {
  if (std::strcmp(name, "clIcdGetPlatformIDsKHR") == 0) return reinterpret_cast<void*>(platform_ids);
  if (std::strcmp(name, "clGetPlatformInfo") == 0) return reinterpret_cast<void*>(platform_info);
  return nullptr;
}

CL_API_ENTRY cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id* ids, cl_uint* count) {
  return platform_ids(room, ids, count);
}
}
