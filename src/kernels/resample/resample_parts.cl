// What the two forms of resampling share. Along each of three axes the taps of a place, indices into x and weights, stand in
// `table` and `weights`: TAPS of them, place beside place, -1 where there are fewer (RAGGED); or with TAPS 0 any number, first
// where each place's begin. Axes that are not mapped are planes, or neighbours in y: `inner` elements.

#include "lib/types.cl"
#include "lib/int64.h"
#include "resample/resample.h"

#ifndef X_DTYPE
#define X_DTYPE f32
#define X_T float
#define Y_DTYPE f32
#define Y_T float
#define REAL float
#endif
#ifndef TAPS0
#define TAPS0 1
#define TAPS1 1
#define TAPS2 1
#endif
#ifndef WEIGHTED0  // else all weights are 1
#define WEIGHTED0 0
#define WEIGHTED1 0
#define WEIGHTED2 0
#endif
#ifndef RAGGED
#define RAGGED 0
#endif
#ifndef INNER
#define INNER 0
#endif
#ifndef LEVELS  // axes of planes: size, step in x, step in y of each in `levels`, outermost first
#define LEVELS 1
#endif
#ifndef WIDE  // offsets of 64 bits
#define WIDE 0
#endif
#ifdef WORDS  // the tensors' dtype, of 16 bits, where elements are only moved, and seen as i16
#define FILL_T float
#else
#define FILL_T REAL
#endif

#if WIDE
typedef long index_t;
#else
typedef int index_t;
#endif
typedef REAL real;

#define LOAD_X(p, i) JOIN(LOAD_, X_DTYPE)(p, i)
#define STORE_Y(p, i, v) JOIN(STORE_, Y_DTYPE)(p, i, v)

#define WORD_f16 half
#define WORD_bf16 ushort

#define COMMON                                                                                                \
  __global const X_T *restrict x, long x_o, __global Y_T *restrict y, long y_o, __global const int *table,    \
      long table_o, __global const real *weights, long weights_o, __global const long *levels, long levels_o, \
      ResampleAxes axes, FILL_T fill

// One tap at most everywhere: its value is taken as it is, and where there is none the fill value stands.
#define SINGLE (TAPS0 == 1 && TAPS1 == 1 && TAPS2 == 1 && !WEIGHTED0 && !WEIGHTED1 && !WEIGHTED2)

// Where a plane begins.
static void find_plane(int plane, __global const long* levels, index_t* in_x, index_t* in_y) {
  index_t from_x = 0, from_y = 0;
  for (int l = LEVELS - 1; l > 0; l--) {
    const int size = (int)levels[3 * l], at = plane % size;
    from_x += at * (index_t)levels[3 * l + 1];
    from_y += at * (index_t)levels[3 * l + 2];
    plane /= size;
  }
  *in_x = from_x + plane * (index_t)levels[1];
  *in_y = from_y + plane * (index_t)levels[2];
}

// What a place without taps gets.
static real nothing_of(FILL_T fill) {
#ifdef WORDS
  X_T word;
  JOIN(STORE_, WORDS)((__private JOIN(WORD_, WORDS)*)&word, 0, fill);
  return word;
#else
  return SINGLE ? fill : 0;
#endif
}
