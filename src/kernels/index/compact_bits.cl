// Choosing elements by a mask, for GPUs: of each element a bit, 1 where the mask is not 0, and how many are 1 in each
// group's tiles.

#include "lib/access.cl"
#include "index/compact_tile.cl"

#ifndef MASK
#define MASK uint   // an element's bits
#define FLOATING 1  // of which the upper one is a sign
#define V 4         // elements of one access: as many as 16 bytes hold of a row-major mask, or 1
#endif

#define KEPT ((MASK)((MASK)~(MASK)0 >> FLOATING))
// Of bytes those that are not 0 become 1; four that are 0 or 1 become four bits.
#define BYTES_OF(v) ((((v) & 0x7f7f7f7fu) + 0x7f7f7f7fu | (v)) >> 7 & 0x01010101u)
#define BITS_OF(v) ((v) * 0x01020408u >> 24 & 15u)
#if V == 16
#define VECTOR uint4
#define FLAGS uint4
#define FLAGS_OF(v) BYTES_OF(v)
#elif V > 1
#define VECTOR JOIN(MASK, V)
#define FLAGS JOIN(uchar, V)
#define FLAGS_OF(v) (JOIN(convert_, FLAGS)(((v) & KEPT) != (MASK)0) & (uchar)1)
#else
#define FLAGS uchar
#endif

// bits: 16 at a time; behind the last element they are 0. tiles: of a group.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void compact_bits(
    __global const MASK* restrict mask, long mask_o, __global ushort* restrict bits, long bits_o, __global int* counts,
    long counts_o, OFFSET count, int tiles NEST) {
  __local union {
    uchar of[TILE];
    FLAGS vectors[TILE / V];
    uint4 runs[TILE / 16];
  } chosen;
  __local int sums[GROUP];
  const int item = (int)get_local_id(0);
  mask += mask_o;
  bits += 2 * bits_o;
  int sum = 0;
  for (int t = 0; t < tiles; t++) {
    const OFFSET begin = ((OFFSET)get_group_id(0) * tiles + t) * TILE;
    if (begin >= count) break;
    barrier(CLK_LOCAL_MEM_FENCE);  // nobody still reads the tile before
#if V > 1
    if (begin + TILE <= count) {
#pragma unroll 8
      for (int u = 0; u < 32 / V; u++) chosen.vectors[u * GROUP + item] = FLAGS_OF(WIDE_LOAD(VECTOR, mask + begin + (u * GROUP + item) * V));
    } else
#endif
    for (int first = 0; first < TILE; first += UNROLL * GROUP) {
      const OFFSET here = begin + first + item;
      MASK v[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        LOCATE(min(here + u * GROUP, count - 1))  // no branch between loads
        v[u] = mask[at];
      }
#pragma unroll
      for (int u = 0; u < UNROLL; u++)
        chosen.of[first + item + u * GROUP] = here + u * GROUP < count && (v[u] & KEPT) != 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int u = 0; u < 2; u++) {
      const int e = u * GROUP + item;
      const uint4 fours = BITS_OF(chosen.runs[e]);
      const uint run = fours.s0 | fours.s1 << 4 | fours.s2 << 8 | fours.s3 << 12;
      bits[(begin >> 4) + e] = (ushort)run;
      sum += (int)popcount(run);
    }
  }
  sums[item] = sum;
  for (int step = GROUP / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step) sums[item] += sums[item + step];
  }
  if (item == 0) (counts + counts_o)[get_group_id(0)] = sums[0];
}
