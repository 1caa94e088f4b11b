// What the kernels of grid sampling share: tensors as [N, C, D, H, W] (D = 1 for planes; of the grid C are its coordinates, the
// first along W), and where a coordinate lies in x, with PyTorch's rules for what is outside.

#include "lib/types.cl"
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "resample/grid_sample.h"

#ifndef X_DTYPE  // of x and dx
#define X_DTYPE f32
#define X_T float
#define Y_DTYPE f32  // of y and dy
#define Y_T float
#define GRID_DTYPE f32  // of the grid and its gradient
#define GRID_T float
#define REAL float
#endif
#ifndef BITS  // an integer as large as REAL
#define BITS int
#endif
#ifndef AXES  // 2 or 3
#define AXES 2
#endif
#ifndef TAPS  // along an axis: 1 nearest, 2 linear, 4 cubic
#define TAPS 2
#endif
#ifndef BORDER  // what is outside counts as the border, or (REFLECTION) as mirrored; else as 0
#define BORDER 0
#define REFLECTION 0
#endif
#ifndef ALIGN_CORNERS
#define ALIGN_CORNERS 0
#endif
#ifndef WIDE  // offsets of 64 bits
#define WIDE 0
#endif
#ifndef STRIP  // places of y that are taken together
#define STRIP 1
#endif
#ifndef INNER  // channels are neighbours
#define INNER 0
#endif

// With STRIP == 1 its arrays are registers then; loops around others become vector instructions, in which there are no loops and
// no calls.
#define ALWAYS_UNROLLED _Pragma("unroll")
#if STRIP == 1
#define UNROLLED ALWAYS_UNROLLED
#define FOUR_TOGETHER _Pragma("unroll 4")  // the loads of four rounds are issued before the first is used
#define INLINED static
#else
#define UNROLLED
#define FOUR_TOGETHER
#define INLINED static __attribute__((always_inline))
#endif

#if WIDE
typedef long index_t;
#else
typedef int index_t;
#endif
typedef REAL real;

#define LOAD_X(p, i) JOIN(LOAD_, X_DTYPE)(p, i)
#define STORE_X(p, i, v) JOIN(STORE_, X_DTYPE)(p, i, v)
#define LOAD_Y(p, i) JOIN(LOAD_, Y_DTYPE)(p, i)
#define STORE_Y(p, i, v) JOIN(STORE_, Y_DTYPE)(p, i, v)
#define LOAD_GRID(p, i) JOIN(LOAD_, GRID_DTYPE)(p, i)
#define STORE_GRID(p, i, v) JOIN(STORE_, GRID_DTYPE)(p, i, v)

#define TENSOR(type, t) __global type *restrict t, long t##_o, SampleSteps t##_steps
#define PLACES (sizes.o * sizes.p * sizes.q)
// A tensor's steps as variables: of an argument's fields compilers cannot tell that stores leave them alone.
#define STEPS(t) \
  const index_t t##_c = t##_steps.c, t##_d = t##_steps.d, t##_h = t##_steps.h, t##_w = t##_steps.w;
// Where place (o, p, q) lies in a tensor.
#define AT(t, o, p, q) ((o) * t##_d + (p) * t##_h + (q) * t##_w)

// v, or 0 where the mask is 0. With a condition compilers put the load of v behind a branch, one after the other.
#define MASKED(v, mask) JOIN(as_, REAL)(JOIN(as_, BITS)(v) & (mask))

#define COMBINATIONS (AXES == 3 ? TAPS * TAPS * TAPS : TAPS * TAPS)
#define TAP_OF(a, k) ((a) == 0 ? (k) % TAPS : (a) == 1 ? (k) / TAPS % TAPS : (k) / (TAPS * TAPS))

// Mirrors v between low / 2 and high / 2; `slope` becomes its derivative.
INLINED real mirrored(real v, int twice_low, int twice_high, real* slope) {
  if (twice_low == twice_high) {
    *slope = 0;
    return 0;
  }
  const real low = twice_low * (real)0.5, span = (twice_high - twice_low) * (real)0.5;
  const real from = fabs(v - low), rest = fmod(from, span);
  const int odd = fmod(floor(from / span), (real)2) != 0;
  *slope = (v < low) != odd ? -1 : 1;
  return (odd ? span - rest : rest) + low;
}

// The coordinate v of x moved inside, as the padding says.
INLINED real moved_inside(real v, int size, real* slope) {
  *slope = 1;
#if REFLECTION
  v = ALIGN_CORNERS ? mirrored(v, 0, 2 * (size - 1), slope) : mirrored(v, -1, 2 * size - 1, slope);
#endif
#if BORDER || REFLECTION
  if (v <= 0 || v >= size - 1) *slope = 0;
  v = v > 0 ? v : 0;
  v = v < size - 1 ? v : size - 1;
#endif
  return v;
}

// A coordinate as an index; what no index can be lies outside.
INLINED int index_of(real v, int size) { return v >= 0 && v <= size - 1 ? (int)v : -1; }

// The taps along an axis of a coordinate of the grid: indices, -1 where there is none, weights, and their derivatives.
INLINED void find_taps(real coordinate, int size, int* at, real* weight, real* slope) {
  const real stretch = ALIGN_CORNERS ? (size - 1) * (real)0.5 : size * (real)0.5;
  real v = ALIGN_CORNERS ? (coordinate + 1) * (real)0.5 * (size - 1) : ((coordinate + 1) * size - 1) * (real)0.5;
  real inside;
#if TAPS == 4
  const real base = floor(v), t = v - base, a = -0.75f;
  for (int k = 0; k < 4; k++) {
    const real d = fabs(t + 1 - k), toward = k < 2 ? stretch : -stretch;
    const int near = k == 1 || k == 2;
    weight[k] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    slope[k] = toward * (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);
    at[k] = index_of(moved_inside(base + k - 1, size, &inside), size);
  }
#elif TAPS == 2
  v = moved_inside(v, size, &inside);
  const real base = floor(v);
  at[0] = index_of(base, size);
  at[1] = index_of(base + 1, size);
  weight[0] = base + 1 - v;
  weight[1] = v - base;
  slope[0] = -inside * stretch;
  slope[1] = inside * stretch;
#else
  at[0] = index_of(rint(moved_inside(v, size, &inside)), size);
  weight[0] = 1;
  slope[0] = 0;
#endif
}

// The taps of one place, its grid at `from`, along each axis: W, H, D.
static void find_place(__global const GRID_T* grid, index_t from, index_t step, int D, int H, int W, int* at,
                       real* weight, real* slope) {
  find_taps(LOAD_GRID(grid, from), W, at, weight, slope);
  find_taps(LOAD_GRID(grid, from + step), H, at + TAPS, weight + TAPS, slope + TAPS);
#if AXES == 3
  find_taps(LOAD_GRID(grid, from + 2 * step), D, at + 2 * TAPS, weight + 2 * TAPS, slope + 2 * TAPS);
#endif
}

// Combination k of a place's taps: where it lies with these steps, -1 if outside, and its weight.
static index_t combined_at(const int* at, int k, index_t d, index_t h, index_t w) {
  const int i = at[TAP_OF(0, k)], j = at[TAPS + TAP_OF(1, k)];
  const int l = AXES == 3 ? at[(AXES - 1) * TAPS + TAP_OF(2, k)] : 0;
  return min(min(i, j), l) < 0 ? -1 : l * d + j * h + i * w;
}
static real combined_weight(const real* weight, int k) {
  const real plane = weight[TAP_OF(0, k)] * weight[TAPS + TAP_OF(1, k)];
  return AXES == 3 ? plane * weight[(AXES - 1) * TAPS + TAP_OF(2, k)] : plane;
}
