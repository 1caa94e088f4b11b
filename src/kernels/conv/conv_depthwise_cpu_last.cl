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

#define SHAPE_PARAMETERS                                                                                             \
  int N, int channels, int chunk, int s_n, AXES(s), long t_n, LONG_AXES(t), AXES(source), AXES(target), AXES(window), \
      AXES(stride), AXES(pad), AXES(dilation), int w_c, AXES(w)
// Of both kernels: the block, and the columns that see the source through all taps.
#define BEGIN                                                                                                    \
  const int channel = (int)get_global_id(0) * BLOCK * VW, here = min(BLOCK * VW, channels - channel);            \
  const int vectors = here / VW, rest = here % VW;                                                               \
  source += source_offset + channel;                                                                             \
  target += target_offset + channel;                                                                             \
  w += w_offset + channel * w_c;                                                                                 \
  const int across = source_w - 1 - (window_w - 1) * dilation_w + pad_w;                                         \
  const int inner = pad_w > 0 ? (pad_w + stride_w - 1) / stride_w : 0;                                           \
  const int inner_end = across < 0 ? 0 : min(target_w, across / stride_w + 1);                                   \
  const int first_row = (int)get_global_id(1) * chunk, end_row = min(first_row + chunk, N * target_d * target_h);
// Of a row: the taps that meet the source, and where it lies.
#define BEGIN_ROW                                                                                                 \
  const int i = row % target_h, o = row / target_h % target_d, n = row / target_h / target_d;                     \
  const int h = i * stride_h - pad_h, d = o * stride_d - pad_d;                                                   \
  const int r_begin = first_inside(h, dilation_h), r_end = end_inside(h, window_h, dilation_h, source_h);         \
  const int t_begin = first_inside(d, dilation_d), t_end = end_inside(d, window_d, dilation_d, source_d);         \
  const int seen = n * s_n + d * s_d + h * s_h;                                                                   \
  const long line = n * t_n + o * t_d + i * t_h;
#define FULL(p) LOAD_WIDE(AB_TYPE, p)
#define PARTIAL(p) read_ab(p, rest)
#define ONE_WORK_ITEM __attribute__((reqd_work_group_size(1, 1, 1)))

#if !BACKWARD_FILTER

// Pixels from column j on, Q of them, V vectors of channels of each, from vector v on.
#define TILE(Q, V, load)                                                                                     \
  {                                                                                                          \
    VEC sum[Q * V];                                                                                          \
    UNROLL for (int i = 0; i < Q * V; i++) sum[i] = 0;                                                       \
    for (int t = t_begin; t < t_end; t++)                                                                    \
      for (int r = r_begin; r < r_end; r++)                                                                  \
        for (int s = s_begin; s < s_end; s++) {                                                              \
          const VEC* factor = filter + ((t * window_h + r) * window_w + s) * BLOCK + v;                      \
          __global const AB_STORAGE* from =                                                                  \
              source + seen + t * dilation_d * s_d + r * dilation_h * s_h + (first + s * dilation_w) * s_w + v * VW; \
          UNROLL for (int u = 0; u < Q; u++)                                                                 \
            UNROLL for (int i = 0; i < V; i++)                                                               \
              sum[u * V + i] = fma(load(from + u * stride_w * s_w + i * VW), factor[i], sum[u * V + i]);     \
        }                                                                                                    \
    UNROLL for (int u = 0; u < Q; u++)                                                                       \
      UNROLL for (int i = 0; i < V; i++) {                                                                   \
        const int m = channel + (v + i) * VW;                                                                \
        const long at = line + (j + u) * t_w + (v + i) * VW;                                                 \
        write_c(target + at, FINISH(SCALED(sum[u * V + i], m, 0), m, 0, at + channel), count);               \
      }                                                                                                      \
    v += V;                                                                                                  \
  }
__kernel ONE_WORK_ITEM void conv_depthwise(__global const AB_STORAGE* restrict source, long source_offset,
                                           __global const AB_STORAGE* restrict w, long w_offset,
                                           __global C_STORAGE* restrict target, long target_offset, SHAPE_PARAMETERS,
                                           EPILOGUE_PARAMETERS) {
  VEC filter[MOST_TAPS * BLOCK];
  BEGIN
  for (int t = 0; t < window_d; t++)
    for (int r = 0; r < window_h; r++)
      for (int s = 0; s < window_w; s++) {
        Scalar* to = (Scalar*)(filter + ((t * window_h + r) * window_w + s) * BLOCK);
        for (int c = 0; c < BLOCK * VW; c++)
          to[c] = c < here ? LOAD_AB(w, c * w_c + t * w_d + r * w_h + s * w_w) : 0;
      }
  for (int row = first_row; row < end_row; row++) {
    BEGIN_ROW
    for (int j = 0, columns; j < target_w; j += columns) {
      const int first = j * stride_w - pad_w, left = j >= inner ? inner_end - j : 0;
      const int s_begin = first_inside(first, dilation_w), s_end = end_inside(first, window_w, dilation_w, source_w);
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
#define SUM_UP(COUNT)                                                                                       \
  {                                                                                                         \
    VEC sum[COUNT];                                                                                         \
    UNROLL for (int u = 0; u < COUNT; u++) sum[u] = 0;                                                      \
    __global const AB_STORAGE* from = source + seen + (inner * stride_w - pad_w) * s_w + v * VW;            \
    for (int j = inner; j < inner_end; j++, from += stride_w * s_w) {                                       \
      const VEC given = FULL(target + line + j * t_w + v * VW);                                             \
      UNROLL for (int u = 0; u < COUNT; u++) sum[u] = fma(FULL(from + at[tap + u]), given, sum[u]);         \
    }                                                                                                       \
    UNROLL for (int u = 0; u < COUNT; u++) sums[(tap + u) * BLOCK + v] += sum[u];                           \
  }
// Column j of vector v, tap by tap.
#define ADD_COLUMN(load)                                                                                    \
  {                                                                                                         \
    const int first = j * stride_w - pad_w;                                                                 \
    const int s_begin = first_inside(first, dilation_w), s_end = end_inside(first, window_w, dilation_w, source_w); \
    const VEC given = load(target + line + j * t_w + v * VW);                                               \
    for (int t = t_begin; t < t_end; t++)                                                                   \
      for (int r = r_begin; r < r_end; r++)                                                                 \
        for (int s = s_begin; s < s_end; s++) {                                                             \
          const int tap = (t * window_h + r) * window_w + s;                                                \
          VEC* sum = sums + tap * BLOCK + v;                                                                \
          *sum = fma(load(source + seen + first * s_w + at[tap] + v * VW), given, *sum);                    \
        }                                                                                                   \
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
  const int taps = window_d * window_h * window_w;
  for (int tap = 0; tap < taps; tap++) {
    const int s = tap % window_w, r = tap / window_w % window_h, t = tap / window_w / window_h;
    at[tap] = t * dilation_d * s_d + r * dilation_h * s_h + s * dilation_w * s_w;
    for (int v = 0; v < BLOCK; v++) sums[tap * BLOCK + v] = 0;
  }
  for (int row = first_row; row < end_row; row++) {
    BEGIN_ROW
    const bool all = r_begin == 0 && r_end == window_h && t_begin == 0 && t_end == window_d;
    for (int v = 0; v < vectors; v++) {
      if (all) {
        for (int tap = 0; tap < taps; tap += TOGETHER) SUM_UP(TOGETHER)
      } else {
        for (int t = t_begin; t < t_end; t++)
          for (int r = r_begin; r < r_end; r++)
            for (int s = 0; s < window_w; s += TOGETHER_IN_ROW) {
              const int tap = (t * window_h + r) * window_w + s;
              SUM_UP(TOGETHER_IN_ROW)
            }
      }
      for (int j = 0; j < min(inner, target_w); j++) ADD_COLUMN(FULL)
      for (int j = max(inner, inner_end); j < target_w; j++) ADD_COLUMN(FULL)
    }
    for (int j = 0, v = vectors; rest > 0 && j < target_w; j++) ADD_COLUMN(PARTIAL)
  }
  for (int tap = 0; tap < taps; tap++) {
    const Scalar* values = (const Scalar*)(sums + tap * BLOCK);
    const int s = tap % window_w, r = tap / window_w % window_h, t = tap / window_w / window_h;
    for (int c = 0; c < here; c++) {
#if PARTS
      partial[partial_offset + ((long)get_global_id(1) * channels + channel + c) * taps + tap] = values[c];
#else
      STORE_C(w, c * w_c + t * w_d + r * w_h + s * w_w, values[c]);
#endif
    }
  }
}

#endif
