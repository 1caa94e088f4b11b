// The distinct elements of a row in which equal ones are neighbours. A head is an element that differs from the one before
// it. unique_count counts the heads of each group's chunk, unique_scan makes places of these counts, unique_move goes over
// the chunks again, puts heads to their places and says how far it is from one to the next, unique_tails says that of each
// chunk's last head.

#include "lib/types.cl"

#ifndef DTYPE
#define DTYPE f32
#define T float
#define WORD uint  // an element's bits
#define INDEX long
#define HAS_ORDER 1   // an element's place in x is in `order`, else its own
#define HAS_INVERSE 1
#define HAS_COUNTS 1
#define GROUP 64  // 1: for CPUs
#endif
#define LOAD(p, i) JOIN(LOAD_, DTYPE)(p, i)

#define ITEMS 8  // neighbours that a work-item has
#define TILE (GROUP * ITEMS)
#define DIFFERS(i) (LOAD(v, i) != LOAD(v, (i)-1))
#define IS_HEAD(i) ((i) == 0 || DIFFERS(i))
#define CHUNK                                                                                           \
  const int item = (int)get_local_id(0), begin = (int)get_group_id(0) * chunk, end = begin + min(chunk, count - begin); \
  v += v_o;                                                                                             \
  places += places_o;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void unique_count(__global const T* v, long v_o,
                                                                              __global int* places, long places_o,
                                                                              int count, int chunk) {
  CHUNK
  int heads = item == 0 && begin == 0;
#pragma unroll 8
  for (int i = max(begin, 1) + item; i < end; i += GROUP) heads += DIFFERS(i);
#if GROUP > 1
  __local int sums[GROUP];
  sums[item] = heads;
  for (int step = GROUP / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step) sums[item] += sums[item + step];
  }
  if (item == 0) heads = sums[0];
#endif
  if (item == 0) places[get_group_id(0)] = heads;
}

// One group; a work-item has a run of chunks.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void unique_scan(__global int* places, long places_o,
                                                                             int chunks, __global INDEX* total,
                                                                             long total_o) {
  __local int sums[GROUP];
  const int item = (int)get_local_id(0), run = (chunks + GROUP - 1) / GROUP;
  const int begin = min(item * run, chunks), end = min(begin + run, chunks);
  places += places_o;
  int sum = 0;
  for (int i = begin; i < end; i++) sum += places[i];
  sums[item] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  int place = 0;
  for (int i = 0; i < item; i++) place += sums[i];
  for (int i = begin; i < end; i++) {
    const int here = places[i];
    places[i] = place;
    place += here;
  }
  if (item == GROUP - 1) total[total_o] = (INDEX)place;
}

// bounds: of each chunk where its first and its last head lie, undefined where it has none. What does not fit in `room` is
// dropped.
#define MOVE                                                                                                            \
  __global const T *v, long v_o, __global const int *places, long places_o, int count, int chunk,                        \
      __global const int *order, long order_o, __global WORD *y, long y_o, long y_step, int room, __global INDEX *counts, \
      long counts_o, long counts_step, __global int *bounds, long bounds_o, __global INDEX *inverse, long inverse_o
#define SETUP                                                     \
  CHUNK                                                           \
  __global const WORD* words = (__global const WORD*)v;           \
  order += order_o;                                               \
  y += y_o;                                                       \
  counts += counts_o;                                             \
  bounds += bounds_o + 2 * (int)get_group_id(0);                  \
  inverse += inverse_o;                                           \
  int place = places[get_group_id(0)] - 1; /* of the head before */ \
  int last = -1; /* that head, if it is in this chunk */
#define ORIGIN(i) (HAS_ORDER ? order[i] : (i))
#define COUNT(p, n) \
  if ((p) < room) counts[(p) * counts_step] = (INDEX)(n);

// inverse: row-major.
#if GROUP == 1
// By blocks whose heads are listed first, without branches that nobody can predict.
#define BLOCK 64
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void unique_move(MOVE) {
  SETUP
  for (int first = begin; first < end; first += BLOCK) {
    const int here = min(BLOCK, end - first);
    int is_head[BLOCK], heads[BLOCK + 1], found = 0;
    is_head[0] = IS_HEAD(first);
    for (int l = 1; l < here; l++) is_head[l] = DIFFERS(first + l);
    for (int l = 0; l < here; l++) {
      heads[found] = first + l;
      found += is_head[l];
    }
    for (int h = 0; h < min(found, room - 1 - place); h++) y[(place + 1 + h) * y_step] = words[heads[h]];
#if HAS_COUNTS
    if (found > 0) {
      if (last < 0)
        bounds[0] = heads[0];
      else
        COUNT(place, heads[0] - last)
      last = heads[found - 1];
      for (int h = 0; h < min(found - 1, room - 1 - place); h++)
        counts[(place + 1 + h) * counts_step] = (INDEX)(heads[h + 1] - heads[h]);
    }
#endif
#if HAS_INVERSE
    int at = place;
    for (int l = 0; l < here; l++) {
      at += is_head[l];
      inverse[ORIGIN(first + l)] = (INDEX)at;
    }
#endif
    place += found;
  }
#if HAS_COUNTS
  bounds[1] = last;
#endif
}
#else
// By tiles, whose heads are listed in local memory: neighbours read and write neighbours.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void unique_move(MOVE) {
  __local int sums[2][GROUP];
  __local union {
    uchar of[TILE];
    uchar8 vectors[GROUP];
  } is_head;
  __local ushort heads[TILE];  // where they lie in the tile
#if HAS_INVERSE
  __local union {
    ushort of[TILE];
    ushort8 vectors[GROUP];
  } found;  // heads up to each element
#endif
  SETUP
  for (int first = begin; first < end; first += TILE) {
    const int here = min(TILE, end - first);
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
      const int e = item + u * GROUP;
      is_head.of[e] = e < here ? IS_HEAD(first + e) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uchar mine[ITEMS];
    vstore8(is_head.vectors[item], 0, mine);
    int sum = 0;
#pragma unroll
    for (int u = 0; u < ITEMS; u++) sum += mine[u];
    int at = sum;
    // The sum over this and all work-items before goes from one half to the other.
    int now = 0;
    sums[0][item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < GROUP; step *= 2) {
      sum += item >= step ? sums[now][item - step] : 0;
      now = 1 - now;
      sums[now][item] = sum;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    const int total = sums[now][GROUP - 1];
    at = sum - at;
    ushort until[ITEMS];
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
      if (mine[u]) heads[at] = (ushort)(item * ITEMS + u);
      at += mine[u];
      until[u] = (ushort)at;
    }
#if HAS_INVERSE
    found.vectors[item] = vload8(0, until);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int h = item; h < total; h += GROUP) {
      const int i = first + heads[h], p = place + 1 + h;
      if (p < room) y[p * y_step] = words[i];
#if HAS_COUNTS
      if (h + 1 < total) COUNT(p, heads[h + 1] - heads[h])
#endif
    }
#if HAS_COUNTS
    if (total > 0) {
      if (item == 0) {
        if (last < 0)
          bounds[0] = first + heads[0];
        else
          COUNT(place, first + heads[0] - last)
      }
      last = first + heads[total - 1];
    }
#endif
#if HAS_INVERSE
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
      const int e = item + u * GROUP;
      if (e < here) inverse[ORIGIN(first + e)] = (INDEX)(place + found.of[e]);
    }
#endif
    place += total;
  }
#if HAS_COUNTS
  if (item == 0) bounds[1] = last;
#endif
}
#endif

// A work-item has a chunk. Of the chunks behind it the first one with a head is sought by their places.
__kernel void unique_tails(__global const int* places, long places_o, int chunks, __global const INDEX* total, long total_o,
                           __global const int* bounds, long bounds_o, int count, __global INDEX* counts, long counts_o,
                           long counts_step, int room) {
  const int mine = (int)get_global_id(0);
  if (mine >= chunks) return;
  places += places_o;
  bounds += bounds_o;
  counts += counts_o;
#define HEADS_UNTIL(c) ((c) + 1 < chunks ? places[(c) + 1] : (int)total[total_o])
  const int heads = HEADS_UNTIL(mine);
  if (heads == places[mine]) return;
  int low = mine + 1, high = chunks;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (HEADS_UNTIL(middle) > heads)
      high = middle;
    else
      low = middle + 1;
  }
  COUNT(heads - 1, (low < chunks ? bounds[2 * low] : count) - bounds[2 * mine + 1])
}
