// What the kernels of convolution on CPUs are told of a problem, or of a pass of it. For OpenCL C, behind conv_axes.h, and for
// C++ through ops/conv/conv_cpu.hpp.
typedef struct {
  int channels;  // the source's in a group
  AxisSizes source, target, window, stride, pad, dilation;
} CpuShape;

// How w lies: from group to group, along the target's and the source's channels, and along the axes.
typedef struct {
  int g, target, source, d, h, w;
} CpuFilter;
