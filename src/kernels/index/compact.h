// How compact.cl goes through the mask and x. For OpenCL C, behind lib/int64.h, and for C++ through ops/index/compaction.cpp.
typedef struct {
  Int64 size[8], mask[8], x[8];  // sizes, and steps in the mask and in x, outermost first
  Int64 count, chunk;            // elements, and those of a work-item
} CompactNest;
