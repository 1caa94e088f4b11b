// Activations as functions of one value: the same text in GEMM, convolution and pointwise kernels.
// REAL: float or double. ACTIVATION, a function's name, makes ACTIVATE(v).

#ifndef REAL
#define REAL float
#endif

REAL identity(REAL v) { return v; }
// Written so that NaN passes through: a comparison with NaN is false.
REAL relu(REAL v) { return v <= 0 ? 0 : v; }
REAL relu6(REAL v) { return v <= 0 ? 0 : v >= 6 ? 6 : v; }
REAL sigmoid(REAL v) { return 1 / (1 + exp(-v)); }

#ifndef ACTIVATION
#define ACTIVATION identity
#endif
#define ACTIVATE(v) ACTIVATION(v)
