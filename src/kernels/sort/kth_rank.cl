// Which place of a sorted row a k-th value or median has.

#include "sort/sort_word.cl"

#ifndef MEDIAN
#define MEDIAN 0  // 1: as torch.median, 2: as torch.nanmedian
#endif
#define RANKS (MEDIAN && KIND == 2)  // places depend on how many NaNs there are

// The place, from 1 on.
static uint rank_of(int n, uint nans, int k) {
#if RANKS
  if (MEDIAN == 1 && nans > 0) return (uint)n - nans + 1;
  if (MEDIAN == 2) return ((uint)max(0, n - (int)nans - 1)) / 2 + 1;
#endif
  return (uint)k + 1;
}
