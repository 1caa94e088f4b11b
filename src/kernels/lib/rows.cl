// Rows: kernels that work along one axis of several tensors. What they share: how tensors and sizes are handed over, and where
// a row lies. The host's side is src/ops/lib/rows.hpp.
// A tensor is its buffer, the offset of its element 0, its stride along the axis, and those of up to four kept dimensions, the
// innermost first; strides are 0 where it broadcasts.

#include "lib/types.cl"

#ifndef INDEX  // of elements: uint, or ulong for large tensors
#define INDEX uint
#endif
#ifndef RANK  // kept dimensions
#define RANK 1
#endif
#ifndef REAL  // what is computed in: float or double
#define REAL float
#endif
#define real REAL
#include "lib/add_part.cl"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define LOAD(dtype, p, i) JOIN(LOAD_, dtype)(p, i)
#define STORE(dtype, p, i, v) JOIN(STORE_, dtype)(p, i, v)

#define TENSOR(type, t) \
  __global type *t, long t##_o, long t##_a, long t##_0, long t##_1, long t##_2, long t##_3
// The number of rows, elements in each, and the inner kept sizes.
#define ROW_SIZES long rows, long size, long n0, long n1, long n2

// The coordinates of row `row`.
#define COORDINATES(row)                                                                            \
  const INDEX r0_ = (INDEX)(row), r1_ = RANK > 1 ? r0_ / (INDEX)n0 : 0;                             \
  const INDEX r2_ = RANK > 2 ? r1_ / (INDEX)n1 : 0, r3_ = RANK > 3 ? r2_ / (INDEX)n2 : 0;           \
  const INDEX c0_ = RANK > 1 ? r0_ - r1_ * (INDEX)n0 : r0_, c1_ = RANK > 2 ? r1_ - r2_ * (INDEX)n1 : r1_, \
              c2_ = RANK > 3 ? r2_ - r3_ * (INDEX)n2 : r2_;
// Where that row of `t` starts.
#define ROW_OF(t)                                                                                       \
  ((t) + t##_o + (c0_ * (INDEX)t##_0 + (RANK > 1 ? c1_ * (INDEX)t##_1 : 0) + (RANK > 2 ? c2_ * (INDEX)t##_2 : 0) + \
                  (RANK > 3 ? r3_ * (INDEX)t##_3 : 0)))
