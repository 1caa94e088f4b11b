// Grid sampling backward with respect to x on a GPU, by lists: for each pixel of x the taps that fell on it, then dx gathers. Lists are
// counted and filled with atomics of integers, which gives them in any order; they are sorted, so that sums are the same each
// time. What finding the lists costs serves all channels.
// Pixels are numbered n, d, h, w; an entry is (place * COMBINATIONS + combination) of its n, with its weight.

#include "resample/grid_sample_parts.cl"

#ifndef GROUP
#define GROUP 256
#endif
#ifndef CHANNELS  // that an item of the gathering has
#define CHANNELS 4
#endif

// Calls VISIT(k, pixel) for the taps of this item's place; dimension 1 is n.
#define FOR_TAPS(VISIT)                                                                                         \
  STEPS(grid)                                                                                                   \
  const int place = (int)get_global_id(0), n = (int)get_global_id(1);                                           \
  if (place >= PLACES) return;                                                                                  \
  const int o = place / (sizes.p * sizes.q), p = place / sizes.q % sizes.p, q = place % sizes.q;                \
  int at[AXES * TAPS];                                                                                          \
  real w[AXES * TAPS], d[AXES * TAPS];                                                                          \
  find_place(grid + grid_o + n * grid_steps.n, AT(grid, o, p, q), grid_c, sizes.d, sizes.h, sizes.w, at, w, d); \
  UNROLLED                                                                                                      \
  for (int k = 0; k < COMBINATIONS; k++) {                                                                      \
    const int in_plane = (int)combined_at(at, k, (index_t)sizes.h * sizes.w, (index_t)sizes.w, 1);              \
    if (in_plane >= 0) VISIT(k, n * sizes.d * sizes.h * sizes.w + in_plane)                                     \
  }

// counts: of each pixel; total: where the next group's lists begin.
__kernel void grid_lists_clear(__global int* counts, long counts_o, __global int* total, long total_o, int pixels) {
  const int i = (int)get_global_id(0);
  if (i < pixels) counts[counts_o + i] = 0;
  if (i == 0) total[total_o] = 0;
}

#define COUNT(k, pixel) atomic_inc(counts + counts_o + (pixel));
__kernel void grid_lists_count(TENSOR(const GRID_T, grid), __global int* counts, long counts_o, SampleSizes sizes) {
  FOR_TAPS(COUNT)
}

// ends: where each pixel's list begins, for filling to move it on. Groups take their places in any order.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void grid_lists_place(
    __global const int* counts, long counts_o, __global int* ends, long ends_o, __global int* total, long total_o,
    int pixels) {
  __local int sums[2][GROUP];
  __local int base;
  const int i = (int)get_global_id(0), lane = (int)get_local_id(0);
  const int own = i < pixels ? counts[counts_o + i] : 0;
  int now = 0;
  sums[0][lane] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < GROUP; step *= 2) {
    sums[1 - now][lane] = sums[now][lane] + (lane >= step ? sums[now][lane - step] : 0);
    now = 1 - now;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == GROUP - 1) base = atomic_add(total + total_o, sums[now][lane]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < pixels) ends[ends_o + i] = base + sums[now][lane] - own;
}

#define PUT(k, pixel)                                     \
  {                                                       \
    const int slot = atomic_inc(ends + ends_o + (pixel)); \
    entries[entries_o + slot] = place * COMBINATIONS + k; \
    weights[weights_o + slot] = combined_weight(w, k);    \
  }
__kernel void grid_lists_fill(TENSOR(const GRID_T, grid), __global int* ends, long ends_o, __global int* entries,
                              long entries_o, __global real* weights, long weights_o, SampleSizes sizes) {
  FOR_TAPS(PUT)
}

// Lets the entry at `root` sink in a heap of `count`.
static void sink(__global int* entries, __global real* weights, int root, int count) {
  const int entry = entries[root];
  const real weight = weights[root];
  for (int child = 2 * root + 1; child < count; child = 2 * root + 1) {
    if (child + 1 < count && entries[child + 1] > entries[child]) child++;
    if (entries[child] <= entry) break;
    entries[root] = entries[child];
    weights[root] = weights[child];
    root = child;
  }
  entries[root] = entry;
  weights[root] = weight;
}

// Sorts each pixel's list: short ones by insertion, long ones as a heap.
__kernel void grid_lists_sort(__global const int* counts, long counts_o, __global const int* ends, long ends_o,
                              __global int* entries, long entries_o, __global real* weights, long weights_o, int pixels) {
  const int i = (int)get_global_id(0);
  if (i >= pixels) return;
  const int count = counts[counts_o + i], begin = ends[ends_o + i] - count;
  entries += entries_o + begin;
  weights += weights_o + begin;
  if (count <= 32) {
    for (int j = 1; j < count; j++) {
      const int entry = entries[j];
      const real weight = weights[j];
      int to = j;
      for (; to > 0 && entries[to - 1] > entry; to--) {
        entries[to] = entries[to - 1];
        weights[to] = weights[to - 1];
      }
      entries[to] = entry;
      weights[to] = weight;
    }
    return;
  }
  for (int root = count / 2 - 1; root >= 0; root--) sink(entries, weights, root, count);
  for (int last = count - 1; last > 0; last--) {
    const int entry = entries[0];
    const real weight = weights[0];
    entries[0] = entries[last];
    weights[0] = weights[last];
    entries[last] = entry;
    weights[last] = weight;
    sink(entries, weights, 0, last);
  }
}

// x is dx, y is dy. Dimension 0 is pixels, or with INNER (pixel, channels); dimension 1 the other channels.
__kernel void grid_lists_gather(TENSOR(X_T, x), TENSOR(const Y_T, y), __global const int* counts, long counts_o,
                                __global const int* ends, long ends_o, __global const int* entries, long entries_o,
                                __global const real* weights, long weights_o, SampleSizes sizes) {
  STEPS(x)
  STEPS(y)
  const int parts = (sizes.c + CHANNELS - 1) / CHANNELS, item = (int)get_global_id(0);
  const int pixel = INNER ? item / parts : item;
  const int c = (INNER ? item % parts : (int)get_global_id(1)) * CHANNELS;
  if (pixel >= sizes.n * sizes.d * sizes.h * sizes.w || c >= sizes.c) return;
  const int n = pixel / (sizes.d * sizes.h * sizes.w), d = pixel / (sizes.h * sizes.w) % sizes.d;
  const int h = pixel / sizes.w % sizes.h, w = pixel % sizes.w;
  const int count = counts[counts_o + pixel], begin = ends[ends_o + pixel] - count;
  y += y_o + n * y_steps.n;
  real sum[CHANNELS];
  for (int i = 0; i < CHANNELS; i++) sum[i] = 0;
  for (int j = begin; j < begin + count; j++) {
    const int place = entries[entries_o + j] / COMBINATIONS;
    const real weight = weights[weights_o + j];
    const index_t at = AT(y, place / (sizes.p * sizes.q), place / sizes.q % sizes.p, place % sizes.q);
    for (int i = 0; i < CHANNELS; i++)
      sum[i] += weight * LOAD_Y(y, at + min(c + i, sizes.c - 1) * y_c);
  }
  for (int i = 0; i < CHANNELS; i++)
    if (c + i < sizes.c) STORE_X(x, x_o + n * x_steps.n + (c + i) * x_c + AT(x, d, h, w), sum[i]);
}
