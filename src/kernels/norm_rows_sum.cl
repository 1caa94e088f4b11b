// A sum over a row on a CPU, in LANES sums that compilers hold in vector registers; these start anew after
// BLOCK elements, and `low_` is what rounding has left out of the blocks' sum (Kahan), so that errors do not grow with the row.
#ifndef REAL
#define REAL float
#endif
#define LANES 32
#define BLOCK 2048

// `term` is an expression of i.
#define ROW_SUM(result, length, term)                               \
  {                                                                 \
    result = 0;                                                     \
    REAL low_ = 0;                                                  \
    for (int start_ = 0; start_ < (length); start_ += BLOCK) {      \
      const int end_ = min(start_ + BLOCK, length);                 \
      REAL sums_[LANES];                                            \
      for (int l = 0; l < LANES; l++) sums_[l] = 0;                 \
      int j_ = start_;                                              \
      for (; j_ + LANES <= end_; j_ += LANES)                       \
        for (int l = 0; l < LANES; l++) {                           \
          const int i = j_ + l;                                     \
          sums_[l] += term;                                         \
        }                                                           \
      for (int l = 0; l < end_ - j_; l++) {                         \
        const int i = j_ + l;                                       \
        sums_[l] += term;                                           \
      }                                                             \
      for (int half_ = LANES / 2; half_ > 0; half_ /= 2)            \
        for (int l = 0; l < half_; l++) sums_[l] += sums_[l + half_]; \
      const REAL more_ = sums_[0] - low_, all_ = result + more_, lost_ = (all_ - result) - more_; \
      low_ = lost_ - lost_ == 0 ? lost_ : 0;                        \
      result = all_;                                                \
    }                                                               \
  }
