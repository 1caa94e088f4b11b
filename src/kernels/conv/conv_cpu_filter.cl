// Convolution on CPUs, backward filter, as implicit GEMM: slots of gemm_cpu_loop.cl.
//
//   C[k, crs] = sum over npq of dy[k, npq] x[npq, crs]        (DEPTH: ctrs, nopq)
//
// C is a matrix of Scalars.
// The sum is cut into parts of `part` steps, a multiple of KC, which work-groups of their own compute: part 0
// goes to the first dw at c, part 1 to the second, ... get_group_id(2) is group * parts + part's number.

#define A_PACKED 0
#define A_BY_ROWS 1
#include "conv/conv_cpu_axes.cl"
#include "gemm/gemm_cpu_types.cl"

// to[0], to[1], ... = `count` elements of dy from `at` on, y_w apart. Up to VW - 1 numbers behind may be written too.
static void put_run(__local Scalar* to, int count, __global const AB_STORAGE* dy, long at, long extent, long y_w) {
  int i = 0;
  if (y_w == 1)
    for (; i < count && at + i <= extent - VW; i += VW) VEC_AT(__local, to + i) = LOAD_WIDE(AB_TYPE, dy + at + i);
  for (; i < count; i++) to[i] = LOAD_AB(dy, at + i * y_w);
}

// Elements npq = k0, k0 + 1, ... of one filter's dy.
static void pack_outputs(__local Scalar* to, int k0, int kc, __global const AB_STORAGE* dy, long extent, long y_n,
                         LONG_AXES(y), AXES(output)) {
  const int plane = output_h * output_w, volume = DEPTH ? plane * output_d : plane;
  int image = k0 / volume;
  if (y_w == 1 && (output_h == 1 || y_h == output_w) && (output_d == 1 || y_d == plane)) {
    for (int k = 0, at = k0 % volume; k < kc; at = 0, image++) {
      const int count = min(volume - at, kc - k);
      put_run(to + k, count, dy, image * y_n + at, extent, 1);
      k += count;
    }
    return;
  }
  int q = k0 % output_w, p = k0 / output_w % output_h, o = DEPTH ? k0 % volume / plane : 0;
  for (int k = 0; k < kc;) {
    const int count = min(output_w - q, kc - k);
    put_run(to + k, count, dy, image * y_n + (DEPTH ? o * y_d : 0) + p * y_h + q * y_w, extent, y_w);
    k += count;
    q = 0;
    if (++p < output_h) continue;
    p = 0;
    if (DEPTH && ++o < output_d) continue;
    o = 0;
    image++;
  }
}

static void pack_panel(__local Scalar* to, int rows, int k0, int kc, __global const AB_STORAGE* dy, long extent, long y_n,
                       long y_k, LONG_AXES(y), AXES(output)) {
  for (int i = 0; i < rows; i++)
    pack_outputs(to + i * KC, k0, kc, dy + i * y_k, extent - i * y_k, y_n, OF_AXES(y), OF_AXES(output));
  for (int i = rows; i < MR; i++)
    for (int k = 0; k < kc; k += VW) VEC_AT(__local, to + i * KC + k) = 0;
}

#if NR % 8
#error "columns are packed by the 8"
#endif

#define SHAPE_PARAMETERS AXES(input), AXES(output), AXES(window), AXES(stride), AXES(pad), AXES(dilation)
#define SHAPE OF_AXES(input), OF_AXES(output), OF_AXES(window), OF_AXES(stride), OF_AXES(pad), OF_AXES(dilation)

// What one column crs of B is made of, in the row of the output that is being packed: the output's columns [first, end)
// see elements of x, that of column 0 would be at `at`.
typedef struct {
  long at;
  int first, end;
} Column;

// Eight columns of a strip: `count` rows from the output's column q on.
static void put_columns(__local Scalar* to, const Column* columns, int q, int count, __global const AB_STORAGE* x,
                        int step, long extent) {
  for (int done = 0; done < count; done += 8) {
    const int begin = count < 8 ? 0 : min(done, count - 8);  // the last eight may be done for a second time
    Run8 v[8];
    for (int l = 0; l < 8; l++) {
      const int first = columns[l].first - q - begin, end = columns[l].end - q - begin;
      const long at = columns[l].at + (long)(q + begin) * step;
      v[l] = 0;
      if (first >= 8 || end <= 0) continue;
      if (step == 1 && at >= 0 && at <= extent - 8) {
        // What lies beside the row is read, as long as it is in the tensor, and masked out.
        v[l] = MASKED(8, LOAD_RUN(8, x + at), (LANES(8) >= first) & (LANES(8) < end));
      } else {
        Scalar seen[8];
        for (int i = 0; i < 8; i++) seen[i] = i >= first && i < end ? LOAD_AB(x, at + i * step) : 0;
        v[l] = vload8(0, seen);
      }
    }
    if (count >= 8) {
      transpose8(v);
      for (int i = 0; i < 8; i++) vstore8(v[i], 0, to + (begin + i) * NR);
    } else {
      for (int l = 0; l < 8; l++) {
        Scalar seen[8];
        vstore8(v[l], 0, seen);
        for (int i = 0; i < count; i++) to[i * NR + l] = seen[i];
      }
    }
  }
}

// One strip of the panel: rows npq from k0 on, columns crs from n0 on. Row by row of the output, so that the lines of the
// panel which a row fills stay in the first cache while all columns pass over them.
static void pack_strip(__local Scalar* strip, int k0, int kc, int n0, int count, __global const AB_STORAGE* x,
                       long channel, long extent, int x_n, int x_c, AXES(x), SHAPE_PARAMETERS) {
  Column all[NR], here[8];
  int row0[NR], slice0[NR];  // the row of x, and its depth, that the output's first ones see, inside or not
  int s = n0 % window_w, r = n0 / window_w % window_h, t = DEPTH ? n0 / window_w / window_h % window_d : 0;
  int c = n0 / window_w / window_h / (DEPTH ? window_d : 1);
  for (int l = 0; l < NR; l++) {
    const int shift = pad_w - s * dilation_w;
    row0[l] = r * dilation_h - pad_h;
    slice0[l] = t * dilation_d - pad_d;
    all[l].at = channel + (long)c * x_c + (long)row0[l] * x_h - (long)shift * x_w;
    if (DEPTH) all[l].at += (long)slice0[l] * x_d;
    all[l].first = max(0, shift + stride_w - 1) / stride_w;
    all[l].end = l < count && input_w + shift > 0 ? min(output_w, (input_w + shift - 1) / stride_w + 1) : 0;
    if (++s < window_w) continue;
    s = 0;
    if (++r < window_h) continue;
    r = 0;
    if (DEPTH && ++t < window_d) continue;
    t = 0;
    c++;
  }
  const int outputs = output_w * output_h;
  int p = k0 / output_w % output_h, q = k0 % output_w, o = DEPTH ? k0 / outputs % output_d : 0;
  long image = (long)(k0 / outputs / (DEPTH ? output_d : 1)) * x_n;
  for (int k = 0; k < kc;) {
    const int rows = min(output_w - q, kc - k), down = p * stride_h, deeper = o * stride_d;
    for (int l = 0; l < NR; l += 8) {
      for (int i = 0; i < 8; i++) {
        here[i] = all[l + i];
        here[i].at += image + (long)down * x_h;
        if (DEPTH) here[i].at += (long)deeper * x_d;
        if (row0[l + i] + down < 0 || row0[l + i] + down >= input_h) here[i].end = 0;
        if (DEPTH && (slice0[l + i] + deeper < 0 || slice0[l + i] + deeper >= input_d)) here[i].end = 0;
      }
      put_columns(strip + k * NR + l, here, q, rows, x, stride_w * x_w, extent);
    }
    k += rows;
    q = 0;
    if (++p < output_h) continue;
    p = 0;
    if (DEPTH && ++o < output_d) continue;
    o = 0;
    image += x_n;
  }
}

static void pack_inputs(__local Scalar* panel, int k0, int kc, int n0, int n_end, __global const AB_STORAGE* x,
                        long channel, long extent, int x_n, int x_c, AXES(x), SHAPE_PARAMETERS) {
  for (int n = n0; n < n_end; n += NR)
    pack_strip(panel + (n - n0) * kc, k0, kc, n, min(NR, n_end - n), x, channel, extent, x_n, x_c, OF_AXES(x), SHAPE);
}

#define SETUP                                                                                       \
  const int parts = max(1, (K + part - 1) / part);                                       \
  const long group = (long)get_group_id(2) / parts, k_begin = (long)get_group_id(2) % parts * part; \
  K = min(part, (int)(K - k_begin));

#define A_PARAMETERS                                                                                        \
  __global const AB_STORAGE *restrict dy, long y_offset, long y_extent, long y_n, long y_k, LONG_AXES(y)
#define PACK_PANEL(to, m, rows, k0, kc)                                                                     \
  pack_panel(to, rows, (int)(k_begin + (k0)), kc, dy + y_offset + (group * M + (m)) * y_k,                  \
             y_extent - (group * M + (m)) * y_k, y_n, y_k, OF_AXES(y), OF_AXES(output));

#define B_PARAMETERS                                                                                        \
  int part, __global const AB_STORAGE *restrict x, long x_offset, int extent, int x_n, int x_c, AXES(x), int channels, \
      SHAPE_PARAMETERS
#define PACK_B(panel, k0, kc, n0, n_end)                                                                    \
  pack_inputs(panel, (int)(k_begin + k0), kc, n0, n_end, x + x_offset, group * channels * x_c, extent, x_n, \
              x_c, OF_AXES(x), SHAPE)

#include "conv/conv_cpu_filter_sums.cl"

#include "gemm/gemm_cpu_loop.cl"
