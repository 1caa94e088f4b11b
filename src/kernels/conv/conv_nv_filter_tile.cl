// What the kernels of backward filter on warp-group matrix instructions share: dw[k, tap, c] = sum over pixels of dy[pixel, k] *
// x[what the tap sees from there, c]. A tile is M_BLOCKS blocks of 64 filters by N_BLOCKS blocks of CHANNELS channels of a tap
// each; warp-groups share them along the filters if M_BLOCKS is theirs, else along the blocks of channels. The pixels are summed
// up in slices, each to a result of its own. Both operands come by bulk tensor copies in im2col mode, PIXELS pixels a stage, in
// PARTS parts.

#ifndef ELEMENT
#define ELEMENT ushort
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 2
#endif
// The element type's number in maps: 6 f16, 10 bf16, 7 f32.
#ifndef MAP_TYPE
#define MAP_TYPE 10
#endif
#ifndef PARTS
#define PARTS 1
#endif
#ifndef PIXELS
#define PIXELS (128 / ELEMENT_BYTES)
#endif
#ifndef M_BLOCKS
#define M_BLOCKS 2
#endif
#ifndef N_BLOCKS
#define N_BLOCKS 2
#endif
#ifndef STAGES
#define STAGES 3
#endif
#include "conv/conv_nv_feed.cl"

// What 128 bytes hold.
#define CHANNELS (128 / ELEMENT_BYTES)
#define BOX_BYTES (PIXELS * 128)
#define A_BOXES (M_BLOCKS * 64 / CHANNELS)
#define A_BYTES (A_BOXES * BOX_BYTES)
#define B_BYTES (N_BLOCKS * BOX_BYTES)
#define STAGE_BYTES (PARTS * (A_BYTES + B_BYTES))
// Of a warp-group.
#define N_OWN (N_BLOCKS * M_BLOCKS / WARP_GROUPS)
#define BLOCK_SUMS (CHANNELS / 2)
#define SUMS (BLOCK_SUMS * N_OWN)

#include "conv/conv_nv_map.cl"
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_nv_filter.h"

#define FILTER_PARAMETERS                                                                                                           \
  int images, int C, int K, int groups, int tiles, Divisor tiles_m, Divisor tiles_n, Divisor blocks_c, int slices, FilterAxes axes, \
      __global const ELEMENT *restrict x, long x_offset, LongStrides x_stride, long x_part,                                         \
      __global const ELEMENT *restrict y, long y_offset, LongStrides y_stride, long y_part,                                         \
      __global float *restrict partial, long partial_offset

// All tiles' steps in one row are shared out evenly among the groups: share g begins at SHARE(g). What a group takes of a tile
// is a slice; slices of a tile are numbered in the groups' order.
#define SHARE(g) ((long)(g)*tiles * all_steps / (long)get_num_groups(0))
#define FOR_ITEMS() for (long at = SHARE(MINE), end = SHARE(MINE + 1), next; at < end; at = next)
// If each tile has as many groups, neighbours have different tiles and see the same pixels: near ones share what they read.
#define GROUP ((int)get_group_id(0))
#define MINE \
  ((int)get_num_groups(0) % tiles == 0 ? GROUP % tiles * ((int)get_num_groups(0) / tiles) + GROUP / tiles : GROUP)
// A tile of filters from m on and blocks of channels from `block` on; `steps` of its steps, from `first` on.
#define ITEM()                                                                                   \
  const int tile = (int)(at / all_steps), first = (int)(at - (long)tile * all_steps);            \
  const int steps = (int)min((long)(all_steps - first), end - at);                               \
  next = at + steps;                                                                             \
  const int tile_row = divided(tile, tiles_n), block = (tile - tile_row * tiles_n.d) * N_BLOCKS; \
  const int group = divided(tile_row, tiles_m), m = (tile_row - group * tiles_m.d) * 64 * M_BLOCKS;
// The first group that has a share of the tile is the last one whose share begins up to there.
#define SLICE()                                                                                                       \
  (MINE -                                                                                                             \
   (int)((((long)tile * all_steps + 1) * (long)get_num_groups(0) - 1) / ((long)tiles * all_steps)))
// Pixel number p.
#define PIXEL(p)                                                                                                           \
  const int rows_ = divided(p, axes.w.size), planes_ = divided(rows_, axes.h.size), image = divided(planes_, axes.d.size); \
  const int at_d = planes_ - image * axes.d.size.d, at_h = rows_ - planes_ * axes.h.size.d;                                \
  const int at_w = (p)-rows_ * axes.w.size.d;

// What an operand's pixels are for its map: of dy each is its own window.
#define LAST_WINDOW(axis) (((axis).size.d - 1) * (axis).stride - (axis).pad - ((axis).source - 1))
#define PIXEL_STRIDES(stride) \
  (stride).n *ELEMENT_BYTES, (stride).d *ELEMENT_BYTES, (stride).h *ELEMENT_BYTES, (stride).w *ELEMENT_BYTES
// By a warp: maps of dy's parts and x's, `type` their element type.
#define MAKE_FILTER_MAPS(type)                                                                                                 \
  for (int i = 0; i < 2 * PARTS; i++) {                                                                                        \
    if (lane < 16) map_room[lane] = 0;                                                                                         \
    warp_sync();                                                                                                               \
    if (lane == 0 && i < PARTS) {                                                                                              \
      const struct PixelMap of_dy = {K * groups, images, axes.d.size.d, axes.h.size.d, axes.w.size.d, PIXEL_STRIDES(y_stride), \
                                     0, 0, 0, 0, 0, 0, 1, 1, 1};                                                               \
      make_pixel_map(map_room, (ulong)(size_t)(y + y_offset + i * y_part), type, CHANNELS, PIXELS, &of_dy);                    \
    }                                                                                                                          \
    if (lane == 0 && i >= PARTS) {                                                                                             \
      const struct PixelMap seen = {C * groups, images, axes.d.source, axes.h.source, axes.w.source, PIXEL_STRIDES(x_stride),  \
                                    -axes.d.pad, -axes.h.pad, -axes.w.pad, LAST_WINDOW(axes.d), LAST_WINDOW(axes.h),           \
                                    LAST_WINDOW(axes.w), axes.d.stride, axes.h.stride, axes.w.stride};                         \
      make_pixel_map(map_room, (ulong)(size_t)(x + x_offset + (i - PARTS) * x_part), type, CHANNELS, PIXELS, &seen);           \
    }                                                                                                                          \
    warp_sync();                                                                                                               \
    publish_map(maps + 16 * i, SHARED(map_room));                                                                              \
  }

// Fills one stage after another, as soon as all have read what was there: a work-item that does nothing else.
#define FEED_ALL()                                                                                                          \
  {                                                                                                                         \
    for (int i = 0; i < 2 * PARTS; i++) acquire_map(maps + 16 * i);                                                         \
    int turn = 0;                                                                                                           \
    FOR_ITEMS() {                                                                                                           \
      ITEM()                                                                                                                \
      int channel[N_BLOCKS], tap_d[N_BLOCKS], tap_h[N_BLOCKS], tap_w[N_BLOCKS];                                             \
      _Pragma("unroll") for (int j = 0; j < N_BLOCKS; j++) {                                                                \
        /* Blocks beyond the last one are computed, but not stored. */                                                      \
        const int number = min(block + j, blocks - 1), tap = divided(number, blocks_c);                                     \
        channel[j] = group * C + (number - tap * blocks_c.d) * CHANNELS;                                                    \
        tap_w[j] = tap % axes.w.taps * axes.w.dilation;                                                                     \
        tap_h[j] = tap / axes.w.taps % axes.h.taps * axes.h.dilation;                                                       \
        tap_d[j] = tap / (axes.w.taps * axes.h.taps) * axes.d.dilation;                                                     \
      }                                                                                                                     \
      for (int s = 0; s < steps; s++, turn++) {                                                                             \
        const int slot = turn % STAGES;                                                                                     \
        const uint to = base + slot * STAGE_BYTES, bar = full_bar + 8 * slot;                                               \
        mbarrier_wait(empty_bar + 8 * slot, (turn / STAGES & 1) ^ 1);                                                       \
        mbarrier_expect(bar, STAGE_BYTES);                                                                                  \
        PIXEL((first + s) * PIXELS)                                                                                         \
        _Pragma("unroll") for (int i = 0; i < PARTS; i++) {                                                                 \
          _Pragma("unroll") for (int j = 0; j < A_BOXES; j++)                                                               \
              copy_pixels(to + i * A_BYTES + j * BOX_BYTES, maps + 16 * i, group * K + m + CHANNELS * j, image, at_d, at_h, \
                          at_w, 0, 0, 0, bar);                                                                              \
          _Pragma("unroll") for (int j = 0; j < N_BLOCKS; j++)                                                              \
              copy_pixels(to + PARTS * A_BYTES + i * B_BYTES + j * BOX_BYTES, maps + 16 * (PARTS + i), channel[j], image,   \
                          at_d * axes.d.stride - axes.d.pad, at_h * axes.h.stride - axes.h.pad,                             \
                          at_w * axes.w.stride - axes.w.pad, tap_d[j], tap_h[j],                                            \
                          tap_w[j], bar);                                                                                   \
        }                                                                                                                   \
      }                                                                                                                     \
    }                                                                                                                       \
  }

// To the slice's result, [filter][tap][channel]. A work-item has columns 8 j + 2 q and the next of rows k and k + 8, q its place
// among four lanes. Who has a tile's last slice writes zeros to those that other tiles have more.
#define STORE_SLICE()                                                                             \
  for (int slice = SLICE();; slice++) {                                                           \
    __global float* to = partial + partial_offset + (long)slice * K * groups * taps * C;          \
    _Pragma("unroll") for (int i = 0; i < 2; i++) {                                               \
      const int k = first_k + 8 * i;                                                              \
      if (k >= K) continue;                                                                       \
      _Pragma("unroll") for (int j = 0; j < N_OWN; j++) {                                         \
        const int number = block + own_n + j, tap = divided(number, blocks_c);                    \
        const int c0 = (number - tap * blocks_c.d) * CHANNELS + 2 * quad;                         \
        if (number >= blocks) continue;                                                           \
        __global float* row = to + ((long)(group * K + k) * taps + tap) * C;                      \
        _Pragma("unroll") for (int l = 0; l < CHANNELS / 8; l++) {                                \
          if (c0 + 8 * l < C) row[c0 + 8 * l] = sums[BLOCK_SUMS * j + 4 * l + 2 * i];             \
          if (c0 + 8 * l + 1 < C) row[c0 + 8 * l + 1] = sums[BLOCK_SUMS * j + 4 * l + 2 * i + 1]; \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
    if (first + steps < all_steps || slice + 1 == slices) break;                                  \
    _Pragma("unroll") for (int i = 0; i < SUMS; i++) sums[i] = 0;                                 \
  }
// The same, few instructions instead of fast ones, of sums in local memory: `room` is the place of the warp's first row and of its
// first block.
#define STORE_ROOM(room)                                                                                        \
  for (int slice = SLICE(), mine = 1;; slice++, mine = 0) {                                                     \
    __global float* to = partial + partial_offset + (long)slice * K * groups * taps * C;                        \
    _Pragma("unroll 1") for (int i = 0; i < SUMS; i++) {                                                        \
      const int below = i / 2 % 2 * 8, column = i / 4 * 8 + 2 * quad + i % 2, k = first_k + below;              \
      const int number = block + own_n + column / CHANNELS, tap = divided(number, blocks_c);                    \
      const int channel = (number - tap * blocks_c.d) * CHANNELS + column % CHANNELS;                           \
      if (k < K && number < blocks && channel < C)                                                              \
        to[((long)(group * K + k) * taps + tap) * C + channel] = mine ? (room)[(lane / 4 + below) * AGAIN_B_PITCH + column] : 0; \
    }                                                                                                           \
    if (first + steps < all_steps || slice + 1 == slices) break;                                                \
  }
