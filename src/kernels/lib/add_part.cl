// Adds `part` to a sum; `low` is what rounding has left out so far (Kahan), so that a sum of parts errs no more for having more
// of them. An infinity stays one.
#ifndef REAL
#define REAL float
#endif
#define ADD_PART(sum, low, part)                                        \
  {                                                                     \
    const REAL more_ = (part) - (low), all_ = (sum) + more_;            \
    const REAL lost_ = (all_ - (sum)) - more_;                          \
    low = lost_ - lost_ == 0 ? lost_ : 0;                               \
    sum = all_;                                                         \
  }
