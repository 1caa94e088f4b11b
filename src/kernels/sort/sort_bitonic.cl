// Sorts rows of up to ROW elements, a power of two from 8 on, in local memory: bitonic merging. A work-item holds
// eight words at a time in registers, so that three steps of the network cost one exchange through local memory. A
// work-group of GROUP items takes 8 * GROUP / ROW rows. With FROM_WORDS it sorts words that another kernel made. With ONE
// only the element at place k is written, as kth_value.cl does, or the median.

#include "sort/kth_rank.cl"

#ifndef LOG_ROW
#define LOG_ROW 8
#endif
#ifndef GROUP
#define GROUP 32
#endif
#ifndef FROM_WORDS
#define FROM_WORDS 0
#endif
#ifndef ONE
#define ONE 0
#endif
#ifndef ACROSS  // elements of one place lie side by side in memory, those of a row do not
#define ACROSS 0
#endif
#define ROW (1 << LOG_ROW)
#define WORDS (8 * GROUP)
#define ROWS (WORDS / ROW)

// The row and the column that work-items take one after the other, so that neighbours are neighbours in memory.
#if ACROSS
#define ROW_OF(e) ((e) & (ROWS - 1))
#define COLUMN_OF(e) ((e) / ROWS)
#else
#define ROW_OF(e) ((e) >> LOG_ROW)
#define COLUMN_OF(e) ((e) & (ROW - 1))
#endif

// One in eight is left free, or work-items with eight neighbouring words each would meet in the same banks.
#define AT(e) ((e) + ((e) >> 3))

// Puts v[a] and v[b] in order, or in the opposite one.
#define EXCHANGE(a, b, opposite)                     \
  {                                                  \
    const Word p_ = v[a], q_ = v[b];                 \
    const int swap_ = LESS(q_, p_) != ((opposite) != 0); \
    v[a] = swap_ ? q_ : p_;                          \
    v[b] = swap_ ? p_ : q_;                          \
  }
#define EXCHANGES_4(o) EXCHANGE(0, 4, o) EXCHANGE(1, 5, o) EXCHANGE(2, 6, o) EXCHANGE(3, 7, o)
#define EXCHANGES_2(o0, o4) EXCHANGE(0, 2, o0) EXCHANGE(1, 3, o0) EXCHANGE(4, 6, o4) EXCHANGE(5, 7, o4)
#define EXCHANGES_1(o0, o2, o4, o6) EXCHANGE(0, 1, o0) EXCHANGE(2, 3, o2) EXCHANGE(4, 5, o4) EXCHANGE(6, 7, o6)

#define TAKE_EIGHT                  \
  for (int m = 0; m < 8; m++) v[m] = words[AT(base + (m << bit))];
#define PUT_EIGHT                   \
  for (int m = 0; m < 8; m++) words[AT(base + (m << bit))] = v[m];

// How many of a sorted row's n keys are below `key`.
static int below(__local const Word* words, int first, int n, Key key) {
  int low = 0, high = n;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (KEY_OF(words[AT(first + middle)]) < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sort_bitonic(ROW_TENSOR(const RAW, x), ROW_TENSOR(RAW, y), ROW_TENSOR(INDEX, i), ROW_SIZES, int flip, int rows, int n, int k,
                  __global const ulong* from, long from_o) {
  __local Word words[AT(WORDS)];
  const int item = (int)get_local_id(0), first_row = (int)get_group_id(0) * ROWS;
  for (int e = item; e < WORDS; e += GROUP) {
    const int row = first_row + ROW_OF(e), column = COLUMN_OF(e);
    Word w = last_word();
    if (row < rows && column < n) {
#if FROM_WORDS
      w = WORDS_IN(const, from)[(long)row * n + column];
#else
      w = word_of(key_of(x[ROW_OFFSET(x, row) + column * x_s.axis], flip), (uint)column);
#endif
    }
    words[AT(ROW_OF(e) * ROW + column)] = w;
  }
  barrier(CLK_LOCAL_MEM_FENCE);

  // Blocks of 2, 4 and 8; those with an odd number of a size come out descending.
  Word v[8];
  {
    const int bit = 0, base = item * 8;
    const int descends = LOG_ROW > 3 ? item & 1 : 0;
    TAKE_EIGHT
    EXCHANGES_1(0, 1, 0, 1)
    EXCHANGES_2(0, 1)
    EXCHANGES_1(0, 0, 1, 1)
    EXCHANGES_4(descends)
    EXCHANGES_2(descends, descends)
    EXCHANGES_1(descends, descends, descends, descends)
    PUT_EIGHT
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int size = 4; size <= LOG_ROW; size++)
    for (int top = size - 1; top >= 0; top -= 3) {
      // Steps over 2^top, and the two below it, move bits bit..bit + 2 of a word's place.
      const int bit = max(top - 2, 0), steps = top - bit;
      const int base = (item >> bit << (bit + 3)) | (item & ((1 << bit) - 1));
      const int descends = size < LOG_ROW ? base >> size & 1 : 0;
      TAKE_EIGHT
      if (steps == 2) { EXCHANGES_4(descends) }
      if (steps >= 1) { EXCHANGES_2(descends, descends) }
      EXCHANGES_1(descends, descends, descends, descends)
      PUT_EIGHT
      barrier(CLK_LOCAL_MEM_FENCE);
    }

#if ONE
  for (int r = item; r < ROWS && first_row + r < rows; r += GROUP) {
    const int row = first_row + r, first = r * ROW;
    const uint nans = RANKS ? (uint)(n - below(words, first, n, ALL)) : 0;
    const Key key = KEY_OF(words[AT(first + (int)rank_of(n, nans, k) - 1)]);
    const Word w = words[AT(first + below(words, first, n, key))];
    const long x_row = ROW_OFFSET(x, row), y_row = HAS_Y ? ROW_OFFSET(y, row) : 0;
    const long i_row = HAS_INDICES ? ROW_OFFSET(i, row) : 0;
    STORE_WORD(w, 0)
  }
#else
  for (int e = item; e < WORDS; e += GROUP) {
    const int row = first_row + ROW_OF(e), column = COLUMN_OF(e);
    if (row >= rows || column >= k) continue;
    const Word w = words[AT(ROW_OF(e) * ROW + column)];
    const long x_row = ROW_OFFSET(x, row), y_row = HAS_Y ? ROW_OFFSET(y, row) : 0;
    const long i_row = HAS_INDICES ? ROW_OFFSET(i, row) : 0;
    STORE_WORD(w, column)
  }
#endif
}
