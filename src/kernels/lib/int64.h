// A name for 64-bit whole numbers in structs that C++ and OpenCL C share: C++'s `long` may be shorter.
#ifdef __cplusplus
typedef int64_t Int64;
#else
typedef long Int64;
#endif
