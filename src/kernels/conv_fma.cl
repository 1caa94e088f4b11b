// Convolution on GPUs as implicit GEMM: slots of gemm_fma.cl. Operands are gathered straight from x, w and
// dy.
//
//   DIRECTION 0  forward          C[k, npq] = sum over crs of w[k, crs] x[crs, npq]
//   DIRECTION 1  backward data    C[c, nhw] = sum over krs of w[k, c, rs] dy[krs, nhw], of one phase: the pixels that
//   meet the same taps, every stride-th in a row and a column. To those, strides are 1
//   DIRECTION 2  backward filter  C[k, crs] = sum over npq of dy[k, npq] x[npq, crs], npq in parts, one
//   result each
//
// get_group_id(2) is the convolution's group; backward filter, group * parts + part. Offsets inside a tensor
// are 32-bit. A "pixel" is a position npq, or nhw in backward data. "Source" is the tensor that taps reach
// into (x, or dy in backward data), "target" the other one (y, dx; dy in backward filter).

#include "divide.cl"

#ifndef DIRECTION
#define DIRECTION 0
#endif
// Backward data: whether a stride is above 1.
#ifndef STRIDED
#define STRIDED 1
#endif
// 0: there is only one tap, and it lies inside for every pixel (1x1, no padding). Forward only.
#ifndef WINDOW
#define WINDOW 1
#endif

// `channels` are the source's in a group, source_h x source_w is its plane, s_* and t_* are strides. An image
// has `plane` pixels, `columns` in a row; a channel has `taps`, `window` in a row.
#define SHAPE_PARAMETERS                                                                           \
  int channels, int source_h, int source_w, DIVISOR(plane), DIVISOR(columns), DIVISOR(taps),       \
      DIVISOR(window), int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h,           \
      int dilation_w, int s_n, int s_c, int s_h, int s_w, int t_n, int t_c, int t_h, int t_w
#define SHAPE                                                                                              \
  channels, source_h, source_w, DIVIDED(plane), DIVIDED(columns), DIVIDED(taps), DIVIDED(window),      \
      stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, s_n, s_c, s_h, s_w, t_n, t_c, t_h, t_w

#define PIXEL(number)                                                           \
  const int image = QUOTIENT(number, plane), in_plane = (number)-image * plane; \
  const int pixel_i = QUOTIENT(in_plane, columns), pixel_j = in_plane - pixel_i * columns;
#define TAP(number)                                                    \
  const int c = QUOTIENT(number, taps), in_window = (number)-c * taps; \
  const int r = QUOTIENT(in_window, window), s = in_window - r * window;

// Where the window of a pixel begins: x's row and column; in backward data, what the window's first tap would
// be reached from.
#if DIRECTION == 1
#define ROW0 (pixel_i + pad_h)
#define COLUMN0 (pixel_j + pad_w)
#else
#define ROW0 (pixel_i * stride_h - pad_h)
#define COLUMN0 (pixel_j * stride_w - pad_w)
#endif

// What a pixel whose window begins at (row, column) sees through tap number `number`; 0 outside.
static float gather(__global const float* image, int row, int column, int number, SHAPE_PARAMETERS) {
  TAP(number)
#if DIRECTION == 1
  row -= r * dilation_h;
  column -= s * dilation_w;
#else
  row += r * dilation_h;
  column += s * dilation_w;
#endif
  const int inside = (uint)row < (uint)source_h && (uint)column < (uint)source_w;  // not negative either
  return inside ? image[c * s_c + row * s_h + column * s_w] : 0.0f;
}

#if DIRECTION == 2

#define PARAMETERS                                                                                \
  int part, __global const float *restrict source, long source_offset,                            \
      __global const float *restrict target, long target_offset, __global float *restrict result, \
      long result_offset, SHAPE_PARAMETERS
#define SETUP                                                                            \
  const int parts = max(1, (K + part - 1) / part), group = (int)get_group_id(2) / parts; \
  const int number = (int)get_group_id(2) % parts, k_begin = number * part;              \
  K = min(part, K - k_begin);                                                            \
  source += source_offset + (long)group * channels * s_c;                                \
  target += target_offset + (long)group * M * t_c;                                       \
  result += result_offset + ((long)number * ((int)get_num_groups(2) / parts) + group) * M * N;
static float load_target(__global const float* target, int m, int k, SHAPE_PARAMETERS) {
  PIXEL(k)
  return target[image * t_n + m * t_c + pixel_i * t_h + pixel_j * t_w];
}
static float load_source(__global const float* source, int k, int n, SHAPE_PARAMETERS) {
  PIXEL(k)
  return gather(source + image * s_n, ROW0, COLUMN0, n, SHAPE);
}
#define LOAD_A(m, k) load_target(target, m, k_begin + (k), SHAPE)
#define LOAD_B(k, n) load_source(source, k_begin + (k), n, SHAPE)
#define STORE_SUM(m, n, v) result[(m) * (long)N + (n)] = (v);

#else

#if DIRECTION == 1
// The filter's elements in a channel, the phase's first tap and how far the next ones are: below it and beside it.
#define FILTER_PARAMETERS int filter, int first_tap, int tap_below, int tap_beside,
#define A_GROUP (channels * lda)
#else
#define FILTER_PARAMETERS
#define A_GROUP ((long)M * K)
#endif
#define PARAMETERS                                                                                  \
  __global const float *restrict a, long a_offset, long lda, __global const float *restrict source, \
      long source_offset, __global float *restrict target, long target_offset, FILTER_PARAMETERS SHAPE_PARAMETERS
#define SETUP                                                       \
  a += get_group_id(2) * A_GROUP;                                   \
  source += source_offset + (long)get_group_id(2) * channels * s_c; \
  target += target_offset;                                          \
  const long group_at = (long)get_group_id(2) * M * t_c;
#define B_UNIT_K 0
#if WINDOW
#define B_COLUMN(n)                                      \
  PIXEL(n)                                               \
  __global const float* image_at = source + image * s_n; \
  const int row0 = ROW0, column0 = COLUMN0;
#define LOAD_B(k, n) gather(image_at, row0, column0, k, SHAPE)
#else
#define B_COLUMN(n) \
  PIXEL(n)          \
  __global const float* image_at = source + (image * s_n + ROW0 * s_h + COLUMN0 * s_w);
#define LOAD_B(k, n) image_at[(k)*s_c]
#endif
#if DIRECTION == 1
// Element (c, krs) of A is w[k, c, rs]; lda is what one k takes, C/groups * R * S.
#define A_UNIT_K 1
#if STRIDED
#define TAP_OF_W(number) (first_tap + QUOTIENT(number, window) * (tap_below - window * tap_beside) + (number)*tap_beside)
#else
#define TAP_OF_W(number) (number)
#endif
#define A_STEP(k) \
  const int k_of_w = QUOTIENT(k, taps), a_at = k_of_w * (int)lda + TAP_OF_W((k)-k_of_w * taps);
#define LOAD_A(m, k) a[a_offset + (a_at + (m)*filter)]
#endif
#define COLUMN_BIAS(m) bias[bias_offset + (long)get_group_id(2) * M + (m)]
#define STORE_SUM(m, n, v)                                                             \
  {                                                                                  \
    PIXEL(n)                                                                         \
    const long at = group_at + (image * t_n + (m)*t_c + pixel_i * t_h + pixel_j * t_w); \
    target[at] = FINISH(v, m, n, at);                                                \
  }

#endif

#include "gemm_fma.cl"
