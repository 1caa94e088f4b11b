// How scattered elements that meet are folded: FOLD(a, v) of two numbers of type ACC. The operation is OPERATION:
// last (it stays), sum, prod, mean (a sum that divided_by() makes one), smallest or largest, which pass NaN on.
#include "lib/types.cl"

#ifndef OPERATION
#define OPERATION sum
#define ACC float
#define DTYPE f32  // the table's
#define T float
#define S_DTYPE f32  // the dense tensor's
#define S float
#define IDENTITY 0
#define MEAN 0
#define FLOATING 1
#define INCLUDE_SELF 1  // the place's old value takes part
#define RESETS 0        // places start from IDENTITY
#endif

#define FOLD_last(a, v) (v)
#define FOLD_sum(a, v) ((a) + (v))
#define FOLD_mean(a, v) ((a) + (v))
#define FOLD_prod(a, v) ((a) * (v))
#define FOLD_smallest(a, v) ((a) <= (v) || (a) != (a) ? (a) : (v))
#define FOLD_largest(a, v) ((a) >= (v) || (a) != (a) ? (a) : (v))
#define FOLD(a, v) JOIN(FOLD_, OPERATION)(a, v)
#define LOAD(p, i) JOIN(LOAD_, DTYPE)(p, i)
#define LOAD_DENSE(p, i) JOIN(LOAD_, S_DTYPE)(p, i)
#define STORE(p, i, v) JOIN(STORE_, DTYPE)(p, i, v)

// A mean of integers is rounded down.
static ACC divided_by(ACC sum, ACC count) {
#if FLOATING
  return sum / count;
#else
  const ACC quotient = sum / count;
  return quotient - (quotient * count > sum);
#endif
}
