// An OpenCL driver that is broken: the loader takes it and finds one platform, which fails when it is asked
// for its devices. For the test that such a platform harms nothing. With DLPRIM_FAKE_VENDOR in the
// environment it has one GPU of that vendor, which tells facts and does nothing; DLPRIM_FAKE_LOCAL=global: it
// keeps local memory in global memory. For tests of what is derived from facts.
#include <CL/cl.h>
#include <CL/cl_icd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/// Puts a value where a query wants it.
cl_int answer(const void* data, size_t length, size_t size, void* value, size_t* needed) {
  if (needed) *needed = length;
  if (value && size < length) return CL_INVALID_VALUE;
  if (value) std::memcpy(value, data, length);
  return CL_SUCCESS;
}

cl_int CL_API_CALL platform_info(cl_platform_id, cl_platform_info what, size_t size, void* value,
                                 size_t* needed) {
  const char* text = what == CL_PLATFORM_NAME         ? "A broken platform"
                     : what == CL_PLATFORM_VERSION    ? "OpenCL 1.2 broken"
                     : what == CL_PLATFORM_PROFILE    ? "FULL_PROFILE"
                     : what == CL_PLATFORM_EXTENSIONS ? "cl_khr_icd"
                                                      : "broken";
  return answer(text, std::strlen(text) + 1, size, value, needed);
}

cl_int CL_API_CALL platform_ids(cl_uint, cl_platform_id*, cl_uint*);
cl_int CL_API_CALL device_ids(cl_platform_id, cl_device_type, cl_uint, cl_device_id*, cl_uint*);
cl_int CL_API_CALL device_info(cl_device_id, cl_device_info, size_t, void*, size_t*);

cl_int CL_API_CALL retain_device(cl_device_id) {
  return CL_SUCCESS;
}

struct Object {
  cl_icd_dispatch* dispatch;  // first, where the loader looks for it
};

/// The platform; its device, which the loader only has to find its way by, is the same.
Object* platform() {
  static cl_icd_dispatch table = [] {
    cl_icd_dispatch t{};
    t.clGetPlatformIDs = platform_ids;
    t.clGetPlatformInfo = platform_info;
    t.clGetDeviceIDs = device_ids;
    t.clGetDeviceInfo = device_info;
    t.clRetainDevice = retain_device;
    t.clReleaseDevice = retain_device;
    return t;
  }();
  static Object instance{&table};
  return &instance;
}

cl_int CL_API_CALL platform_ids(cl_uint room, cl_platform_id* ids, cl_uint* count) {
  if (count) *count = 1;
  if (ids && room > 0) ids[0] = reinterpret_cast<cl_platform_id>(platform());
  return CL_SUCCESS;
}

cl_int CL_API_CALL device_ids(cl_platform_id, cl_device_type, cl_uint room, cl_device_id* ids,
                              cl_uint* count) {
  if (!std::getenv("DLPRIM_FAKE_VENDOR")) return CL_OUT_OF_HOST_MEMORY;
  if (count) *count = 1;
  if (ids && room > 0) ids[0] = reinterpret_cast<cl_device_id>(platform());
  return CL_SUCCESS;
}

cl_int CL_API_CALL device_info(cl_device_id, cl_device_info what, size_t size, void* value, size_t* needed) {
  constexpr cl_device_info kSubGroupSizes = 0x4108;
  const auto text = [&](const std::string& t) {
    return answer(t.c_str(), t.size() + 1, size, value, needed);
  };
  const auto number = [&](auto n) { return answer(&n, sizeof n, size, value, needed); };
  const char* given = std::getenv("DLPRIM_FAKE_LOCAL");
  const std::string local = given ? given : "local";
  switch (what) {
    case CL_DEVICE_PLATFORM:
      return number(reinterpret_cast<cl_platform_id>(platform()));
    case CL_DEVICE_TYPE:
      return number(cl_device_type{CL_DEVICE_TYPE_GPU});
    case CL_DEVICE_LOCAL_MEM_TYPE:
      return number(static_cast<cl_device_local_mem_type>(local == "global" ? CL_GLOBAL : CL_LOCAL));
    case CL_DEVICE_NAME:
      return text("A fake GPU");
    case CL_DEVICE_VENDOR:
      return text(std::getenv("DLPRIM_FAKE_VENDOR"));
    case CL_DEVICE_VERSION:
      return text("OpenCL 1.2 fake");
    case CL_DRIVER_VERSION:
      return text("1");
    case CL_DEVICE_EXTENSIONS:
      return text("cl_intel_subgroups cl_intel_required_subgroup_size");
    case kSubGroupSizes: {
      const size_t widths[] = {8, 16, 32};
      return answer(widths, sizeof widths, size, value, needed);
    }
    default: {  // some number
      const std::string zeros(size, '\0');
      return answer(zeros.data(), size, size, value, needed);
    }
  }
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
