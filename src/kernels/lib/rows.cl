// Rows: kernels that work along one axis of several tensors. What they share: how tensors and sizes are handed over, and where
// a row lies. The host's side is src/ops/lib/rows.hpp.
// A tensor is its buffer, the offset of its element 0, and its strides.

#include "lib/types.cl"
#include "lib/int64.h"
#include "lib/rows.h"

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

#define LOAD(dtype, p, i) JOIN(LOAD_, dtype)(p, i)
#define STORE(dtype, p, i, v) JOIN(STORE_, dtype)(p, i, v)

#define TENSOR(type, t) __global type *t, long t##_o, RowStrides t##_s
// The number of rows, and the elements in each.
#define ROW_SIZES long rows, long size, RowKept kept

// The coordinates of row `row`.
#define COORDINATES(row)                                                                                                      \
  const INDEX r0_ = (INDEX)(row), r1_ = RANK > 1 ? r0_ / (INDEX)kept.size[0] : 0;                                             \
  const INDEX r2_ = RANK > 2 ? r1_ / (INDEX)kept.size[1] : 0, r3_ = RANK > 3 ? r2_ / (INDEX)kept.size[2] : 0;                 \
  const INDEX c0_ = RANK > 1 ? r0_ - r1_ * (INDEX)kept.size[0] : r0_, c1_ = RANK > 2 ? r1_ - r2_ * (INDEX)kept.size[1] : r1_, \
              c2_ = RANK > 3 ? r2_ - r3_ * (INDEX)kept.size[2] : r2_;
// Where that row of `t` starts.
#define ROW_OF(t)                                                                                                                          \
  ((t) + t##_o + (c0_ * (INDEX)t##_s.kept[0] + (RANK > 1 ? c1_ * (INDEX)t##_s.kept[1] : 0) + (RANK > 2 ? c2_ * (INDEX)t##_s.kept[2] : 0) + \
                  (RANK > 3 ? r3_ * (INDEX)t##_s.kept[3] : 0)))
