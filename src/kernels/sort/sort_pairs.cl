// One pass of a stable radix sort of (key, value) pairs of 32 bits each, on a GPU: `sort_count` counts the
// digits of each block of elements, `sort_scan` turns the counts of one digit into places, `sort_move` moves
// the pairs. A tile is sorted by its digit in local memory first, four bits at a time, so that pairs with one
// digit go out side by side.

#include "sort/sort_digits.cl"

#define ITEMS 8
#define TILE (GROUP * ITEMS)
#ifndef POSITIONS  // values are the numbers 0, 1, ...
#define POSITIONS 0
#endif

// One in ITEMS is left free, or work-items with as many neighbours each would meet in few banks.
#define AT(i) ((i) + (i) / ITEMS)
#define DIGIT(key) (((key) >> shift) & 255u)
#define LOCAL_FENCE barrier(CLK_LOCAL_MEM_FENCE)

// counts: [256, blocks].
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_count(__global const uint* keys, long keys_o,
                                                                            __global uint* counts, long counts_o,
                                                                            uint count, uint shift, uint chunk,
                                                                            uint blocks) {
  __local uint bins[256];
  const uint me = (uint)get_local_id(0), block = (uint)get_group_id(0);
  const uint begin = block * chunk, end = min(begin + chunk, count);
  keys += keys_o;
  bins[me] = 0;
  LOCAL_FENCE;
  for (uint i = begin + me; i < end; i += GROUP) atomic_inc(&bins[DIGIT(keys[i])]);
  LOCAL_FENCE;
  (counts + counts_o)[me * blocks + block] = bins[me];
}

// A group takes a digit: its counts become their sums over the blocks before; behind all of them stand the
// digits' totals.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_scan(__global uint* counts, long counts_o,
                                                                           uint blocks) {
  __local uint sums[2 * GROUP];
  const uint digit = (uint)get_group_id(0), me = (uint)get_local_id(0);
  __global uint* row = counts + counts_o + digit * blocks;
  uint before = 0;
  for (uint first = 0; first < blocks; first += GROUP) {
    const uint i = first + me;
    uint total;
    const uint place = sum_before(i < blocks ? row[i] : 0, sums, &total);
    if (i < blocks) row[i] = before + place;
    before += total;
  }
  if (me == 0) (counts + counts_o)[256 * blocks + digit] = before;
}

// Sorts the tile by four bits of its keys; work-item i takes the elements from ITEMS i on.
INLINED void sort_tile(__local uint* key, __local uint* value, __local Ranks* ranks, __local uint* sums, uint shift) {
  const uint me = (uint)get_local_id(0);
  uint k[ITEMS], v[ITEMS];
#pragma unroll
  for (int d = 0; d < 16; d++) ranks->of[d * GROUP + me] = 0;
#pragma unroll
  for (int j = 0; j < ITEMS; j++) {
    k[j] = key[AT(me * ITEMS + j)];
    v[j] = value[AT(me * ITEMS + j)];
    ranks->of[((k[j] >> shift) & 15u) * GROUP + me]++;
  }
  LOCAL_FENCE;
  place_digits(ranks, sums);
  LOCAL_FENCE;
#pragma unroll
  for (int j = 0; j < ITEMS; j++) {
    const uint place = ranks->of[((k[j] >> shift) & 15u) * GROUP + me]++;
    key[AT(place)] = k[j];
    value[AT(place)] = v[j];
  }
  LOCAL_FENCE;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_move(
    __global const uint* keys, long keys_o, __global const uint* values, long values_o, __global uint* keys_out,
    long keys_out_o, __global uint* values_out, long values_out_o, __global const uint* counts, long counts_o,
    uint count, uint shift, uint chunk, uint blocks) {
  __local uint key[AT(TILE)], value[AT(TILE)], sums[2 * GROUP], place[256], start[256];
  __local Ranks ranks;
  const uint me = (uint)get_local_id(0), block = (uint)get_group_id(0);
  const uint begin = block * chunk, end = min(begin + chunk, count);
  keys += keys_o;
  values += values_o;
  keys_out += keys_out_o;
  values_out += values_out_o;
  counts += counts_o;
  uint total;
  place[me] = sum_before(counts[256 * blocks + me], sums, &total) + counts[me * blocks + block];
  for (uint first = begin; first < end; first += TILE) {
    const uint here = min((uint)TILE, end - first);
    for (uint i = me; i < TILE; i += GROUP) {  // what fills the last tile sorts behind all others
      key[AT(i)] = i < here ? keys[first + i] : 0xffffffffu;
      value[AT(i)] = i >= here ? 0 : POSITIONS ? first + i : values[first + i];
    }
    LOCAL_FENCE;
    sort_tile(key, value, &ranks, sums, shift);
    sort_tile(key, value, &ranks, sums, shift + 4);
    for (uint i = me; i < here; i += GROUP)
      if (i == 0 || DIGIT(key[AT(i)]) != DIGIT(key[AT(i - 1)])) start[DIGIT(key[AT(i)])] = i;
    LOCAL_FENCE;
    for (uint i = me; i < here; i += GROUP) {
      const uint to = place[DIGIT(key[AT(i)])] + i - start[DIGIT(key[AT(i)])];
      keys_out[to] = key[AT(i)];
      values_out[to] = value[AT(i)];
    }
    LOCAL_FENCE;
    for (uint i = me; i < here; i += GROUP)
      if (i + 1 == here || DIGIT(key[AT(i)]) != DIGIT(key[AT(i + 1)]))
        place[DIGIT(key[AT(i)])] += i + 1 - start[DIGIT(key[AT(i)])];
    LOCAL_FENCE;
  }
}
