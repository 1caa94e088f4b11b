// table[indices] = dense for one index, column by column, on a GPU: family p are the dimensions along which both
// move, family w is walked. A group holds a part of the places of COLUMNS neighbouring columns in local memory, and
// for each column TEAM work-items walk all of w, TEAM elements at a time. Of those that meet in a step the first
// work-item's folds all, in order, so that the order is w's however often a place occurs. See indexing.cl and fold.cl.

#define SKIPPED(v) ((v) == skip)
#include "index/indexing.cl"
#include "lib/fold.cl"

#ifndef COLUMNS
#define COLUMNS 4
#define DENSE_ALONG 1  // neighbouring work-items load elements of neighbouring columns, otherwise of one
#define TABLE_ALONG 1  // the same of the table's places
#define LAST 0         // nothing is folded: the last element stays
#define MARKED 0       // only places that were written are stored, though all were loaded
#define AHEAD 4        // steps whose elements are loaded while as many are folded: 1, or even
#define WORD float     // S, or an integer of its size
#endif
#define TEAM 32
#define BATCH (4 * AHEAD)  // places that are loaded at a time
#define GROUP (COLUMNS * TEAM)
#define PITCH (TEAM + (COLUMNS > 1 ? TEAM / COLUMNS : 0))  // of a column's elements, against bank conflicts

#define LOADS (INCLUDE_SELF && !MEAN)  // folding starts from what is in the table
#define BITS (!MEAN && (MARKED || !INCLUDE_SELF))
#define COLUMN_OF(along) ((along) ? item % COLUMNS : item / TEAM)
#define MEMBER_OF(along) ((along) ? item / COLUMNS : item % TEAM)
// What no index is, also counted from the end.
#define NOWHERE ((INDEX)(sizeof(INDEX) == 8 ? LONG_MIN : (long)INT_MIN))

// Raw numbers and words: what is computed from them waits for memory, and the next steps are not to.
#define FETCH(begin)                                                                     \
  for (int u = 0; u < AHEAD; u++) {                                                      \
    const OFFSET i_ = (begin) + (OFFSET)(u * TEAM + member);                             \
    next[u] = NOWHERE;                                                                   \
    words[u] = 0;                                                                        \
    if (loads && i_ < walked) {                                                          \
      struct Place place = start;                                                        \
      LOCATE_W(i_)                                                                       \
      next[u] = (i0 + i0_o)[place.index[0]];                                             \
      words[u] = ((__global const WORD*)dense)[place.dense];                             \
    }                                                                                    \
  }

// places: of a part; pitch: of a column in `sums`. marks: a bit a place, or with MEAN how many elements it has.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void scatter_local(
    __global const S* restrict dense, long dense_o, __global T* restrict table, long table_o NEST, long skip,
    OFFSET walked, OFFSET columns, int places, int parts, int pitch, __local ACC* restrict sums,
    __local uint* restrict marks) {
  __local int4 keys[2][COLUMNS * PITCH / 4];
  __local WORD values[2][COLUMNS * PITCH];
  const int item = (int)get_local_id(0), part = (int)(get_group_id(0) % (uint)parts), begin = part * places;
  const OFFSET first = (OFFSET)(get_group_id(0) / (uint)parts) * COLUMNS;
  const int count = (int)min((long)places, i0_size - begin), bits = (places + 31) / 32;
  dense += dense_o;
  table += table_o;

  const int owned = COLUMN_OF(TABLE_ALONG), owned_from = MEMBER_OF(TABLE_ALONG);
  const bool stores = first + owned < columns;
  OFFSET home = 0;
  {
    struct Place place = {0, 0, {0}};
    LOCATE_P(min(first + owned, columns - 1))
    home = place.table + (OFFSET)begin * i0_step;
  }
#if LOADS
  if (stores)
    for (int from = owned_from; from < count; from += BATCH * TEAM) {
      ACC old[BATCH];
#pragma unroll
      for (int u = 0; u < BATCH; u++)
        old[u] = from + u * TEAM < count ? (ACC)LOAD(table, home + (OFFSET)(from + u * TEAM) * i0_step) : (ACC)0;
#pragma unroll
      for (int u = 0; u < BATCH; u++)
        if (from + u * TEAM < count) sums[owned * pitch + from + u * TEAM] = old[u];
    }
#elif MEAN
  for (int k = item; k < COLUMNS * pitch; k += GROUP) {
    sums[k] = 0;
    marks[k] = 0;
  }
#endif
#if BITS
  for (int k = item; k < COLUMNS * bits; k += GROUP) marks[k] = 0;
#endif

  const int loaded = COLUMN_OF(DENSE_ALONG), member = MEMBER_OF(DENSE_ALONG);
  const bool loads = first + loaded < columns;
  struct Place start = {0, 0, {0}};
  {
    struct Place place = start;
    LOCATE_P(min(first + loaded, columns - 1))
    start = place;
  }
  const int column = item / TEAM, lane = item % TEAM;
  INDEX next[AHEAD], now[AHEAD];
  WORD words[AHEAD], current[AHEAD];
#pragma unroll
  FETCH(0)
  for (OFFSET i = 0; i < walked; i += AHEAD * TEAM) {
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      now[u] = next[u];
      current[u] = words[u];
    }
#pragma unroll
    FETCH(i + AHEAD * TEAM)
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
      // Two slots, so that one barrier a step is enough: who writes to one has left it two steps ago.
      const int slot = AHEAD == 1 ? (int)(i / TEAM) % 2 : u % 2;
      const long v = (long)now[u] + (now[u] < 0 ? i0_size : 0);
      const bool here = v >= begin && v < begin + (long)count && !SKIPPED(v);
      ((__local int*)keys[slot])[loaded * PITCH + member] = here ? (int)(v - begin) : -1;
      values[slot][loaded * PITCH + member] = current[u];
      barrier(CLK_LOCAL_MEM_FENCE);
      __local const int4* those = keys[slot] + column * (PITCH / 4);
      __local const S* met = (__local const S*)(values[slot] + column * PITCH);
      const int mine = ((__local const int*)those)[lane];
      uint same = 0;
#pragma unroll
      for (int j = 0; j < TEAM / 4; j++) {
        const int4 other = those[j];
        same |= (uint)(other.s0 == mine) << (4 * j) | (uint)(other.s1 == mine) << (4 * j + 1) |
                (uint)(other.s2 == mine) << (4 * j + 2) | (uint)(other.s3 == mine) << (4 * j + 3);
      }
      if (mine >= 0 && (same & ((1u << lane) - 1)) == 0) {
        const int at = column * pitch + mine;
#if BITS
        const uint bit = 1u << (mine & 31), before = atomic_or(&marks[column * bits + mine / 32], bit);
#elif MEAN
        marks[at] += popcount(same);
#endif
#if LAST
        sums[at] = LOAD_DENSE(met, 31 - (int)clz(same));
#else
#if RESETS && !MEAN
        ACC sum = before & bit ? sums[at] : (ACC)(IDENTITY);
#else
        ACC sum = sums[at];
#endif
        do {
          const ACC v_ = LOAD_DENSE(met, 31 - (int)clz(same & -same));
          sum = FOLD(sum, v_);
          same &= same - 1;
        } while (same);
        sums[at] = sum;
#endif
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  if (!stores) return;
  for (int k = owned_from; k < count; k += TEAM) {
    const OFFSET to = home + (OFFSET)k * i0_step;
    ACC sum = sums[owned * pitch + k];
#if BITS
    if (!(marks[owned * bits + k / 32] >> (k & 31) & 1)) continue;
#elif MEAN
    const uint met = marks[owned * pitch + k];
    if (met == 0) continue;
#if INCLUDE_SELF
    sum = divided_by(LOAD(table, to) + sum, (ACC)(met + 1));
#else
    sum = divided_by(sum, (ACC)met);
#endif
#endif
    STORE(table, to, sum);
  }
}
