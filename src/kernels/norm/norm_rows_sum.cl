// A sum over a row on a CPU, in LANES sums that compilers hold in vector registers; these start anew after
// BLOCK elements, so that errors do not grow with the row.
#include "lib/add_part.cl"
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
      ADD_PART(result, low_, sums_[0])                              \
    }                                                               \
  }
