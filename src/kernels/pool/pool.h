// What the pooling kernels are told of a problem. For OpenCL C, behind lib/divisor.h, and for C++ through
// ops/pool/pool_engines.cpp.

typedef struct {
  int size, out;  // of x, and of y
  int taps, stride, dilation, pad;
  int limit;  // where x ends with the padding behind
} PoolWindows;

typedef struct {
  int channels;
  int divided;  // what all averages divide by, if it is one number
  PoolWindows d, h, w;
} PoolAxes;

// `items` elements of an image of y, or backward of dx, or vectors of them: of across x down x deep places, in `groups`
// vectors of channels.
typedef struct {
  int images, items;
  Divisor groups, across, down, deep;
} PoolGrid;
