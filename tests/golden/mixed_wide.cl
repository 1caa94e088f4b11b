// Pointwise expressions on a GPU. The generator fills the slots; as it stands the file is the kernel of y0 = x0
// over one dimension. A work-item takes U accesses of V neighbouring elements, LOCAL accesses apart; all loads
// are issued before the first use.

#define INDEX ulong
#define OFFSET long
#define REAL float
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
#define V 1
#define U 2
#define LOCAL 256
// types.cl

// activation.cl

// arithmetic.cl

// special.cl

#define real REAL

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void pointwise(
    __global const half* x0_p, long x0_o,
    __global const long* x1_p, long x1_o,
    __global ushort* y0_p, long y0_o,
    __global uchar* y1_p, long y1_o,
    real s0, real s1,
    INDEX n0, 
    INDEX x0_t0, 
    INDEX x1_t0, 
    INDEX y0_t0, 
    INDEX y1_t0, 
    INDEX count) {
  const INDEX first = (INDEX)get_group_id(0) * (LOCAL * U) + (INDEX)get_local_id(0);
  float X0[U * V];
  x0_p += x0_o;
  long X1[U * V];
  x1_p += x1_o;
  float Y0[U * V];
  y0_p += y0_o;
  int Y1[U * V];
  y1_p += y1_o;
#pragma unroll
  for (int u = 0; u < U; u++) {
    const INDEX i = (first + (INDEX)(u * LOCAL)) * V;
    if (i < count) {
      const INDEX c0 = i;
      X0[u] = LOAD_f16(x0_p, c0);
      X1[u] = LOAD_i64(x1_p, c0);
    }
  }
#pragma unroll
  for (int u = 0; u < U; u++) {
    const INDEX i = (first + (INDEX)(u * LOCAL)) * V;
    if (i < count) {
#pragma unroll
      for (int e = u * V; e < u * V + V; e++) {
        const float x0 = X0[e];
        const long x1 = X1[e];
        float y0;
        int y1;
        {
        y0 = x0 * s0 + x1; y1 = x0 > s1;
        }
        Y0[e] = y0;
        Y1[e] = y1;
      }
      const INDEX c0 = i;
      STORE_bf16(y0_p, c0, Y0[u]);
      STORE_bool(y1_p, c0, Y1[u]);
    }
  }
}
