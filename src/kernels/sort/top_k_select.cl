// The first k of long rows in order, on a GPU, as words that another kernel sorts. The k-th key is found by its digits of
// eight bits, the highest first: select_count counts that digit in the keys which agree in those above, select_pick
// finds the one in which the k-th lies. Then select_tally counts each part's keys below it and equal to it, and
// select_collect writes the former, and as many of the latter as are missing, those with the smallest indices.

#include "sort/sort_word.cl"

#ifndef GROUP
#define GROUP 256
#endif
#define DIGITS 256

// What is known of a row's k-th key.
typedef struct {
  ulong prefix;  // its upper digits
  uint rest;     // its place among the keys that have them, from 1 on
  uint other;    // for kth_value.cl
} State;

#define PART                                                                                                   \
  ROW_TENSOR(const RAW, x), ROW_SIZES, int flip, __global ulong *states, long states_o, __global uint *counts, \
      long counts_o, int n, int part_size, int k, int shift
#define SETUP                                                                                                  \
  const int item = (int)get_local_id(0), part = (int)get_group_id(0), row = (int)get_group_id(1);              \
  const int parts = (int)get_num_groups(0), begin = part * part_size, end = begin + min(part_size, n - begin); \
  __global State* state = (__global State*)(states + states_o) + row;                                          \
  __global const RAW* from = x + ROW_OFFSET(x, row);                                                           \
  const Int64 step = x_s.axis;

// The sum of `value` over the work-items before this one, and over all. PoCL makes wrong code of functions with barriers
// that it does not inline.
static __attribute__((always_inline)) uint sum_before(uint value, __local uint* sums, uint* total) {
  const int item = (int)get_local_id(0);
  uint sum = value;
  sums[item] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < GROUP; step *= 2) {
    const uint other = item >= step ? sums[item - step] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[item] = sum += other;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  *total = sums[GROUP - 1];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum - value;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void select_start(__global ulong* states, long states_o, __global uint* counts, long counts_o, int k) {
  const int item = (int)get_local_id(0), row = (int)get_group_id(0);
  __global State* state = (__global State*)(states + states_o) + row;
  for (int d = item; d < DIGITS; d += GROUP) counts[counts_o + (long)row * DIGITS + d] = 0;
  if (item == 0) {
    state->prefix = 0;
    state->rest = (uint)k;
  }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void select_count(PART) {
  __local uint found[DIGITS];
  SETUP
  const Key prefix = (Key)state->prefix, mask = shift + 8 < RAW_BITS ? ALL << (shift + 8) & ALL : 0;
  for (int d = item; d < DIGITS; d += GROUP) found[d] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
  for (int e = begin + item; e < end; e += GROUP) {
    const Key key = key_of(from[e * step], flip);
    if ((key & mask) == prefix) atomic_inc(&found[(int)(key >> shift) & (DIGITS - 1)]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = item; d < DIGITS; d += GROUP)
    if (found[d]) atomic_add(&counts[counts_o + (long)row * DIGITS + d], found[d]);
}

// A group for each row; the counts are 0 again afterwards.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void select_pick(__global ulong* states, long states_o, __global uint* counts, long counts_o, int shift) {
  __local uint sums[GROUP];
  const int item = (int)get_local_id(0), row = (int)get_group_id(0);
  __global State* state = (__global State*)(states + states_o) + row;
  __global uint* mine = counts + counts_o + (long)row * DIGITS + item * (DIGITS / GROUP);
  const uint rest = state->rest;
  uint found[DIGITS / GROUP], sum = 0, total;
  for (int m = 0; m < DIGITS / GROUP; m++) {
    sum += found[m] = mine[m];
    mine[m] = 0;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // all have read the state
  uint before = sum_before(sum, sums, &total);
  for (int m = 0; m < DIGITS / GROUP; m++) {
    if (before < rest && rest <= before + found[m]) {
      state->prefix |= (ulong)(item * (DIGITS / GROUP) + m) << shift;
      state->rest = rest - before;
    }
    before += found[m];
  }
}

// counts[row][part]: keys below the k-th, and equal ones.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void select_tally(PART) {
  __local uint found[2];
  SETUP
  const Key last = (Key)state->prefix;
  if (item < 2) found[item] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint below = 0, equal = 0;
#pragma unroll 4
  for (int e = begin + item; e < end; e += GROUP) {
    const Key key = key_of(from[e * step], flip);
    below += key < last;
    equal += key == last;
  }
  if (below) atomic_add(&found[0], below);
  if (equal) atomic_add(&found[1], equal);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < 2) counts[counts_o + ((long)row * parts + part) * 2 + item] = found[item];
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void select_collect(PART, __global ulong* words, long words_o) {
  __local uint sums[GROUP];
  __local uint before[2];
  SETUP
  const Key last = (Key)state->prefix;
  const uint wanted = state->rest;
  __global Word* to = WORDS_IN(, words) + (long)row * k;
  if (item < 2) before[item] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int other = item; other < part; other += GROUP)
    for (int which = 0; which < 2; which++)
      atomic_add(&before[which], counts[counts_o + ((long)row * parts + other) * 2 + which]);
  barrier(CLK_LOCAL_MEM_FENCE);
  uint below = before[0], equal = before[1];
  for (int first = begin; first < end; first += GROUP) {
    const int e = first + item;
    const Key key = e < end ? key_of(from[e * step], flip) : ALL;
    const int is_below = e < end && key < last, is_equal = e < end && key == last;
    // Both counts of a group fit in 16 bits.
    uint total;
    const uint place = sum_before((uint)is_below | (uint)is_equal << 16, sums, &total);
    if (is_below) to[below + (place & 0xffffu)] = word_of(key, (uint)e);
    const uint rank = equal + (place >> 16);
    if (is_equal && rank < wanted) to[(uint)k - wanted + rank] = word_of(key, (uint)e);
    below += total & 0xffffu;
    equal += total >> 16;
  }
}
