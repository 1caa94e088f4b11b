// table[indices] = dense without a fold: `scatter_claim` leaves at each place the number of the last element of
// family w that goes there, in whatever order, and `scatter_settle` writes the elements that find their own number,
// for each of the columns that are family p. A place is a multiple of `unit` elements of the table. See indexing.cl.

#define SKIPPED(v) ((v) == skip)
#include "index/indexing.cl"
#include "lib/types.cl"

#ifndef DTYPE
#define DTYPE f32  // the table's
#define T float
#define S_DTYPE f32  // the dense tensor's
#define S float
#define WORDS 1  // both have one dtype, of whose size is ELEMENT; words of one or several elements are moved
#define ELEMENT uint
#define WORD uint
#define WALK_INNER 0  // neighbouring work-items take neighbours of w, otherwise of p
#endif
#define GROUP 256
#define U 4

#if WORDS
#define T_ELEMENT ELEMENT
#define S_ELEMENT ELEMENT
#define T_WORD WORD
#define S_WORD WORD
#define MOVED WORD
#define LOAD_MOVED(p, i) WIDE_LOAD(WORD, (p) + (i))
#define STORE_MOVED(p, i, v) WIDE_STORE(WORD, (p) + (i), v)
#else
#define T_ELEMENT T
#define S_ELEMENT S
#define T_WORD T
#define S_WORD S
#define MOVED ACC
#define LOAD_MOVED(p, i) JOIN(LOAD_, S_DTYPE)(p, i)
#define STORE_MOVED(p, i, v) JOIN(STORE_, DTYPE)(p, i, v)
#endif

__kernel void scatter_unclaimed(__global int* winners, long winners_o, uint places) {
  const uint i = (uint)get_global_id(0);
  if (i < places) (winners + winners_o)[i] = INT_MIN;  // less than any number, also than those of scatter_extremes.cl
}

__kernel void scatter_claim(__global int* winners, long winners_o NEST, long skip, OFFSET walked, OFFSET unit) {
  const OFFSET w = (OFFSET)get_global_id(0);
  if (w >= walked) return;
  FIND_W(w)
  if (ok) atomic_max(winners + winners_o + at / unit, (int)w);
}

// A group has `across` neighbours of one family, and GROUP / across of the other; there are `blocks` along the first.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void scatter_settle(
    __global const S_ELEMENT* restrict dense_e, long dense_o, __global T_ELEMENT* restrict table_e, long table_o,
    __global const int* restrict winners, long winners_o NEST, long skip, OFFSET walked, OFFSET columns, OFFSET unit,
    int across, int blocks) {
  __global const S_WORD* restrict dense = (__global const S_WORD*)(dense_e + dense_o);
  __global T_WORD* restrict table = (__global T_WORD*)(table_e + table_o);
  winners += winners_o;
  const int item = (int)get_local_id(0), beside = item % across, behind = item / across, down = GROUP / across;
  const OFFSET block = (OFFSET)(get_group_id(0) % (uint)blocks), rest = (OFFSET)(get_group_id(0) / (uint)blocks);
#if WALK_INNER
  const OFFSET column = rest * down + behind, first = block * across * U + beside, step = across;
#else
  const OFFSET column = block * across + beside, first = rest * down * U + behind, step = down;
#endif
  if (column >= columns) return;
  struct Place start = {0, 0, {0}};
  {
    struct Place place = start;
    LOCATE_P(column)
    start = place;
  }
  OFFSET from[U], to[U], key[U];
#pragma unroll
  for (int u = 0; u < U; u++) {
    key[u] = -1;
    if (first + u * step < walked) {
      FIND_W(first + u * step)
      if (ok) key[u] = at / unit;
      from[u] = place.dense + start.dense;
      to[u] = at + start.table;
    }
  }
  bool wins[U];
#pragma unroll
  for (int u = 0; u < U; u++) wins[u] = key[u] >= 0 && winners[key[u]] == (int)(first + u * step);
  MOVED moved[U];
#pragma unroll
  for (int u = 0; u < U; u++)
    if (wins[u]) moved[u] = LOAD_MOVED(dense, from[u]);
#pragma unroll
  for (int u = 0; u < U; u++)
    if (wins[u]) STORE_MOVED(table, to[u], moved[u]);
}
