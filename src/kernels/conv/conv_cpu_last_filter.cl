// Convolution on CPUs, backward filter, of tensors whose channels are last, as implicit GEMM: slots of gemm_cpu_loop.cl.
//
//   C[k, rsc] = sum over npq of dy[npq, k] x[npq, rsc]        (DEPTH: trsc, nopq)
//
// C is a matrix of Scalars. The sum is cut into parts of `part` steps, a multiple of KC, which work-groups of their own
// compute: part 0 goes to the first dw at c, part 1 to the second, ... get_group_id(2) is group * parts + part's number.
// "source" is x, "target" dy. B_DIRECT: the pixels of x
// are evenly spaced, and each meets one tap.

#define A_PACKED 0
#define B_PACKED 0
#include "conv/conv_cpu_pixels.cl"

// Panels of dy's filters, `count` of them from `target` on: pixel by pixel, which lie far apart.
static void pack_outputs(__local Scalar* to, const Pixel* pixels, int count, int kc, __global const AB_STORAGE* target,
                         int extent) {
  for (int k = 0; k < kc; k++) {
    const int at = (int)pixels[k].target;
    __local Scalar* line = to + k * MR;
    for (int m = 0; m < count; m += MR, line += MR * KC) {
      int i = 0;
      // What lies behind a panel's filters is read too, as long as it is in the tensor, and overwritten: not behind the
      // panel, where the next one lies.
      const int most = min(extent - at - m, (kc - k) * MR) - VW;
      if (count - m >= MR)
        for (; i < MR && i <= most; i += VW) VEC_AT(__local, line + i) = LOAD_WIDE(AB_TYPE, target + at + m + i);
      for (; i < MR; i++) line[i] = i < count - m ? LOAD_AB(target, at + m + i) : 0;
    }
  }
}

#define SETUP                                                                                       \
  const int parts = max(1, (K + part - 1) / part);                                                  \
  const long group = (long)get_group_id(2) / parts, k_begin = (long)get_group_id(2) % parts * part; \
  K = min(part, (int)(K - k_begin));                                                                \
  Pixel pixels[KC];

#define B_PITCH s_step.w
#define B_AT(k, n) (source + source_offset + group * conv.channels + (n) + (k_begin + (k)) * s_step.w)

#define A_PARAMETERS int part, __global const AB_STORAGE *restrict target, long target_offset, int target_extent
#define PACK_PANELS(to, m, m_end, k0, kc)                                                        \
  pack_outputs(to, pixels, m_end - (m), kc, target + target_offset + group * M + (m),            \
               target_extent - (int)(group * M + (m)));

// Columns n0, n0 + 1, ... of a block: strip by strip or, where pieces are whole vectors, pixel by pixel.
static void pack_inputs(__local Scalar* panel, const Pixel* pixels, int kc, int n0, int n_end,
                        __global const AB_STORAGE* source, int extent, PixelStrides s_step, CpuShape conv) {
  Piece pieces[NC];
  const bool whole = conv.channels % VW == 0;
  const int at_once = whole ? NC : NR;
  for (int n = n0; n < n_end; n += at_once) {
    const int columns = min(at_once, n_end - n);
    const int count = find_pieces(pieces, n, columns, s_step, conv);
    __local Scalar* strip = panel + (n - n0) * kc;
    for (int k = 0; k < kc; k++) {
      if (whole)
        put_line(strip + k * NR, NR * kc, pixels[k], pieces, count, source, extent, conv.channels, conv.source);
      else
        put_line(strip + k * NR, NR, pixels[k], pieces, count, source, extent, conv.channels, conv.source);
      for (int l = columns; l % NR != 0; l++) strip[k * NR + PLACE(l, NR * kc)] = 0;
    }
  }
}

#define B_PARAMETERS SOURCE_PARAMETERS, LongStrides t_step, CpuShape conv
#define BLOCK(k0, kc)                                                                                 \
  find_pixels(pixels, (int)(k_begin + (k0)), kc, extent - (int)group * conv.channels, t_step, s_step, \
              conv);
#define PACK_B(panel, k0, kc, n0, n_end)                                                                                         \
  pack_inputs(panel, pixels, kc, n0, n_end, source + source_offset + group * conv.channels, extent - (int)group * conv.channels, \
              s_step, conv)

#include "conv/conv_cpu_filter_sums.cl"

#include "gemm/gemm_cpu_loop.cl"
