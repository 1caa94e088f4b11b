// For OpenCL C and, through ops/conv/conv_axes.hpp, for C++.
typedef struct {
  int d, h, w;
} AxisSizes;
