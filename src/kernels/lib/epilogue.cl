// What GEMM and convolution do to a sum before it is stored: scale it, add a bias and a residual, apply an activation.
//   v = SCALED(sum, m, n)       alpha * sum, times one factor for each column (SCALE 1) or row (SCALE 2);
//   FINISH(v, m, n, at)         activation(v + bias + residual), BIAS: 0 none, 1 one value per column (a row of
//                               them), 2 one value per row. `at` is where the element lies in C, counted from C's
//                               first: the residual (RESIDUAL 1) lies alike, and so does what the value was before
//                               the activation, which PREACTIVATION 1 stores.
//   FINISH_WITH(v, m, n, at, r) the same where the residual was loaded before; r does not count without one.
// v is a REAL. Where REAL is a vector, n and `at` are those of its first element, and ROW_SCALE, ROW_BIAS,
// LOAD_RESIDUAL and KEEP have to move whole vectors.
#include "lib/activation.cl"

#ifndef BIAS
#define BIAS 0
#endif
#ifndef SCALE
#define SCALE 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
#ifndef PREACTIVATION
#define PREACTIVATION 0
#endif

#ifndef EPILOGUE_STORAGE
#define EPILOGUE_STORAGE float
#define LOAD_EPILOGUE(p, i) (p)[i]
#define STORE_EPILOGUE(p, i, v) ((p)[i] = (v))
#endif
// Of alpha and beta; the host's side is epilogue.hpp.
#ifndef EPILOGUE_FACTOR
#define EPILOGUE_FACTOR float
#endif
#define EPILOGUE_POINTERS(qualifier)                                                         \
  EPILOGUE_FACTOR alpha, EPILOGUE_FACTOR beta, __global const EPILOGUE_STORAGE *qualifier bias, long bias_offset, \
      __global const EPILOGUE_STORAGE *qualifier scale, long scale_offset,                   \
      __global const EPILOGUE_STORAGE *qualifier residual, long residual_offset,             \
      __global EPILOGUE_STORAGE *qualifier preactivation, long preactivation_offset
#define EPILOGUE_PARAMETERS EPILOGUE_POINTERS(restrict)
// Of functions that kernels call: inlining `restrict` leaves intrinsics behind that Oclgrind does not know.
#define EPILOGUE_VALUES EPILOGUE_POINTERS()

#ifndef ROW_BIAS
#define ROW_BIAS(n) LOAD_EPILOGUE(bias, bias_offset + (n))
#endif
#ifndef COLUMN_BIAS
#define COLUMN_BIAS(m) LOAD_EPILOGUE(bias, bias_offset + (m))
#endif
#ifndef ROW_SCALE
#define ROW_SCALE(n) LOAD_EPILOGUE(scale, scale_offset + (n))
#endif
#ifndef COLUMN_SCALE
#define COLUMN_SCALE(m) LOAD_EPILOGUE(scale, scale_offset + (m))
#endif
#ifndef LOAD_RESIDUAL
#define LOAD_RESIDUAL(at) LOAD_EPILOGUE(residual, residual_offset + (at))
#endif
#if PREACTIVATION && !defined(KEEP)
static REAL keep(__global EPILOGUE_STORAGE* at, REAL v) {
  STORE_EPILOGUE(at, 0, v);
  return v;
}
#define KEEP(v, at) keep(preactivation + preactivation_offset + (at), v)
#endif

#if SCALE == 1
#define SCALED(v, m, n) ((REAL)alpha * (v) * ROW_SCALE(n))
#elif SCALE == 2
#define SCALED(v, m, n) ((REAL)alpha * (v) * COLUMN_SCALE(m))
#else
#define SCALED(v, m, n) ((REAL)alpha * (v))
#endif

#if BIAS == 1
#define BIASED(v, m, n) ((v) + ROW_BIAS(n))
#elif BIAS == 2
#define BIASED(v, m, n) ((v) + COLUMN_BIAS(m))
#else
#define BIASED(v, m, n) (v)
#endif
#if RESIDUAL
#define WITH_RESIDUAL(v, r) ((v) + (r))
#else
#define WITH_RESIDUAL(v, r) (v)
#endif
#if PREACTIVATION
#define FINISH_WITH(v, m, n, at, r) ACTIVATE(KEEP(WITH_RESIDUAL(BIASED(v, m, n), r), at))
#else
#define FINISH_WITH(v, m, n, at, r) ACTIVATE(WITH_RESIDUAL(BIASED(v, m, n), r))
#endif
#define FINISH(v, m, n, at) FINISH_WITH(v, m, n, at, LOAD_RESIDUAL(at))
