// Depthwise convolution, and that of small groups, on GPUs, straight by the definition: a group has few products, so what
// counts is to read every element once. The CPU form is in conv_depthwise_cpu.cl.
//
//   conv_depthwise         DIRECTION 0, forward, and 1, backward data: a work-item makes TILE_H x TILE_W results, of V
//                          channels, in registers, by one walk down the rows of the source that they see
//   conv_depthwise_filter  DIRECTION 2: a work-group makes all taps of V * LANES_C planes of dw, by one walk over x and dy;
//                          work-items keep sums of all taps, which they add up at last, always in the same order
//
// "Source" is the tensor that taps reach into: x, in backward data dy. "Target" is the other one.
// Windows of KERNEL_H x KERNEL_W taps, with their strides and dilations, are compiled in, and then loops unroll; where
// KERNEL_H is 0 all of that comes as arguments, a tile is one element, and backward filter makes one tap at a time.

#ifndef V  // neighbouring channels of a work-item; above 1 they are aligned
#define V 1
#endif
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_depthwise.h"
#include "gemm/gemm_types.cl"

#ifndef DIRECTION
#define DIRECTION 0
#endif
#ifndef CHANNELS_LAST  // neighbouring work-items have neighbouring channels; else columns
#define CHANNELS_LAST 0
#endif
#ifndef PLAIN  // one channel and one filter a group, as V above 1 demands
#define PLAIN 1
#endif
#ifndef DEPTH  // there is a third axis
#define DEPTH 0
#endif
#ifndef UNIT  // the source's neighbouring columns lie side by side
#define UNIT 0
#endif
#ifndef KERNEL_H
#define KERNEL_H 3
#define KERNEL_W 3
#define STRIDE_H 1
#define STRIDE_W 1
#define DILATION_H 1
#define DILATION_W 1
#endif
#ifndef TILE_H
#define TILE_H 4
#define TILE_W 2
#endif
#ifndef LANES_C  // a work-group's items: along the channels, and along the strips
#define LANES_C 1
#define LANES_P 64
#endif
#ifndef PARTS
#define PARTS 0
#endif

// Loops over registers, which cannot be indexed. On CPUs, which have an engine of their own, there are no such, and
// compilers would take seconds.
#ifndef UNROLLED
#define UNROLLED 1
#endif
#if UNROLLED
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("nounroll")
#endif
#define LANES (LANES_C * LANES_P)

// `rest` and `digit` of a number.
#define SPLIT(rest, digit, number, by) const int rest = divided(number, by), digit = (number) - rest * by.d;
#if DEPTH
#define SPLIT_DEPTH(rest, digit, number) SPLIT(rest, digit, number, by_planes)
#else
#define SPLIT_DEPTH(rest, digit, number) const int rest = (number), digit = 0;
#endif

// The source's index along an axis that `tap` of the target's index meets; -1 if there is none.
INLINE int met(int target, int tap, int stride, int pad, int dilation, int size) {
#if DIRECTION == 1
  const int scaled = target + pad - tap * dilation, at = scaled / stride;
  return scaled >= 0 && at < size && at * stride == scaled ? at : -1;
#else
  const int at = target * stride - pad + tap * dilation;
  return at >= 0 && at < size ? at : -1;
#endif
}
#if DEPTH
#define FIRST_TAP_IN 0
#define MET_DEPTH(o, tap) met(o, tap, p.stride.d, p.pad.d, p.dilation.d, p.source.d)
#else
#define MET_DEPTH(o, tap) 0
#endif

#if KERNEL_H
// What a tile sees: SEEN_H x SEEN_W elements of the source. The tile's row o meets tap r, if MEETS, in the source's row
// MET. In backward data strips begin where the phase of their rows is 0, so that all of it is known here.
#if DIRECTION == 1
#define LEAD(kernel, stride, dilation) (((kernel)-1) * (dilation) / (stride))
#define SEEN(tile, kernel, stride, dilation) (((tile)-1) / (stride) + LEAD(kernel, stride, dilation) + 1)
#define MEETS(o, r, stride, dilation) (((o) - (r) * (dilation)) % (stride) == 0)
#define MET(o, r, kernel, stride, dilation) (((o) - (r) * (dilation)) / (stride) + LEAD(kernel, stride, dilation))
#define STEP(tile, stride) ((tile) / (stride))
#else
#define SEEN(tile, kernel, stride, dilation) (((tile)-1) * (stride) + ((kernel)-1) * (dilation) + 1)
#define MEETS(o, r, stride, dilation) 1
#define MET(o, r, kernel, stride, dilation) ((o) * (stride) + (r) * (dilation))
#define STEP(tile, stride) ((tile) * (stride))
#endif
#define SEEN_H SEEN(TILE_H, KERNEL_H, STRIDE_H, DILATION_H)
#define SEEN_W SEEN(TILE_W, KERNEL_W, STRIDE_W, DILATION_W)
#define MEETS_H(o, r) MEETS(o, r, STRIDE_H, DILATION_H)
#define MEETS_W(o, s) MEETS(o, s, STRIDE_W, DILATION_W)
#define MET_H(o, r) MET(o, r, KERNEL_H, STRIDE_H, DILATION_H)
#define MET_W(o, s) MET(o, s, KERNEL_W, STRIDE_W, DILATION_W)
#define TAPS_H KERNEL_H
#define TAPS_W KERNEL_W
#define COLUMN(j) ((j) * (UNIT ? 1 : s_w))
#else
#define TAPS_H 1
#define TAPS_W 1
#endif

// V elements at p[i], or zeros.
#if V == 1
#define LOAD_V(p, i, inside, d) (d)[0] = (inside) ? (REAL)LOAD_AB(p, i) : 0;
#else
#define LOAD_V(p, i, inside, d)                   \
  if (inside) {                                   \
    VLOAD_AB(p, i, d)                             \
  } else {                                        \
    UNROLL for (int u = 0; u < V; u++)(d)[u] = 0; \
  }
#endif

// What is read of a problem, as variables: of an argument's fields compilers cannot tell that stores leave them alone, and
// some make worse code of them (docs/notes/2026-11-27-arguments-in-structs.md).
#define VARIABLES                                                                                           \
  const int channels = p.channels, source_h = p.source.h, source_w = p.source.w;                            \
  const int target_h = p.target.h, target_w = p.target.w, t_first_h = p.t_first_h, t_first_w = p.t_first_w; \
  const int s_first_h = p.s_first_h, s_first_w = p.s_first_w;                                               \
  const int s_n = p.s.n, s_c = p.s.c, s_d = p.s.d, s_h = p.s.h, s_w = p.s.w;                                \
  const int t_n = p.t.n, t_c = p.t.c, t_d = p.t.d, t_h = p.t.h, t_w = p.t.w;                                \
  const int w_g = p.w.g, w_i = p.w.i, w_j = p.w.j, w_t = p.w.t, w_r = p.w.r, w_s = p.w.s;                   \
  const int strips_count = strips.count;                                                                    \
  const Divisor by_w = strips.w, by_h = strips.h, by_planes = strips.planes, by_channels = strips.channels; \
  const Divisor by_group = strips.group_t;

// Row i of what a tile sees, of which strip (strip_h, strip_w) of the plane at `plane` is the place.
#define SEE_ROW(i, plane, seen)                                                                      \
  {                                                                                                  \
    const int row_ = s_first_h + strip_h * STEP(TILE_H, STRIDE_H) + (i);                             \
    const int column_ = s_first_w + strip_w * STEP(TILE_W, STRIDE_W);                                \
    const int inside_ = (uint)row_ < (uint)source_h;                                                 \
    __global const AB_STORAGE* from_ = source + ((plane) + row_ * s_h + column_ * (UNIT ? 1 : s_w)); \
    UNROLL for (int j = 0; j < SEEN_W; j++)                                                          \
        LOAD_V(from_, COLUMN(j), inside_ && (uint)(column_ + j) < (uint)source_w, seen[j])           \
  }

#if DIRECTION != 2

// Where neighbouring items have different channels, a group takes its filters through local memory, else each item
// would read far from its neighbours. Eight items write taps of four channels without meeting in a bank.
#define STAGED (CHANNELS_LAST && PLAIN && !DEPTH && KERNEL_H)
#if STAGED
#define PITCH ((LANES_C * V + 3) / 4 * 4 + 4)
#define FILTER(r, s, u) filter[((r)*TAPS_W + (s)) * PITCH + lane_c * V + (u)]
#else
#define FILTER(r, s, u) filter[(r)*TAPS_W + (s)][u]
#endif

__kernel __attribute__((reqd_work_group_size(LANES_C, LANES_P, 1))) void conv_depthwise(
    __global const AB_STORAGE* restrict source, long s_offset, __global const AB_STORAGE* restrict w, long w_offset,
    __global C_STORAGE* restrict target, long t_offset, DepthwiseGeometry p, DepthwiseStrips strips, EPILOGUE_PARAMETERS) {
  VARIABLES
  source += s_offset;
  w += w_offset;
  target += t_offset;
#if STAGED
  __local REAL filter[TAPS_H * TAPS_W * PITCH];
  const int lane_c = (int)get_local_id(0), first_c = (int)get_group_id(0) * LANES_C * V;
  for (int e = (int)get_local_id(1) * LANES_C + lane_c; e < TAPS_H * TAPS_W * LANES_C * V; e += LANES) {
    const int c = e / (TAPS_H * TAPS_W), tap = e - c * (TAPS_H * TAPS_W), r = tap / TAPS_W, s = tap - r * TAPS_W;
    if (first_c + c < channels) filter[tap * PITCH + c] = LOAD_AB(w, (first_c + c) * w_g + r * w_r + s * w_s);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if CHANNELS_LAST
  const int strip = (int)get_global_id(1), t = (int)get_global_id(0) * V;
  if (strip >= strips_count || t >= channels) return;
#else
  const int strip = (int)get_global_id(1);
  if (strip >= strips_count) return;
#endif
  SPLIT(above_w, strip_w, strip, by_w)
  SPLIT(above_h, strip_h, above_w, by_h)
  SPLIT_DEPTH(above_d, o, above_h)
#if CHANNELS_LAST
  const int n = above_d;
#else
  SPLIT(n, t, above_d, by_channels)
#endif
#if PLAIN
  const int group = t, in_group = 0, sources = 1;
#else
  SPLIT(group, in_group, t, by_group)
  const int sources = p.group_s;
#endif

#if KERNEL_H
  REAL sum[TILE_H][TILE_W][V];
  UNROLL for (int a = 0; a < TILE_H; a++) UNROLL for (int b = 0; b < TILE_W; b++)
      UNROLL for (int u = 0; u < V; u++) sum[a][b][u] = 0;
#else
  REAL sum[1][1][1] = {{{0}}};
#endif
  for (int j = 0; j < sources; j++)
    for (int depth_tap = 0; depth_tap < (DEPTH ? p.window.d : 1); depth_tap++) {
      const int d = MET_DEPTH(o, depth_tap);
      if (d < 0) continue;
      const int plane = n * s_n + (group * sources + j) * s_c + d * s_d;
      const int w_at = group * w_g + in_group * w_i + j * w_j + depth_tap * w_t;
#if KERNEL_H
#if !STAGED
      REAL filter[TAPS_H * TAPS_W][V];
      UNROLL for (int r = 0; r < TAPS_H; r++) UNROLL for (int s = 0; s < TAPS_W; s++)
          UNROLL for (int u = 0; u < V; u++) FILTER(r, s, u) = LOAD_AB(w, w_at + u * w_g + r * w_r + s * w_s);
#endif
      UNROLL for (int i = 0; i < SEEN_H; i++) {
        REAL seen[SEEN_W][V];
        SEE_ROW(i, plane, seen)
        UNROLL for (int a = 0; a < TILE_H; a++) UNROLL for (int r = 0; r < TAPS_H; r++) {
          if (!MEETS_H(a, r) || MET_H(a, r) != i) continue;
          UNROLL for (int b = 0; b < TILE_W; b++) UNROLL for (int s = 0; s < TAPS_W; s++) {
            if (!MEETS_W(b, s)) continue;
            UNROLL for (int u = 0; u < V; u++)
                sum[a][b][u] = MULTIPLY_ADD(seen[MET_W(b, s)][u], FILTER(r, s, u), sum[a][b][u]);
          }
        }
      }
#else
      for (int r = 0; r < p.window.h; r++) {
        const int row = met(strip_h, r, p.stride.h, p.pad.h, p.dilation.h, source_h);
        if (row < 0) continue;
        for (int s = 0; s < p.window.w; s++) {
          const int column = met(strip_w, s, p.stride.w, p.pad.w, p.dilation.w, source_w);
          if (column < 0) continue;
          sum[0][0][0] = MULTIPLY_ADD((REAL)LOAD_AB(source, plane + row * s_h + column * s_w),
                                      (REAL)LOAD_AB(w, w_at + r * w_r + s * w_s), sum[0][0][0]);
        }
      }
#endif
    }

  const int tile_at = n * t_n + t * t_c + o * t_d;
  UNROLL for (int a = 0; a < TILE_H; a++) {
    const int row = t_first_h + strip_h * TILE_H + a;
    if ((uint)row >= (uint)target_h) continue;
    UNROLL for (int b = 0; b < TILE_W; b++) {
      const int column = t_first_w + strip_w * TILE_W + b, at = tile_at + row * t_h + column * t_w;
      if ((uint)column >= (uint)target_w) continue;
      UNROLL for (int u = 0; u < V; u++) sum[a][b][u] = FINISH(SCALED(sum[a][b][u], t + u, n), t + u, n, at + u);
#if V == 1
      STORE_C(target, at, sum[a][b][0]);
#else
      VSTORE_C(target, at, sum[a][b]);
#endif
    }
  }
}

#else

#define SUMS (TAPS_H * TAPS_W * V)
#define SHARES (LANES_P < 16 ? LANES_P : 16)

// A plane of dw, `pair`, is that of a filter and one of its group's channels. get_group_id(1) is the tap along the depth, and
// where the window is not compiled in the tap; get_group_id(2) sums over `part` strips.
__kernel __attribute__((reqd_work_group_size(LANES_C, LANES_P, 1))) void conv_depthwise_filter(
    __global const AB_STORAGE* restrict source, long s_offset, __global const AB_STORAGE* restrict target,
    long t_offset, __global C_STORAGE* restrict w, long w_offset, __global REAL* restrict partial,
    long partial_offset, int part, DepthwiseGeometry p, DepthwiseStrips strips) {
  VARIABLES
  __local REAL shared[SUMS * (LANES + 1)];
  const int lane_c = (int)get_local_id(0), lane_p = (int)get_local_id(1), lane = lane_p * LANES_C + lane_c;
  const int first_pair = (int)get_group_id(0) * LANES_C * V, pair = first_pair + lane_c * V;
  SPLIT(k, c, pair, by_group)
  const int channel = PLAIN ? pair : k / p.group_s * p.group_t + c;
  source += s_offset + channel * s_c;
  target += t_offset + (PLAIN ? pair : k) * t_c;
  const int begin = (int)get_group_id(2) * part, end = pair < channels ? min(begin + part, strips_count) : 0;
#if KERNEL_H
  const int depth_tap = (int)get_group_id(1), r0 = 0, s0 = 0;
#else
  const int tap = (int)get_group_id(1), s0 = tap % p.window.w, above_s = tap / p.window.w;
  const int r0 = above_s % p.window.h, depth_tap = above_s / p.window.h;
#endif

  REAL sum[TAPS_H][TAPS_W][V];
  UNROLL for (int r = 0; r < TAPS_H; r++) UNROLL for (int s = 0; s < TAPS_W; s++)
      UNROLL for (int u = 0; u < V; u++) sum[r][s][u] = 0;
  for (int strip = begin + lane_p; strip < end; strip += LANES_P) {
    SPLIT(above_w, strip_w, strip, by_w)
    SPLIT(above_h, strip_h, above_w, by_h)
    SPLIT_DEPTH(n, o, above_h)
    const int d = MET_DEPTH(o, depth_tap);
    if (d < 0) continue;
    const int plane = n * s_n + d * s_d, target_plane = n * t_n + o * t_d;
#if KERNEL_H
    REAL given[TILE_H][TILE_W][V];
    UNROLL for (int a = 0; a < TILE_H; a++) UNROLL for (int b = 0; b < TILE_W; b++) {
      const int row = strip_h * TILE_H + a, column = strip_w * TILE_W + b;
      LOAD_V(target, target_plane + row * t_h + column * t_w, row < target_h && column < target_w, given[a][b])
    }
    UNROLL for (int i = 0; i < SEEN_H; i++) {
      REAL seen[SEEN_W][V];
      SEE_ROW(i, plane, seen)
      UNROLL for (int a = 0; a < TILE_H; a++) UNROLL for (int r = 0; r < TAPS_H; r++) {
        if (MET_H(a, r) != i) continue;
        UNROLL for (int b = 0; b < TILE_W; b++) UNROLL for (int s = 0; s < TAPS_W; s++)
            UNROLL for (int u = 0; u < V; u++)
                sum[r][s][u] = MULTIPLY_ADD(seen[MET_W(b, s)][u], given[a][b][u], sum[r][s][u]);
      }
    }
#else
    const int row = met(strip_h, r0, p.stride.h, p.pad.h, p.dilation.h, source_h);
    const int column = met(strip_w, s0, p.stride.w, p.pad.w, p.dilation.w, source_w);
    if (row >= 0 && column >= 0)
      sum[0][0][0] = MULTIPLY_ADD((REAL)LOAD_AB(source, plane + row * s_h + column * s_w),
                                  (REAL)LOAD_AB(target, target_plane + strip_h * t_h + strip_w * t_w), sum[0][0][0]);
#endif
  }

  // Of each sum first SHARES shares of the items along the strips, then those.
  UNROLL for (int r = 0; r < TAPS_H; r++) UNROLL for (int s = 0; s < TAPS_W; s++)
      UNROLL for (int u = 0; u < V; u++) shared[((r * TAPS_W + s) * V + u) * (LANES + 1) + lane] = sum[r][s][u];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = lane; e < SUMS * SHARES * LANES_C; e += LANES) {
    const int number = e / (SHARES * LANES_C);
    __local REAL* of = shared + number * (LANES + 1) + e % (SHARES * LANES_C);
    REAL total = of[0];
    for (int i = SHARES * LANES_C; i < LANES; i += SHARES * LANES_C) total += of[i];
    of[0] = total;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = lane; e < SUMS * LANES_C; e += LANES) {
    const int c_of = e % LANES_C, number = e / LANES_C, u = number % V, tap_of = number / V;
    const int made = first_pair + c_of * V + u, r = r0 + tap_of / TAPS_W, s = s0 + tap_of % TAPS_W;
    if (made >= channels) continue;
    REAL total = 0;
    for (int i = 0; i < SHARES; i++) total += shared[number * (LANES + 1) + i * LANES_C + c_of];
#if PARTS
    const int taps = p.window.d * p.window.h * p.window.w, tap_at = (depth_tap * p.window.h + r) * p.window.w + s;
    partial[partial_offset + ((long)get_group_id(2) * channels + made) * taps + tap_at] = total;
#else
    const int k_of = made / p.group_t;
    const int at = k_of * w_i + (made - k_of * p.group_t) * w_j + depth_tap * w_t + r * w_r + s * w_s;
    STORE_C(w + w_offset, at, total);
#endif
  }
}

#endif
