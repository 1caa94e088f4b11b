// Activations as functions of one value: the same text in GEMM, convolution and pointwise kernels.
// REAL: float, double (with DOUBLE_REAL), or a vector of them. ACTIVATION, a function's name, makes ACTIVATE(v).
// The elementwise functions of the same names have the same formulas (elementwise_list.cpp).

#include "lib/normal_cdf.cl"

#ifndef REAL
#define REAL float
#endif

static REAL identity(REAL v) {
  return v;
}
// Written so that NaN passes through: a comparison with NaN is false.
static REAL relu(REAL v) {
  return v <= 0 ? (REAL)0 : v;
}
static REAL relu6(REAL v) {
  return v <= 0 ? (REAL)0 : v >= 6 ? (REAL)6 : v;
}
#ifndef INTEGER_REAL
static REAL sigmoid(REAL v) {
  return 1 / (1 + exp(-v));
}
static REAL hardsigmoid(REAL v) {
  return v <= -3 ? (REAL)0 : v >= 3 ? (REAL)1 : v / 6 + (REAL)0.5;
}
static REAL silu(REAL v) {
  return v * sigmoid(v);
}
static REAL hardswish(REAL v) {
  return v >= 3 ? v : v * (v > -3 ? v + 3 : (REAL)0) / 6;
}
static REAL gelu(REAL v) {
  return v * normal_cdf(v, exp(v * v * (REAL)-0.5));
}
static REAL gelu_tanh(REAL v) {
  return v * sigmoid((REAL)1.5957691216057308 * (v + (REAL)0.044715 * v * v * v));
}
#endif

#ifndef ACTIVATION
#define ACTIVATION identity
#endif
#define ACTIVATE(v) ACTIVATION(v)
