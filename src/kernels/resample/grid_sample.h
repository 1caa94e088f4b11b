// What the kernels of grid sampling are told of tensors. For OpenCL C, behind lib/int64.h and lib/divisor.h, and for C++ through
// ops/resample/grid_sample_impl.hpp.
typedef struct {
  Int64 n, c, d, h, w;  // a grid's coordinates are its channels
} SampleSteps;

typedef struct {
  int n, c, d, h, w;  // of x
  int o, p, q;        // of y
} SampleSizes;

// Of grid_sample_last.cl.
typedef struct {
  int vectors;  // of a place
  int d, h, w;  // of x
  int places;   // of all images
  Divisor o, p, q;
} SamplePlaces;
