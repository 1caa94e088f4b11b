// GEMM, one element of C per work-item: serves every device and every stride; slow. The work-items along
// dimension 0 take neighbouring columns.
#include "epilogue.cl"

__kernel void gemm_naive(int M, int N, int K, __global const float* restrict a, long a_offset, long a_m,
                         long a_k, __global const float* restrict b, long b_offset, long b_k, long b_n,
                         __global float* restrict c, long c_offset, long ldc, EPILOGUE_PARAMETERS) {
  const int n = (int)get_global_id(0), m = (int)get_global_id(1);
  if (n >= N || m >= M) return;
  a += a_offset + m * a_m;
  b += b_offset + n * b_n;
  c += c_offset + m * ldc + n;
  float sum = 0;
  for (int k = 0; k < K; k++) sum = fma(a[k * a_k], b[k * b_k], sum);
  sum *= alpha;
  if (beta != 0) sum = fma(beta, *c, sum);
  *c = FINISH(sum, m, n);
}
