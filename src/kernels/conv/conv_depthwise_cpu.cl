// Depthwise convolution, and that of small groups, on CPUs. A work-group of one item takes a block of a plane at a time:
// what it sees of the source is copied into a buffer with its padding, as many lines of `pitch` elements one behind the
// other, and then a tap is nothing but a distance in that buffer: whatever the window, sums are made by vectors that run
// over all lines at once, ends of lines included, whose sums mean nothing.
// With strides, what every stride-th column and row holds (a phase) has a buffer of its own; in backward data each phase
// of the target's columns and rows has its own taps.
//
// An "element" is a number, lanes running along the columns; CHANNELS_LAST 1: VW channels of a pixel. "Source" is the
// tensor that taps reach into: x, in backward data dy. "Target" is the other one.

#include "gemm/gemm_cpu_runs.cl"
#include "lib/divisor.h"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_depthwise.h"

#ifndef DIRECTION  // 0: forward, 1: backward data, 2: backward filter
#define DIRECTION 0
#endif
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
#ifndef STEP_W  // the stride along the columns, if it is 1 or 2, else 0
#define STEP_W 1
#endif
#ifndef UNIT_SOURCE  // neighbouring columns lie side by side
#define UNIT_SOURCE 1
#define UNIT_TARGET 1
#endif
#ifndef ROOM  // numbers in a buffer, without what vectors need behind the last
#define ROOM 8192
#endif
#ifndef MOST_TAPS
#define MOST_TAPS 9
#endif
#ifndef MOST_PHASES  // backward data: of the target
#define MOST_PHASES 1
#endif
#ifndef TOGETHER  // backward filter: taps that are summed up at a time, a divisor of R * S
#define TOGETHER 9
#endif
#ifndef PARTS
#define PARTS 0
#endif

#if CHANNELS_LAST
#define COLUMN_BIAS(m) read_c(bias + bias_offset + (m), count)
#define COLUMN_SCALE(m) read_c(scale + scale_offset + (m), count)
#define UNIT VW
#define Filter VEC
#else
#define UNIT 1
#define Filter Scalar
#endif
#define LOAD_RESIDUAL(at) read_c(residual + residual_offset + (at), count)
#define KEEP(v, at) keep_c(preactivation + preactivation_offset + (at), v, count)
#include "gemm/gemm_cpu_types.cl"

#define AT_ONCE 4  // vectors of sums
#define UNROLL _Pragma("unroll")  // sums have to be in registers
#if MOST_TAPS <= 9
#define UNROLL_TAPS _Pragma("unroll")
#else
#define UNROLL_TAPS
#endif
#define SLACK (VW * (AT_ONCE + 1))
#define VECTORS ((ROOM + SLACK + VW - 1) / VW)
// Buffers of sums lie `SUMS_APART` apart: vectors behind the end of one are not in the next.
#define SUMS_APART (blocks.h * blocks.pitch * UNIT + AT_ONCE * VW)
#define SUM_VECTORS (VECTORS + MOST_PHASES * AT_ONCE)

#define STRIDE_W (STEP_W ? STEP_W : p.stride.w)

// Fills `lines` lines of `count` elements: what every step_h-th row and every step_w-th column of a plane holds, from
// (row, column) on; zeros where there is no such element. `from` is the place of the plane's first one. Up to VW - 1 numbers
// behind are written too.
INLINE void fill_lines(Scalar* to, int lines, int count, __global const AB_STORAGE* x, int from, int extent, int row,
                       int column, int height, int width, int step_h, int step_w, int x_h, int x_w, int unit, int channels) {
  const int begin = column >= 0 ? 0 : min(count, (step_w - 1 - column) / step_w);
  const int end = column >= width ? begin : max(begin, min(count, (width - column + step_w - 1) / step_w));
  from += row * x_h + (column + begin * step_w) * x_w;
  for (int line = 0; line < lines; line++, to += count * UNIT, row += step_h, from += step_h * x_h) {
    const int inside = row >= 0 && row < height, last = inside ? end : begin;
#if CHANNELS_LAST
    for (int i = 0; i < begin; i++) VEC_AT(__private, to + i * VW) = 0;
    for (int i = begin; i < last; i++) VEC_AT(__private, to + i * VW) = read_ab(x + (from + (i - begin) * step_w * x_w), channels);
    for (int i = last; i < count; i++) VEC_AT(__private, to + i * VW) = 0;
#else
    for (int i = 0; i < begin; i += VW) VEC_AT(__private, to + i) = 0;
    int i = begin, at = from;
    if (unit && step_w == 1)
      for (; i < last && at <= extent - VW; i += VW, at += VW) VEC_AT(__private, to + i) = LOAD_WIDE(AB_TYPE, x + at);
    if (unit && step_w == 2)
      for (; i < last && at <= extent - 2 * VW; i += VW, at += 2 * VW) {
        const VEC a = LOAD_WIDE(AB_TYPE, x + at), b = LOAD_WIDE(AB_TYPE, x + at + VW);
        VEC_AT(__private, to + i) = (VEC)(a.even, b.even);
      }
    for (; i < last; i++, at += step_w * x_w) to[i] = LOAD_AB(x, at);
    for (i = last; i < count; i += VW) VEC_AT(__private, to + i) = 0;
#endif
  }
}

// A block of all phases of the source's plane at `plane`, its first element being that at (row, column).
INLINE void fill_source(Scalar* seen, __global const AB_STORAGE* source, int plane, int row, int column, int lanes,
                        DepthwiseGeometry p, DepthwiseBlocks blocks) {
  const int step_h = DIRECTION == 1 ? 1 : p.stride.h, step_w = DIRECTION == 1 ? 1 : STRIDE_W;
  const int phases_h = min(step_h, (p.window.h - 1) * p.dilation.h + 1);
  const int phases_w = min(step_w, (p.window.w - 1) * p.dilation.w + 1);
  for (int h = 0; h < phases_h; h++)
    for (int v = 0; v < phases_w; v++, seen += blocks.lines * blocks.pitch * UNIT)
      fill_lines(seen, blocks.lines, blocks.pitch, source, plane, blocks.s_extent, row + h, column + v, p.source.h,
                 p.source.w, step_h, step_w, p.s.h, p.s.w, UNIT_SOURCE, lanes);
  for (int i = 0; i < SLACK - VW; i += VW) VEC_AT(__private, seen + i) = 0;
}

// The source's plane along the depth that `tap` of the target's meets; -1 if there is none.
INLINE int met(int target, int tap, int stride, int pad, int dilation, int size) {
#if DIRECTION == 1
  const int scaled = target + pad - tap * dilation, at = scaled / stride;
  return scaled >= 0 && at < size && at * stride == scaled ? at : -1;
#else
  const int at = target * stride - pad + tap * dilation;
  return at >= 0 && at < size ? at : -1;
#endif
}

// The taps' distances, and where the filter has them, counted from its first element. In backward data those that a phase of
// the target meets come together, phase by phase along the columns first, and phase i's begin at starts[i].
INLINE void find_taps(int* at, int* of_filter, int* starts, DepthwiseGeometry p, DepthwiseBlocks blocks) {
  const int lead_h = (p.window.h - 1) * p.dilation.h / p.stride.h, lead_w = (p.window.w - 1) * p.dilation.w / STRIDE_W;
  const int phases_w = min(STRIDE_W, (p.window.w - 1) * p.dilation.w + 1);
  int count = 0;
#if DIRECTION == 1
  for (int h = 0; h < p.stride.h; h++)
    for (int v = 0; v < STRIDE_W; v++) {
      starts[h * STRIDE_W + v] = count;
      for (int r = 0; r < p.window.h; r++)
        for (int s = 0; s < p.window.w; s++) {
          const int up = h - r * p.dilation.h, back = v - s * p.dilation.w;
          if (up % p.stride.h != 0 || back % STRIDE_W != 0) continue;
          at[count] = (up / p.stride.h + lead_h) * blocks.pitch + back / STRIDE_W + lead_w;
          of_filter[count++] = r * p.w.r + s * p.w.s;
        }
    }
  starts[p.stride.h * STRIDE_W] = count;
#else
  for (int r = 0; r < p.window.h; r++)
    for (int s = 0; s < p.window.w; s++) {
      const int down = r * p.dilation.h, across = s * p.dilation.w;
      const int phase = down % p.stride.h * phases_w + across % STRIDE_W;
      at[count] = (phase * blocks.lines + down / p.stride.h) * blocks.pitch + across / STRIDE_W;
      of_filter[count++] = r * p.w.r + s * p.w.s;
    }
#endif
}

#if DIRECTION != 2

// sums[i] (+)= filter[tap] * seen[at[tap] + i], for `count` elements and up to AT_ONCE vectors behind.
INLINE void add_taps(Scalar* sums, int more, const Scalar* seen, const int* at, const Filter* filter, int taps, int count) {
  for (int i = 0; i < count * UNIT; i += AT_ONCE * VW) {
    VEC sum[AT_ONCE];
    UNROLL for (int u = 0; u < AT_ONCE; u++) sum[u] = more ? VEC_AT(__private const, sums + i + u * VW) : 0;
    UNROLL_TAPS for (int tap = 0; tap < (MOST_PHASES == 1 ? MOST_TAPS : taps); tap++) {
      const Scalar* from = seen + at[tap] * UNIT + i;
      const VEC factor = filter[tap];
      UNROLL for (int u = 0; u < AT_ONCE; u++) sum[u] = fma(VEC_AT(__private const, from + u * VW), factor, sum[u]);
    }
    UNROLL for (int u = 0; u < AT_ONCE; u++) VEC_AT(__private, sums + i + u * VW) = sum[u];
  }
}

// Elements begin, begin + 1, ... `count` of them, of a line in which `phases` buffers of sums, `apart`, take turns: with the
// epilogue to the target, where the first one is at `at` of channel t. `room` elements from there on may be written.
INLINE void finish_line(__global C_STORAGE* target, int at, const Scalar* sums, int apart, int phases, int begin, int length,
                        int room, int t, int n, int t_w, int lanes, EPILOGUE_VALUES) {
#if CHANNELS_LAST
  const int count = lanes;
  for (int i = begin; i < begin + length; i++, at += t_w) {
    const VEC v = VEC_AT(__private const, sums + i % phases * apart + i / phases * VW);
    write_c(target + at, FINISH(SCALED(v, t, n), t, n, at), count);
  }
#else
  for (int i = 0; i < length; i += VW) {
    VEC v;
    const int first = begin + i;
    if (phases == 1) {
      v = VEC_AT(__private const, sums + first);
    } else {
#if STEP_W == 2
      const Scalar *even = sums + first / 2, *odd = even + apart;
      v.even = VEC_AT(__private const, first % 2 ? odd : even).lo;
      v.odd = VEC_AT(__private const, first % 2 ? even + 1 : odd).lo;
#else
      Scalar values[VW];
      for (int l = 0; l < VW; l++) values[l] = sums[(first + l) % phases * apart + (first + l) / phases];
      v = VEC_AT(__private const, values);
#endif
    }
    const int here = at + i * t_w;
#if UNIT_TARGET
    const int count = min(VW, room - i);
    write_c(target + here, FINISH(SCALED(v, t, n), t, n, here), count);
#else
    const int count = 1;
    Scalar values[VW], results[VW];
    VEC_AT(__private, values) = v;
    for (int l = 0; l < min(VW, length - i); l++) {
      v = values[l];
      VEC_AT(__private, results) = FINISH(SCALED(v, t, n), t, n, here + l * t_w);
      STORE_C(target, here + l * t_w, results[0]);
    }
#endif
  }
#endif
}

// A phase's sums to the rows of the target that it has.
INLINE void finish_phase(__global C_STORAGE* target, int plane, const Scalar* sums, int h, int block_i, int block_j, int t,
                         int n, int lanes, DepthwiseGeometry p, DepthwiseBlocks blocks, EPILOGUE_VALUES) {
  const int steps_h = DIRECTION == 1 ? p.stride.h : 1, phases = DIRECTION == 1 ? STRIDE_W : 1;
  const int row0 = p.t_first_h + block_i * blocks.h * steps_h + h, column0 = p.t_first_w + block_j * blocks.w * phases;
  const int begin = max(0, -column0), length = min(blocks.w * phases, p.target.w - column0) - begin;
  // Where the block's rows lie one behind the other, a vector may reach into the next one, which is written later.
  const int dense = steps_h == 1 && p.t.h == length && p.t.w == 1;
  const int end = min(blocks.h, (p.target.h - row0 + steps_h - 1) / steps_h);
  for (int i = 0; i < end; i++) {
    const int row = row0 + i * steps_h;
    if (row < 0) continue;
    finish_line(target, plane + row * p.t.h + (column0 + begin) * p.t.w, sums + i * blocks.pitch * UNIT, SUMS_APART,
                phases, begin, length, dense ? (end - i) * length : length, t, n, p.t.w, lanes, alpha, beta, bias, bias_offset, scale,
                scale_offset, residual, residual_offset, preactivation, preactivation_offset);
  }
}

INLINE void load_filter(Filter* filter, __global const AB_STORAGE* w, int first, const int* of_filter, int taps, int lanes,
                        int w_g) {
  for (int tap = 0; tap < taps; tap++) {
#if CHANNELS_LAST
    Scalar values[VW];
    for (int l = 0; l < VW; l++) values[l] = l < lanes ? LOAD_AB(w, first + l * w_g + of_filter[tap]) : 0;
    filter[tap] = VEC_AT(__private const, values);
#else
    filter[tap] = LOAD_AB(w, first + of_filter[tap]);
#endif
  }
}

// get_global_id(0) is the block, get_global_id(1) * chunk the first plane; those of an image's channels are neighbours.
__kernel void conv_depthwise(__global const AB_STORAGE* restrict source, long s_offset, __global const AB_STORAGE* restrict w,
                             long w_offset, __global C_STORAGE* restrict target, long t_offset, DepthwiseGeometry p,
                             DepthwiseBlocks blocks, EPILOGUE_PARAMETERS) {
  VEC seen_vectors[VECTORS], sum_vectors[SUM_VECTORS];
  Scalar *seen = (Scalar*)seen_vectors, *sums = (Scalar*)sum_vectors;
  Filter filter[MOST_TAPS];
  int at[MOST_TAPS], of_filter[MOST_TAPS], starts[MOST_PHASES + 1];
  source += s_offset;
  w += w_offset;
  target += t_offset;
  const int block_i = (int)get_global_id(0) / blocks.across, block_j = (int)get_global_id(0) % blocks.across;
  const int row0 = p.s_first_h + block_i * blocks.h * (DIRECTION == 1 ? 1 : p.stride.h);
  const int column0 = p.s_first_w + block_j * blocks.w * (DIRECTION == 1 ? 1 : STRIDE_W);
  const int packs = (p.channels + UNIT - 1) / UNIT, planes = blocks.images * packs * p.target.d;
  const int count = (blocks.h - 1) * blocks.pitch + blocks.w;
  find_taps(at, of_filter, starts, p, blocks);
  const int first = (int)get_global_id(1) * blocks.chunk, last = min(first + blocks.chunk, planes);
  for (int plane = first; plane < last; plane++) {
    const int o = plane % p.target.d, t = plane / p.target.d % packs * UNIT, n = plane / p.target.d / packs;
    const int group = t / p.group_t, lanes = min(VW, p.channels - t);
    const int target_plane = n * p.t.n + t * p.t.c + o * p.t.d;
    for (int h = 0; h < (DIRECTION == 1 ? p.stride.h : 1); h++) {
      int more = 0;
      for (int j = 0; j < p.group_s; j++)
        for (int depth_tap = 0; depth_tap < p.window.d; depth_tap++) {
          const int d = met(o, depth_tap, p.stride.d, p.pad.d, p.dilation.d, p.source.d);
          if (d < 0) continue;
          const int source_plane = n * p.s.n + (group * p.group_s + j) * p.s.c + d * p.s.d;
          // One plane's block stays for all phases.
          if (h == 0 || p.group_s * p.window.d > 1) {
            fill_source(seen, source, source_plane, row0, column0, lanes, p, blocks);
            load_filter(filter, w, group * p.w.g + (t - group * p.group_t) * p.w.i + j * p.w.j + depth_tap * p.w.t, of_filter,
                        p.window.h * p.window.w, lanes, p.w.g);
          }
#if DIRECTION == 0
          add_taps(sums, more, seen, at, filter, p.window.h * p.window.w, count);
#else
          for (int v = 0; v < STRIDE_W; v++) {
            const int begin = starts[h * STRIDE_W + v], end = starts[h * STRIDE_W + v + 1];
            add_taps(sums + v * SUMS_APART, more, seen, at + begin, filter + begin, end - begin, count);
          }
#endif
          more = 1;
        }
      if (!more)
        for (int i = 0; i < (DIRECTION == 1 ? STRIDE_W : 1) * SUMS_APART; i += VW) VEC_AT(__private, sums + i) = 0;
      finish_phase(target, target_plane, sums, h, block_i, block_j, t, n, lanes, p, blocks, alpha, beta, bias,
                   bias_offset, scale, scale_offset, residual, residual_offset, preactivation, preactivation_offset);
    }
  }
}

#else

// sums[tap] += given[i] * seen[at[tap] + i] over `count` elements.
INLINE void add_products(VEC* sums, const Scalar* given, const Scalar* seen, const int* at, int taps, int count) {
  for (int tap = 0; tap < taps; tap += TOGETHER) {
    VEC sum[TOGETHER];
    const Scalar* from[TOGETHER];
    UNROLL for (int u = 0; u < TOGETHER; u++) {
      sum[u] = 0;
      from[u] = seen + at[tap + u] * UNIT;
    }
    for (int i = 0; i < count * UNIT; i += VW) {
      const VEC v = VEC_AT(__private const, given + i);
      UNROLL for (int u = 0; u < TOGETHER; u++) sum[u] = fma(VEC_AT(__private const, from[u] + i), v, sum[u]);
    }
    UNROLL for (int u = 0; u < TOGETHER; u++) sums[tap + u] += sum[u];
  }
}

// A plane of dw is that of a filter and one of its group's channels: `channels` is how many there are. get_global_id(0) is
// the first, get_global_id(1) the tap along the depth; get_global_id(2) sums over `chunk` images.
__kernel void conv_depthwise_filter(__global const AB_STORAGE* restrict source, long s_offset,
                                    __global const AB_STORAGE* restrict target, long t_offset,
                                    __global C_STORAGE* restrict w, long w_offset, __global Scalar* restrict partial,
                                    long partial_offset, DepthwiseGeometry p, DepthwiseBlocks blocks) {
  VEC seen_vectors[VECTORS], given_vectors[VECTORS], sums[MOST_TAPS];
  Scalar *seen = (Scalar*)seen_vectors, *given = (Scalar*)given_vectors;
  int at[MOST_TAPS], of_filter[MOST_TAPS], starts[1];
  const int pair = (int)get_global_id(0) * UNIT, depth_tap = (int)get_global_id(1), part = (int)get_global_id(2);
  const int k = pair / p.group_t, c = pair % p.group_t, lanes = min(VW, p.channels - pair);
  source += s_offset + (k / p.group_s * p.group_t + c) * p.s.c;
  target += t_offset + k * p.t.c;
  blocks.s_extent -= (k / p.group_s * p.group_t + c) * p.s.c;
  blocks.t_extent -= k * p.t.c;
  const int taps = p.window.h * p.window.w;
  find_taps(at, of_filter, starts, p, blocks);
  for (int tap = 0; tap < taps; tap++) sums[tap] = 0;
  for (int n = part * blocks.chunk; n < min((part + 1) * blocks.chunk, blocks.images); n++)
    for (int o = 0; o < p.target.d; o++) {
      const int d = met(o, depth_tap, p.stride.d, p.pad.d, p.dilation.d, p.source.d);
      for (int block = 0; block < (d < 0 ? 0 : blocks.count); block++) {
        const int row = block / blocks.across * blocks.h, column = block % blocks.across * blocks.w;
        const int rows = min(blocks.h, p.target.h - row), width = min(p.target.w, column + blocks.w);
        fill_source(seen, source, n * p.s.n + d * p.s.d, p.s_first_h + row * p.stride.h,
                    p.s_first_w + column * STRIDE_W, lanes, p, blocks);
        fill_lines(given, rows, blocks.pitch, target, n * p.t.n + o * p.t.d, blocks.t_extent, row, column, row + rows,
                   width, 1, 1, p.t.h, p.t.w, UNIT_TARGET, lanes);
        VEC_AT(__private, given + rows * blocks.pitch * UNIT) = 0;
        add_products(sums, given, seen, at, taps, (rows - 1) * blocks.pitch + width - column);
      }
    }
  for (int tap = 0; tap < taps; tap++) {
    Scalar values[VW];
    VEC_AT(__private, values) = sums[tap];
#if !CHANNELS_LAST
    for (int l = 1; l < VW; l++) values[0] += values[l];
#endif
    for (int l = 0; l < (CHANNELS_LAST ? lanes : 1); l++) {
#if PARTS
      const long plane = ((long)part * p.channels + pair + l) * p.window.d + depth_tap;
      partial[partial_offset + plane * taps + tap] = values[l];
#else
      const int plane = k * p.w.i + (CHANNELS_LAST ? l * p.w.i : c * p.w.j);
      STORE_C(w + w_offset, plane + depth_tap * p.w.t + of_filter[tap], values[l]);
#endif
    }
  }
}

#endif
