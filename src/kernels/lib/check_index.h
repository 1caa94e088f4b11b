// What check_index.cl searches: an index tensor and the range that its elements must be in. For OpenCL C, behind
// lib/int64.h, and for C++ through core/index_check.cpp.
typedef struct {
  Int64 size[8], stride[8];  // of the index tensor, outermost first; unused dimensions have size 1
  Int64 count;               // its elements
  Int64 least, end, skip;    // an element v is right if least <= v < end or, with `skips`, v == skip
  Int64 skips;
  Int64 site;  // what the record names; greater than 0
} IndexSearch;
