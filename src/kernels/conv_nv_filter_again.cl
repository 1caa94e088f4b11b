// dy and x as gemm_nv_again.cl sees them, for conv_nv_filter.cl: rows are filters, columns the channels of taps, k pixels. Both
// come as they are, not by copies: of tiny numbers parts of bf16 do not hold all bits.

#include "conv_nv_filter_tile.cl"

#define MULTIPLIERS (128 * WARP_GROUPS)
#define TILE_ROWS (64 * M_BLOCKS)
#define TILE_COLUMNS (64 * N_BLOCKS)
#include "gemm_nv_unpack.cl"

#define AGAIN_ADDS(a, b) (!is_padding(b))
// A tensor's strides, and where its first element is.
struct Pixels {
  __global const float* at;
  long n, d, h, w, c;
};
// In local memory, so that what is made of it takes no registers beside the products.
struct Operands {
  struct Pixels x, y;
  struct Divisor blocks_c, size_d, size_h, size_w;
  int C, K, blocks, pixels, taps_h, taps_w;
  int source_d, source_h, source_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, dilation_d, dilation_h, dilation_w;
};
// A slice of a tile: from pixel `first` to before `last`, filters from m on, blocks of channels from `block` on.
struct Again {
  __local const struct Operands* all;
  int first, last, m, block, group;
};
// Where a pixel is.
struct Place {
  int inside, image, d, h, w;
};
INLINE struct Place place_of(const struct Again* from, int pixel) {
  __local const struct Operands* all = from->all;
  const int row = divided(pixel, all->size_w), plane = divided(row, all->size_h), image = divided(plane, all->size_d);
  const struct Place result = {pixel < from->last, image, plane - image * all->size_d.d, row - plane * all->size_h.d,
                               pixel - row * all->size_w.d};
  return result;
}
// Where the tap of a block sees it.
INLINE struct Place seen_by(const struct Again* from, int block, struct Place p) {
  __local const struct Operands* all = from->all;
  const int tap = divided(block, all->blocks_c), tap_row = tap / all->taps_w;
  p.d = p.d * all->stride_d - all->pad_d + tap_row / all->taps_h * all->dilation_d;
  p.h = p.h * all->stride_h - all->pad_h + tap_row % all->taps_h * all->dilation_h;
  p.w = p.w * all->stride_w - all->pad_w + (tap - tap_row * all->taps_w) * all->dilation_w;
  p.inside &= p.d >= 0 && p.d < all->source_d && p.h >= 0 && p.h < all->source_h && p.w >= 0 && p.w < all->source_w;
  return p;
}
INLINE float element_of(__local const struct Pixels* x, struct Place p, int channel) {
  return x->at[p.image * x->n + p.d * x->d + p.h * x->h + p.w * x->w + channel * x->c];
}
INLINE float dy_at(const struct Again* from, struct Place p, int row) {
  const int k = from->m + row;
  return p.inside && k < from->all->K ? element_of(&from->all->y, p, from->group * from->all->K + k) : 0;
}
INLINE float x_at(const struct Again* from, struct Place p, int block, int channel) {
  const int c = (block - divided(block, from->all->blocks_c) * from->all->blocks_c.d) * 64 + channel;
  if (!p.inside) return PADDING;
  return c < from->all->C ? again_number(element_of(&from->all->x, p, from->group * from->all->C + c)) : 0;
}

struct AgainStep {
  int pixel;
};
static struct AgainStep again_step(const struct Again* from, int k) {
  const struct AgainStep result = {from->first + k};
  return result;
}
static float again_a(const struct Again* from, const struct AgainStep* step, int row, int i) {
  return dy_at(from, place_of(from, step->pixel + i), row);
}
static float again_b(const struct Again* from, const struct AgainStep* step, int column, int i) {
  const int block = from->block + column / 64;
  return x_at(from, seen_by(from, block, place_of(from, step->pixel + i)), block, column % 64);
}
static int again_inside(const struct Again* from, int row, int column) {
  const int block = from->block + column / 64;
  return from->m + row < from->all->K && block < from->all->blocks &&
         (block - divided(block, from->all->blocks_c) * from->all->blocks_c.d) * 64 + column % 64 < from->all->C;
}

// What a work-item brings of 32 pixels, while those before are multiplied: of one pixel each eighth row and column; or, where channels
// lie side by side, of each fourth pixel one row of each 64 and one column.
struct Ahead {
  float a[TILE_ROWS / 8], b[TILE_COLUMNS / 8];
};
#define PIXEL_OF(planes, i) ((planes) ? item % 32 : item / 64 + (i) % 8 * 4)
#define ROW_OF(planes, i) ((planes) ? item / 32 + (i) * 8 : item % 64 + (i) / 8 * 64)
INLINE void ahead_of_dy(float* a, const int planes, const struct Again* from, int first, int item) {
#pragma unroll
  for (int i = 0; i < TILE_ROWS / 8; i++)
    a[i] = dy_at(from, place_of(from, first + PIXEL_OF(planes, i)), ROW_OF(planes, i));
}
INLINE void ahead_of_x(float* b, const int planes, const struct Again* from, int first, int item) {
#pragma unroll
  for (int i = 0; i < TILE_COLUMNS / 8; i++) {
    const int block = min(from->block + i / 8, from->all->blocks - 1), channel = ROW_OF(planes, i) - i / 8 * 64;
    b[i] = x_at(from, seen_by(from, block, place_of(from, first + PIXEL_OF(planes, i))), block, channel);
  }
}
INLINE void again_ahead(struct Ahead* ahead, const struct Again* from, int s, int item) {
  const int first = from->first + s * 32;
  if (from->all->y.c != 1)
    ahead_of_dy(ahead->a, 1, from, first, item);
  else
    ahead_of_dy(ahead->a, 0, from, first, item);
  if (from->all->x.c != 1)
    ahead_of_x(ahead->b, 1, from, first, item);
  else
    ahead_of_x(ahead->b, 0, from, first, item);
}
#define PUT_ALL(to, pitch, values, count, planes)                                            \
  _Pragma("unroll") for (int i = 0; i < count; i++)                                          \
    to[((planes) ? PIXEL_OF(1, i) : PIXEL_OF(0, i)) * pitch + ((planes) ? ROW_OF(1, i) : ROW_OF(0, i))] = values[i];
INLINE void again_unpack(struct Ahead* ahead, const struct Again* from, int s, uint parity, __local const float* stage,
                         __local float* a, __local float* b, int item) {
  const int dy_planes = from->all->y.c != 1, x_planes = from->all->x.c != 1;
  PUT_ALL(a, AGAIN_A_PITCH, ahead->a, TILE_ROWS / 8, dy_planes)
  PUT_ALL(b, AGAIN_B_PITCH, ahead->b, TILE_COLUMNS / 8, x_planes)
}
#define AGAIN_OF_ITEM() {&operands, first * 32, min(pixels, (first + steps) * 32), m, block, group}
#include "gemm_nv_again.cl"
