// In structs that C++ and OpenCL C share 64-bit whole numbers have C++'s name: its `long` may be shorter.
#ifndef __cplusplus
typedef long int64_t;
#endif
