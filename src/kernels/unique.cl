// The distinct elements of a row in which equal ones are neighbours. A head is an element that differs from the one before
// it. unique_count counts the heads of each group's chunk, compact_scan makes places of these counts, unique_move goes over
// the chunks again and puts heads to their places, unique_lengths says how far it is from one head to the next.

#include "types.cl"

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
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define LOAD(p, i) JOIN(LOAD_, DTYPE)(p, i)

#define ITEMS 4  // neighbours that a work-item has
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

#define MOVE                                                                                                         \
  __global const T *v, long v_o, __global const int *places, long places_o, int count, int chunk,                     \
      __global const int *order, long order_o, __global WORD *y, long y_o, long y_step, int room, __global int *starts, \
      long starts_o, __global INDEX *inverse, long inverse_o
#define SETUP                                                     \
  CHUNK                                                           \
  __global const WORD* words = (__global const WORD*)v;           \
  order += order_o;                                               \
  y += y_o;                                                       \
  starts += starts_o;                                             \
  inverse += inverse_o;                                           \
  int place = places[get_group_id(0)] - 1; /* of the head before */
#define ORIGIN(i) (HAS_ORDER ? order[i] : (i))

// y: what does not fit in `room` is dropped. inverse: row-major.
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
    for (int h = 0; h < found; h++) starts[place + 1 + h] = heads[h];
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
}
#else
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void unique_move(MOVE) {
  __local int sums[2][GROUP];
  SETUP
  for (int first = begin; first < end; first += GROUP * ITEMS) {
    int is_head[ITEMS], heads = 0;
    const int mine = first + item * ITEMS;
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
      is_head[u] = mine + u < end ? IS_HEAD(mine + u) : 0;
      heads += is_head[u];
    }
    // The sum over this and all work-items before goes from one half to the other.
    int now = 0;
    sums[0][item] = heads;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < GROUP; step *= 2) {
      sums[1 - now][item] = sums[now][item] + (item >= step ? sums[now][item - step] : 0);
      now = 1 - now;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    int at = place + sums[now][item] - heads;
    place += sums[now][GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
      const int i = mine + u;
      if (i < end) {
        at += is_head[u];
        if (is_head[u] && at < room) y[at * y_step] = words[i];
#if HAS_COUNTS
        if (is_head[u]) starts[at] = i;
#endif
#if HAS_INVERSE
        inverse[ORIGIN(i)] = (INDEX)at;
#endif
      }
    }
  }
}
#endif

__kernel void unique_lengths(__global const int* starts, long starts_o, __global const INDEX* total, long total_o,
                             int count, __global INDEX* counts, long counts_o, long counts_step, int room) {
  const int p = (int)get_global_id(0), last = (int)total[total_o] - 1;
  if (p >= room || p > last) return;
  starts += starts_o;
  counts[counts_o + p * counts_step] = (INDEX)((p < last ? starts[p + 1] : count) - starts[p]);
}
