// Triangular systems by substitution. A work-item has a column of a right side: its rows depend on each other, and nothing
// else does. Neighbouring items read the same row of the matrix.

#include "lib/types.cl"
#include "lib/int64.h"
#include "gemm/triangular_solve.h"

#ifndef REAL
#define REAL float
#define UPPER 0
#define UNIT 0
#endif

__kernel void triangular_solve(__global const REAL* a, long a_o, __global const REAL* b, long b_o, __global REAL* x, long x_o,
                               TriangularProblem p, long count) {
  const long item = (long)get_global_id(0);
  if (item >= count) return;
  const long column = item % p.m;
  long rest = item / p.m;
  a += a_o;
  b += b_o + column * p.b.column;
  x += x_o + column * p.x.column;
  for (int d = 5; d >= 0; d--) {
    const long at = rest % p.sizes[d];
    rest /= p.sizes[d];
    a += at * p.a.batch[d];
    b += at * p.b.batch[d];
    x += at * p.x.batch[d];
  }
  for (int k = 0; k < p.n; k++) {
    const int i = UPPER ? p.n - 1 - k : k, first = UPPER ? i + 1 : 0, last = UPPER ? p.n : i;
    REAL sum = b[i * p.b.row];
    for (int j = first; j < last; j++) sum = fma(-a[i * p.a.row + j * p.a.column], x[j * p.x.row], sum);
    x[i * p.x.row] = UNIT ? sum : sum / a[i * p.a.row + i * p.a.column];
  }
}
