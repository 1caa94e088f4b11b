// What the depthwise kernels are told of a problem. For OpenCL C, behind lib/divisor.h and conv_axes.h, and for C++ through
// ops/conv/conv_depthwise.hpp. "Source" is the tensor that taps reach into: x, in backward data dy. "Target" is the other one.

typedef struct {
  int g;        // from group to group
  int i, j;     // of the target's channels in a group, and of the source's
  int t, r, s;  // of taps along the depth, the height and the width
} FilterStrides;

typedef struct {
  int channels;          // of the target; in backward filter planes of dw
  int group_t, group_s;  // channels of a group; in backward filter of x, and of y
  AxisSizes source, target, window, stride, pad, dilation;
  PixelStrides s, t;
  FilterStrides w;
  int t_first_h, t_first_w;  // where the target's first strip or block begins
  int s_first_h, s_first_w;  // where what it sees of the source does
} DepthwiseGeometry;

// Of conv_depthwise.cl. A strip is the place of a tile: they are counted along the rows, then down, then through the depth,
// then the images; in conv_depthwise where columns are neighbours, through all channels before the images.
typedef struct {
  int count;
  Divisor w, h, planes, channels, group_t;
} DepthwiseStrips;

// Of conv_depthwise_cpu.cl: a plane is cut into `count` blocks of h x w elements, in backward data of each of its phases;
// `across` of them lie side by side. The buffer of a phase has `lines` lines of `pitch` elements.
typedef struct {
  int count, across, h, w, lines, pitch;
  int images;
  int chunk;  // planes of the target (of a vector of channels), or images, of a work-group
  int s_extent, t_extent;  // elements from the tensors' first to their last
} DepthwiseBlocks;
