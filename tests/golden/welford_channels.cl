// Reductions on a GPU. The generator fills the slots; as it stands the file is the sum over the one dimension of
// one tensor. A group has LX x LY work-items. ALONG_R 1: the LX lanes run along the reduced elements, V at a time, and
// each of the LY rows has an output of its own. ALONG_R 0: the lanes run along the outputs, V each, the LY rows
// share the reduced elements. Lanes that share outputs meet in local memory in a fixed order. With PARTS 1 the
// second grid dimension splits the reduced elements into parts, whose accumulators go to the workspace for
// reduce_parts.cl. With LEVELS, a lane's accumulators take BLOCK elements each and are then added to those of the lowest level;
// 2^LEVEL_BITS such sums are one of the next level. So an error of rounding grows as the logarithm of the number of elements.

#define INDEX uint
#define OFFSET int
#define REAL float
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
#define ROUNDED_QUOTIENTS
#define SLOT uint
#define ALONG_R 1
#define PARTS 0
#define LEVELS 0
#define V 4
#define U 4
#define LX 64
#define LY 4
#define BLOCK 128
#define LEVEL_BITS 5
// types.cl

// activation.cl

// arithmetic.cl

// special.cl

#define real REAL
// Accumulator a of part p and output k in the workspace, [accumulator][part][output].
#define PART(T, a, p) (((__global T*)(ws_p + (ulong)(a)*parts * kept))[(p)*kept + k])

// SHARE lanes, STEP apart, share OUTPUTS outputs; each takes RUN neighbouring reduced elements at a time.
#if ALONG_R
#define SHARE LX
#define STEP 1
#define OUTPUTS 1
#define RUN V
#else
#define SHARE LY
#define STEP LX
#define OUTPUTS V
#define RUN 1
#endif

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void reduce(
    __global const float* x0_p, long x0_o,
    __global float* y0_p, long y0_o,
    INDEX n0, 
    INDEX x0_t0, 
    INDEX y0_t0, 
    INDEX m0, INDEX m1, 
    INDEX x0_u0, INDEX x0_u1, 
    __global SLOT* ws_p, long ws_o, INDEX kept, INDEX reduced, INDEX part) {
  const int item = (int)get_local_id(0), lx = item % LX, ly = item / LX;
#if ALONG_R
  const INDEX first = (INDEX)get_group_id(0) * LY + ly;
  const int lane = lx;
#else
  const INDEX first = ((INDEX)get_group_id(0) * LX + lx) * V;
  const int lane = ly;
#endif
  const INDEX begin = (INDEX)get_group_id(1) * part, end = min(begin + part, reduced);
  real A0[OUTPUTS];
  real A1[OUTPUTS];
  real A2[OUTPUTS];
#if SHARE > 1
  __local real L0[OUTPUTS * LX * LY];
  __local real L1[OUTPUTS * LX * LY];
  __local real L2[OUTPUTS * LX * LY];
#endif
#pragma unroll
  for (int v = 0; v < OUTPUTS; v++) {
    real a0;
    real a1;
    real a2;
    a0 = 0; a1 = 0; a2 = 0;
    A0[v] = a0;
    A1[v] = a1;
    A2[v] = a2;
  }
  if (first < kept) {
    const INDEX c0 = first;
    x0_p += x0_o + c0 * x0_t0;
#if LEVELS
    real S0[LEVELS * OUTPUTS];
    real S1[LEVELS * OUTPUTS];
    real S2[LEVELS * OUTPUTS];
    uint blocks_done = 0;
#pragma unroll
    for (int at = 0; at < LEVELS * OUTPUTS; at++) {
      real a0;
      real a1;
      real a2;
      a0 = 0; a1 = 0; a2 = 0;
      S0[at] = a0;
      S1[at] = a1;
      S2[at] = a2;
    }
#endif
    for (INDEX r = begin + lane * RUN; r < end;) {
      for (const INDEX stop = LEVELS ? min(r + BLOCK * SHARE, end) : end; r < stop; r += SHARE * RUN * U) {
        float X0[U * V];
#pragma unroll
        for (int u = 0; u < U; u++) {
          const INDEX i = r + u * (SHARE * RUN);
          if (i < end) {
            INDEX d_rest = i;
            const INDEX d1 = d_rest % m1;
            d_rest /= m1;
            const INDEX d0 = d_rest;
            VLOAD_f32(x0_p, d0 * x0_u0 + d1, X0 + u * V);
          }
        }
#pragma unroll
        for (int u = 0; u < U; u++) {
          if (r + u * (SHARE * RUN) < end) {
#pragma unroll
            for (int e = u * V; e < u * V + V; e++) {
              const int v = e % OUTPUTS;
              const float x0 = X0[e];
              real a0 = A0[v];
              real a1 = A1[v];
              real a2 = A2[v];
              const real v_ = x0; const real d_ = v_ - a1; a0 += 1; a1 += d_ / a0; a2 += d_ * (v_ - a1);
              A0[v] = a0;
              A1[v] = a1;
              A2[v] = a2;
            }
          }
        }
      }
#if LEVELS
      blocks_done++;
#pragma unroll
      for (int s = 0; s < LEVELS; s++) {
#pragma unroll
        for (int v = 0; v < OUTPUTS; v++) {
          const int at = s * OUTPUTS + v;
          real a0 = S0[at];
          real a1 = S1[at];
          real a2 = S2[at];
          const real b0 = A0[v];
          const real b1 = A1[v];
          const real b2 = A2[v];
          const real n_ = a0 + b0; const real d_ = b1 - a1; const real w_ = n_ > 0 ? b0 / n_ : 0; a2 += b2 + d_ * w_ * (d_ * a0); a1 += d_ * w_; a0 = n_;
          S0[at] = a0;
          S1[at] = a1;
          S2[at] = a2;
        }
        if (s + 1 == LEVELS || blocks_done % (1u << LEVEL_BITS * (s + 1)) != 0) break;
#pragma unroll
        for (int v = 0; v < OUTPUTS; v++) {
          const int at = s * OUTPUTS + v;
          A0[v] = S0[at];
          A1[v] = S1[at];
          A2[v] = S2[at];
          real a0;
          real a1;
          real a2;
          a0 = 0; a1 = 0; a2 = 0;
          S0[at] = a0;
          S1[at] = a1;
          S2[at] = a2;
        }
      }
#pragma unroll
      for (int v = 0; v < OUTPUTS; v++) {
        real a0;
        real a1;
        real a2;
        a0 = 0; a1 = 0; a2 = 0;
        A0[v] = a0;
        A1[v] = a1;
        A2[v] = a2;
      }
#endif
    }
#if LEVELS
#pragma unroll
    for (int s = LEVELS - 1; s >= 0; s--) {
#pragma unroll
      for (int v = 0; v < OUTPUTS; v++) {
        const int at = s * OUTPUTS + v;
        real a0 = A0[v];
        real a1 = A1[v];
        real a2 = A2[v];
        const real b0 = S0[at];
        const real b1 = S1[at];
        const real b2 = S2[at];
        const real n_ = a0 + b0; const real d_ = b1 - a1; const real w_ = n_ > 0 ? b0 / n_ : 0; a2 += b2 + d_ * w_ * (d_ * a0); a1 += d_ * w_; a0 = n_;
        A0[v] = a0;
        A1[v] = a1;
        A2[v] = a2;
      }
    }
#endif
  }
#if SHARE > 1
#pragma unroll
  for (int half_ = SHARE / 2; half_ > 0; half_ /= 2) {
#pragma unroll
    for (int v = 0; v < OUTPUTS; v++) {
      L0[v * (LX * LY) + item] = A0[v];
      L1[v * (LX * LY) + item] = A1[v];
      L2[v * (LX * LY) + item] = A2[v];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_) {
#pragma unroll
      for (int v = 0; v < OUTPUTS; v++) {
        const int other = v * (LX * LY) + item + half_ * STEP;
        real a0 = A0[v];
        real a1 = A1[v];
        real a2 = A2[v];
        const real b0 = L0[other];
        const real b1 = L1[other];
        const real b2 = L2[other];
        const real n_ = a0 + b0; const real d_ = b1 - a1; const real w_ = n_ > 0 ? b0 / n_ : 0; a2 += b2 + d_ * w_ * (d_ * a0); a1 += d_ * w_; a0 = n_;
        A0[v] = a0;
        A1[v] = a1;
        A2[v] = a2;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif
  if (first < kept && lane == 0) {
#if PARTS
    ws_p += ws_o;
    const ulong parts = get_num_groups(1), p = get_group_id(1);
#pragma unroll
    for (int v = 0; v < OUTPUTS; v++) {
      const INDEX k = first + v;
      PART(real, 0, p) = A0[v];
      PART(real, 1, p) = A1[v];
      PART(real, 2, p) = A2[v];
    }
#else
    const INDEX c0 = first;
#pragma unroll
    for (int v = 0; v < OUTPUTS; v++) {
      const real a0 = A0[v];
      const real a1 = A1[v];
      const real a2 = A2[v];
      {
      float y0;
      y0 = a2 / a0;
      STORE_f32(y0_p + y0_o + c0, v, y0);
      }
    }
#endif
  }
}
