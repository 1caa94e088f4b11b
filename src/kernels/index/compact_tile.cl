// What the kernels that choose elements by tiles have in common: compact_bits.cl, compact_move.cl. A work-item has 32
// elements of a tile: a word of bits. No kernel of its own.
#ifndef P_RANK
#define P_RANK 0  // dimensions of the nest over a tensor, 0: it is row-major
#define W_RANK 0
#define K 0
#define INDEX int
#endif
#ifndef GROUP
#define GROUP 64
#endif
#include "index/indexing.cl"

#define TILE (GROUP * 32)
#define UNROLL 8  // elements of a work-item that are on their way at once
// `at`: where the tensor's element i lies.
#if P_RANK
#define LOCATE(i)                   \
  struct Place place = {0, 0, {0}}; \
  LOCATE_P(i)                       \
  const OFFSET at = place.dense;
#else
#define LOCATE(i) const OFFSET at = (i);
#endif
