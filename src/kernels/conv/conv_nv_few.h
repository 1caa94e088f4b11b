// For OpenCL C and, through ops/conv/conv_nv_few.cpp, for C++.

// An axis of backward data in blocks: `stride` pixels of a block, `taps` of its window in dy, which begins `lower` from the
// block's place. Pixel a meets w's tap (a + pad - (lower + u * apart) * stride) / dilation at window tap u, if there is one.
typedef struct {
  int stride, taps, lower, apart, pad, dilation, w_taps;
} BlockAxis;
