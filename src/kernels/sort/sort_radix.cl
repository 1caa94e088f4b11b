// Sorts long rows by eight bits of the key after the other, the lowest first; each pass keeps the order of equal digits.
// A row is cut into tiles of GROUP * EACH words. A pass is three kernels: radix_count counts the digits of each tile,
// radix_scan adds them up over a row's tiles, radix_move sorts a tile by its digit in local memory and writes its runs
// where they belong. The first pass makes the words, the last one writes elements and indices.

#include "sort/sort_digits.cl"
#include "sort/sort_word.cl"

#ifndef EACH  // words of a work-item, a power of two
#define EACH 16
#endif
#ifndef FIRST
#define FIRST 0
#endif
#ifndef LAST
#define LAST 0
#endif
#define TILE (GROUP * EACH)
#define DIGITS 256
#define DIGITS_EACH (DIGITS / GROUP)
#define DIGIT(w) ((int)(KEY_OF(w) >> shift) & (DIGITS - 1))

// Without holes the EACH neighbouring words of work-items would lie in the same banks.
#define AT(e) ((e) + (e) / EACH)

#if FIRST
#define WORD_AT(e) WORD_OF(x[x_row + (e) * x_s.axis], e)
#else
#define WORD_AT(e) WORDS_IN(const, from)[(long)row * n + (e)]
#endif

#define PASS                                                                                              \
  ROW_TENSOR(const RAW, x), ROW_SIZES, int flip, __global const ulong *from, long from_o, __global uint *counts,     \
      long counts_o, int n, int tiles, int shift

// counts[row][digit][tile]
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_count(PASS) {
  __local uint found[DIGITS];
  const int item = (int)get_local_id(0), tile = (int)get_group_id(0), row = (int)get_group_id(1);
  const long x_row = FIRST ? ROW_OFFSET(x, row) : 0;
  for (int d = item; d < DIGITS; d += GROUP) found[d] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const int begin = tile * TILE, count = min(TILE, n - begin);
  Word v[EACH];
#pragma unroll
  for (int m = 0; m < EACH; m++) v[m] = WORD_AT(begin + min(item + m * GROUP, count - 1));
#pragma unroll
  for (int m = 0; m < EACH; m++)
    if (item + m * GROUP < count) atomic_inc(&found[DIGIT(v[m])]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = item; d < DIGITS; d += GROUP) counts[counts_o + ((long)row * DIGITS + d) * tiles + tile] = found[d];
}

// Each row's counts of a digit become the sums over the tiles before; totals[row][digit] the sum over all. A group has
// `lanes` items for each of its digits.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_scan(__global uint* counts, long counts_o, __global uint* totals, long totals_o, int tiles, int lanes) {
  __local uint sums[GROUP];
  const int item = (int)get_local_id(0), lane = item & (lanes - 1);
  const long digit = (long)get_group_id(0) * (GROUP / lanes) + item / lanes;
  counts += counts_o + digit * tiles;
  uint before = 0;
  for (int first = 0; first < tiles; first += lanes) {
    const uint value = first + lane < tiles ? counts[first + lane] : 0;
    uint sum = value;
    for (int step = 1; step < lanes; step *= 2) {
      sums[item] = sum;
      barrier(CLK_LOCAL_MEM_FENCE);
      sum += lane >= step ? sums[item - step] : 0;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (first + lane < tiles) counts[first + lane] = before + sum - value;
    sums[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    before += sums[item | (lanes - 1)];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) totals[totals_o + digit] = before;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_move(PASS, __global const uint* totals, long totals_o, __global ulong* to, long to_o, ROW_TENSOR(RAW, y),
                ROW_TENSOR(INDEX, i), int k) {
  __local Word words[AT(TILE)];
  __local Ranks ranks;
  __local uint sums[2 * GROUP], starts[DIGITS];
  const int item = (int)get_local_id(0), tile = (int)get_group_id(0), row = (int)get_group_id(1);
  const long x_row = ROW_OFFSET(x, row);
  const int begin = tile * TILE, count = min(TILE, n - begin);
#pragma unroll
  for (int m = 0; m < EACH; m++) {
    const int e = item + m * GROUP;
    words[AT(e)] = WORD_AT(begin + min(e, count - 1));
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // By the lower half of the digit, then by the upper one. What fills the last tile stays behind all others.
#define NIBBLE(m) (item * EACH + (m) < count ? (int)(KEY_OF(v[m]) >> half_shift) & 15 : 15)
  for (int half_shift = shift; half_shift < shift + 8; half_shift += 4) {
    Word v[EACH];
#pragma unroll
    for (int m = 0; m < 16; m++) ranks.of[m * GROUP + item] = 0;
#pragma unroll
    for (int m = 0; m < EACH; m++) {
      v[m] = words[AT(item * EACH + m)];
      ranks.of[NIBBLE(m) * GROUP + item]++;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    place_digits(&ranks, sums);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int m = 0; m < EACH; m++) {
      const int place = ranks.of[NIBBLE(m) * GROUP + item]++;
      words[AT(place)] = v[m];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  // A digit's run starts behind all smaller digits of the row and its own of the tiles before.
  uint before = 0, total;
#pragma unroll
  for (int m = 0; m < DIGITS_EACH; m++) before += totals[totals_o + (long)row * DIGITS + item * DIGITS_EACH + m];
  before = sum_before(before, sums, &total);
#pragma unroll
  for (int m = 0; m < DIGITS_EACH; m++) {
    const int d = item * DIGITS_EACH + m;
    starts[d] = before + counts[counts_o + ((long)row * DIGITS + d) * tiles + tile];
    before += totals[totals_o + (long)row * DIGITS + d];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = item; e < count; e += GROUP) {
    const int d = DIGIT(words[AT(e)]);
    if (e == 0 || DIGIT(words[AT(e - 1)]) != d) starts[d] -= (uint)e;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#if LAST
  const long y_row = HAS_Y ? ROW_OFFSET(y, row) : 0, i_row = HAS_INDICES ? ROW_OFFSET(i, row) : 0;
#endif
#pragma unroll 4
  for (int e = item; e < count; e += GROUP) {
    const Word w = words[AT(e)];
    const int place = (int)(starts[DIGIT(w)] + (uint)e);
#if LAST
    if (place < k) STORE_WORD(w, place)
#else
    WORDS_IN(, to)[(long)row * n + place] = w;
#endif
  }
}
