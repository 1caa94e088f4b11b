// Convolution on CPUs, forward and backward data, as implicit GEMM: slots of gemm_cpu_loop.cl. The gathered
// operand B is written into the packed panel block by block and never exists whole. Backward filter is
// conv_cpu_filter.cl.
//
//   forward        C[k, npq] = sum over crs of w[k, crs] x[crs, npq]
//   backward data  C[c, nhw] = sum over krs of w[k, c, rs] dy[krs, nhw]      (BACKWARD_DATA)
//
// "source" is what is gathered (x, or dy), "target" what is written (y, or dx). Target rows and columns are i
// and j. get_group_id(2) is the convolution's group; `channels` are the source's in one group.

#include "gemm_cpu_runs.cl"

#ifndef BACKWARD_DATA
#define BACKWARD_DATA 0
#endif

#define SHAPE_PARAMETERS                                                                            \
  int channels, int source_h, int source_w, int target_h, int target_w, int R, int S, int stride_h, \
      int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w

#define SHAPE                                                                                           \
  channels, source_h, source_w, target_h, target_w, R, S, stride_h, stride_w, pad_h, pad_w, dilation_h, \
      dilation_w

// What one tap of the window makes of a piece of a target row: columns [from, to) of it see source elements,
// `up` apart, the others see padding. The first one's lies at `source`, later ones `down` apart.
typedef struct {
  int at, length, from, to, up, down;
  long source;
} Piece;

// The pieces that columns n0, n0 + 1, ... of B have for tap (r, s), in the first channel. Where neighbours
// see neighbours, pieces are at most a vector long, and `source` is what the piece's first column would see.
static int find_pieces(Piece* pieces, int n0, int count, int r, int s, int s_n, int s_h, int s_w,
                       SHAPE_PARAMETERS) {
  const int plane = target_h * target_w;
  int image = n0 / plane, i = n0 % plane / target_w, j = n0 % plane % target_w, pieces_found = 0;
  const int shift = pad_w - s * dilation_w, ahead = max(0, shift + stride_w - 1) / stride_w;
#if BACKWARD_DATA
  // Target column j meets source column (j + shift) / stride, where that has no remainder.
  const int up = stride_w, down = s_w, first = ahead * stride_w - shift;
  const int end = min(target_w, (source_w - 1) * stride_w - shift + 1), first_source = ahead;
#else
  // Target column j meets source column j * stride - shift.
  const int up = 1, down = stride_w * s_w, first = ahead;
  const int end = source_w + shift > 0 ? min(target_w, (source_w + shift - 1) / stride_w + 1) : 0;
  const int first_source = first * stride_w - shift;
#endif
  const bool dense = up == 1 && down == 1;
  const int most = dense ? VW : target_w;
  for (int at = 0; at < count;) {
    const int row_length = min(target_w - j, count - at);
#if BACKWARD_DATA
    const int scaled = i + pad_h - r * dilation_h, row = stride_h == 1 ? scaled : scaled / stride_h;
    const bool inside = scaled >= 0 && row < source_h && row * stride_h == scaled;
#else
    const int row = i * stride_h - pad_h + r * dilation_h;
    const bool inside = row >= 0 && row < source_h;
#endif
    const long row_source = (long)image * s_n + (long)row * s_h + (long)first_source * s_w;
    for (int done = 0; done < row_length; done += most) {
      Piece piece;
      piece.at = at + done;
      piece.length = min(most, row_length - done);
      piece.up = up;
      piece.down = down;
      const int column = j + done;
      const int skip = column > first ? (up == 1 ? column - first : (column - first + up - 1) / up) : 0;
      piece.from = first + skip * up - column;
      piece.to = inside ? min(end - column, piece.length) : 0;
      piece.source = row_source + (long)skip * down - (dense ? piece.from : 0);
      pieces[pieces_found++] = piece;
    }
    at += row_length;
    j = 0;
    if (++i == target_h) {
      i = 0;
      image++;
    }
  }
  return pieces_found;
}

// Writes pieces of a line of B in ascending order. A piece may write up to VW - 1 floats beyond its end.
static void put_pieces(float* line, const Piece* pieces, int count, __global const float* source,
                       long channel, int extent) {
  for (int p = 0; p < count; p++) {
    const Piece piece = pieces[p];
    float* to = line + piece.at;
    const long at = channel + piece.source;
    if (piece.from >= piece.to) {
      for (int i = 0; i < piece.length; i += VW) VEC_AT(__private, to + i) = 0;
    } else if (piece.up == 1 && piece.down == 1 && at >= 0 && at <= extent - VW) {
      // What lies beside the run is read, as long as it is in the tensor, and masked out.
      const IVEC inside = (LANES >= piece.from) & (LANES < piece.to);
      VEC_AT(__private, to) = AS_VEC(AS_IVEC(VEC_AT(__global const, source + at)) & inside);
    } else {
      long seen = piece.up == 1 && piece.down == 1 ? at + piece.from : at;
      for (int i = 0; i < piece.length; i++) to[i] = 0;
      for (int i = piece.from; i < piece.to; i += piece.up, seen += piece.down) to[i] = source[seen];
    }
  }
}

// Fills the panel tap by tap: all channels of a tap have the same pieces.
static void pack_taps(__local float* panel, int k0, int kc, int n0, int n_end, __global const float* source,
                      long first_channel, int extent, int s_n, int s_c, int s_h, int s_w, SHAPE_PARAMETERS) {
  float line[NC + VW];
  Piece pieces[NC];
  const int count = n_end - n0, taps = R * S;
  for (int tap = 0; tap < min(taps, kc); tap++) {
    const int number = (k0 + tap) % taps;
    const int found = find_pieces(pieces, n0, count, number / S, number % S, s_n, s_h, s_w, SHAPE);
    for (int k = tap; k < kc; k += taps) {
      put_pieces(line, pieces, found, source, first_channel + (long)((k0 + k) / taps) * s_c, extent);
      for (int i = count; i < (count + NR - 1) / NR * NR; i++) line[i] = 0;
      for (int n = 0; n < count; n += NR)
        for (int v = 0; v < NR; v += VW)
          VEC_AT(__local, panel + n * kc + k * NR + v) = VEC_AT(__private const, line + n + v);
    }
  }
}

// Where the columns ns, ns + 1, ... of C lie in the target: where[l], valid for the first column of each
// vector and, if the vector is no run of neighbours, for all of its columns.
static void place_strip(long* where, int* runs, int ns, int count, int target_h, int target_w, long t_n,
                        long t_h, long t_w) {
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

static void store_placed(__global float* target, const long* where, int run, VEC v, int count) {
  if (run) {
    store_run(target + where[0], v, count);
    return;
  }
  float values[VW];
  VEC_AT(__private, values) = v;
  for (int l = 0; l < count; l++) target[where[l]] = values[l];
}

static VEC load_placed(__global const float* target, const long* where, int run, int count) {
  if (run) return load_run(target + where[0], count);
  float values[VW];
  for (int l = 0; l < VW; l++) values[l] = l < count ? target[where[l]] : 0;
  return VEC_AT(__private const, values);
}

#define GROUP ((long)get_group_id(2))
#define PACKED_A (GROUP * PADDED_A * K)

#define A_PARAMETERS __global const float *restrict w, long w_offset, int taps
#if BACKWARD_DATA
#define A_ROW(m) __global const float* restrict w_row = w + w_offset + GROUP * K * M + (long)(m)*taps;
#define LOAD_A(m, k) w_row[(long)((k) / taps) * M * taps + (k) % taps]
#else
#define A_ROW(m) __global const float* restrict w_row = w + w_offset + (GROUP * M + (m)) * K;
#define LOAD_A(m, k) w_row[k]
#endif

#define B_PARAMETERS                                                                                         \
  __global const float *restrict source, long source_offset, int extent, int s_n, int s_c, int s_h, int s_w, \
      SHAPE_PARAMETERS
#define PACK_B(panel, k0, kc, n0, n_end)                                                                     \
  pack_taps(panel, k0, kc, n0, n_end, source + source_offset, GROUP * channels * s_c, extent, s_n, s_c, s_h, \
            s_w, SHAPE)

#define C_PARAMETERS \
  __global float *restrict target, long target_offset, long t_n, long t_c, long t_h, long t_w
#define C_STRIP(ns) \
  long where[NR];   \
  int runs[NV];     \
  place_strip(where, runs, ns, min(NR, n_end - ns), target_h, target_w, t_n, t_h, t_w);
#define C_AT(m, n) 0  // no residual yet
#define TARGET_ROW(m) (target + target_offset + (GROUP * M + (m)) * t_c)
#define C_LINE(m) (TARGET_ROW(m) + where[0])
#define READ_C(m, n, count) load_placed(TARGET_ROW(m), where + (n - ns), runs[(n - ns) / VW], count)
#define WRITE_C(m, n, v, count) store_placed(TARGET_ROW(m), where + (n - ns), runs[(n - ns) / VW], v, count)
#define COLUMN_BIAS(m) bias[bias_offset + GROUP * M + (m)]

#include "gemm_cpu_loop.cl"
