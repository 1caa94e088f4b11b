// What slice_backward.cl is told of a problem. For OpenCL C, behind lib/int64.h and lib/divisor.h, and for C++ through
// ops/movement/slice_backward_direct.cpp.
typedef struct {
  Int64 dy[8], dx[8];  // steps along the dimensions, the innermost in dx first
  Divisor size[8];     // the first one's in words
  Divisor step;
  int first, lead;  // the first slice goes to place first * step + lead, lead < step
  int filled;       // slices
  int count;        // words
  int unused;       // see check-kernels
} SliceBackwardNest;
