// What a launch of conv_fma.cl is about. For OpenCL C, behind lib/divisor.h and conv_axes.h, and for C++ through
// ops/conv/conv_fma.cpp.
typedef struct {
  int channels;      // the source's in a group
  AxisSizes source;  // its sizes
  // An image has `plane` pixels, `slice` at a depth, `columns` in a row; a channel has taps, `window_slice` at a depth, `window`
  // in a row. `inner`: the taps of a channel, or, where neighbours are channels, the channels of a tap.
  Divisor plane, slice, columns, inner, window_slice, window;
  AxisSizes stride, pad, dilation;
  PixelStrides s, t, w;  // of w, n is from row to row, c along the sum's channels
} FmaShape;
