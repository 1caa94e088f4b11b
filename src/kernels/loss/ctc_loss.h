// What the kernels of the CTC loss are told. For OpenCL C, behind lib/int64.h, and for C++ through ops/loss/ctc_loss.cpp.
typedef struct {
  Int64 t, n, c;
} CtcSteps;

typedef struct {
  CtcSteps x;                // steps of x [T, N, C]
  Int64 labels_n, labels_s;  // of labels [N, S]
  Int64 times_n, sizes_n;    // of the lengths of both [N]
  Int64 blank;
  int t, n, c, s;
  int divides;  // each loss is divided by its labels' number
  int zeroes;   // an infinite loss is 0
} CtcShape;
