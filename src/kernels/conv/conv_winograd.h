// What Winograd's kernels are told. For OpenCL C, behind lib/int64.h, and for C++ through ops/conv/conv_winograd_tiles.hpp.

// Tiles of a tensor, and where the transformed ones lie: see conv_winograd_grid.cl.
typedef struct {
  Int64 first;  // where the tensor's element 0 lies: strides may be negative
  Int64 plane;  // elements from a point's matrix to the next
  Int64 part;   // and from a part to the next
  int parts, part_rows;  // how many are added up; rows of tiles that go into each
  int extent;            // elements from the tensor's first to its last
  int channels, height, width;
  int n_stride, c_stride, h_stride, w_stride;
  int tiles_h, tiles_w, pad_h, pad_w;
  int first_row, rows;          // of tiles
  int tile_step, channel_step;  // in a point's matrix
} WinogradGrid;

// Of conv_winograd_fused.cl: x or y, with its strides, and the problem.
typedef struct {
  int height, width, n, c, h, w;
} WinogradImage;

typedef struct {
  Int64 u_plane;  // elements from a point's filters to the next
  int u_pitch;    // and from a channel's
  int channels, filters, tiles;
  int tiles_h, tiles_w, pad_h, pad_w;
} WinogradProduct;
