// Sums of backward filter on CPUs: for each part of k the matrices of all groups, one after the other.
#define C_PARAMETERS __global Scalar* restrict c, long c_offset
#define C_AT(m, n) (((k_begin / part * ((long)get_num_groups(2) / parts) + group) * M + (m)) * N + (n))
#define C_LINE(m) (c + c_offset + C_AT(m, ns))
#define READ_C(m, n, count) load_run(c + c_offset + C_AT(m, n), count)
#define WRITE_C(m, n, v, count) store_run(c + c_offset + C_AT(m, n), v, count)
