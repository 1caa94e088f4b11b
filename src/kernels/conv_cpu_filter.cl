// Convolution on CPUs, backward filter, as implicit GEMM: slots of gemm_cpu.cl.
//
//   C[k, crs] = sum over npq of dy[k, npq] x[npq, crs]
//
// The sum is cut into parts of `part` steps, a multiple of KC, which work-groups of their own compute: part 0 goes to
// the first matrix at c, part 1 to the second, ... get_group_id(2) is group * parts + part's number.

#include "gemm_cpu_runs.cl"

// to[0], to[step], ... = elements npq = k0, k0 + 1, ... of one filter's dy.
static void pack_outputs(__global float *to, int step, int k0, int kc, __global const float *restrict dy, long y_n,
                         long y_p, long y_q, int P, int Q) {
  int p = k0 / Q % P, q = k0 % Q;
  dy += k0 / Q / P * y_n + p * y_p;
  for (int k = 0; k < kc;) {
    const int count = min(Q - q, kc - k);
    __global const float *from = dy + q * y_q;
    for (int i = 0; i < count; i++) to[(k + i) * step] = from[i * y_q];
    k += count;
    q = 0;
    dy += y_p;
    if (++p == P) {
      p = 0;
      dy += y_n - P * y_p;
    }
  }
}

#define SHAPE_PARAMETERS                                                                                 \
  int H, int W, int P, int Q, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, \
      int dilation_w

// One strip of the panel: rows npq from k0 on, columns crs from n0 on. Row by row of the output, so that the lines of
// the panel which one row fills stay in the first cache while all columns pass over them.
static void pack_strip(__local float *strip, int k0, int kc, int n0, int columns, __global const float *restrict x,
                       long x_n, long x_c, long x_h, long x_w, SHAPE_PARAMETERS) {
  long base[NR];                      // of the element that output (0, 0) of image 0 sees, inside or not
  int row0[NR], first[NR], end[NR];   // its row; the output's columns that see an element
  int s = n0 % S, r = n0 / S % R, c = n0 / S / R;
  for (int l = 0; l < columns; l++) {
    const int shift = pad_w - s * dilation_w;
    row0[l] = r * dilation_h - pad_h;
    base[l] = c * x_c + row0[l] * x_h - shift * x_w;
    first[l] = shift > 0 ? (shift + stride_w - 1) / stride_w : 0;
    end[l] = W + shift > 0 ? min(Q, (W + shift - 1) / stride_w + 1) : 0;
    if (++s == S) {
      s = 0;
      if (++r == R) {
        r = 0;
        c++;
      }
    }
  }
  const long step = stride_w * x_w;
  int p = k0 / Q % P, q = k0 % Q;
  x += k0 / Q / P * x_n;
  for (int k = 0; k < kc;) {
    const int count = min(Q - q, kc - k);
    for (int l = 0; l < NR; l++) {
      __local float *to = strip + k * NR + l;
      int from = 0, upto = 0;
      if (l < columns && row0[l] + p * stride_h >= 0 && row0[l] + p * stride_h < H) {
        from = clamp(first[l] - q, 0, count);
        upto = clamp(end[l] - q, from, count);
        __global const float *row = x + base[l] + p * stride_h * x_h + q * step;
        for (int i = from; i < upto; i++) to[i * NR] = row[i * step];
      }
      for (int i = 0; i < from; i++) to[i * NR] = 0;
      for (int i = upto; i < count; i++) to[i * NR] = 0;
    }
    k += count;
    q = 0;
    if (++p == P) {
      p = 0;
      x += x_n;
    }
  }
}

static void pack_inputs(__local float *panel, int k0, int kc, int n0, int n_end, __global const float *restrict x,
                        long x_n, long x_c, long x_h, long x_w, SHAPE_PARAMETERS) {
  for (int n = n0; n < n_end; n += NR)
    pack_strip(panel + (n - n0) * kc, k0, kc, n, min(NR, n_end - n), x, x_n, x_c, x_h, x_w, H, W, P, Q, R, S, stride_h,
               stride_w, pad_h, pad_w, dilation_h, dilation_w);
}

#define SETUP                                                                             \
  const int all_k = K, parts = max(1, (K + part - 1) / part);                                     \
  const long group = (long)get_group_id(2) / parts, k_begin = (long)get_group_id(2) % parts * part; \
  K = min(part, (int)(K - k_begin));
#define PACKED_BATCH (padded * (group * all_k + k_begin))

#define A_PARAMETERS \
  int part, __global const float *restrict dy, long y_offset, long y_n, long y_k, long y_p, long y_q, int P, int Q
#define PACK_A(to, m, k0, kc)                                                                                       \
  pack_outputs(to, MR, (int)(k_begin + k0), kc, dy + y_offset + (group * M + (m)) * y_k, y_n, y_p, y_q, P, Q);

#define B_PARAMETERS                                                                                                \
  int part, __global const float *restrict x, long x_offset, long x_n, long x_c, long x_h, long x_w, int channels, \
      SHAPE_PARAMETERS
#define PACK_B(panel, k0, kc, n0, n_end)                                                                           \
  pack_inputs(panel, (int)(k_begin + k0), kc, n0, n_end, x + x_offset + group * channels * x_c, x_n, x_c, x_h, x_w, H, \
              W, P, Q, R, S, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)

// One matrix of all groups after the other.
#define C_PARAMETERS __global float *restrict c, long c_offset
#define C_AT(m, n) \
  (c + c_offset + ((k_begin / part * ((long)get_num_groups(2) / parts) + group) * M + (m)) * N + (n))
#define LOAD_C(m, n, count) load_run(C_AT(m, n), count)
#define STORE_C(m, n, v, count) store_run(C_AT(m, n), v, count)

#include "gemm_cpu.cl"
