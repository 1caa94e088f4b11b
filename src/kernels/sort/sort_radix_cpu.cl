// The passes of sort_radix.cl on a CPU: work-groups of one item, whose tiles are long pieces of a row.

#include "sort/sort_word.cl"

#ifndef FIRST
#define FIRST 0
#endif
#ifndef LAST
#define LAST 0
#endif
#define DIGITS 256
#define DIGIT(w) ((int)(KEY_OF(w) >> shift) & (DIGITS - 1))

#if FIRST
#define WORD_AT(e) word_of(key_of(x[x_row + (e) * x_s.axis], flip), (uint)(e))
#else
#define WORD_AT(e) WORDS_IN(const, from)[(long)row * n + (e)]
#endif

#define PASS                                                                                              \
  ROW_TENSOR(const RAW, x), ROW_SIZES, int flip, __global const ulong *from, long from_o, __global uint *counts,     \
      long counts_o, int n, int tiles, int shift, int tile_size

// counts[row][digit][tile]
__kernel void radix_count(PASS) {
  uint found[DIGITS];
  const int tile = (int)get_group_id(0), row = (int)get_group_id(1);
  const long x_row = FIRST ? ROW_OFFSET(x, row) : 0;
  const int begin = tile * tile_size, end = begin + min(tile_size, n - begin);
  for (int d = 0; d < DIGITS; d++) found[d] = 0;
  for (int e = begin; e < end; e++) {
    const Word w = WORD_AT(e);
    found[DIGIT(w)]++;
  }
  for (int d = 0; d < DIGITS; d++) counts[counts_o + ((long)row * DIGITS + d) * tiles + tile] = found[d];
}

// The counts become the places where each tile's runs start.
__kernel void radix_scan(__global uint* counts, long counts_o, int tiles) {
  uint before = 0;
  counts += counts_o + (long)get_group_id(0) * DIGITS * tiles;
  for (int d = 0; d < DIGITS * tiles; d++) {
    const uint value = counts[d];
    counts[d] = before;
    before += value;
  }
}

__kernel void radix_move(PASS, __global ulong* to, long to_o, ROW_TENSOR(RAW, y), ROW_TENSOR(INDEX, i), int k) {
  uint starts[DIGITS];
  const int tile = (int)get_group_id(0), row = (int)get_group_id(1);
  const long x_row = ROW_OFFSET(x, row);
  const int begin = tile * tile_size, end = begin + min(tile_size, n - begin);
  for (int d = 0; d < DIGITS; d++) starts[d] = counts[counts_o + ((long)row * DIGITS + d) * tiles + tile];
#if LAST
  const long y_row = HAS_Y ? ROW_OFFSET(y, row) : 0, i_row = HAS_INDICES ? ROW_OFFSET(i, row) : 0;
#else
  __global Word* out = WORDS_IN(, to) + (long)row * n;
#endif
  for (int e = begin; e < end; e++) {
    const Word w = WORD_AT(e);
    const int place = (int)starts[DIGIT(w)]++;
#if LAST
    if (place < k) STORE_WORD(w, place)
#else
    out[place] = w;
#endif
  }
}
