// Sorts rows on a CPU. sort_rows: a work-item takes one row of a block after the other. sort_lanes: rows of up to 128
// elements, LANES of them side by side through Batcher's odd-even merging network (Knuth, vol. 3, 5.2.2 M), as vectors.

#include "sort/sort_words_cpu.cl"

#ifndef IN_LANES  // which of the two is wanted
#define IN_LANES 0
#endif

#define ROWS_OF_TENSORS \
  ROW_TENSOR(const RAW, x), ROW_TENSOR(RAW, y), ROW_TENSOR(INDEX, i), ROW_SIZES, int flip, int rows, int n, int k, int block

#if !IN_LANES
// `space` has room for 2 n words of each work-item.
__kernel void sort_rows(ROWS_OF_TENSORS, __global ulong* space, long space_o) {
  const int begin = (int)get_global_id(0) * block, end = begin + min(block, rows - begin);
  __global Word* words = WORDS_IN(, space) + (long)get_global_id(0) * 2 * n;
  for (int row = begin; row < end; row++) {
    const long x_row = ROW_OFFSET(x, row);
    const long y_row = HAS_Y ? ROW_OFFSET(y, row) : 0, i_row = HAS_INDICES ? ROW_OFFSET(i, row) : 0;
    if (x_s.axis == 1)
      for (int e = 0; e < n; e++) words[e] = word_of(key_of(x[x_row + e], flip), (uint)e);
    else
      for (int e = 0; e < n; e++) words[e] = word_of(key_of(x[x_row + e * x_s.axis], flip), (uint)e);
    __global const Word* sorted = sort_words(words, words + n, n);
    for (int e = 0; e < k; e++) {
      const Word w = sorted[e];
      STORE_WORD(w, e)
    }
  }
}

#else
#define LONGEST 128
#if WORD_BITS == 32
#define LANES 16
typedef uint16 Lanes;
#define LOAD_LANES vload16
#define STORE_LANES vstore16
#else
#define LANES 8
typedef ulong8 Lanes;
#define LOAD_LANES vload8
#define STORE_LANES vstore8
#endif

static void sort_network(Lanes* v, int n) {
  for (int p = 1; p < n; p *= 2)
    for (int step = p; step >= 1; step /= 2)
      for (int first = step & (p - 1); first + step < n; first += 2 * step) {
        const int last = first + min(step, n - first - step);
        for (int e = first; e < last; e++)
          if (e / (2 * p) == (e + step) / (2 * p)) {
            const Lanes a = v[e], b = v[e + step];
            v[e] = min(a, b);
            v[e + step] = max(a, b);
          }
      }
}

__kernel void sort_lanes(ROWS_OF_TENSORS) {
  const int begin = (int)get_global_id(0) * block, end = begin + min(block, rows - begin);
  Word words[LONGEST * LANES];
  Lanes v[LONGEST];
  for (int first = begin; first < end; first += LANES) {
    const int count = min(LANES, end - first);
    for (int lane = 0; lane < LANES; lane++) {
      const long x_row = ROW_OFFSET(x, first + min(lane, count - 1));
      for (int e = 0; e < n; e++) words[e * LANES + lane] = word_of(key_of(x[x_row + e * x_s.axis], flip), (uint)e);
    }
    for (int e = 0; e < n; e++) v[e] = LOAD_LANES(e, words);
    sort_network(v, n);
    for (int e = 0; e < k; e++) STORE_LANES(v[e], e, words);
    for (int lane = 0; lane < count; lane++) {
      const long x_row = ROW_OFFSET(x, first + lane);
      const long y_row = HAS_Y ? ROW_OFFSET(y, first + lane) : 0, i_row = HAS_INDICES ? ROW_OFFSET(i, first + lane) : 0;
      for (int e = 0; e < k; e++) {
        const Word w = words[e * LANES + lane];
        STORE_WORD(w, e)
      }
    }
  }
}
#endif
