// For convolution on CPUs whose source has its channels last: lines of what pixels of the target see of it. A line is
// [T, R, S, channels], cut into runs, elements that lie side by side in the source: the channels of a tap or, where
// taps are neighbours along the columns too, of a row of taps.

#include "conv/conv_cpu_axes.cl"
#include "gemm/gemm_cpu_types.cl"

// A pixel of the target: the source's position, and its element, that the first tap meets; where the pixel itself lies.
// inner: all taps meet the source, and VW elements may be read from each that they meet.
typedef struct {
  int at, d, h, w, inner;
  long target;
} Pixel;

// A piece of a run: `length` elements go to places `to`, to + 1, ... of a line. The run's first tap is (d, h, w) away from
// the pixel's position; the piece leaves out its first `skip` elements and begins `at` elements from the pixel's.
typedef struct {
  int to, length, at, d, h, w, skip;
} Piece;

#define SOURCE_PARAMETERS __global const AB_STORAGE *restrict source, long source_offset, int extent, PixelStrides s_step

// Pixels first, first + 1, ... of the target, row by row.
static void find_pixels(Pixel* pixels, int first, int count, int extent, LongStrides t_step,
                        PixelStrides s_step, CpuShape conv) {
  const int plane = conv.target.h * conv.target.w, volume = DEPTH ? conv.target.d * plane : plane;
  int image = first / volume, o = DEPTH ? first % volume / plane : 0;
  int i = first % plane / conv.target.w, j = first % plane % conv.target.w;
  const int deeper = DEPTH ? (conv.window.d - 1) * conv.dilation.d : 0, down = (conv.window.h - 1) * conv.dilation.h;
  const int across = (conv.window.w - 1) * conv.dilation.w;
  const int reach = (DEPTH ? deeper * s_step.d : 0) + down * s_step.h + across * s_step.w + conv.channels - 1 + VW;
  for (int m = 0; m < count; m++) {
    Pixel p;
    p.d = DEPTH ? o * conv.stride.d - conv.pad.d : 0;
    p.h = i * conv.stride.h - conv.pad.h;
    p.w = j * conv.stride.w - conv.pad.w;
    p.at = image * s_step.n + (DEPTH ? p.d * s_step.d : 0) + p.h * s_step.h + p.w * s_step.w;
    p.inner = p.h >= 0 && p.h + down < conv.source.h && p.w >= 0 && p.w + across < conv.source.w && p.at + reach <= extent;
    if (DEPTH) p.inner = p.inner && p.d >= 0 && p.d + deeper < conv.source.d;
    p.target = image * t_step.n + (DEPTH ? o * t_step.d : 0) + i * t_step.h + j * t_step.w;
    pixels[m] = p;
    if (++j < conv.target.w) continue;
    j = 0;
    if (++i < conv.target.h) continue;
    i = 0;
    if (DEPTH && ++o < conv.target.d) continue;
    o = 0;
    image++;
  }
}

// The pieces that places first, first + 1, ... of all lines are made of.
static int find_pieces(Piece* pieces, int first, int count, PixelStrides s_step, CpuShape conv) {
  const bool rows = conv.window.w == 1 || (s_step.w == conv.channels && conv.dilation.w == 1);  // a run is a row of taps
  const int taps = rows ? conv.window.w : 1, run = max(1, taps * conv.channels);  // there may be no taps
  int tap = first / run * taps, skip = first % run, found = 0;
  for (int done = 0; done < count;) {
    const int s = tap % conv.window.w, r = tap / conv.window.w % conv.window.h;
    const int t = DEPTH ? tap / conv.window.w / conv.window.h : 0;
    Piece p;
    p.to = done;
    p.length = min(run - skip, count - done);
    p.d = t * conv.dilation.d;
    p.h = r * conv.dilation.h;
    p.w = s * conv.dilation.w;
    p.at = (DEPTH ? p.d * s_step.d : 0) + p.h * s_step.h + p.w * s_step.w + skip;
    p.skip = skip;
    pieces[found++] = p;
    done += p.length;
    tap += taps;
    skip = 0;
  }
  return found;
}

// Where place i of a line lies: NR places side by side, `strip` apart from the next ones.
#define PLACE(i, strip) ((i) / NR * (strip) + (i) % NR)

// A pixel's line, in ascending order: up to VW - 1 numbers behind are written too. `extent` counts from `source` on.
static void put_line(__local Scalar* line, int strip, Pixel pixel, const Piece* pieces, int count,
                     __global const AB_STORAGE* source, int extent, int channels, AxisSizes size) {
  for (int i = 0; i < count && pixel.inner; i++) {
    const Piece p = pieces[i];
    __global const AB_STORAGE* from = source + pixel.at + p.at;
    for (int l = 0; l < p.length; l += VW)
      VEC_AT(__local, line + PLACE(p.to + l, strip)) = LOAD_WIDE(AB_TYPE, from + l);
  }
  for (int i = 0; i < count && !pixel.inner; i++) {
    const Piece p = pieces[i];
    const int d = pixel.d + p.d, h = pixel.h + p.h, at = pixel.at + p.at;
    const long w = pixel.w + p.w;
    const bool inside = h >= 0 && h < size.h && d >= 0 && d < size.d;
    // The elements [begin, end) of the piece are in the row of the source.
    const int end = inside ? (int)min((long)p.length, (size.w - w) * channels - p.skip) : 0;
    const int begin = end > 0 ? (int)min((long)end, max(0L, -w * channels - p.skip)) : 0;
    for (int l = 0; l < begin; l += VW) VEC_AT(__local, line + PLACE(p.to + l, strip)) = 0;
    int l = begin;
    for (; l < end && at + l <= extent - VW; l += VW)
      VEC_AT(__local, line + PLACE(p.to + l, strip)) = LOAD_WIDE(AB_TYPE, source + at + l);
    for (; l < end; l++) line[PLACE(p.to + l, strip)] = LOAD_AB(source, at + l);
    for (l = max(end, 0); l < p.length; l += VW) VEC_AT(__local, line + PLACE(p.to + l, strip)) = 0;
  }
}
