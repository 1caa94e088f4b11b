// y[i] = x[...] at places that index tensors say, on a GPU; zero where one is outside. Elements are words of any
// size, which the host makes as wide as rows allow. All dimensions are family p; x is the table, y is dense. See
// indexing.cl. A work-item takes U elements: all indices are read before the first x, all x before the first y.

#include "lib/access.cl"
#include "index/indexing.cl"

#ifndef WORD
#define ELEMENT uint
#define WORD uint
#endif
#define GROUP 256
#define U 4

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gather(__global const ELEMENT* restrict x_e, long x_o,
                                                                        __global ELEMENT* restrict y_e, long y_o NEST,
                                                                        OFFSET count) {
  const OFFSET first = (OFFSET)get_group_id(0) * (GROUP * U) + (OFFSET)get_local_id(0);
  OFFSET from[U], to[U];
  WORD word[U];
  bool inside[U];
  __global const WORD* restrict x = (__global const WORD*)(x_e + x_o);
  __global WORD* restrict y = (__global WORD*)(y_e + y_o);
#pragma unroll
  for (int u = 0; u < U; u++) {
    struct Place place = {0, 0, {0}};
    inside[u] = false;
    to[u] = -1;
    if (first + u * GROUP < count) {
      LOCATE_P(first + u * GROUP)
      OFFSET at = place.table;
      bool ok = true;
      EACH_INDEX(FOLLOW_INDEX, NO_MORE)
      from[u] = at;
      inside[u] = ok;
      to[u] = place.dense;
    }
  }
#pragma unroll
  for (int u = 0; u < U; u++) word[u] = inside[u] ? WIDE_LOAD(WORD, x + from[u]) : (WORD)(0);
#pragma unroll
  for (int u = 0; u < U; u++)
    if (to[u] >= 0) WIDE_STORE(WORD, y + to[u], word[u]);
}
