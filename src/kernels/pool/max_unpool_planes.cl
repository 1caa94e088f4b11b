// Max unpooling on a GPU where the planes are dense: a work-group has some planes of y, or a range of one, and finds in local memory
// which element of x goes to each of its places; then it writes them all. Elements of SIZE bytes are moved as they are.

#ifndef SIZE
#define SIZE 4
#define WORD uint
#define INDICES int
#define V 4
#define TILE 6400
#define GROUP 256
#endif
#include "lib/divisor.cl"
#include "lib/words.cl"
#define BATCH 4

// P and Q: elements of a plane of x and of y. A group has `each` planes; with more ranges than one it is one plane, and of that
// `length` places.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void max_unpool_planes(
    __global const WORD* restrict x, long x_o, __global const INDICES* restrict indices, long indices_o, __global WORD* restrict y,
    long y_o, DIVISOR(P), int Q, int planes, int each, int ranges, int length) {
  __local int owner[TILE];
  const int lane = (int)get_local_id(0), group = (int)get_group_id(0);
  const int plane = group / ranges * each, mine = min(each, planes - plane);
  const int begin = group % ranges * length, end = min(Q, begin + length);
  const int places = ranges > 1 ? end - begin : mine * Q, count = mine * P;
  x += x_o + (long)plane * P;
  indices += indices_o + (long)plane * P;
  y += y_o + (long)plane * Q + begin;
  for (int i = lane; i < places; i += GROUP) owner[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  // The owner of a place is 1 + the last element that goes there.
  for (int first = lane; first < count; first += BATCH * GROUP) {
    INDICES to[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; k++) to[k] = first + k * GROUP < count ? indices[first + k * GROUP] : -1;
#pragma unroll
    for (int k = 0; k < BATCH; k++) {
      const int e = first + k * GROUP;
      if (to[k] >= begin && to[k] < end) atomic_max(owner + (each > 1 ? QUOTIENT(e, P) * Q : 0) + ((int)to[k] - begin), e + 1);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = lane * V; i < places; i += GROUP * V) {
    uint word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int v = 0; v < V; v++) {
      const int from = owner[i + v];
      uint one[4] = {0, 0, 0, 0};
      if (from > 0) read_word(one, x + (from - 1), SIZE);
      move_element(word, v, one, 0);
    }
    write_word(y + i, word, V * SIZE);
  }
}
