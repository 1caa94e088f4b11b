// Max unpooling on a GPU where channels are neighbours: a work-group has a range of the places of an image of y in CHANNELS channels, and
// finds in local memory which element of x goes to each; then it writes them all. So that it need not read all indices, what lies
// between the least and the greatest of each CHUNK places of x is found before.

#ifndef WORD
#define WORD uint
#define INDICES int
#define WIDE 0
#define CHANNELS 8
#define TILE 6400
#define CHUNK 32
#define GROUP 256
#endif
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "pool/max_unpool.h"

#if WIDE
typedef long index_t;
#else
typedef int index_t;
#endif
#define BATCH 4
#define ROWS (GROUP / CHANNELS)

// Strides along N and from place to place.
#define TENSOR(T, t) __global T *restrict t, long t##_o, long t##_n, long t##_w

// Of each chunk of each image the least and the greatest index in Q; INT_MAX and -1 if there is none.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void max_unpool_bounds(
    TENSOR(const INDICES, indices), __global int* bounds, long bounds_o, Divisor channels, int p, int q, Divisor chunks) {
  __local int least, greatest;
  const int lane = (int)get_local_id(0), group = (int)get_group_id(0);
  const int n = divided(group, chunks), first = (group - n * chunks.d) * CHUNK;
  const int count = min(CHUNK, p - first) * channels.d;
  if (lane == 0) {
    least = INT_MAX;
    greatest = -1;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  int low = INT_MAX, high = -1;
  indices += indices_o + n * indices_n + first * indices_w;
#pragma unroll 4
  for (int e = lane; e < count; e += GROUP) {
    const int i = divided(e, channels);
    const INDICES index = indices[i * (index_t)indices_w + (e - i * channels.d)];
    const bool inside = index >= 0 && index < q;
    low = inside ? min(low, (int)index) : low;
    high = inside ? max(high, (int)index) : high;
  }
  if (high >= 0) {
    atomic_min(&least, low);
    atomic_max(&greatest, high);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) {
    bounds[bounds_o + 2 * (long)group] = least;
    bounds[bounds_o + 2 * (long)group + 1] = greatest;
  }
}

// Groups are numbered n, range, part of the channels.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void max_unpool_tiles(
    TENSOR(const WORD, x), TENSOR(const INDICES, indices), TENSOR(WORD, y), __global const int* bounds, long bounds_o,
    UnpoolTiles of) {
  __local int owner[TILE];
  __local int chosen[GROUP];
  __local int chosen_count;
  const int lane = (int)get_local_id(0), group = (int)get_group_id(0), column = lane % CHANNELS, row = lane / CHANNELS;
  const int rest = divided(group, of.parts), n = divided(rest, of.ranges);
  const int c = (group - rest * of.parts.d) * CHANNELS + column;
  const int begin = (rest - n * of.ranges.d) * of.length, places = min(of.length, of.q - begin), end = begin + places;
  x += x_o + n * x_n + c;
  indices += indices_o + n * indices_n + c;
  y += y_o + n * y_n + c + begin * y_w;
  for (int i = lane; i < places * CHANNELS; i += GROUP) owner[i] = 0;
  for (int first = 0; first < of.chunks; first += GROUP) {
    const int chunk = first + lane;
    const long bound = bounds_o + 2 * ((long)n * of.chunks + chunk);
    if (lane == 0) chosen_count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (chunk < of.chunks && (!of.known || (bounds[bound] < end && bounds[bound + 1] >= begin)))
      chosen[atomic_inc(&chosen_count)] = chunk;
    barrier(CLK_LOCAL_MEM_FENCE);
    // The owner of a place is 1 + the last element that goes there.
    const int count = c < of.channels ? chosen_count * CHUNK : 0;
    for (int j = row; j < count; j += BATCH * ROWS) {
      int element[BATCH];
      INDICES to[BATCH];
#pragma unroll
      for (int k = 0; k < BATCH; k++) {
        const int at = min(j + k * ROWS, count - 1);
        element[k] = min(chosen[at / CHUNK] * CHUNK + at % CHUNK, of.p - 1);
        to[k] = indices[element[k] * (index_t)indices_w];
      }
#pragma unroll
      for (int k = 0; k < BATCH; k++)
        if (j + k * ROWS < count && to[k] >= begin && to[k] < end)
          atomic_max(owner + ((int)to[k] - begin) * CHANNELS + column, element[k] + 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (c >= of.channels) return;
  for (int first = row; first < places; first += BATCH * ROWS) {
    WORD value[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; k++) {
      const int place = first + k * ROWS, from = place < places ? owner[place * CHANNELS + column] : 0;
      value[k] = 0;
      if (from > 0) value[k] = x[(from - 1) * (index_t)x_w];
    }
#pragma unroll
    for (int k = 0; k < BATCH; k++)
      if (first + k * ROWS < places) y[(first + k * ROWS) * (index_t)y_w] = value[k];
  }
}
