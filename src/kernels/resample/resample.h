// What the kernels of resampling are told of the three mapped axes and the inner one. For OpenCL C, behind lib/int64.h, and for
// C++ through ops/resample/resample_pass.hpp.
typedef struct {
  Int64 x[3], y[3];  // steps along the mapped axes
  Int64 x_inner;     // in x along the inner one
  int size[3];       // of y
  int table[3], weights[3];  // where an axis' taps begin in the tables
  int inner;                 // elements, or vectors
} ResampleAxes;

// Of resample_cpu.cl.
typedef struct {
  Int64 block;        // rows of y of a work-item
  int planes;
  int x_row, x_size;  // elements that a row of x has room for, and places that it has
  int run_begin, run_end, run_source;  // places of the last axis, neighbours in x from run_source on
} ResampleRows;
