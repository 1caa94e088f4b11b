// What the kernels of conv_nv_filter_tile.cl are told of an axis: y's size, x's, and the window's. For OpenCL C, behind
// lib/divisor.h, and for C++ through ops/conv/conv_nv_filter.cpp.
typedef struct {
  Divisor size;
  int source, taps, stride, pad, dilation;
} FilterAxis;

typedef struct {
  FilterAxis d, h, w;
} FilterAxes;
