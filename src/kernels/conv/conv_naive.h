// What conv_naive.cl is told of a problem, in the words of ConvProblem. For OpenCL C, behind conv_axes.h, and
// for C++ through ops/conv/conv_naive.cpp.

typedef struct {
  LongStrides x, w, y;  // of [N, C, D, H, W], [K, C/groups, T, R, S] and [N, K, O, P, Q], in their order
  int n, groups;
  int group_c, group_k;  // channels and filters of a group
  AxisSizes x_space, w_space, y_space, stride, pad, dilation;
} NaiveGeometry;
