// For OpenCL C, behind lib/divisor.h and conv/conv_axes.h, and, through ops/conv/conv_nv_patch.hpp, for C++.

// Tiles of y, along the axes and in all images, sizes along the axes, how x lies.
typedef struct {
  Divisor tiles_h, tiles_w;
  int tiles, filters, x_h, x_w, y_h, y_w, pad_h, pad_w;
  LongStrides x;
} PatchShape;
