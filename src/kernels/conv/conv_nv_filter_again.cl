// dy and x as gemm_nv_again.cl sees them, for conv_nv_filter.cl: rows are filters, columns the channels of taps, k pixels.

#ifndef PARTS
#define PARTS 3
#define PIXELS 32
#endif
#include "conv/conv_nv_filter_tile.cl"
#include "lib/parts_bf16.cl"

#define MULTIPLIERS (128 * WARP_GROUPS)
#define TILE_ROWS (64 * M_BLOCKS)
#define TILE_COLUMNS (64 * N_BLOCKS)
#include "gemm/gemm_nv_unpack.cl"

#define AGAIN_ADDS(a, b) (!is_padding(b))
#define AGAIN_PADS 1
// A tensor's strides, and where its first element is.
struct Pixels {
  __global const float* at;
  long n, d, h, w, c;
};
// A block of the tile: its first channel, and where its tap sees a pixel.
struct Seen {
  int channel, d, h, w;
};
// In local memory, so that what is made of it takes no registers beside the products.
struct Operands {
  struct Pixels x, y;
  struct Divisor blocks_c, size_d, size_h, size_w;
  int C, K, blocks, pixels, taps_h, taps_w;
  int source_d, source_h, source_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, dilation_d, dilation_h, dilation_w;
  __global const ulong* maps;  // of dy's parts and of x's
  uint to, bar;                // where a stage comes, and the barrier that knows
  int tiny_x, tiny_y;          // whether there are numbers that are taken apart by their bits
  struct Seen seen[N_BLOCKS];
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

#define AGAIN_BAR(from) ((from)->all->bar)
// Pixels of each block of 64 channels, in parts: of dy by the first warp, of each block of x by another one.
INLINE void again_feed(const struct Again* from, int s, int item) {
  const int warp = item / 32;
  if (item % 32 != 0 || warp > N_BLOCKS) return;
  __local const struct Operands* all = from->all;
  const struct Place p = place_of(from, from->first + s * 32);
  if (warp == 0) {
    mbarrier_expect(all->bar, STAGE_BYTES);
    for (int i = 0; i < PARTS * M_BLOCKS; i++)
      copy_pixels(all->to + i * BOX_BYTES, all->maps + 16 * (i / M_BLOCKS), from->group * all->K + from->m + i % M_BLOCKS * 64, p.image,
                  p.d, p.h, p.w, 0, 0, 0, all->bar);
  } else {
    __local const struct Seen* seen = all->seen + warp - 1;
    for (int part = 0; part < PARTS; part++)
      copy_pixels(all->to + PARTS * A_BYTES + part * B_BYTES + (warp - 1) * BOX_BYTES, all->maps + 16 * (PARTS + part), seen->channel,
                  p.image, p.d * all->stride_d - all->pad_d, p.h * all->stride_h - all->pad_h, p.w * all->stride_w - all->pad_w, seen->d,
                  seen->h, seen->w, all->bar);
  }
}
// What again_feed() knows of the tile's blocks, by the items that feed them.
INLINE void again_see(__local struct Operands* all, const struct Again* from, int item) {
  const int i = item / 32 - 1;
  if (item % 32 != 0 || i < 0 || i >= N_BLOCKS) return;
  const int block = min(from->block + i, all->blocks - 1), tap = divided(block, all->blocks_c), tap_row = tap / all->taps_w;
  const struct Seen seen = {from->group * all->C + (block - tap * all->blocks_c.d) * 64, tap_row / all->taps_h * all->dilation_d,
                            tap_row % all->taps_h * all->dilation_h, (tap - tap_row * all->taps_w) * all->dilation_w};
  all->seen[i] = seen;
}
// A work-item has 8 channels of a pixel of each block. Every other four of them store the right half first: no two of eight meet in a
// bank.
INLINE uint again_bring(const struct Again* from, int s, int item, __local const float* stage, __local float* a, __local float* b) {
  const int pixel = item / 8, eighth = item % 8, right = eighth / 4;
  __local const uint4* at = (__local const uint4*)stage + pixel * 8 + ((eighth ^ pixel) & 7);
  __local float4* to_a = (__local float4*)(a + pixel * AGAIN_A_PITCH + eighth * 8);
  __local float4* to_b = (__local float4*)(b + pixel * AGAIN_B_PITCH + eighth * 8);
  uint not_finite = 0;
#pragma unroll 1
  for (int i = 0; i < M_BLOCKS + N_BLOCKS; i++) {
    const int of_a = i < M_BLOCKS;
    const int block = of_a ? i : i - M_BLOCKS, bytes = of_a ? A_BYTES : B_BYTES;
    uint4 parts[PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; part++) parts[part] = at[((of_a ? 0 : PARTS * A_BYTES) + part * bytes + block * BOX_BYTES) / 16];
    float v[8];
    if (of_a ? from->all->tiny_y : from->all->tiny_x)
      join_parts(v, 1, parts[0], parts[1], parts[2]);
    else
      join_parts(v, 0, parts[0], parts[1], parts[2]);
    __local float4* to = (of_a ? to_a : to_b) + 16 * block;
    const float4 low = (float4)(v[0], v[1], v[2], v[3]), high = (float4)(v[4], v[5], v[6], v[7]);
    to[right] = right ? high : low, to[1 - right] = right ? low : high;
    if (of_a)
#pragma unroll
      for (int j = 0; j < 8; j++) not_finite |= !isfinite(v[j]);
  }
  return not_finite;
}
INLINE void again_pad(const struct Again* from, int s, int item, __local float* a, __local float* b) {
  const struct Place place = place_of(from, from->first + s * 32 + item / 8);
#pragma unroll 1
  for (int i = 0; i < N_BLOCKS; i++) {
    const int sees = seen_by(from, min(from->block + i, from->all->blocks - 1), place).inside;
    __local float* row = b + item / 8 * AGAIN_B_PITCH + i * 64 + item % 8 * 8;
    for (int j = 0; j < 8; j++) row[j] = sees ? again_number(row[j]) : PADDING;
  }
}
// By the warp that makes the maps, and by who multiplies and did not wait for a stage yet.
static void maps_made(void) {
  __asm__ volatile("bar.arrive 2, %0;" : : "n"(MULTIPLIERS + 32) : "memory");
}
static void maps_awaited(void) {
  __asm__ volatile("bar.sync 2, %0;" : : "n"(MULTIPLIERS + 32) : "memory");
}
#define AGAIN_OF_ITEM() {&operands, first * 32, min(pixels, (first + steps) * 32), m, block, group}
#include "gemm/gemm_nv_again.cl"
