// GEMM, one element of C per work-item: serves every device, type and stride; slow. The work-items along dimension 0
// take neighbouring columns, those along dimension 2 the products of a batch.
#include "gemm/gemm_types.cl"

__kernel void gemm_naive(int M, int N, int K, __global const AB_STORAGE* restrict a, long a_offset, long a_m,
                         long a_k, long a_batch, __global const AB_STORAGE* restrict b, long b_offset,
                         long b_k, long b_n, long b_batch, __global C_STORAGE* restrict c, long c_offset,
                         long ldc, long c_batch, EPILOGUE_PARAMETERS) {
  const int n = (int)get_global_id(0), m = (int)get_global_id(1);
  const long z = (long)get_global_id(2);
  if (n >= N || m >= M) return;
  a += a_offset + z * a_batch + m * a_m;
  b += b_offset + z * b_batch + n * b_n;
  const long at = z * c_batch + m * ldc + n;
  c += c_offset;
  REAL sum = 0;
  for (int k = 0; k < K; k++) sum = MULTIPLY_ADD((REAL)LOAD_AB(a, k * a_k), (REAL)LOAD_AB(b, k * b_k), sum);
  sum = SCALED(sum, m, n);
  if (beta != 0) sum = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, at), sum);
  STORE_C(c, at, FINISH(sum, m, n, at));
}
