// A divisor and its reciprocal: see divisor.cl. For OpenCL C, and for C++ through ops/lib/divisor.hpp.
typedef struct Divisor {
  int d;
  unsigned magic, shift;
} Divisor;
