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

// Declares image and the position in it; channel c and the position in the window.
#if DEPTH
#define PIXEL(number)                                                                              \
  const int image = divided(number, conv.plane), in_plane = (number)-image * conv.plane.d;         \
  const int pixel_d = divided(in_plane, conv.slice), in_slice = in_plane - pixel_d * conv.slice.d; \
  const int pixel_h = divided(in_slice, conv.columns), pixel_w = in_slice - pixel_h * conv.columns.d;
#define IN_WINDOW(number)                                                                                    \
  const int tap_d = divided(number, conv.window_slice), in_tap_slice = (number)-tap_d * conv.window_slice.d; \
  const int tap_h = divided(in_tap_slice, conv.window), tap_w = in_tap_slice - tap_h * conv.window.d;
#else
#define PIXEL(number)                                                                      \
  const int image = divided(number, conv.plane), in_plane = (number)-image * conv.plane.d; \
  const int pixel_h = divided(in_plane, conv.columns), pixel_w = in_plane - pixel_h * conv.columns.d;
#define IN_WINDOW(number) const int tap_h = divided(number, conv.window), tap_w = (number)-tap_h * conv.window.d;
#endif
#if CHANNELS_LAST
#define CHANNEL(number) const int in_window = divided(number, conv.inner), c = (number)-in_window * conv.inner.d;
#else
#define CHANNEL(number) const int c = divided(number, conv.inner), in_window = (number)-c * conv.inner.d;
#endif

// A place in the source: of a pixel, where its window begins (in backward data, what the first tap would be reached from);
// of a tap, how far it is from there. `at` counts elements, modulo 2^32: those of sums that lie inside are right.
typedef struct {
  uint at;
  int d, h, w;
} Place;

#if DIRECTION == 1
#define BEGIN(axis) (pixel_##axis + conv.pad.axis)
#define REACH(axis) (-(tap_##axis * conv.dilation.axis))
#else
#define BEGIN(axis) (pixel_##axis * conv.stride.axis - conv.pad.axis)
#define REACH(axis) (tap_##axis * conv.dilation.axis)
#endif

static Place place_of_pixel(int number, FmaShape conv) {
  PIXEL(number)
  Place place;
  place.h = BEGIN(h);
  place.w = BEGIN(w);
  place.at = (uint)image * conv.s.n + (uint)place.h * conv.s.h + (uint)place.w * conv.s.w;
#if DEPTH
  place.d = BEGIN(d);
  place.at += (uint)place.d * conv.s.d;
#endif
  return place;
}

static Place place_of_tap(int number, FmaShape conv) {
  Place place;
#if WINDOW
  CHANNEL(number)
  IN_WINDOW(in_window)
  place.h = REACH(h);
  place.w = REACH(w);
  place.at = (uint)c * conv.s.c + (uint)place.h * conv.s.h + (uint)place.w * conv.s.w;
#if DEPTH
  place.d = REACH(d);
  place.at += (uint)place.d * conv.s.d;
#endif
#else
  place.at = (uint)number * conv.s.c;
#endif
  return place;
}

// What a pixel sees through a tap; 0 outside.
static REAL see(__global const AB_STORAGE* source, Place pixel, Place tap, AxisSizes size) {
#if WINDOW
  int inside = (uint)(pixel.h + tap.h) < (uint)size.h && (uint)(pixel.w + tap.w) < (uint)size.w;  // nor negative
#if DEPTH
  inside = inside && (uint)(pixel.d + tap.d) < (uint)size.d;
#endif
  if (!inside) return 0;
#endif
  return LOAD_AB(source, pixel.at + tap.at);
}

// Where row 0 of w has a tap, and where the target has a pixel of channel 0.
static int tap_in_w(int number, FmaShape conv) {
#if W_RUNS == 2
  return number;
#else
  CHANNEL(number)
#if W_RUNS == 1
  return c * conv.w.c + in_window * conv.w.w;
#else
  IN_WINDOW(in_window)
#if DEPTH
  return c * conv.w.c + tap_d * conv.w.d + tap_h * conv.w.h + tap_w * conv.w.w;
#else
  return c * conv.w.c + tap_h * conv.w.h + tap_w * conv.w.w;
#endif
#endif
#endif
}

static int pixel_in_target(int number, FmaShape conv) {
  PIXEL(number)
#if DEPTH
  return image * conv.t.n + pixel_d * conv.t.d + pixel_h * conv.t.h + pixel_w * conv.t.w;
#else
  return image * conv.t.n + pixel_h * conv.t.h + pixel_w * conv.t.w;
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
#define PARAMETERS TENSOR(const AB_STORAGE, source), TENSOR(const AB_STORAGE, target), RESULT, int part, FmaShape conv
#define SETUP                                                       \
  PART_SETUP                                                        \
  source += source_offset + (long)group * conv.channels * conv.s.c; \
  target += target_offset + (long)group * M * conv.t.c;             \
  RESULT_SETUP

// A: the target.
#if A_UNIT_K
#define A_STEP(k) const int pixel_at = pixel_in_target(k_begin + (k), conv);
#define LOAD_A(m, k) LOAD_AB(target, pixel_at + (m)*conv.t.c)
#else
#define LOAD_A(m, k) LOAD_AB(target, pixel_in_target(k_begin + (k), conv) + (m)*conv.t.c)
#endif
// B: pixels by taps.
#if B_UNIT_K
#define B_COLUMNS    \
  Place to[B_LOADS]; \
  EACH_UNROLLED(i, B_LOADS) to[i] = place_of_tap(B_ITEM_N(i), conv);
#define B_STEP(k) const Place from = place_of_pixel(k_begin + (k), conv);
#define LOAD_B(k, n) see(source, from, to[i], conv.source)
#else
#define B_COLUMN(n) const Place to = place_of_tap(n, conv);
#define LOAD_B(k, n) see(source, place_of_pixel(k_begin + (k), conv), to, conv.source)
#endif
#if PARTS
#define RESULT_SETUP PARTIAL_SETUP
#else
#define RESULT_SETUP w += w_offset + (long)group * M * conv.w.n;
#define C_COLUMNS     \
  int columns_at[RN]; \
  EACH_UNROLLED(j, RN) columns_at[j] = tap_in_w(C_N(j), conv);
#define STORE_SUM(row, column, v) STORE_C(w, columns_at[j + l] + (row)*conv.w.n, v);
#endif

#else

#if DIRECTION == 1
#define W_GROUP (conv.channels * conv.w.c)
#else
#define W_GROUP (M * conv.w.n)
#endif
#if PARTS
#define PRODUCT PART_SETUP
#define RESULT TENSOR(REAL, partial), int part, FmaShape conv
#define RESULT_SETUP PARTIAL_SETUP
#else
#define PRODUCT COPY_SHAPE const int group = (int)get_group_id(2), k_begin = 0;
#define RESULT TENSOR(C_STORAGE, target), PHASE_PARAMETERS
#define RESULT_SETUP                           \
  target += target_offset;                     \
  long target_at = (long)group * M * conv.t.c; \
  PHASE_SETUP
#endif
#define PARAMETERS TENSOR(const AB_STORAGE, w), TENSOR(const AB_STORAGE, source), RESULT
#define SETUP                                                       \
  PRODUCT                                                           \
  w += w_offset + (long)group * W_GROUP;                            \
  source += source_offset + (long)group * conv.channels * conv.s.c; \
  RESULT_SETUP

// A: w.
#if A_UNIT_K
#define A_STEP(k) const int tap_at = tap_in_w(k_begin + (k), conv);
#define LOAD_A(m, k) LOAD_AB(w, tap_at + (m)*conv.w.n)
#else
#define LOAD_A(m, k) LOAD_AB(w, tap_in_w(k_begin + (k), conv) + (m)*conv.w.n)
#endif
// B: taps by pixels.
#if B_UNIT_K
#define B_COLUMNS      \
  Place from[B_LOADS]; \
  EACH_UNROLLED(i, B_LOADS) from[i] = place_of_pixel(B_ITEM_N(i), conv);
#define B_STEP(k) const Place to = place_of_tap(k_begin + (k), conv);
#define LOAD_B(k, n) see(source, from[i], to, conv.source)
#else
#define B_COLUMN(n) const Place from = place_of_pixel(n, conv);
#define LOAD_B(k, n) see(source, from, place_of_tap(k_begin + (k), conv), conv.source)
#endif
#if PARTS
// Adds the parts' sums in their order, and finishes them. One element a work-item: pixel, channel, group.
__kernel void conv_fma_sums(int M, int N, int parts, TENSOR(const REAL, partial), TENSOR(C_STORAGE, target), FmaShape conv,
                            EPILOGUE_PARAMETERS) {
  const int n = (int)get_global_id(0), m = (int)get_global_id(1);
  const long group = (long)get_global_id(2), groups = (long)get_global_size(2), results = (long)M * N;
  if (n >= N) return;
  const REAL sum = sum_of_parts(partial + partial_offset + group * results + (long)m * N + n, parts, groups * results);
  target += target_offset;
  const long at = (group * M + m) * conv.t.c + pixel_in_target(n, conv);
  STORE_C(target, at, FINISH(SCALED(sum, m, n), m, n, at));
}
#else
#define C_COLUMNS     \
  int columns_at[RN]; \
  EACH_UNROLLED(j, RN) columns_at[j] = pixel_in_target(C_N(j), conv);
#define STORE_SUM(m, n, v)                                          \
  {                                                                 \
    const long at = target_at + (columns_at[j + l] + (m)*conv.t.c); \
    STORE_C(target, at, FINISH(SCALED(v, m, n), m, n, at));         \
  }
#endif

#endif

#include "gemm/gemm_fma.cl"
