// The negative log-likelihood: picking each row's term, and handing its gradient back. A work-item takes `block` rows. The sums
// over rows are generated reductions.

#include "lib/rows.cl"
#include "loss/class_loss.cl"

#ifndef A_DTYPE  // of the logarithms, or backward of their gradient
#define A_DTYPE f32
#define A_T float
#endif
#ifndef TERMS  // the terms are wanted, not only the weights
#define TERMS 1
#endif

#define MY_ROWS                                                                           \
  const INDEX end = (INDEX)min((long)(get_global_id(0) + 1) * block, rows);               \
  for (INDEX row = (INDEX)get_global_id(0) * (INDEX)block; row < end; row++)

// y: -w[c] x[c], s: w[c].
__kernel void nll_pick(TENSOR(const A_T, a), TENSOR(const T_T, t), TENSOR(const W_T, w), TENSOR(L_T, y), TENSOR(real, s),
                       ROW_SIZES, long ignore, long block) {
  w += w_o;
  MY_ROWS {
    COORDINATES(row)
    CLASS_OF(ROW_OF(t), 0, w)
    if (TERMS) STORE(L_DTYPE, ROW_OF(y), 0, counts ? -row_weight * LOAD(A_DTYPE, ROW_OF(a), (INDEX)c * (INDEX)a_s.axis) : 0);
    if (MEAN) *ROW_OF(s) = row_weight;
  }
}

// a, elsewhere 0 already: -w[c] y, of a mean divided by s, the sum of the weights.
__kernel void nll_scatter(TENSOR(A_T, a), TENSOR(const T_T, t), TENSOR(const W_T, w), TENSOR(const L_T, y),
                          TENSOR(const real, s), ROW_SIZES, long ignore, long block) {
  w += w_o;
  MY_ROWS {
    COORDINATES(row)
    CLASS_OF(ROW_OF(t), 0, w)
    const real dloss = LOAD(L_DTYPE, ROW_OF(y), 0);
    if (counts) STORE(A_DTYPE, ROW_OF(a), (INDEX)c * (INDEX)a_s.axis, -row_weight * (MEAN ? dloss / *ROW_OF(s) : dloss));
  }
}
