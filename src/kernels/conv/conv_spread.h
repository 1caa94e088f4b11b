// What conv_spread.cl is told. For OpenCL C, behind lib/divisor.h and conv_axes.h, and for C++ through ops/conv/conv_spread.cpp.
typedef struct {
  LongStrides y;
  int rows;            // images * C * D * H, of y
  Divisor c, d, h, w;  // y's sizes
  Divisor stride_d, stride_h, stride_w;
  AxisSizes x;
  int unused;  // see check-kernels
} SpreadShape;
