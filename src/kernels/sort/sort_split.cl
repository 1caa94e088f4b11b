// Around a sort of keys with values by somebody else: the keys of a row and their places, and then the elements there. A
// work-item takes `block` of them.

#include "sort/sort_word.cl"

#define ROW_AND_PAIRS                                                                                              \
  ROW_TENSOR(const RAW, x), ROW_TENSOR(RAW, y), ROW_TENSOR(INDEX, i), ROW_SIZES, int flip, int n, int block,       \
      __global uchar *key_bytes, long key_bytes_o, __global uint *places, long places_o
#define SETUP                                                                                                      \
  __global Key* keys = (__global Key*)(key_bytes + key_bytes_o);                                                   \
  const long x_row = ROW_OFFSET(x, 0);                                                                             \
  const int begin = (int)get_global_id(0) * block, end = begin < n ? begin + min(block, n - begin) : begin;        \
  places += places_o;

__kernel void sort_split(ROW_AND_PAIRS) {
  SETUP
  for (int e = begin; e < end; e++) {
    keys[e] = key_of(x[x_row + e * x_s.axis], flip);
    places[e] = (uint)e;
  }
}

__kernel void sort_join(ROW_AND_PAIRS) {
  SETUP
  const long y_row = HAS_Y ? ROW_OFFSET(y, 0) : 0, i_row = HAS_INDICES ? ROW_OFFSET(i, 0) : 0;
  for (int e = begin; e < end; e++) {
    const uint place = places[e];
    if (HAS_Y) y[y_row + e * y_s.axis] = element_of(keys[e], x + x_row + (long)place * x_s.axis, flip);
    if (HAS_INDICES) i[i_row + e * i_s.axis] = (INDEX)place;
  }
}
