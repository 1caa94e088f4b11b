// Sums that more blocks of k follow need 32 bits: where the target has fewer, they lie in a matrix [groups][M][N].
#ifndef SUMS_APART
#define SUMS_APART 0
#endif
#if SUMS_APART
#define SUM_PARAMETERS , __global Scalar *restrict sums, long sums_offset
#define SUM_AT(m, n) (sums + sums_offset + (GROUP * M + (m)) * N + (n))
#define READ_SUM(m, n, count) load_run(SUM_AT(m, n), count)
#define WRITE_SUM(m, n, v, count) store_run(SUM_AT(m, n), v, count)
#else
#define SUM_PARAMETERS
#endif
