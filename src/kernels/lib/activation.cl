// Activations as functions of one value: the same text in GEMM, convolution and pointwise kernels.
// REAL: float, double, or a vector of them. ACTIVATION, a function's name, makes ACTIVATE(v).

#ifndef REAL
#define REAL float
#endif

REAL identity(REAL v) {
  return v;
}
// Written so that NaN passes through: a comparison with NaN is false.
REAL relu(REAL v) {
  return v <= 0 ? (REAL)0 : v;
}
REAL relu6(REAL v) {
  return v <= 0 ? (REAL)0 : v >= 6 ? (REAL)6 : v;
}
#ifndef INTEGER_REAL
REAL sigmoid(REAL v) {
  return 1 / (1 + exp(-v));
}
#endif

#ifndef ACTIVATION
#define ACTIVATION identity
#endif
#define ACTIVATE(v) ACTIVATION(v)
