// Pixels and weights as gemm_nv_again.cl sees them, for conv_nv_wgmma.cl: steps of k of a tap are a multiple of 32.

#include "conv/conv_nv_tiles.cl"
#include "conv/conv_nv_map.cl"
#include "lib/ptx.cl"

#ifdef WARP_GROUPS
#define MULTIPLIERS (128 * WARP_GROUPS)
#define TILE_ROWS TILE_M
#define TILE_COLUMNS TILE_N
#endif
#include "gemm/gemm_nv_unpack.cl"
#ifndef STEP
#define STEP 32
#define STAGES 4
#define STAGE_BYTES (A_BYTES + 2 * B_BYTES)
#endif
#define AGAIN_ADDS(a, b) (!is_padding(a))
#define AGAIN_PADS !PLANES
// In local memory, so that what is made of it takes no registers beside the products. `padded`: steps of k of a tap.
struct Operands {
  __global const float *source, *w;
  long source_n, source_d, source_h, source_w, source_c, w_group, w_source, w_target, w_d, w_h, w_w;
  int size_d, size_h, size_w, step_d, step_h, step_w, C, N, padded;
  __global const ulong* maps;  // of each phase's source, of the upper parts of w and of the lower ones
  int phases;
  uint to, bar;  // where a stage comes, and the barrier that knows
};
// From the tile's first pixel and channel on.
struct Again {
  __local const struct Operands* all;
  __local const struct Phase* phase;
  int m, n, group, plane;
};
struct AgainStep {
  int channel, inside, at_d, at_h, at_w;  // from the pixel's own place
  long w;
};
static struct AgainStep again_step(const struct Again* from, int k) {
  __local const struct Operands* all = from->all;
  __local const struct Phase* phase = from->phase;
  const int tap = k / all->padded, tap_w = tap % phase->w.taps, row = tap / phase->w.taps;
  const int tap_h = row % phase->h.taps, tap_d = row / phase->h.taps;
  const struct AgainStep result = {
      k - tap * all->padded, tap_d < phase->d.taps, phase->d.lower + tap_d * phase->d.dilation,
      phase->h.lower + tap_h * phase->h.dilation, phase->w.lower + tap_w * phase->w.dilation,
      from->group * all->w_group + (phase->d.last - tap_d * phase->d.step) * all->w_d +
          (phase->h.last - tap_h * phase->h.step) * all->w_h + (phase->w.last - tap_w * phase->w.step) * all->w_w};
  return result;
}
static float again_a(const struct Again* from, const struct AgainStep* step, int row, int i) {
  __local const struct Operands* all = from->all;
  __local const struct Phase* phase = from->phase;
  const int tile_plane = from->plane;
  const int channel = step->channel + i;
  if (from->m + row >= phase->M || !step->inside || channel >= all->C) return 0;
  PIXEL(from->m + row)
  const int at_d = pixel_d * all->step_d + step->at_d, at_h = pixel_h * all->step_h + step->at_h;
  const int at_w = pixel_w * all->step_w + step->at_w;
  if (at_d < 0 || at_d >= all->size_d || at_h < 0 || at_h >= all->size_h || at_w < 0 || at_w >= all->size_w) return PADDING;
  return again_number(all->source[image * all->source_n + at_d * all->source_d + at_h * all->source_h + at_w * all->source_w +
                                  ((long)from->group * all->C + channel) * all->source_c]);
}
static float again_b(const struct Again* from, const struct AgainStep* step, int column, int i) {
  __local const struct Operands* all = from->all;
  const int channel = step->channel + i;
  if (from->n + column >= all->N || !step->inside || channel >= all->C) return 0;
  return all->w[(from->n + column) * all->w_target + channel * all->w_source + step->w];
}
// A step of 32 of the channels of a tap: the tap's digits, and the first channel.
#define AGAIN_TAP(from, s)                                                                    \
  __local const struct Phase* phase = (from)->phase;                                          \
  const int blocks_ = (from)->all->padded / STEP, tap_ = (s) / blocks_;                       \
  const int channel = ((s)-tap_ * blocks_) * STEP, tap_row_ = tap_ / phase->w.taps;           \
  const int tap_w = tap_ - tap_row_ * phase->w.taps, tap_d = tap_row_ / phase->h.taps;        \
  const int tap_h = tap_row_ - tap_d * phase->h.taps;
INLINE void again_feed(const struct Again* from, int s, int item) {
  if (item != 0) return;
  __local const struct Operands* all = from->all;
  AGAIN_TAP(from, s)
  const int tile_plane = from->plane;
  const int tap = phase->tap + tap_d * phase->tap_d + tap_h * phase->tap_h + tap_w * phase->tap_w;
  PIXEL(from->m)
  mbarrier_expect(all->bar, STAGE_BYTES);
#if PLANES
  COPY_ROWS(all->to, all->maps, 0, TILE_ROWS, STEP, channel, from->m, image, all->bar)
#else
  copy_pixels(all->to, all->maps + 16 * (tile_plane - from->group * all->phases), from->group * all->C + channel, image,
              phase->d.lower + pixel_d * all->step_d, phase->h.lower + pixel_h * all->step_h,
              phase->w.lower + pixel_w * all->step_w, tap_d * phase->d.dilation, tap_h * phase->h.dilation,
              tap_w * phase->w.dilation, all->bar);
#endif
  __global const ulong* of_w = all->maps + 16 * all->phases;
  bulk_copy(all->to + A_BYTES, of_w, channel, tap, from->group * all->N + from->n, all->bar);
  bulk_copy(all->to + A_BYTES + B_BYTES, of_w + 16, channel, tap, from->group * all->N + from->n, all->bar);
}
#define AGAIN_BAR(from) ((from)->all->bar)
// Whether the tap sees a pixel from there.
static int again_sees(const struct Again* from, int s, int row) {
  __local const struct Operands* all = from->all;
  AGAIN_TAP(from, s)
  const int tile_plane = from->plane;
  PIXEL(from->m + row)
  const int at_d = pixel_d * all->step_d + phase->d.lower + tap_d * phase->d.dilation;
  const int at_h = pixel_h * all->step_h + phase->h.lower + tap_h * phase->h.dilation;
  const int at_w = pixel_w * all->step_w + phase->w.lower + tap_w * phase->w.dilation;
  return at_d >= 0 && at_d < all->size_d && at_h >= 0 && at_h < all->size_h && at_w >= 0 && at_w < all->size_w;
}
INLINE uint again_bring(const struct Again* from, int s, int item, __local const float* stage, __local float* a, __local float* b) {
  return bring_stage(!PLANES, stage, a, b, item);
}
INLINE void again_pad(const struct Again* from, int s, int item, __local float* a, __local float* b) {
  const int row = item % TILE_ROWS, sees = again_sees(from, s, row);
// Unrolled, it makes all that is computed again a quarter slower, also where it does not run.
#pragma unroll 1
  for (int k = item / TILE_ROWS; k < 32; k += MULTIPLIERS / TILE_ROWS) {
    __local float* at = a + k * AGAIN_A_PITCH + row;
    *at = sees ? again_number(*at) : PADDING;
  }
}
#include "gemm/gemm_nv_again.cl"
#define AGAIN_OF_TILE() {&operands, phase, m, n, group, tile_plane}
