// The second pass of GEMM with K in parts: adds the parts' sums, [batch * parts][M][N], in their order, and makes C of
// them as the first pass would have. One element a work-item; dimension 0 takes neighbouring columns, 2 the batch.
#include "gemm/sum_of_parts.cl"

__kernel void gemm_parts(int M, int N, int parts, __global const REAL* restrict partial, long partial_offset,
                         __global C_STORAGE* restrict c, long c_offset, long ldc, long c_batch,
                         EPILOGUE_PARAMETERS) {
  const int n = (int)get_global_id(0), m = (int)get_global_id(1);
  const long z = (long)get_global_id(2), plane = (long)M * N;
  if (n >= N || m >= M) return;
  partial += partial_offset + z * parts * plane + (long)m * N + n;
  const long at = z * c_batch + m * ldc + n;
  c += c_offset;
  REAL sum = sum_of_parts(partial, parts, plane);
  sum = SCALED(sum, m, n);
  if (beta != 0) sum = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, at), sum);
  STORE_C(c, at, FINISH(sum, m, n, at));
}
