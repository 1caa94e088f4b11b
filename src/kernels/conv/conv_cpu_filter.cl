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
static void pack_outputs(__local Scalar* to, int k0, int kc, __global const AB_STORAGE* dy, long extent,
                         LongStrides y_step, AxisSizes size) {
  const int plane = size.h * size.w, volume = DEPTH ? plane * size.d : plane;
  int image = k0 / volume;
  if (y_step.w == 1 && (size.h == 1 || y_step.h == size.w) && (size.d == 1 || y_step.d == plane)) {
    for (int k = 0, at = k0 % volume; k < kc; at = 0, image++) {
      const int count = min(volume - at, kc - k);
      put_run(to + k, count, dy, image * y_step.n + at, extent, 1);
      k += count;
    }
    return;
  }
  int q = k0 % size.w, p = k0 / size.w % size.h, o = DEPTH ? k0 % volume / plane : 0;
  for (int k = 0; k < kc;) {
    const int count = min(size.w - q, kc - k);
    put_run(to + k, count, dy, image * y_step.n + (DEPTH ? o * y_step.d : 0) + p * y_step.h + q * y_step.w, extent, y_step.w);
    k += count;
    q = 0;
    if (++p < size.h) continue;
    p = 0;
    if (DEPTH && ++o < size.d) continue;
    o = 0;
    image++;
  }
}

static void pack_panel(__local Scalar* to, int rows, int k0, int kc, __global const AB_STORAGE* dy, long extent,
                       LongStrides y_step, AxisSizes size) {
  for (int i = 0; i < rows; i++)
    pack_outputs(to + i * KC, k0, kc, dy + i * y_step.c, extent - i * y_step.c, y_step, size);
  for (int i = rows; i < MR; i++)
    for (int k = 0; k < kc; k += VW) VEC_AT(__local, to + i * KC + k) = 0;
}

#if NR % 8
#error "columns are packed by the 8"
#endif

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
                       long channel, long extent, PixelStrides x_step, CpuShape conv) {
  Column all[NR], here[8];
  int row0[NR], slice0[NR];  // the row of x, and its depth, that the output's first ones see, inside or not
  const int taps = conv.window.w * conv.window.h;
  int s = n0 % conv.window.w, r = n0 / conv.window.w % conv.window.h, t = DEPTH ? n0 / taps % conv.window.d : 0;
  int c = n0 / taps / (DEPTH ? conv.window.d : 1);
  for (int l = 0; l < NR; l++) {
    const int shift = conv.pad.w - s * conv.dilation.w;
    row0[l] = r * conv.dilation.h - conv.pad.h;
    slice0[l] = t * conv.dilation.d - conv.pad.d;
    all[l].at = channel + (long)c * x_step.c + (long)row0[l] * x_step.h - (long)shift * x_step.w;
    if (DEPTH) all[l].at += (long)slice0[l] * x_step.d;
    all[l].first = max(0, shift + conv.stride.w - 1) / conv.stride.w;
    all[l].end = l < count && conv.source.w + shift > 0
                     ? min(conv.target.w, (conv.source.w + shift - 1) / conv.stride.w + 1)
                     : 0;
    if (++s < conv.window.w) continue;
    s = 0;
    if (++r < conv.window.h) continue;
    r = 0;
    if (DEPTH && ++t < conv.window.d) continue;
    t = 0;
    c++;
  }
  const int outputs = conv.target.w * conv.target.h;
  int p = k0 / conv.target.w % conv.target.h, q = k0 % conv.target.w, o = DEPTH ? k0 / outputs % conv.target.d : 0;
  long image = (long)(k0 / outputs / (DEPTH ? conv.target.d : 1)) * x_step.n;
  for (int k = 0; k < kc;) {
    const int rows = min(conv.target.w - q, kc - k), down = p * conv.stride.h, deeper = o * conv.stride.d;
    for (int l = 0; l < NR; l += 8) {
      for (int i = 0; i < 8; i++) {
        here[i] = all[l + i];
        here[i].at += image + (long)down * x_step.h;
        if (DEPTH) here[i].at += (long)deeper * x_step.d;
        if (row0[l + i] + down < 0 || row0[l + i] + down >= conv.source.h) here[i].end = 0;
        if (DEPTH && (slice0[l + i] + deeper < 0 || slice0[l + i] + deeper >= conv.source.d)) here[i].end = 0;
      }
      put_columns(strip + k * NR + l, here, q, rows, x, conv.stride.w * x_step.w, extent);
    }
    k += rows;
    q = 0;
    if (++p < conv.target.h) continue;
    p = 0;
    if (DEPTH && ++o < conv.target.d) continue;
    o = 0;
    image += x_step.n;
  }
}

static void pack_inputs(__local Scalar* panel, int k0, int kc, int n0, int n_end, __global const AB_STORAGE* x,
                        long channel, long extent, PixelStrides x_step, CpuShape conv) {
  for (int n = n0; n < n_end; n += NR)
    pack_strip(panel + (n - n0) * kc, k0, kc, n, min(NR, n_end - n), x, channel, extent, x_step, conv);
}

#define SETUP                                                                                       \
  const int parts = max(1, (K + part - 1) / part);                                       \
  const long group = (long)get_group_id(2) / parts, k_begin = (long)get_group_id(2) % parts * part; \
  K = min(part, (int)(K - k_begin));

#define A_PARAMETERS \
  __global const AB_STORAGE *restrict dy, long y_offset, long y_extent, LongStrides y_step
#define PACK_PANEL(to, m, rows, k0, kc)                                                         \
  pack_panel(to, rows, (int)(k_begin + (k0)), kc, dy + y_offset + (group * M + (m)) * y_step.c, \
             y_extent - (group * M + (m)) * y_step.c, y_step, conv.target);

#define B_PARAMETERS \
  int part, __global const AB_STORAGE *restrict x, long x_offset, int extent, PixelStrides x_step, CpuShape conv
#define PACK_B(panel, k0, kc, n0, n_end) \
  pack_inputs(panel, (int)(k_begin + k0), kc, n0, n_end, x + x_offset, group * conv.channels * x_step.c, extent, x_step, conv)

#include "conv/conv_cpu_filter_sums.cl"

#include "gemm/gemm_cpu_loop.cl"
