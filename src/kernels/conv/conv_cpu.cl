// Convolution on CPUs, forward and backward data, as implicit GEMM: slots of gemm_cpu_loop.cl. The gathered
// operand B is written into the packed panel block by block and never exists whole. Backward filter is
// conv_cpu_filter.cl.
//
//   forward        C[k, npq] = sum over crs of w[k, crs] x[crs, npq]
//   backward data  C[c, nhw] = sum over krs of w[k, c, rs] dy[krs, nhw]
//
// (With DEPTH w has a tap t too, and positions a depth.) "source" is what is gathered (x, or dy), "target" what is
// written (y, or dx). Backward data comes phase by phase (conv_phase.cl): each is a convolution of stride 1 with some of
// the taps, in reverse order, so that here both are one. get_group_id(2) is the convolution's group.

// How w lies. 1: the k of a row side by side. 0: by its strides.
#ifndef W_PLAIN
#define W_PLAIN 0
#endif

#define GROUP ((long)get_group_id(2))
#define COLUMN_SCALE(m) LOAD_EPILOGUE(scale, scale_offset + GROUP * M + (m))
#define COLUMN_BIAS(m) LOAD_EPILOGUE(bias, bias_offset + GROUP * M + (m))
// Of tensors that lie as C does: `at` is the row's.
#define PLACED(at, n) at, where + (n - ns), runs[(n - ns) / VW]
#define LOAD_RESIDUAL(at) load_placed(PLACED(residual + residual_offset + (at), n), count)
#define KEEP(v, at) keep_placed(PLACED(preactivation + preactivation_offset + (at), n), v, count)
#include "conv/conv_cpu_axes.cl"
#include "gemm/gemm_cpu_types.cl"

// What one tap of the window makes of a piece of a target row, at most a vector long: columns [from, to) of it see source
// elements, `step` apart, the others see padding. The first column would see the one at `source`.
typedef struct {
  int at, length, from, to, step;
  long source;
} Piece;

// The pieces that columns n0, n0 + 1, ... of B have for tap number `tap`, in the first channel.
static int find_pieces(Piece* pieces, int n0, int count, int tap, PixelStrides s_step, CpuShape conv) {
  const int plane = conv.target.h * conv.target.w, volume = DEPTH ? conv.target.d * plane : plane;
  const int s = tap % conv.window.w, r = tap / conv.window.w % conv.window.h, t = tap / (conv.window.w * conv.window.h);
  int image = n0 / volume, o = DEPTH ? n0 % volume / plane : 0, i = n0 % plane / conv.target.w, j = n0 % plane % conv.target.w;
  int pieces_found = 0;
  // Target column j meets source column j * stride - shift.
  const int shift = conv.pad.w - s * conv.dilation.w, first = max(0, shift + conv.stride.w - 1) / conv.stride.w;
  const int end = conv.source.w + shift > 0 ? min(conv.target.w, (conv.source.w + shift - 1) / conv.stride.w + 1) : 0;
  for (int at = 0; at < count;) {
    const int row_length = min(conv.target.w - j, count - at);
    const int row = i * conv.stride.h - conv.pad.h + r * conv.dilation.h;
    const int slice = o * conv.stride.d - conv.pad.d + t * conv.dilation.d;
    const bool inside = row >= 0 && row < conv.source.h && slice >= 0 && slice < conv.source.d;
    const long row_source = (long)image * s_step.n + (long)slice * s_step.d + (long)row * s_step.h - (long)shift * s_step.w;
    for (int done = 0; done < row_length; done += VW) {
      Piece piece;
      const int column = j + done;
      piece.at = at + done;
      piece.length = min(VW, row_length - done);
      piece.step = conv.stride.w * s_step.w;
      piece.from = max(first - column, 0);
      piece.to = inside ? min(end - column, piece.length) : 0;
      piece.source = row_source + (long)column * piece.step;
      pieces[pieces_found++] = piece;
    }
    at += row_length;
    j = 0;
    if (++i < conv.target.h) continue;
    i = 0;
    if (DEPTH && ++o < conv.target.d) continue;
    o = 0;
    image++;
  }
  return pieces_found;
}

// Writes pieces of a line of B in ascending order. A piece may write up to VW - 1 numbers beyond its end.
static void put_pieces(Scalar* line, const Piece* pieces, int count, __global const AB_STORAGE* source,
                       long channel, int extent) {
  for (int p = 0; p < count; p++) {
    const Piece piece = pieces[p];
    Scalar* to = line + piece.at;
    const long at = channel + piece.source;
    // What lies beside and between the elements is read too, as long as it is in the tensor, and left out.
    if (piece.from >= piece.to) {
      VEC_AT(__private, to) = 0;
    } else if (piece.step == 1 && at >= 0 && at <= extent - VW) {
      VEC_AT(__private, to) =
          MASKED(VW, LOAD_WIDE(AB_TYPE, source + at), (LANES(VW) >= piece.from) & (LANES(VW) < piece.to));
    } else if (piece.step == 2 && at >= 0 && at <= extent - 2 * VW) {
      const VEC a = LOAD_WIDE(AB_TYPE, source + at), b = LOAD_WIDE(AB_TYPE, source + at + VW);
      VEC_AT(__private, to) =
          MASKED(VW, (VEC)(a.even, b.even), (LANES(VW) >= piece.from) & (LANES(VW) < piece.to));
    } else {
      for (int i = 0; i < piece.length; i++)
        to[i] = i >= piece.from && i < piece.to ? LOAD_AB(source, at + i * piece.step) : 0;
    }
  }
}

// Fills the panel tap by tap: all channels of a tap have the same pieces.
static void pack_taps(__local Scalar* panel, int k0, int kc, int n0, int n_end, __global const AB_STORAGE* source,
                      long first_channel, int extent, PixelStrides s_step, CpuShape conv) {
  Scalar line[NC + VW];
  Piece pieces[NC];
  const int count = n_end - n0, taps = conv.window.h * conv.window.w * (DEPTH ? conv.window.d : 1);
  for (int tap = 0; tap < min(taps, kc); tap++) {
    const int number = (k0 + tap) % taps;
    const int found = find_pieces(pieces, n0, count, number, s_step, conv);
    for (int k = tap; k < kc; k += taps) {
      put_pieces(line, pieces, found, source, first_channel + (long)((k0 + k) / taps) * s_step.c, extent);
      for (int i = count; i < (count + NR - 1) / NR * NR; i++) line[i] = 0;
      for (int n = 0; n < count; n += NR)
        for (int v = 0; v < NR; v += VW)
          VEC_AT(__local, panel + n * kc + k * NR + v) = VEC_AT(__private const, line + n + v);
    }
  }
}

// Where the columns ns, ns + 1, ... of C lie in the target: where[l], valid for the first column of each vector and, if
// the vector is no run of neighbours, for all of its columns.
static void place_strip(long* where, int* runs, int ns, int count, CpuShape conv, LongStrides t_step) {
  const int plane = conv.target.h * conv.target.w, volume = DEPTH ? conv.target.d * plane : plane;
  const int n = ns / volume, rest = ns % volume;
  if (t_step.w == 1 && (t_step.h == conv.target.w || conv.target.h == 1) && (t_step.d == plane || conv.target.d == 1) &&
      rest + count <= volume) {
    for (int v = 0; v < NV; v++) {
      where[v * VW] = n * t_step.n + rest + v * VW;
      runs[v] = 1;
    }
    return;
  }
  int o = DEPTH ? rest / plane : 0, i = rest % plane / conv.target.w, j = rest % conv.target.w;
  long row = n * t_step.n + (DEPTH ? o * t_step.d : 0) + i * t_step.h;
  for (int v = 0; v < NV; v++) {
    runs[v] = 1;
    for (int l = v * VW; l < min(count, (v + 1) * VW); l++) {
      where[l] = row + j * t_step.w;
      if (l > v * VW && where[l] != where[l - 1] + 1) runs[v] = 0;
      if (++j < conv.target.w) continue;
      j = 0;
      row += t_step.h;
      if (++i < conv.target.h) continue;
      i = 0;
      row -= conv.target.h * t_step.h;
      if (DEPTH) row += t_step.d;
      if (DEPTH && ++o < conv.target.d) continue;
      if (DEPTH) row -= conv.target.d * t_step.d;
      o = 0;
      row += t_step.n;
    }
  }
}

static void store_placed(__global C_STORAGE* target, const long* where, int run, VEC v, int count) {
  if (run) {
    write_c(target + where[0], v, count);
    return;
  }
  Scalar values[VW];
  VEC_AT(__private, values) = v;
  for (int l = 0; l < count; l++) STORE_C(target, where[l], values[l]);
}

static VEC load_placed(__global const C_STORAGE* target, const long* where, int run, int count) {
  if (run) return read_c(target + where[0], count);
  Scalar values[VW];
  for (int l = 0; l < VW; l++) values[l] = l < count ? LOAD_C(target, where[l]) : 0;
  return VEC_AT(__private const, values);
}

static VEC keep_placed(__global C_STORAGE* target, const long* where, int run, VEC v, int count) {
  store_placed(target, where, run, v, count);
  return v;
}

#define PACKED_A (GROUP * PADDED_A * K)

// Taps go from the first one that is met on.
#define A_PARAMETERS \
  __global const AB_STORAGE *restrict w, long w_offset, AxisSizes window, CpuFilter w_step
#define W_ROW(m) (w + w_offset + GROUP * w_step.g + (long)(m)*w_step.target)
#if W_PLAIN
#define A_ROW(m) __global const AB_STORAGE* restrict w_row = W_ROW(m);
#define LOAD_A(m, k) LOAD_AB(w_row, k)
#else
// to[0], to[step], ... = elements k0, k0 + 1, ... of a row of w.
static void pack_filter(__global Scalar* to, int step, int k0, int kc, __global const AB_STORAGE* row,
                        AxisSizes window, CpuFilter w_step) {
  int s = k0 % window.w, r = k0 / window.w % window.h, t = k0 / window.w / window.h % window.d;
  int c = k0 / window.w / window.h / window.d;
  for (int k = 0; k < kc; k++) {
    to[k * step] = LOAD_AB(row, c * w_step.source + t * w_step.d + r * w_step.h + s * w_step.w);
    if (++s < window.w) continue;
    s = 0;
    if (++r < window.h) continue;
    r = 0;
    if (++t < window.d) continue;
    t = 0;
    c++;
  }
}
#define PACK_A(to, m, k0, kc) pack_filter(to, MR, k0, kc, W_ROW(m), window, w_step);
#endif

#define B_PARAMETERS \
  __global const AB_STORAGE *restrict source, long source_offset, int extent, PixelStrides s_step, CpuShape conv
#define PACK_B(panel, k0, kc, n0, n_end) \
  pack_taps(panel, k0, kc, n0, n_end, source + source_offset, GROUP * conv.channels * s_step.c, extent, s_step, conv)

#include "conv/conv_cpu_sums.cl"

#define C_PARAMETERS \
  __global C_STORAGE *restrict target, long target_offset, LongStrides t_step SUM_PARAMETERS
#define C_STRIP(ns) \
  long where[NR];   \
  int runs[NV];     \
  place_strip(where, runs, ns, min(NR, n_end - ns), conv, t_step);
#define C_AT(m, n) ((GROUP * M + (m)) * t_step.c)
#define TARGET_ROW(m) (target + target_offset + C_AT(m, 0))
#define C_LINE(m) (TARGET_ROW(m) + where[0])
#define READ_C(m, n, count) load_placed(PLACED(TARGET_ROW(m), n), count)
#define WRITE_C(m, n, v, count) store_placed(PLACED(TARGET_ROW(m), n), v, count)

#include "gemm/gemm_cpu_loop.cl"
