// table[indices] = the least or largest of dense, by atomic maxima of integers: `scatter_images` turns each element
// into a number whose order is theirs and leaves the largest at each place, in whatever order, and `scatter_extremes`
// folds what it stands for into the table. Every NaN has the largest number; of zeros -0 is the smaller. A place is a
// multiple of `unit` elements of the table; NOTHING: none came. See indexing.cl and fold.cl.

#define SKIPPED(v) ((v) == skip)
#include "index/indexing.cl"
#include "lib/fold.cl"

#ifndef LEAST
#define LEAST 0  // the least is sought: the order is turned around
#endif
#define NOTHING INT_MIN
#define TURNED(image) (LEAST ? ~(image) : (image))

static int image_of(ACC v) {
#if FLOATING
  const int bits = as_int(v);
  return v != v ? INT_MAX : TURNED(bits ^ ((bits >> 31) & INT_MAX));
#else
  return TURNED(v);
#endif
}
static ACC number_of(int image) {
#if FLOATING
  const int bits = TURNED(image);
  return image == INT_MAX ? NAN : as_float(bits ^ ((bits >> 31) & INT_MAX));
#else
  return TURNED(image);
#endif
}

__kernel void scatter_images(__global const S* restrict dense, long dense_o, __global int* images, long images_o NEST,
                             long skip, OFFSET walked, OFFSET unit) {
  const OFFSET w = (OFFSET)get_global_id(0);
  if (w >= walked) return;
  FIND_W(w)
  if (ok) atomic_max(images + images_o + at / unit, image_of(LOAD_DENSE(dense + dense_o, place.dense)));
}

__kernel void scatter_extremes(__global const int* restrict images, long images_o, __global T* restrict table,
                               long table_o, uint places, OFFSET unit) {
  const uint place = (uint)get_global_id(0);
  if (place >= places) return;
  const int image = (images + images_o)[place];
  if (image == NOTHING) return;
  const OFFSET at = (OFFSET)place * unit;
  table += table_o;
  ACC v = number_of(image);
#if INCLUDE_SELF
  v = FOLD(LOAD(table, at), v);
#endif
  STORE(table, at, v);
}
