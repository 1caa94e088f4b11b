// Convolution on CPUs, forward and backward data, as implicit GEMM: slots of gemm_cpu.cl. The gathered operand B is
// written into the packed panel block by block and never exists whole. Backward filter is conv_cpu_filter.cl.
//
//   forward        C[k, npq] = sum over crs of w[k, crs] x[crs, npq]
//   backward data  C[c, nhw] = sum over krs of w[k, c, rs] dy[krs, nhw]      (BACKWARD_DATA)
//
// "source" is what is gathered (x, or dy), "target" what is written (y, or dx). Target rows and columns are i and j.
// get_group_id(2) is the convolution's group; `channels` are the source's in one group.

#include "gemm_cpu_runs.cl"

#ifndef BACKWARD_DATA
#define BACKWARD_DATA 0
#endif

// Floats side by side that may be written up to VW - 1 beyond the end, since what follows is written later.
static void put_zeros(float *to, int count) {
  for (int i = 0; i < count; i += VW) VSTORE((VEC)(0), 0, to + i);
}

// The same of a copy, which may read beyond the run as long as it stays below `end`.
static void put_copy(float *to, __global const float *from, int count, __global const float *end) {
  int i = 0;
  for (; i < count && from + i + VW <= end; i += VW) VSTORE(VLOAD(0, from + i), 0, to + i);
  for (; i < count; i++) to[i] = from[i];
}

// What one tap of the window, at row r and column s, means for the target's columns: those from `first` to below
// `end`, `up` apart, have a source element; the first one's lies at `source` in its row, later ones `down` apart.
typedef struct {
  int first, end, up;
  long source, down;
} Tap;

static Tap tap_of(int s, int source_w, int target_w, int stride, int pad, int dilation, long source_step) {
  const int shift = pad - s * dilation;
  Tap tap;
#if BACKWARD_DATA
  // Target column j meets source column (j + shift) / stride, where that has no remainder.
  const int q = shift > 0 ? (shift + stride - 1) / stride : 0;
  tap.up = stride;
  tap.first = q * stride - shift;
  tap.end = min(target_w, (source_w - 1) * stride - shift + 1);
  tap.source = q * source_step;
  tap.down = source_step;
#else
  // Target column j meets source column j * stride - shift.
  tap.up = 1;
  tap.first = shift > 0 ? (shift + stride - 1) / stride : 0;
  tap.end = source_w + shift > 0 ? min(target_w, (source_w + shift - 1) / stride + 1) : 0;
  tap.source = (long)(tap.first * stride - shift) * source_step;
  tap.down = stride * source_step;
#endif
  return tap;
}

// Fills line[0 .. count) with what columns j, j + 1, ... of a target row see through the tap.
static void put_row(float *line, Tap tap, int j, int count, __global const float *row, __global const float *end) {
  if (tap.up == 1 && tap.down == 1) {
    const int from = clamp(tap.first - j, 0, count), to = clamp(tap.end - j, from, count);
    if (from > 0) put_zeros(line, from);
    put_copy(line + from, row + tap.source + (j + from - tap.first), to - from, end);
    if (to < count) put_zeros(line + to, count - to);
    return;
  }
  if (tap.up != 1 || j < tap.first || j + count > tap.end) put_zeros(line, count);
  const int skip = j > tap.first ? (j - tap.first + tap.up - 1) / tap.up : 0;
  row += tap.source + skip * tap.down;
  for (int at = tap.first + skip * tap.up - j; at < min(count, tap.end - j); at += tap.up) {
    line[at] = *row;
    row += tap.down;
  }
}

#define SHAPE_PARAMETERS                                                                                        \
  int channels, int source_h, int source_w, int target_h, int target_w, int R, int S, int stride_h, int stride_w, \
      int pad_h, int pad_w, int dilation_h, int dilation_w

static void pack_taps(__local float *panel, int k0, int kc, int n0, int n_end, __global const float *restrict source,
                      __global const float *end, long s_n, long s_c, long s_h, long s_w, SHAPE_PARAMETERS) {
  float line[NC + 2 * VW];
  const int count = n_end - n0, padded = (count + NR - 1) / NR * NR, plane = target_h * target_w;
  const int first_n = n0 / plane, first_i = n0 % plane / target_w, first_j = n0 % plane % target_w;
  int s = k0 % S, r = k0 / S % R, c = k0 / S / R;
  for (int k = 0; k < kc; k++) {
    const Tap tap = tap_of(s, source_w, target_w, stride_w, pad_w, dilation_w, s_w);
    int i = first_i, j = first_j, at = 0;
    __global const float *image = source + first_n * s_n + c * s_c;
    while (at < count) {
      const int length = min(target_w - j, count - at);
#if BACKWARD_DATA
      const int scaled = i + pad_h - r * dilation_h, row = stride_h == 1 ? scaled : scaled / stride_h;
      const bool inside = scaled >= 0 && row < source_h && row * stride_h == scaled;
#else
      const int row = i * stride_h - pad_h + r * dilation_h;
      const bool inside = row >= 0 && row < source_h;
#endif
      if (inside)
        put_row(line + at, tap, j, length, image + row * s_h, end);
      else
        put_zeros(line + at, length);
      at += length;
      j = 0;
      if (++i == target_h) {
        i = 0;
        image += s_n;
      }
    }
    put_zeros(line + count, padded - count);
    for (int n = 0; n < padded; n += NR)
      for (int v = 0; v < NR; v += VW) VSTORE(VLOAD(0, line + n + v), 0, panel + n * kc + k * NR + v);
    if (++s == S) {
      s = 0;
      if (++r == R) {
        r = 0;
        c++;
      }
    }
  }
}

// Where the columns ns, ns + 1, ... of C lie in the target: where[l], valid for the first column of each vector and,
// if the vector is no run of neighbours, for all of its columns.
static void place_strip(long *where, int *runs, int ns, int count, int target_h, int target_w, long t_n, long t_h,
                        long t_w) {
  const int plane = target_h * target_w, n = ns / plane, rest = ns % plane;
  if (t_w == 1 && (t_h == target_w || target_h == 1) && rest + count <= plane) {
    for (int v = 0; v < NV; v++) {
      where[v * VW] = n * t_n + rest + v * VW;
      runs[v] = 1;
    }
    return;
  }
  int i = rest / target_w, j = rest % target_w;
  long row = n * t_n + i * t_h;
  for (int v = 0; v < NV; v++) {
    runs[v] = 1;
    for (int l = v * VW; l < min(count, (v + 1) * VW); l++) {
      where[l] = row + j * t_w;
      if (l > v * VW && where[l] != where[l - 1] + 1) runs[v] = 0;
      if (++j < target_w) continue;
      j = 0;
      if (++i == target_h) {
        i = 0;
        row += t_n - (target_h - 1) * t_h;
      } else {
        row += t_h;
      }
    }
  }
}

static void store_placed(__global float *target, const long *where, int run, VEC v, int count) {
  if (run) {
    store_run(target + where[0], v, count);
    return;
  }
  float values[VW];
  VSTORE(v, 0, values);
  for (int l = 0; l < count; l++) target[where[l]] = values[l];
}

static VEC load_placed(__global const float *target, const long *where, int run, int count) {
  if (run) return load_run(target + where[0], count);
  float values[VW];
  for (int l = 0; l < VW; l++) values[l] = l < count ? target[where[l]] : 0;
  return VLOAD(0, values);
}

#define GROUP ((long)get_group_id(2))
#define PACKED_BATCH (GROUP * padded * K)

#define A_PARAMETERS __global const float *restrict w, long w_offset, int taps
#if BACKWARD_DATA
#define A_ROW(m) __global const float *restrict w_row = w + w_offset + GROUP * K * M + (long)(m)*taps;
#define LOAD_A(m, k) w_row[(long)((k) / taps) * M * taps + (k) % taps]
#else
#define A_ROW(m) __global const float *restrict w_row = w + w_offset + (GROUP * M + (m)) * K;
#define LOAD_A(m, k) w_row[k]
#endif

#define B_PARAMETERS \
  __global const float *restrict source, long source_offset, long extent, long s_n, long s_c, long s_h, long s_w, \
      SHAPE_PARAMETERS
#define PACK_B(panel, k0, kc, n0, n_end)                                                                          \
  pack_taps(panel, k0, kc, n0, n_end, source + source_offset + GROUP * channels * s_c,                            \
            source + source_offset + extent, s_n, s_c, s_h, s_w, channels, source_h, source_w, target_h, target_w, \
            R, S, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)

#define C_PARAMETERS __global float *restrict target, long target_offset, long t_n, long t_c, long t_h, long t_w
#define C_STRIP(ns)   \
  long where[NR];     \
  int runs[NV];       \
  place_strip(where, runs, ns, min(NR, n_end - ns), target_h, target_w, t_n, t_h, t_w);
#define TARGET_ROW(m) (target + target_offset + (GROUP * M + (m)) * t_c)
#define LOAD_C(m, n, count) load_placed(TARGET_ROW(m), where + (n - ns), runs[(n - ns) / VW], count)
#define STORE_C(m, n, v, count) store_placed(TARGET_ROW(m), where + (n - ns), runs[(n - ns) / VW], v, count)
#define COLUMN_BIAS(m) bias[bias_offset + GROUP * M + (m)]

#include "gemm_cpu.cl"
