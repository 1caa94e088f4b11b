// Depthwise convolution on CPUs of tensors whose channels are last. Sums are in registers: those of pixels side by side,
// VW channels of each or, in backward filter, those of taps. What they see is read where it lies, and taps that meet
// padding are left out. Backward data comes phase by phase, as in conv_cpu.cl: "source" is x, in backward data dy, "target"
// the other one.
//
// get_global_id(0) is a block of BLOCK * VW channels, get_global_id(1) * chunk the first row of the target, over all images.

#ifndef MOST_TAPS
#define MOST_TAPS 9
#endif
#define BLOCK 4
#ifndef BACKWARD_FILTER
#define BACKWARD_FILTER 0
#endif
// Backward filter: taps that are summed up at a time, of a row of taps and of all; they divide those.
#ifndef TOGETHER_IN_ROW
#define TOGETHER_IN_ROW 3
#define TOGETHER 9
#endif
#ifndef PARTS
#define PARTS 0
#endif

#define COLUMN_BIAS(m) read_c(bias + bias_offset + (m), count)
#define COLUMN_SCALE(m) read_c(scale + scale_offset + (m), count)
#define LOAD_RESIDUAL(at) read_c(residual + residual_offset + (at), count)
#define KEEP(v, at) keep_c(preactivation + preactivation_offset + (at), v, count)
#include "conv/conv_cpu_axes.cl"
#include "gemm/gemm_cpu_types.cl"

#define UNROLL _Pragma("unroll")  // sums have to be in registers

// Taps [begin, end) of `taps` lie within `size` positions of the source; the first one's is `at`.
static int first_inside(int at, int dilation) {
  return at >= 0 ? 0 : (dilation - 1 - at) / dilation;
}
static int end_inside(int at, int taps, int dilation, int size) {
  return at >= size ? 0 : min(taps, (size - at + dilation - 1) / dilation);
}

#define SHAPE_PARAMETERS int N, int chunk, CpuShape conv, PixelStrides s_step, LongStrides t_step, PixelStrides w_step
// Of both kernels: the block, and the columns that see the source through all taps.
#define BEGIN                                                                                              \
  const int channel = (int)get_global_id(0) * BLOCK * VW, here = min(BLOCK * VW, conv.channels - channel); \
  const int vectors = here / VW, rest = here % VW;                                                         \
  source += source_offset + channel;                                                                       \
  target += target_offset + channel;                                                                       \
  w += w_offset + channel * w_step.n;                                                                      \
  const int across = conv.source.w - 1 - (conv.window.w - 1) * conv.dilation.w + conv.pad.w;               \
  const int inner = conv.pad.w > 0 ? (conv.pad.w + conv.stride.w - 1) / conv.stride.w : 0;                 \
  const int inner_end = across < 0 ? 0 : min(conv.target.w, across / conv.stride.w + 1);                   \
  const int first_row = (int)get_global_id(1) * chunk, end_row = min(first_row + chunk, N * conv.target.d * conv.target.h);
// Of a row: the taps that meet the source, and where it lies.
#define BEGIN_ROW                                                                                                             \
  const int i = row % conv.target.h, o = row / conv.target.h % conv.target.d, n = row / conv.target.h / conv.target.d;        \
  const int h = i * conv.stride.h - conv.pad.h, d = o * conv.stride.d - conv.pad.d;                                           \
  const int r_begin = first_inside(h, conv.dilation.h), r_end = end_inside(h, conv.window.h, conv.dilation.h, conv.source.h); \
  const int t_begin = first_inside(d, conv.dilation.d), t_end = end_inside(d, conv.window.d, conv.dilation.d, conv.source.d); \
  const int seen = n * s_step.n + d * s_step.d + h * s_step.h;                                                                \
  const long line = n * t_step.n + o * t_step.d + i * t_step.h;
#define FULL(p) LOAD_WIDE(AB_TYPE, p)
#define PARTIAL(p) read_ab(p, rest)
#define ONE_WORK_ITEM __attribute__((reqd_work_group_size(1, 1, 1)))

#if !BACKWARD_FILTER

// Pixels from column j on, Q of them, V vectors of channels of each, from vector v on.
#define TILE(Q, V, load)                                                                                                      \
  {                                                                                                                           \
    VEC sum[Q * V];                                                                                                           \
    UNROLL for (int i = 0; i < Q * V; i++) sum[i] = 0;                                                                        \
    for (int t = t_begin; t < t_end; t++)                                                                                     \
      for (int r = r_begin; r < r_end; r++)                                                                                   \
        for (int s = s_begin; s < s_end; s++) {                                                                               \
          const VEC* factor = filter + ((t * conv.window.h + r) * conv.window.w + s) * BLOCK + v;                             \
          __global const AB_STORAGE* from = source + seen + t * conv.dilation.d * s_step.d + r * conv.dilation.h * s_step.h + \
                                            (first + s * conv.dilation.w) * s_step.w + v * VW;                                \
          UNROLL for (int u = 0; u < Q; u++)                                                                                  \
            UNROLL for (int i = 0; i < V; i++)                                                                                \
              sum[u * V + i] = fma(load(from + u * conv.stride.w * s_step.w + i * VW), factor[i], sum[u * V + i]);            \
        }                                                                                                                     \
    UNROLL for (int u = 0; u < Q; u++)                                                                                        \
      UNROLL for (int i = 0; i < V; i++) {                                                                                    \
        const int m = channel + (v + i) * VW;                                                                                 \
        const long at = line + (j + u) * t_step.w + (v + i) * VW;                                                             \
        write_c(target + at, FINISH(SCALED(sum[u * V + i], m, 0), m, 0, at + channel), count);                                \
      }                                                                                                                       \
    v += V;                                                                                                                   \
  }
__kernel ONE_WORK_ITEM void conv_depthwise(__global const AB_STORAGE* restrict source, long source_offset,
                                           __global const AB_STORAGE* restrict w, long w_offset,
                                           __global C_STORAGE* restrict target, long target_offset, SHAPE_PARAMETERS,
                                           EPILOGUE_PARAMETERS) {
  VEC filter[MOST_TAPS * BLOCK];
  BEGIN
  for (int t = 0; t < conv.window.d; t++)
    for (int r = 0; r < conv.window.h; r++)
      for (int s = 0; s < conv.window.w; s++) {
        Scalar* to = (Scalar*)(filter + ((t * conv.window.h + r) * conv.window.w + s) * BLOCK);
        for (int c = 0; c < BLOCK * VW; c++)
          to[c] = c < here ? LOAD_AB(w, c * w_step.n + t * w_step.d + r * w_step.h + s * w_step.w) : 0;
      }
  for (int row = first_row; row < end_row; row++) {
    BEGIN_ROW
    for (int j = 0, columns; j < conv.target.w; j += columns) {
      const int first = j * conv.stride.w - conv.pad.w, left = j >= inner ? inner_end - j : 0;
      const int s_begin = first_inside(first, conv.dilation.w);
      const int s_end = end_inside(first, conv.window.w, conv.dilation.w, conv.source.w);
      int v = 0;
      columns = rest > 0 ? 1 : left >= 8 ? 8 : left >= 4 ? 4 : 1;
      const int count = VW;
      if (columns == 8) {
        while (v < vectors) TILE(8, 1, FULL)
      } else if (columns == 4) {
        while (v + 2 <= vectors) TILE(4, 2, FULL)
        if (v < vectors) TILE(4, 1, FULL)
      } else {
        if (v + 4 <= vectors) TILE(1, 4, FULL)
        while (v < vectors) TILE(1, 1, FULL)
      }
      if (rest > 0) {
        const int count = rest;
        TILE(1, 1, PARTIAL)
      }
    }
  }
}

#else

// Sums of COUNT taps from tap number `tap` on, over the inner columns.
#define SUM_UP(COUNT)                                                                                           \
  {                                                                                                             \
    VEC sum[COUNT];                                                                                             \
    UNROLL for (int u = 0; u < COUNT; u++) sum[u] = 0;                                                          \
    __global const AB_STORAGE* from = source + seen + (inner * conv.stride.w - conv.pad.w) * s_step.w + v * VW; \
    for (int j = inner; j < inner_end; j++, from += conv.stride.w * s_step.w) {                                 \
      const VEC given = FULL(target + line + j * t_step.w + v * VW);                                            \
      UNROLL for (int u = 0; u < COUNT; u++) sum[u] = fma(FULL(from + at[tap + u]), given, sum[u]);             \
    }                                                                                                           \
    UNROLL for (int u = 0; u < COUNT; u++) sums[(tap + u) * BLOCK + v] += sum[u];                               \
  }
// Column j of vector v, tap by tap.
#define ADD_COLUMN(load)                                                                      \
  {                                                                                           \
    const int first = j * conv.stride.w - conv.pad.w;                                         \
    const int s_begin = first_inside(first, conv.dilation.w);                                 \
    const int s_end = end_inside(first, conv.window.w, conv.dilation.w, conv.source.w);       \
    const VEC given = load(target + line + j * t_step.w + v * VW);                            \
    for (int t = t_begin; t < t_end; t++)                                                     \
      for (int r = r_begin; r < r_end; r++)                                                   \
        for (int s = s_begin; s < s_end; s++) {                                               \
          const int tap = (t * conv.window.h + r) * conv.window.w + s;                        \
          VEC* sum = sums + tap * BLOCK + v;                                                  \
          *sum = fma(load(source + seen + first * s_step.w + at[tap] + v * VW), given, *sum); \
        }                                                                                     \
  }

// get_global_id(1) is the part too: sums over its rows go to dw or, with PARTS, to a dw of Scalars in `partial`.
__kernel ONE_WORK_ITEM void conv_depthwise_filter(__global const AB_STORAGE* restrict source, long source_offset,
                                                  __global const AB_STORAGE* restrict target, long target_offset,
                                                  __global C_STORAGE* restrict w, long w_offset,
                                                  __global Scalar* restrict partial, long partial_offset,
                                                  SHAPE_PARAMETERS) {
  VEC sums[MOST_TAPS * BLOCK];
  int at[MOST_TAPS];  // taps' distances in the source
  BEGIN
  const int taps = conv.window.d * conv.window.h * conv.window.w;
  for (int tap = 0; tap < taps; tap++) {
    const int s = tap % conv.window.w, r = tap / conv.window.w % conv.window.h, t = tap / conv.window.w / conv.window.h;
    at[tap] = t * conv.dilation.d * s_step.d + r * conv.dilation.h * s_step.h + s * conv.dilation.w * s_step.w;
    for (int v = 0; v < BLOCK; v++) sums[tap * BLOCK + v] = 0;
  }
  for (int row = first_row; row < end_row; row++) {
    BEGIN_ROW
    const bool all = r_begin == 0 && r_end == conv.window.h && t_begin == 0 && t_end == conv.window.d;
    for (int v = 0; v < vectors; v++) {
      if (all) {
        for (int tap = 0; tap < taps; tap += TOGETHER) SUM_UP(TOGETHER)
      } else {
        for (int t = t_begin; t < t_end; t++)
          for (int r = r_begin; r < r_end; r++)
            for (int s = 0; s < conv.window.w; s += TOGETHER_IN_ROW) {
              const int tap = (t * conv.window.h + r) * conv.window.w + s;
              SUM_UP(TOGETHER_IN_ROW)
            }
      }
      for (int j = 0; j < min(inner, conv.target.w); j++) ADD_COLUMN(FULL)
      for (int j = max(inner, inner_end); j < conv.target.w; j++) ADD_COLUMN(FULL)
    }
    for (int j = 0, v = vectors; rest > 0 && j < conv.target.w; j++) ADD_COLUMN(PARTIAL)
  }
  for (int tap = 0; tap < taps; tap++) {
    const Scalar* values = (const Scalar*)(sums + tap * BLOCK);
    const int s = tap % conv.window.w, r = tap / conv.window.w % conv.window.h, t = tap / conv.window.w / conv.window.h;
    for (int c = 0; c < here; c++) {
#if PARTS
      partial[partial_offset + ((long)get_global_id(1) * conv.channels + channel + c) * taps + tap] = values[c];
#else
      STORE_C(w, c * w_step.n + t * w_step.d + r * w_step.h + s * w_step.w, values[c]);
#endif
    }
  }
}

#endif
