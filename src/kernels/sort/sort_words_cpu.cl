// Sorting a run of words by one work-item.

#include "sort/sort_word.cl"

#define DIGITS 256
#define PASSES (RAW_BITS / 8)

static void insertion_sort(__global Word* a, int n) {
  for (int e = 1; e < n; e++) {
    const Word w = a[e];
    int place = e;
    for (; place > 0 && LESS(w, a[place - 1]); place--) a[place] = a[place - 1];
    a[place] = w;
  }
}

// Sorts a[0, n) and says where the result is, in a or in b. Words of equal keys have to come in the order of their
// indices. A pass whose digit is the same in all words is left out.
static __global Word* sort_words(__global Word* a, __global Word* b, int n) {
  if (n <= 32) {
    insertion_sort(a, n);
    return a;
  }
  uint counts[PASSES * DIGITS];
  for (int d = 0; d < PASSES * DIGITS; d++) counts[d] = 0;
  for (int e = 0; e < n; e++) {
    const Key key = KEY_OF(a[e]);
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) counts[pass * DIGITS + ((int)(key >> (8 * pass)) & (DIGITS - 1))]++;
  }
  for (int pass = 0; pass < PASSES; pass++) {
    uint* starts = counts + pass * DIGITS;
    const int shift = 8 * pass;
    if (starts[(int)(KEY_OF(a[0]) >> shift) & (DIGITS - 1)] == (uint)n) continue;
    uint before = 0;
    for (int d = 0; d < DIGITS; d++) {
      const uint count = starts[d];
      starts[d] = before;
      before += count;
    }
    for (int e = 0; e < n; e++) {
      const Word w = a[e];
      b[starts[(int)(KEY_OF(w) >> shift) & (DIGITS - 1)]++] = w;
    }
    __global Word* other = a;
    a = b;
    b = other;
  }
  return a;
}
