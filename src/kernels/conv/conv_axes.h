// Sizes, and how tensors lie. For OpenCL C, behind lib/int64.h, and for C++ through ops/conv/conv_axes.hpp.
typedef struct {
  int d, h, w;
} AxisSizes;

// From image to image, from channel to channel and along the axes; of w from filter to filter and along those.
typedef struct {
  int n, c, d, h, w;
} PixelStrides;

typedef struct {
  Int64 n, c, d, h, w;
} LongStrides;
