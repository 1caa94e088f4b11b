// Convolution on CPUs, forward and backward data, of tensors whose channels are last, as implicit GEMM: slots of
// gemm_cpu_loop.cl. Pixels are rows, so that what is gathered and what is stored are runs of channels.
//
//   forward        C[npq, k] = sum over rsc of x[npq, rsc] w[k, rsc]
//   backward data  C[nhw, c] = sum over rsk of dy[nhw, rsk] w[k, rs, c], phase by phase as in conv_cpu.cl
//
// (With DEPTH w has a tap t too.) Each work-group gathers the lines of its pixels; w is packed before.
// get_group_id(2) is the convolution's group; N are the target's channels in it.

#define A_PACKED 0
#define B_PACKED 1
#define A_BY_ROWS 1
// A_DIRECT: the pixels' lines are read where they lie, evenly spaced.
// How w lies. 1: the sum's channels side by side. 2: the target's. 0: by its strides.
#ifndef W_FORM
#define W_FORM 0
#endif

#define GROUP ((long)get_group_id(2))
#define ROW_BIAS(n) read_c(bias + bias_offset + GROUP * N + (n), count)
#define ROW_SCALE(n) read_c(scale + scale_offset + GROUP * N + (n), count)
#define LOAD_RESIDUAL(at) read_c(residual + residual_offset + (at), count)
#define KEEP(v, at) keep_c(preactivation + preactivation_offset + (at), v, count)
#include "conv/conv_cpu_pixels.cl"

#define A_PITCH s_step.w
#define A_AT(m, k) (source + source_offset + (m)*s_step.w + GROUP * conv.channels + (k))
// The rows' pixels; the last one's is there twice.
#define ROWS                                                                                      \
  Pixel pixels[MC + 1];                                                                           \
  find_pixels(pixels, m0, m_end - m0, extent - (int)GROUP * conv.channels, t_step, s_step, conv); \
  pixels[m_end - m0] = pixels[m_end - m0 - 1];

static void pack_pixels(__local Scalar* to, const Pixel* pixels, int rows, int k0, int kc, __global const AB_STORAGE* source,
                        int extent, PixelStrides s_step, CpuShape conv) {
  Piece pieces[KC];
  const int count = find_pieces(pieces, k0, kc, s_step, conv);
  for (int i = 0; i < rows; i++) put_line(to + i * KC, NR, pixels[i], pieces, count, source, extent, conv.channels, conv.source);
  for (int i = rows; i < MR; i++)
    for (int k = 0; k < kc; k += VW) VEC_AT(__local, to + i * KC + k) = 0;
}

#define A_PARAMETERS SOURCE_PARAMETERS, CpuShape conv
#define PACK_PANEL(to, m, rows, k0, kc)                                                            \
  pack_pixels(to, pixels + ((m)-m0), rows, k0, kc, source + source_offset + GROUP * conv.channels, \
              extent - (int)GROUP * conv.channels, s_step, conv);

// One strip of w, `count` columns from `w` on.
static void pack_w(__global Scalar* strip, int k0, int kc, int count, __global const AB_STORAGE* w, int channels,
                   AxisSizes window, CpuFilter w_step) {
  for (int k = 0; k < kc;) {
    const int tap = (k0 + k) / channels, c = (k0 + k) % channels, length = min(channels - c, kc - k);
    const int s = tap % window.w, r = tap / window.w % window.h, t = tap / window.w / window.h;
    __global const AB_STORAGE* from = w + (c * w_step.source + t * w_step.d + r * w_step.h + s * w_step.w);
    __global Scalar* to = strip + k * NR;
    int n = 0;  // the columns before it are packed
#if W_FORM == 2
    if (count == NR) {
      for (; n < NR; n += VW)
        for (int l = 0; l < length; l++) VEC_AT(__global, to + l * NR + n) = LOAD_WIDE(AB_TYPE, from + l * w_step.source + n);
    }
#elif W_FORM == 1
    for (; n + 8 <= count; n += 8) PUT_RUNS(8, __global, to + n, NR, from + n * w_step.target, w_step.target, length)
#endif
    for (; n < NR; n++)
      for (int l = 0; l < length; l++) to[l * NR + n] = n < count ? LOAD_AB(from, n * w_step.target + l * w_step.source) : 0;
    k += length;
  }
}

// Taps go from the first one that is met on.
#define B_PARAMETERS \
  __global const AB_STORAGE *restrict w, long w_offset, int channels, AxisSizes window, CpuFilter w_step
#define PACK_B(to, k0, kc, n0, n_end) \
  pack_w(to, k0, kc, n_end - (n0), w + w_offset + GROUP * w_step.g + (long)(n0)*w_step.target, channels, window, w_step)
#define PACKED_B (GROUP * PADDED_B * K)

#include "conv/conv_cpu_sums.cl"

#define C_PARAMETERS __global C_STORAGE *restrict target, long target_offset, LongStrides t_step SUM_PARAMETERS
#define C_AT(m, n) (pixels[(m)-m0].target + GROUP * N + (n))
#define C_LINE(m) (target + target_offset + C_AT(m, ns))
#define READ_C(m, n, count) read_c(target + target_offset + C_AT(m, n), count)
#define WRITE_C(m, n, v, count) write_c(target + target_offset + C_AT(m, n), v, count)

#include "gemm/gemm_cpu_loop.cl"
