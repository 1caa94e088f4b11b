// What conv_naive.cl is told of a problem, in the words of ConvProblem. For OpenCL C, behind lib/int64.h and conv_axes.h, and
// for C++ through ops/conv/conv_naive.cpp.

// Of x [N, C, D, H, W], w [K, C/groups, T, R, S] and y [N, K, O, P, Q], in their order.
typedef struct {
  Int64 n, c, d, h, w;
} NaiveStrides;

typedef struct {
  NaiveStrides x, w, y;
  int n, groups;
  int group_c, group_k;  // channels and filters of a group
  AxisSizes x_space, w_space, y_space, stride, pad, dilation;
} NaiveGeometry;
