// Convolution on CPUs, backward filter, as implicit GEMM: slots of gemm_cpu_loop.cl.
//
//   C[k, crs] = sum over npq of dy[k, npq] x[npq, crs]
//
// The sum is cut into parts of `part` steps, a multiple of KC, which work-groups of their own compute: part 0
// goes to the first matrix at c, part 1 to the second, ... get_group_id(2) is group * parts + part's number.

#include "gemm_cpu_runs.cl"

// to[0], to[step], ... = elements npq = k0, k0 + 1, ... of one filter's dy.
static void pack_outputs(__global float* to, int step, int k0, int kc, __global const float* dy, long y_n,
                         long y_p, long y_q, int P, int Q) {
  int p = k0 / Q % P, q = k0 % Q;
  dy += k0 / Q / P * y_n + p * y_p;
  for (int k = 0; k < kc;) {
    const int count = min(Q - q, kc - k);
    __global const float* from = dy + q * y_q;
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

#define SHAPE_PARAMETERS                                                                      \
  int H, int W, int P, int Q, int R, int S, int stride_h, int stride_w, int pad_h, int pad_w, \
      int dilation_h, int dilation_w
#define SHAPE H, W, P, Q, R, S, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w

// What one column crs of B is made of, in the row of the output that is being packed: the output's columns
// [first, end) see elements of x, that of column 0 would be at `at`.
typedef struct {
  long at;
  int first, end;
} Column;

// Eight columns of a strip: `count` rows from the output's column q on.
static void put_columns(__local float* to, const Column* columns, int q, int count, __global const float* x,
                        int step, long extent) {
  const int8 lanes = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
  for (int done = 0; done < count; done += 8) {
    const int begin = count < 8 ? 0 : min(done, count - 8);  // the last eight may be done for a second time
    float8 v[8];
    for (int l = 0; l < 8; l++) {
      const int first = columns[l].first - q - begin, end = columns[l].end - q - begin;
      const long at = columns[l].at + (long)(q + begin) * step;
      v[l] = 0;
      if (first >= 8 || end <= 0) continue;
      if (step == 1 && at >= 0 && at <= extent - 8) {
        // What lies beside the row is read, as long as it is in the tensor, and masked out.
        v[l] = as_float8(as_int8(vload8(0, x + at)) & ((lanes >= first) & (lanes < end)));
      } else {
        float seen[8];
        for (int i = 0; i < 8; i++) seen[i] = i >= first && i < end ? x[at + i * step] : 0;
        v[l] = vload8(0, seen);
      }
    }
    if (count >= 8) {
      transpose8(v);
      for (int i = 0; i < 8; i++) vstore8(v[i], 0, to + (begin + i) * NR);
    } else {
      for (int l = 0; l < 8; l++) {
        float seen[8];
        vstore8(v[l], 0, seen);
        for (int i = 0; i < count; i++) to[i * NR + l] = seen[i];
      }
    }
  }
}

// One strip of the panel: rows npq from k0 on, columns crs from n0 on. Row by row of the output, so that the
// lines of the panel which a row fills stay in the first cache while all columns pass over them.
static void pack_strip(__local float* strip, int k0, int kc, int n0, int count, __global const float* x,
                       long channel, long extent, int x_n, int x_c, int x_h, int x_w, SHAPE_PARAMETERS) {
  Column all[NR], here[8];
  int row0[NR];  // the row of x that the output's row 0 sees, inside or not
  int s = n0 % S, r = n0 / S % R, c = n0 / S / R;
  for (int l = 0; l < NR; l++) {
    const int shift = pad_w - s * dilation_w;
    row0[l] = r * dilation_h - pad_h;
    all[l].at = channel + (long)c * x_c + (long)row0[l] * x_h - (long)shift * x_w;
    all[l].first = max(0, shift + stride_w - 1) / stride_w;
    all[l].end = l < count && W + shift > 0 ? min(Q, (W + shift - 1) / stride_w + 1) : 0;
    if (++s == S) {
      s = 0;
      if (++r == R) {
        r = 0;
        c++;
      }
    }
  }
  int p = k0 / Q % P, q = k0 % Q;
  long image = (long)(k0 / Q / P) * x_n;
  for (int k = 0; k < kc;) {
    const int rows = min(Q - q, kc - k), down = p * stride_h;
    for (int l = 0; l < NR; l += 8) {
      for (int i = 0; i < 8; i++) {
        here[i] = all[l + i];
        here[i].at += image + (long)down * x_h;
        if (row0[l + i] + down < 0 || row0[l + i] + down >= H) here[i].end = 0;
      }
      put_columns(strip + k * NR + l, here, q, rows, x, stride_w * x_w, extent);
    }
    k += rows;
    q = 0;
    if (++p == P) {
      p = 0;
      image += x_n;
    }
  }
}

static void pack_inputs(__local float* panel, int k0, int kc, int n0, int n_end, __global const float* x,
                        long channel, long extent, int x_n, int x_c, int x_h, int x_w, SHAPE_PARAMETERS) {
  for (int n = n0; n < n_end; n += NR)
    pack_strip(panel + (n - n0) * kc, k0, kc, n, min(NR, n_end - n), x, channel, extent, x_n, x_c, x_h, x_w,
               SHAPE);
}

#define SETUP                                                                                       \
  const int all_k = K, parts = max(1, (K + part - 1) / part);                                       \
  const long group = (long)get_group_id(2) / parts, k_begin = (long)get_group_id(2) % parts * part; \
  K = min(part, (int)(K - k_begin));
#define PACKED_A (PADDED_A * (group * all_k + k_begin))

#define A_PARAMETERS                                                                                         \
  int part, __global const float *restrict dy, long y_offset, long y_n, long y_k, long y_p, long y_q, int P, \
      int Q
#define PACK_A(to, m, k0, kc) \
  pack_outputs(to, MR, (int)(k_begin + k0), kc, dy + y_offset + (group * M + (m)) * y_k, y_n, y_p, y_q, P, Q);

#define B_PARAMETERS                                                                                         \
  int part, __global const float *restrict x, long x_offset, int extent, int x_n, int x_c, int x_h, int x_w, \
      int channels, SHAPE_PARAMETERS
#define PACK_B(panel, k0, kc, n0, n_end)                                                                    \
  pack_inputs(panel, (int)(k_begin + k0), kc, n0, n_end, x + x_offset, group * channels * x_c, extent, x_n, \
              x_c, x_h, x_w, SHAPE)

// One matrix of all groups after the other.
#define C_PARAMETERS __global float* restrict c, long c_offset
#define C_AT(m, n) (((k_begin / part * ((long)get_num_groups(2) / parts) + group) * M + (m)) * N + (n))
#define C_LINE(m) (c + c_offset + C_AT(m, ns))
#define READ_C(m, n, count) load_run(c + c_offset + C_AT(m, n), count)
#define WRITE_C(m, n, v, count) store_run(c + c_offset + C_AT(m, n), v, count)

#include "gemm_cpu_loop.cl"
