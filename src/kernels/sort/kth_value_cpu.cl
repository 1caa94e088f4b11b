// One element of each row by its place in the sorted row, on a CPU: the digits of its key, the highest first. Of a row's
// keys those with the digit in which the place lies stay, until few are left. The element is the first one with the key.

#include "sort/sort_word.cl"

#ifndef MEDIAN
#define MEDIAN 0  // 1: as torch.median, 2: as torch.nanmedian
#endif
#define MOST_BITS 11

// The key with `rank` keys before it. a[0, n) is overwritten.
static Key select_key(__global Key* a, int n, int rank) {
  int shift = RAW_BITS;
  while (n > 32 && shift > 0) {
    const int bits = min(n > 2048 ? MOST_BITS : 8, shift), mask = (1 << bits) - 1;
    uint counts[1 << MOST_BITS];
    shift -= bits;
    for (int d = 0; d <= mask; d++) counts[d] = 0;
    for (int e = 0; e < n; e++) counts[(int)(a[e] >> shift) & mask]++;
    int digit = 0;
    // Without its bound a driver makes a wrong loop of it.
    for (; digit < mask && rank >= (int)counts[digit]; digit++) rank -= (int)counts[digit];
    int found = 0;
    for (int e = 0; e < n; e++) {
      const Key key = a[e];
      a[found] = key;
      found += ((int)(key >> shift) & mask) == digit;
    }
    n = found;
  }
  for (int e = 0; shift > 0 && e < n; e++) {
    int below = 0, equal = 0;
    for (int other = 0; other < n; other++) {
      below += a[other] < a[e];
      equal += a[other] == a[e];
    }
    if (below <= rank && rank < below + equal) return a[e];
  }
  return a[0];  // all digits are found: they are equal
}

#define KEY_AT(e) key_of(x[x_row + (e)*x_s.axis], 0)

// `space` has room for n keys of each work-item, which takes `block` rows. k counts from 0.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void kth_rows(ROW_TENSOR(const RAW, x), ROW_TENSOR(RAW, y),
                                                                      ROW_TENSOR(INDEX, i), ROW_SIZES, int rows, int n,
                                                                      int k, int block, __global Key* space,
                                                                      long space_o) {
  const int begin = (int)get_group_id(0) * block, end = begin + min(block, rows - begin);
  __global Key* keys = space + space_o + (long)get_group_id(0) * n;
  for (int row = begin; row < end; row++) {
    const long x_row = ROW_OFFSET(x, row);
    if (x_s.axis == 1) {
      for (int e = 0; e < n; e++) keys[e] = key_of(x[x_row + e], 0);
    } else {
      for (int e = 0; e < n; e++) keys[e] = KEY_AT(e);
    }
    int nans = 0, rank = k;
#if MEDIAN && KIND == 2
    for (int e = 0; e < n; e++) nans += keys[e] == ALL;
    if (MEDIAN == 1 && nans > 0) rank = n - nans;
    if (MEDIAN == 2) rank = max(0, n - nans - 1) / 2;
#endif
    const Key wanted = select_key(keys, n, rank);
    int place = 0;
    for (int any = 0; place + 16 <= n; place += 16) {
      for (int l = 0; l < 16; l++) any |= KEY_AT(place + l) == wanted;
      if (any) break;
    }
    while (place < n - 1 && KEY_AT(place) != wanted) place++;
    if (HAS_Y) y[ROW_OFFSET(y, row)] = x[x_row + place * x_s.axis];
    if (HAS_INDICES) i[ROW_OFFSET(i, row)] = (INDEX)place;
  }
}
