// Convolution of few channels, forward, by a warp's matrix instructions. A work-group keeps w in local memory as fragments
// and takes tiles of y, one after the other, each from a patch of x that it lays into local memory. A's fragments are gathered
// from the patch: where a tap's neighbour lies is looked up in a table. An engine that reads x from global memory, or
// copies it in bulk, moves each element once for each tap that sees it.
//
// A word is what a lane of a fragment holds of k: an element of f32, rounded to tf32, or two neighbours along w of f16 or
// bf16, one from each of two taps. The patch has a word for each of its elements, so that any two neighbours are one.
//
// One group, two spatial axes. x, w and y lie as they like; neighbouring lanes store channels of y, or, C_TRANSPOSED, pixels.
// Launch: any number of groups of ITEMS work-items x (tiles of TILE_N filters).

// Sub-groups, and where a group's fragments of 16 pixels along w lie: so many below, so many beside each other.
#ifndef ROWS
#define ROWS 4
#endif
#ifndef COLUMNS
#define COLUMNS 1
#endif
#ifndef TILE_N
#define TILE_N 32
#endif
#define FRAGS_M 2
// 1: a work-item gets 128 registers, so that a unit has room for 512 of them. On devices with nv_wgmma, whose PTX the host reads.
#ifndef LIMIT_REGISTERS
#define LIMIT_REGISTERS 0
#endif
#define SUBS (ROWS * COLUMNS / FRAGS_M)
#define ITEMS (32 * SUBS)

// The convolution.
#ifndef CHANNELS
#define CHANNELS 3
#endif
#ifndef TAPS_H
#define TAPS_H 3
#endif
#ifndef TAPS_W
#define TAPS_W 3
#endif
#ifndef STRIDE_H
#define STRIDE_H 1
#endif
#ifndef STRIDE_W
#define STRIDE_W 1
#endif
#ifndef DILATION_H
#define DILATION_H 1
#endif
#ifndef DILATION_W
#define DILATION_W 1
#endif
// 1: x's channels are neighbours, and are loaded as such.
#ifndef X_CHANNELS_LAST
#define X_CHANNELS_LAST 0
#endif

// See lib/fragment_types.cl.
#ifndef EMULATE
#define EMULATE 0
#endif
#define FRAGMENT NV_MMA
#include "gemm/gemm_types.cl"
#include "lib/fragment.cl"
#if !EMULATE
#include "gemm/gemm_nv_store.cl"
#endif
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_nv_patch.h"

#if FRAG_PER_WORD == 2
#define ELEMENT ushort
#else
#define ELEMENT uint
#endif
#define FRAGS_N (TILE_N / 8)
#define WORDS_W ((TAPS_W + FRAG_PER_WORD - 1) / FRAG_PER_WORD)
#define WORDS (CHANNELS * TAPS_H * WORDS_W)
#define STEPS ((WORDS + 7) / 8)
#define PATCH_H ((ROWS - 1) * STRIDE_H + (TAPS_H - 1) * DILATION_H + 1)
#define PATCH_W ((16 * COLUMNS - 1) * STRIDE_W + (TAPS_W - 1) * DILATION_W + 1)
#define PATCH (CHANNELS * PATCH_H * PATCH_W)
// A line of a patch is a row of it, of one channel or, X_CHANNELS_LAST, of all. Work-items stand side by side along a line, and
// take AT_ONCE lines together; each loads so many words before it lays them down.
#if X_CHANNELS_LAST
#define LINES PATCH_H
#define LINE (PATCH_W * CHANNELS)
#else
#define LINES (CHANNELS * PATCH_H)
#define LINE PATCH_W
#endif
#define SPAN (LINE < ITEMS ? LINE : ITEMS)
#define AT_ONCE (ITEMS / SPAN)
#define BATCH 16

static uint word_of(ELEMENT first, ELEMENT second) {
#if FRAG_TYPE == FRAG_TF32
  return tf32_bits(first);
#else
  return first | (uint)second << 16;
#endif
}

// Words t of w: of this channel, this row of the window, and from this column on.
#define TAP_OF(t) const int column_ = (t) % WORDS_W * FRAG_PER_WORD, row_ = (t) / WORDS_W % TAPS_H, channel_ = (t) / (WORDS_W * TAPS_H);

// The filters' fragments, a lane's words of two of them side by side; zeros beyond the last tap and the last filter.
static void lay_weights(__local uint4* weights, int item, int n, int K, __global const ELEMENT* w, LongStrides stride) {
  for (int i = item; i < STEPS * 8 * TILE_N; i += ITEMS) {
    const int t = i % (STEPS * 8), filter = i / (STEPS * 8);
    TAP_OF(t)
    ELEMENT two[2] = {0, 0};
    __global const ELEMENT* from =
        w + (n + filter) * stride.n + channel_ * stride.c + row_ * stride.h + column_ * stride.w;
    if (t < WORDS && n + filter < K) {
      two[0] = from[0];
      if (FRAG_PER_WORD == 2 && column_ + 1 < TAPS_W) two[1] = from[stride.w];
    }
    const int lane = filter % 8 * 4 + t % 4, at = (t / 8 * (TILE_N / 16) + filter / 16) * 32 + lane;
    ((__local uint*)(weights + at))[filter / 8 % 2 * 2 + t / 4 % 2] = word_of(two[0], two[1]);
  }
}

// Where a tap's word lies from its pixel on; and which bits of it count: the rest may be of no tap at all, and infinite.
static void lay_table(__local int2* table, int item) {
  for (int t = item; t < STEPS * 8; t += ITEMS) {
    TAP_OF(t)
    const uint bits = FRAG_PER_WORD == 2 && column_ + 1 == TAPS_W ? 0xffff : 0xffffffff;
    const int at = (channel_ * PATCH_H + row_ * DILATION_H) * PATCH_W + column_ * DILATION_W;
    table[t] = t < WORDS ? (int2)(at, (int)bits) : (int2)(0, 0);
  }
}

// A tile of y, and where its patch begins in x.
struct Place {
  int image, h, w;
};
static struct Place place_of(int tile, const PatchShape* shape) {
  const int rows = divided(tile, shape->tiles_w), image = divided(rows, shape->tiles_h);
  const struct Place place = {image, (rows - image * shape->tiles_h.d) * ROWS, (tile - rows * shape->tiles_w.d) * (16 * COLUMNS)};
  return place;
}
// The patch of a tile, with zeros outside x.
static void lay_patch(__local uint* patch, int item, struct Place place, const PatchShape* shape, __global const ELEMENT* x) {
  const int first = item / SPAN;
  if (first >= AT_ONCE) return;
  const int from_h = place.h * STRIDE_H - shape->pad_h, from_w = place.w * STRIDE_W - shape->pad_w;
  for (int i = item % SPAN; i < LINE; i += SPAN) {
    const int channel = X_CHANNELS_LAST ? i % CHANNELS : 0, column = X_CHANNELS_LAST ? i / CHANNELS : i;
    const int w = from_w + column, h_end = shape->x_h - from_h, there = w >= 0 && w < shape->x_w;
    const int next_there = w + DILATION_W >= 0 && w + DILATION_W < shape->x_w;
    __global const ELEMENT* from =
        x + place.image * shape->x.n + channel * shape->x.c + (from_h + first) * shape->x.h + w * shape->x.w;
    int row = first;
    for (int line = first; line < LINES; line += BATCH * AT_ONCE) {
      uint words[BATCH];
      UNROLL
      for (int j = 0; j < BATCH; j++) {
        while (!X_CHANNELS_LAST && row >= PATCH_H) {
          row -= PATCH_H;
          from += shape->x.c - PATCH_H * shape->x.h;
        }
        const int inside = line + j * AT_ONCE < LINES && from_h + row >= 0 && row < h_end;
        ELEMENT two[2] = {0, 0};
        if (inside && there) two[0] = from[0];
        if (FRAG_PER_WORD == 2 && inside && next_there) two[1] = from[DILATION_W * shape->x.w];
        words[j] = word_of(two[0], two[1]);
        row += AT_ONCE;
        from += AT_ONCE * shape->x.h;
      }
      UNROLL
      for (int j = 0; j < BATCH; j++)
        if (line + j * AT_ONCE < LINES) patch[(channel * PATCH_H + line + j * AT_ONCE) * PATCH_W + column] = words[j];
    }
  }
}

// A lane's words of A: of two pixels, the first at `at`, and two taps.
static void gather(frag_a* a, __local const uint* at, const int2* taps) {
  UNROLL
  for (int i = 0; i < 4; i++) a->w[i] = at[taps[i / 2].s0 + i % 2 * 8 * STRIDE_W] & (uint)taps[i / 2].s1;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_nv_patch(
    PatchShape shape, __global const ELEMENT* restrict x, long x_offset, __global const ELEMENT* restrict w, long w_offset,
    LongStrides w_stride, __global C_STORAGE* restrict c, long c_offset, LongStrides c_stride, EPILOGUE_PARAMETERS) {
#if LIMIT_REGISTERS
  __asm__ volatile("//@entry .maxnreg 128");
#endif
  __local uint4 weights[STEPS * (TILE_N / 16) * 32];
  __local int2 table[STEPS * 8];
  __local uint patch[PATCH];
  __local uint exchanges[SUBS * FRAG_EXCHANGE];
  const int item = (int)get_local_id(0), lane = fragment_lane(), sub = fragment_sub_group();
  const int quad = lane % 4, n = (int)get_group_id(1) * TILE_N;
  x += x_offset;
  c += c_offset;
  lay_weights(weights, item, n, shape.filters, w + w_offset, w_stride);
  lay_table(table, item);
  // Of a lane's pixels, the first of two that are 8 apart.
  int pixels[FRAGS_M];
  UNROLL
  for (int i = 0; i < FRAGS_M; i++) {
    const int fragment = sub * FRAGS_M + i;
    pixels[i] = fragment / COLUMNS * STRIDE_H * PATCH_W + (fragment % COLUMNS * 16 + lane / 4) * STRIDE_W;
  }
  for (int tile = (int)get_group_id(0); tile < shape.tiles; tile += (int)get_num_groups(0)) {
    const struct Place place = place_of(tile, &shape);
    barrier(CLK_LOCAL_MEM_FENCE);
    lay_patch(patch, item, place, &shape, x);
    barrier(CLK_LOCAL_MEM_FENCE);

    frag_c sums[FRAGS_M][FRAGS_N];
    UNROLL
    for (int i = 0; i < FRAGS_M * FRAGS_N; i++) fragment_zero(&sums[i / FRAGS_N][i % FRAGS_N]);
    int2 taps[2] = {table[quad], table[quad + 4]};
    for (int s = 0; s < STEPS; s++) {
      frag_a a[FRAGS_M];
      UNROLL
      for (int i = 0; i < FRAGS_M; i++) gather(&a[i], patch + pixels[i], taps);
      const int next = 8 * min(s + 1, STEPS - 1) + quad;
      taps[0] = table[next], taps[1] = table[next + 4];
      UNROLL
      for (int j = 0; j < FRAGS_N; j += 2) {
        const uint4 both = weights[(s * (TILE_N / 16) + j / 2) * 32 + lane];
        frag_b first, second;
        first.w[0] = both.s0, first.w[1] = both.s1, second.w[0] = both.s2, second.w[1] = both.s3;
        UNROLL
        for (int i = 0; i < FRAGS_M; i++) {
          fragment_multiply_add(&a[i], &first, &sums[i][j], exchanges + sub * FRAG_EXCHANGE);
          fragment_multiply_add(&a[i], &second, &sums[i][j + 1], exchanges + sub * FRAG_EXCHANGE);
        }
      }
    }

    UNROLL
    for (int i = 0; i < FRAGS_M; i++) {
      const int fragment = sub * FRAGS_M + i, h = place.h + fragment / COLUMNS, first_w = place.w + fragment % COLUMNS * 16;
      if (h >= shape.y_h) continue;
      const long row = place.image * c_stride.n + h * c_stride.h;
#if EMULATE
      for (int j = 0; j < FRAGS_N * FRAG_C_ELEMENTS; j++) {
        const int m = first_w + fragment_row(j % FRAG_C_ELEMENTS, lane);
        const int filter = n + j / FRAG_C_ELEMENTS * FRAG_N + fragment_column(j % FRAG_C_ELEMENTS, lane);
        if (m >= shape.y_w || filter >= shape.filters) continue;
        const long at = row + m * c_stride.w + filter * c_stride.c;
        const REAL sum = sums[i][j / FRAG_C_ELEMENTS].e[j % FRAG_C_ELEMENTS];
#if C_TRANSPOSED
        STORE_C(c, at, FINISH(SCALED(sum, filter, m), filter, m, at));
#else
        STORE_C(c, at, FINISH(SCALED(sum, m, filter), m, filter, at));
#endif
      }
#else
      const int first_m = first_w + lane / 4;
      const long rows_at[2] = {row + first_m * c_stride.w, row + (first_m + 8) * c_stride.w};
      REAL values[4 * FRAGS_N];
      UNROLL
      for (int j = 0; j < 4 * FRAGS_N; j++) values[j] = sums[i][j / 4].e[j % 4];
      store_sums(first_w + 16 <= shape.y_w && n + TILE_N <= shape.filters, values, 4 * FRAGS_N, first_m, n, quad, shape.y_w,
                 shape.filters, c, rows_at, c_stride.c, EPILOGUE_ARGUMENTS);
#endif
    }
  }
}
