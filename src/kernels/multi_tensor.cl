// One expression over many tensors in one launch: optimizers' steps, gradients' scaling and norms. The program fills the
// slots (src/ops/multi_tensor.cpp); as it stands the file is the kernel of x0 = s0 * x0 over up to two tensors. A list has
// one tensor for each place, x0_k, x1_k, ...; a work-group takes `chunk` elements of one place, whose first group is g_k. On
// CPUs (LOCAL 1) elements go in a plain loop.

//$ HEAD
#define V 4
#define LOCAL 256
#define REAL float
//$ END
#include "types.cl"
#define real REAL

// What a group knows of all elements: into one of `parts` for each group, in a fixed order.
#if LOCAL == 1
#define LANES 16
#define JOIN_LANES(combine)             \
  for (int l = 1; l < LANES; l++) {     \
    const real part = sums[l];          \
    combine;                            \
  }                                     \
  parts[get_group_id(0)] = sum;
#else
#define LANES V
#define JOIN_LANES(combine)                                     \
  for (int l = 1; l < LANES; l++) {                             \
    const real part = sums[l];                                  \
    combine;                                                    \
  }                                                             \
  __local real shared_sums[LOCAL];                              \
  const int lane = (int)get_local_id(0);                        \
  shared_sums[lane] = sum;                                      \
  for (int step = LOCAL / 2; step > 0; step /= 2) {             \
    barrier(CLK_LOCAL_MEM_FENCE);                               \
    if (lane < step) {                                          \
      const real part = shared_sums[lane + step];               \
      sum = shared_sums[lane];                                  \
      combine;                                                  \
      shared_sums[lane] = sum;                                  \
    }                                                           \
  }                                                             \
  if (lane == 0) parts[get_group_id(0)] = shared_sums[0];
#endif

// `multiplier` is *factor / *scale, of those that there are. With `skips` nothing happens where *flag is not 0.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void multi_tensor(
    //$ PARAMETERS
    __global float* x0_0, long x0_o0, long n_0, int g_0, __global float* x0_1, long x0_o1, long n_1, int g_1, real s0,
    //$ END
    uint aligned, int chunk, __global const float* factor, long factor_o, int has_factor, __global const float* scale,
    long scale_o, int has_scale, __global float* flag, long flag_o, int skips, __global real* parts, long parts_o) {
  if (skips && flag[flag_o] != 0) return;
  real multiplier = has_factor ? factor[factor_o] : 1;
  if (has_scale) multiplier /= scale[scale_o];
  flag += flag_o;
  parts += parts_o;
  const int group = (int)get_group_id(0);
  int place = 0, first = 0;
  //$ CHOOSE
  __global float* x0_p = x0_0 + x0_o0;
  long n = n_0;
  if (group >= g_1) place = 1, first = g_1, n = n_1, x0_p = x0_1 + x0_o1;
  //$ END
  const long begin = (long)(group - first) * chunk;
  const int count = (int)min((long)chunk, n - begin);
  //$ ADVANCE
  x0_p += begin;
  //$ END
  int bad = 0;
  real sums[LANES];
  for (int l = 0; l < LANES; l++) sums[l] = 0;
#if LOCAL == 1
  //$ CPU
  INDEPENDENT_ROUNDS
  for (int i = 0; i < count; i++) {
    real x0 = LOAD_f32(x0_p, i);
    x0 = s0 * x0;
    STORE_f32(x0_p, i, x0);
  }
  //$ END
#else
  const int whole = (aligned >> place & 1) ? count / V * V : 0;
  for (int i = (int)get_local_id(0) * V; i < whole; i += LOCAL * V) {
    //$ LOAD
    real X0[V];
    VLOAD_f32(x0_p, i, X0);
    //$ END
#pragma unroll
    for (int e = 0; e < V; e++) {
      //$ BODY
      real x0 = X0[e];
      x0 = s0 * x0;
      X0[e] = x0;
      //$ END
    }
    //$ STORE
    VSTORE_f32(x0_p, i, X0);
    //$ END
  }
  const int e = 0;
  for (int i = whole + (int)get_local_id(0); i < count; i += LOCAL) {
    //$ REST
    real x0 = LOAD_f32(x0_p, i);
    x0 = s0 * x0;
    STORE_f32(x0_p, i, x0);
    //$ END
  }
#endif
  //$ FINISH
  real sum = sums[0];
  JOIN_LANES(sum += part)
  if (bad) *flag = 1;
  //$ END
}
