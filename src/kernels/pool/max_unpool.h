// What the kernels of max unpooling are told. For OpenCL C, behind lib/int64.h and lib/divisor.h, and for C++ through
// ops/pool/max_unpool_impl.hpp.
typedef struct {
  Int64 n, c, d, h, w;
} UnpoolSteps;

typedef struct {
  int channels;
  int p, xh, xw;  // elements of a plane of x, and its height and width
  int q, yh, yw;  // of y
} UnpoolSizes;

// `count` elements from image `first` on: of `inner` that lie together, of `outer` times that in an image.
typedef struct {
  Int64 first;
  int count;
  Divisor inner, outer;
  int unused;  // see check-kernels
} UnpoolPart;

// Of max_unpool_tiles.cl.
typedef struct {
  int channels, p, q;  // of an image: channels, places of x and of y
  int chunks, known;   // `known`: there are bounds of chunks, otherwise all are read
  int length;          // of a range
  Divisor parts, ranges;
} UnpoolTiles;
