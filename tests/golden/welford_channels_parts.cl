// The second pass of a reduction in parts: combines the parts' accumulators, which lie in the workspace as
// [accumulator][part][output], and finishes. LX lanes share an output, a group has LY outputs.

#define INDEX uint
#define OFFSET int
#define REAL float
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
#define ROUNDED_QUOTIENTS
#define SLOT uint
#define LX 32
#define LY 8
// types.cl

// activation.cl

#define real REAL
// Accumulator a of part p and output k in the workspace.
#define PART(T, a, p) (((__global const T*)(ws_p + (ulong)(a)*parts * kept))[(ulong)(p)*kept + k])

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void reduce_parts(
    __global float* y0_p, long y0_o,
    INDEX n0, 
    INDEX y0_t0, 
    __global const SLOT* ws_p, long ws_o, INDEX kept, INDEX parts) {
  const int item = (int)get_local_id(0), lane = item % LX;
  const INDEX k = (INDEX)get_group_id(0) * LY + item / LX;
  ws_p += ws_o;
  real a0;
  __local real L0[LX * LY];
  real a1;
  __local real L1[LX * LY];
  real a2;
  __local real L2[LX * LY];
  a0 = 0; a1 = 0; a2 = 0;
  if (k < kept) {
    for (INDEX q = lane; q < parts; q += LX) {
      const real b0 = PART(real, 0, q);
      const real b1 = PART(real, 1, q);
      const real b2 = PART(real, 2, q);
      const real n_ = a0 + b0; const real d_ = b1 - a1; const real w_ = n_ > 0 ? b0 / n_ : 0; a2 += b2 + d_ * w_ * (d_ * a0); a1 += d_ * w_; a0 = n_;
    }
  }
#if LX > 1
  for (int half_ = LX / 2; half_ > 0; half_ /= 2) {
    L0[item] = a0;
    L1[item] = a1;
    L2[item] = a2;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_) {
      const int other = item + half_;
      const real b0 = L0[other];
      const real b1 = L1[other];
      const real b2 = L2[other];
      const real n_ = a0 + b0; const real d_ = b1 - a1; const real w_ = n_ > 0 ? b0 / n_ : 0; a2 += b2 + d_ * w_ * (d_ * a0); a1 += d_ * w_; a0 = n_;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif
  if (k < kept && lane == 0) {
    const INDEX c0 = k;
    {
    float y0;
    y0 = a2 / a0;
    STORE_f32(y0_p + y0_o + c0, 0, y0);
    }
  }
}
