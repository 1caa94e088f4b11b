// One element of each row by its place in the sorted row, on a GPU: the digits of its key, as in top_k_select.cl, the first
// element with the key. kth_rows does all for rows that LANES work-items take. Few long rows are cut into parts: kth_start,
// kth_nans (of medians), kth_rank; select_count and select_pick for each digit; kth_find, kth_store.

#include "sort/kth_rank.cl"
#include "sort/top_k_select.cl"

#ifndef LANES
#define LANES 32
#endif
#define ROWS (GROUP / LANES)

#define RESULT(row, place)                                                                         \
  {                                                                                                \
    if (HAS_Y) y[ROW_OFFSET(y, row)] = x[ROW_OFFSET(x, row) + (long)(place)*x_s.axis];              \
    if (HAS_INDICES) i[ROW_OFFSET(i, row)] = (INDEX)(place);                                       \
  }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void kth_rows(ROW_TENSOR(const RAW, x), ROW_TENSOR(RAW, y),
                                                                          ROW_TENSOR(INDEX, i), ROW_SIZES, int rows,
                                                                          int n, int k) {
  __local uint found[ROWS * DIGITS], sums[2][GROUP], rest[ROWS], place[ROWS];
  __local ulong prefix[ROWS];
  const int item = (int)get_local_id(0), lane = item % LANES, mine = item / LANES;
  const int row = (int)get_group_id(0) * ROWS + mine, end = row < rows ? n : 0;
  __global const RAW* from = x + (row < rows ? ROW_OFFSET(x, row) : 0);
  if (lane == 0) {
    rest[mine] = 0;
    prefix[mine] = 0;
    place[mine] = (uint)n;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#if RANKS
  uint nans = 0;
  for (int e = lane; e < end; e += LANES) nans += key_of(from[e * x_s.axis], 0) == ALL;
  if (nans) atomic_add(&rest[mine], nans);
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  if (lane == 0) rest[mine] = rank_of(n, rest[mine], k);
  for (int shift = RAW_BITS - 8; shift >= 0; shift -= 8) {
    for (int d = lane; d < DIGITS; d += LANES) found[mine * DIGITS + d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const Key upper = (Key)prefix[mine], mask = shift + 8 < RAW_BITS ? ALL << (shift + 8) & ALL : 0;
#pragma unroll 4
    for (int e = lane; e < end; e += LANES) {
      const Key key = key_of(from[e * x_s.axis], 0);
      if ((key & mask) == upper) atomic_inc(&found[mine * DIGITS + ((int)(key >> shift) & (DIGITS - 1))]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // A lane has neighbouring digits; sums over the lanes before go from one half of `sums` to the other.
    __local const uint* digits = found + mine * DIGITS + lane * (DIGITS / LANES);
    uint sum = 0;
    for (int m = 0; m < DIGITS / LANES; m++) sum += digits[m];
    int now = 0;
    sums[0][item] = sum;
    const uint wanted = rest[mine];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < LANES; step *= 2) {
      sums[1 - now][item] = sums[now][item] + (lane >= step ? sums[now][item - step] : 0);
      now = 1 - now;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    uint before = sums[now][item] - sum;
    for (int m = 0; m < DIGITS / LANES; m++) {
      if (before < wanted && wanted <= before + digits[m]) {
        prefix[mine] |= (ulong)(lane * (DIGITS / LANES) + m) << shift;
        rest[mine] = wanted - before;
      }
      before += digits[m];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const Key last = (Key)prefix[mine];
  uint first = (uint)n;
  for (int e = lane; e < end; e += LANES)
    if (key_of(from[e * x_s.axis], 0) == last) {
      first = (uint)e;
      break;
    }
  if (first < (uint)n) atomic_min(&place[mine], first);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0 && row < rows) RESULT(row, place[mine])
}

// state->other: the number of NaNs, then the place of the element.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void kth_start(__global ulong* states, long states_o,
                                                                           __global uint* counts, long counts_o) {
  const int item = (int)get_local_id(0), row = (int)get_group_id(0);
  __global State* state = (__global State*)(states + states_o) + row;
  for (int d = item; d < DIGITS; d += GROUP) counts[counts_o + (long)row * DIGITS + d] = 0;
  if (item == 0) {
    state->prefix = 0;
    state->other = 0;
  }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void kth_nans(PART) {
  SETUP
  uint nans = 0;
  for (int e = begin + item; e < end; e += GROUP) nans += key_of(from[e * x_s.axis], flip) == ALL;
  if (nans) atomic_add(&state->other, nans);
}

__kernel void kth_rank(__global ulong* states, long states_o, int rows, int n, int k) {
  const int row = (int)get_global_id(0);
  if (row >= rows) return;
  __global State* state = (__global State*)(states + states_o) + row;
  state->rest = rank_of(n, state->other, k);
  state->other = (uint)n;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void kth_find(PART) {
  SETUP
  const Key last = (Key)state->prefix;
  for (int e = begin + item; e < end; e += GROUP)
    if (key_of(from[e * x_s.axis], flip) == last) {
      atomic_min(&state->other, (uint)e);
      break;
    }
}

__kernel void kth_store(__global const ulong* states, long states_o, ROW_TENSOR(const RAW, x), ROW_TENSOR(RAW, y),
                        ROW_TENSOR(INDEX, i), ROW_SIZES, int rows) {
  const int row = (int)get_global_id(0);
  if (row >= rows) return;
  const uint place = ((__global const State*)(states + states_o))[row].other;
  RESULT(row, place)
}
