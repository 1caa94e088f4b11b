// Convolution on GPUs as implicit GEMM: slots of gemm_fma.cl. Operands are gathered straight from x, w and dy.
//
//   DIRECTION 0  forward          C[k, npq] = sum over crs of w[k, crs] x[crs, npq]
//   DIRECTION 1  backward data    C[c, nhw] = sum over krs of w[k, c, rs] dy[krs, nhw]. STRIDED: of one phase, see
//                                 conv_fma_shape.cl
//   DIRECTION 2  backward filter  C[k, crs] = sum over npq of dy[k, npq] x[npq, crs]
//
// get_group_id(2) is the convolution's group; with PARTS, group * parts + part. Offsets inside a tensor are 32-bit.
// A "pixel" is a position npq, or nhw in backward data; a "tap" is one of crs, or krs. "Source" is the tensor that taps
// reach into (x, or dy in backward data), "target" the other one (y, dx; dy in backward filter).

#ifndef DIRECTION
#define DIRECTION 0
#endif
// 1: there are three spatial axes, not two.
#ifndef DEPTH
#define DEPTH 0
#endif
// 0: there is only one tap in a channel, and it lies inside for every pixel (1x1, no padding).
#ifndef WINDOW
#define WINDOW 1
#endif
// Taps are counted channel by channel, crs, or, 1, with neighbouring channels side by side, rsc.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
// How w lies. 2 (forward): the taps of a filter side by side, as they are counted. 1: those of a channel `w_w` apart.
// 0: by all strides.
#ifndef W_RUNS
#define W_RUNS 0
#endif
// Backward data: whether a stride is above 1.
#ifndef STRIDED
#define STRIDED 0
#endif
// 1: sums are over parts of crs, krs or npq, and go to `partial`, one C after the other (dw's elements in the order of the
// taps). conv_fma_sums adds up those of y and dx. Not with STRIDED.
#ifndef PARTS
#define PARTS 0
#endif

#define COLUMN_SCALE(m) LOAD_EPILOGUE(scale, scale_offset + group * M + (m))
#define COLUMN_BIAS(m) LOAD_EPILOGUE(bias, bias_offset + group * M + (m))
#include "gemm/gemm_layout.cl"
#include "conv/conv_fma_shape.cl"
#include "gemm/sum_of_parts.cl"

// `channels` are the source's in a group, `source` are its sizes, s, t and w are strides; w_m is that of row m, w_c of the
// sum's channels. An image has `plane` pixels, `slice` at a depth, `columns` in a row; a channel has taps, `window_slice`
// at a depth, `window` in a row. `inner`: the taps of a channel, or, CHANNELS_LAST, the channels of a tap.
#if DEPTH
#define DEPTH_DIVISORS DIVISOR(slice), DIVISOR(window_slice),
#define DEPTH_DIVIDED DIVIDED(slice), DIVIDED(window_slice),
#else
#define DEPTH_DIVISORS
#define DEPTH_DIVIDED
#endif
#define SHAPE_PARAMETERS                                                                                         \
  int channels, AXES(source), DIVISOR(plane), DIVISOR(columns), DIVISOR(inner), DIVISOR(window), DEPTH_DIVISORS  \
  AXES(stride), AXES(pad), AXES(dilation), int s_n, int s_c, AXES(s), int t_n, int t_c, AXES(t), int w_m, int w_c, AXES(w)
#define SHAPE                                                                                                    \
  channels, OF_AXES(source), DIVIDED(plane), DIVIDED(columns), DIVIDED(inner), DIVIDED(window), DEPTH_DIVIDED    \
  OF_AXES(stride), OF_AXES(pad), OF_AXES(dilation), s_n, s_c, OF_AXES(s), t_n, t_c, OF_AXES(t), w_m, w_c, OF_AXES(w)

// Declares image and the position in it; channel c and the position in the window.
#if DEPTH
#define PIXEL(number)                                                                       \
  const int image = QUOTIENT(number, plane), in_plane = (number)-image * plane;             \
  const int pixel_d = QUOTIENT(in_plane, slice), in_slice = in_plane - pixel_d * slice;     \
  const int pixel_h = QUOTIENT(in_slice, columns), pixel_w = in_slice - pixel_h * columns;
#define IN_WINDOW(number)                                                                          \
  const int tap_d = QUOTIENT(number, window_slice), in_tap_slice = (number)-tap_d * window_slice;  \
  const int tap_h = QUOTIENT(in_tap_slice, window), tap_w = in_tap_slice - tap_h * window;
#else
#define PIXEL(number)                                                           \
  const int image = QUOTIENT(number, plane), in_plane = (number)-image * plane; \
  const int pixel_h = QUOTIENT(in_plane, columns), pixel_w = in_plane - pixel_h * columns;
#define IN_WINDOW(number) const int tap_h = QUOTIENT(number, window), tap_w = (number)-tap_h * window;
#endif
#if CHANNELS_LAST
#define CHANNEL(number) const int in_window = QUOTIENT(number, inner), c = (number)-in_window * inner;
#else
#define CHANNEL(number) const int c = QUOTIENT(number, inner), in_window = (number)-c * inner;
#endif

// A place in the source: of a pixel, where its window begins (in backward data, what the first tap would be reached from);
// of a tap, how far it is from there. `at` counts elements, modulo 2^32: those of sums that lie inside are right.
typedef struct {
  uint at;
  int d, h, w;
} Place;

#if DIRECTION == 1
#define BEGIN(axis) (pixel_##axis + pad_##axis)
#define REACH(axis) (-(tap_##axis * dilation_##axis))
#else
#define BEGIN(axis) (pixel_##axis * stride_##axis - pad_##axis)
#define REACH(axis) (tap_##axis * dilation_##axis)
#endif

static Place place_of_pixel(int number, SHAPE_PARAMETERS) {
  PIXEL(number)
  Place place;
  place.h = BEGIN(h);
  place.w = BEGIN(w);
  place.at = (uint)image * s_n + (uint)place.h * s_h + (uint)place.w * s_w;
#if DEPTH
  place.d = BEGIN(d);
  place.at += (uint)place.d * s_d;
#endif
  return place;
}

static Place place_of_tap(int number, SHAPE_PARAMETERS) {
  Place place;
#if WINDOW
  CHANNEL(number)
  IN_WINDOW(in_window)
  place.h = REACH(h);
  place.w = REACH(w);
  place.at = (uint)c * s_c + (uint)place.h * s_h + (uint)place.w * s_w;
#if DEPTH
  place.d = REACH(d);
  place.at += (uint)place.d * s_d;
#endif
#else
  place.at = (uint)number * s_c;
#endif
  return place;
}

// What a pixel sees through a tap; 0 outside.
static REAL see(__global const AB_STORAGE* source, Place pixel, Place tap, AXES(source)) {
#if WINDOW
  int inside = (uint)(pixel.h + tap.h) < (uint)source_h && (uint)(pixel.w + tap.w) < (uint)source_w;  // nor negative
#if DEPTH
  inside = inside && (uint)(pixel.d + tap.d) < (uint)source_d;
#endif
  if (!inside) return 0;
#endif
  return LOAD_AB(source, pixel.at + tap.at);
}

// Where row 0 of w has a tap, and where the target has a pixel of channel 0.
static int tap_in_w(int number, SHAPE_PARAMETERS) {
#if W_RUNS == 2
  return number;
#else
  CHANNEL(number)
#if W_RUNS == 1
  return c * w_c + in_window * w_w;
#else
  IN_WINDOW(in_window)
#if DEPTH
  return c * w_c + tap_d * w_d + tap_h * w_h + tap_w * w_w;
#else
  return c * w_c + tap_h * w_h + tap_w * w_w;
#endif
#endif
#endif
}

static int pixel_in_target(int number, SHAPE_PARAMETERS) {
  PIXEL(number)
#if DEPTH
  return image * t_n + pixel_d * t_d + pixel_h * t_h + pixel_w * t_w;
#else
  return image * t_n + pixel_h * t_h + pixel_w * t_w;
#endif
}

// Arrays become registers only where their indices are constants.
#define EACH_UNROLLED(i, count) _Pragma("unroll") for (int i = 0; i < count; i++)
#define TENSOR(type, name) __global type *restrict name, long name##_offset
// The group's part of the sum, and where that starts.
#define PART_SETUP                                                                       \
  const int parts = max(1, (K + part - 1) / part), group = (int)get_group_id(2) / parts; \
  const int number = (int)get_group_id(2) % parts, k_begin = number * part;              \
  K = min(part, K - k_begin);
// gemm_fma.cl stores there.
#define PARTIAL_SETUP partial_offset += ((long)number * ((int)get_num_groups(2) / parts) + group) * M * N;
#if DIRECTION == 2
#if PARTS
#define RESULT TENSOR(REAL, partial)
#else
#define RESULT TENSOR(C_STORAGE, w)
#endif
#define PARAMETERS TENSOR(const AB_STORAGE, source), TENSOR(const AB_STORAGE, target), RESULT, int part, SHAPE_PARAMETERS
#define SETUP                                                                            \
  PART_SETUP                                                                             \
  source += source_offset + (long)group * channels * s_c;                                \
  target += target_offset + (long)group * M * t_c;                                       \
  RESULT_SETUP

// A: the target.
#if A_UNIT_K
#define A_STEP(k) const int pixel_at = pixel_in_target(k_begin + (k), SHAPE);
#define LOAD_A(m, k) LOAD_AB(target, pixel_at + (m)*t_c)
#else
#define LOAD_A(m, k) LOAD_AB(target, pixel_in_target(k_begin + (k), SHAPE) + (m)*t_c)
#endif
// B: pixels by taps.
#if B_UNIT_K
#define B_COLUMNS    \
  Place to[B_LOADS]; \
  EACH_UNROLLED(i, B_LOADS) to[i] = place_of_tap(B_ITEM_N(i), SHAPE);
#define B_STEP(k) const Place from = place_of_pixel(k_begin + (k), SHAPE);
#define LOAD_B(k, n) see(source, from, to[i], OF_AXES(source))
#else
#define B_COLUMN(n) const Place to = place_of_tap(n, SHAPE);
#define LOAD_B(k, n) see(source, place_of_pixel(k_begin + (k), SHAPE), to, OF_AXES(source))
#endif
#if PARTS
#define RESULT_SETUP PARTIAL_SETUP
#else
#define RESULT_SETUP w += w_offset + (long)group * M * w_m;
#define C_COLUMNS     \
  int columns_at[RN]; \
  EACH_UNROLLED(j, RN) columns_at[j] = tap_in_w(C_N(j), SHAPE);
#define STORE_SUM(m, n, v) STORE_C(w, columns_at[j + l] + (m)*w_m, v);
#endif

#else

#if DIRECTION == 1
#define W_GROUP (channels * w_c)
#else
#define W_GROUP (M * w_m)
#endif
#if PARTS
#define PRODUCT PART_SETUP
#define RESULT TENSOR(REAL, partial), int part,
#define RESULT_SETUP PARTIAL_SETUP
#else
#define PRODUCT const int group = (int)get_group_id(2), k_begin = 0;
#define RESULT TENSOR(C_STORAGE, target), PHASE_PARAMETERS
#define RESULT_SETUP                      \
  target += target_offset;                \
  long target_at = (long)group * M * t_c; \
  PHASE_SETUP
#endif
#define PARAMETERS TENSOR(const AB_STORAGE, w), TENSOR(const AB_STORAGE, source), RESULT SHAPE_PARAMETERS
#define SETUP                                             \
  PRODUCT                                                 \
  w += w_offset + (long)group * W_GROUP;                  \
  source += source_offset + (long)group * channels * s_c; \
  RESULT_SETUP

// A: w.
#if A_UNIT_K
#define A_STEP(k) const int tap_at = tap_in_w(k_begin + (k), SHAPE);
#define LOAD_A(m, k) LOAD_AB(w, tap_at + (m)*w_m)
#else
#define LOAD_A(m, k) LOAD_AB(w, tap_in_w(k_begin + (k), SHAPE) + (m)*w_m)
#endif
// B: taps by pixels.
#if B_UNIT_K
#define B_COLUMNS      \
  Place from[B_LOADS]; \
  EACH_UNROLLED(i, B_LOADS) from[i] = place_of_pixel(B_ITEM_N(i), SHAPE);
#define B_STEP(k) const Place to = place_of_tap(k_begin + (k), SHAPE);
#define LOAD_B(k, n) see(source, from[i], to, OF_AXES(source))
#else
#define B_COLUMN(n) const Place from = place_of_pixel(n, SHAPE);
#define LOAD_B(k, n) see(source, from, place_of_tap(k_begin + (k), SHAPE), OF_AXES(source))
#endif
#if PARTS
// Adds the parts' sums in their order, and finishes them. One element a work-item: pixel, channel, group.
__kernel void conv_fma_sums(int M, int N, int parts, TENSOR(const REAL, partial), TENSOR(C_STORAGE, target), SHAPE_PARAMETERS,
                            EPILOGUE_PARAMETERS) {
  const int n = (int)get_global_id(0), m = (int)get_global_id(1);
  const long group = (long)get_global_id(2), groups = (long)get_global_size(2), results = (long)M * N;
  if (n >= N) return;
  const REAL sum = sum_of_parts(partial + partial_offset + group * results + (long)m * N + n, parts, groups * results);
  target += target_offset;
  const long at = (group * M + m) * t_c + pixel_in_target(n, SHAPE);
  STORE_C(target, at, FINISH(SCALED(sum, m, n), m, n, at));
}
#else
#define C_COLUMNS     \
  int columns_at[RN]; \
  EACH_UNROLLED(j, RN) columns_at[j] = pixel_in_target(C_N(j), SHAPE);
#define STORE_SUM(m, n, v)                                         \
  {                                                                \
    const long at = target_at + (columns_at[j + l] + (m)*t_c);     \
    STORE_C(target, at, FINISH(SCALED(v, m, n), m, n, at));        \
  }
#endif

#endif

#include "gemm/gemm_fma.cl"
