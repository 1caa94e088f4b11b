// What GEMM and convolution do to a sum before it is stored: add a bias, apply an activation.
// BIAS: 0 none, 1 one value per column (a row of them), 2 one value per row (a column of them).
// FINISH(v, m, n) is the result for row m and column n; v is a REAL. Where REAL is a vector, n is the column
// of its first element, and ROW_BIAS(n) has to load a whole vector.
#include "activation.cl"

#ifndef BIAS
#define BIAS 0
#endif

#ifndef BIAS_STORAGE
#define BIAS_STORAGE float
#define LOAD_BIAS(i) bias[i]
#endif
#define EPILOGUE_PARAMETERS \
  float alpha, float beta, __global const BIAS_STORAGE *restrict bias, long bias_offset

#ifndef ROW_BIAS
#define ROW_BIAS(n) LOAD_BIAS(bias_offset + (n))
#endif
#ifndef COLUMN_BIAS
#define COLUMN_BIAS(m) LOAD_BIAS(bias_offset + (m))
#endif

#if BIAS == 1
#define FINISH(v, m, n) ACTIVATE((v) + ROW_BIAS(n))
#elif BIAS == 2
#define FINISH(v, m, n) ACTIVATE((v) + COLUMN_BIAS(m))
#else
#define FINISH(v, m, n) ACTIVATE(v)
#endif
