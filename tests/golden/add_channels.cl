// Pointwise expressions on a GPU. The generator fills the slots; as it stands the file is the kernel of y0 = x0
// over one dimension. A work-item takes U accesses of V neighbouring elements, LOCAL accesses apart; all loads
// are issued before the first use.

#define INDEX uint
#define OFFSET int
#define REAL float
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
#define V 4
#define U 2
#define LOCAL 256
// types.cl

// activation.cl

// arithmetic.cl

// special.cl

#define real REAL

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void pointwise(
    __global const float* x0_p, long x0_o,
    __global const float* x1_p, long x1_o,
    __global float* y0_p, long y0_o,
    INDEX n0, INDEX n1, INDEX n2, 
    INDEX x0_t0, INDEX x0_t1, INDEX x0_t2, 
    INDEX x1_t0, INDEX x1_t1, INDEX x1_t2, 
    INDEX y0_t0, INDEX y0_t1, INDEX y0_t2, 
    INDEX count) {
  const INDEX first = (INDEX)get_group_id(0) * (LOCAL * U) + (INDEX)get_local_id(0);
  float X0[U * V];
  x0_p += x0_o;
  float X1[U * V];
  x1_p += x1_o;
  float Y0[U * V];
  y0_p += y0_o;
#pragma unroll
  for (int u = 0; u < U; u++) {
    const INDEX i = (first + (INDEX)(u * LOCAL)) * V;
    if (i < count) {
      INDEX c_rest = i;
      const INDEX c2 = c_rest % n2;
      c_rest /= n2;
      const INDEX c1 = c_rest % n1;
      c_rest /= n1;
      const INDEX c0 = c_rest;
      VLOAD_f32(x0_p, c0 * x0_t0 + c1 * x0_t1 + c2, X0 + u * V);
      {
        const float same_ = LOAD_f32(x1_p, c0 * x1_t0 + c1 * x1_t1);
        for (int v = 0; v < V; v++) X1[u * V + v] = same_;
      }
    }
  }
#pragma unroll
  for (int u = 0; u < U; u++) {
    const INDEX i = (first + (INDEX)(u * LOCAL)) * V;
    if (i < count) {
#pragma unroll
      for (int e = u * V; e < u * V + V; e++) {
        const float x0 = X0[e];
        const float x1 = X1[e];
        float y0;
        {
        y0 = x0 + x1;
        }
        Y0[e] = y0;
      }
      INDEX c_rest = i;
      const INDEX c2 = c_rest % n2;
      c_rest /= n2;
      const INDEX c1 = c_rest % n1;
      c_rest /= n1;
      const INDEX c0 = c_rest;
      VSTORE_f32(y0_p, c0 * y0_t0 + c1 * y0_t1 + c2, Y0 + u * V);
    }
  }
}
