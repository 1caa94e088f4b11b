// For OpenCL C, behind lib/int64.h, and for C++ through ops/conv/conv_nv_wgmma.cpp.

// How conv_nv_wgmma.cl's whole w lies: from group to group, along the source's and the target's channels, and along the axes.
typedef struct {
  Int64 group, source, target, d, h, w;
} WgmmaWeights;
