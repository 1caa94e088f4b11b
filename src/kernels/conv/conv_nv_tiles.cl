// The tiles of conv_nv_wgmma.cl: TILE_M pixels of a phase by TILE_N of the target's channels.

#ifndef PLANES
#define PLANES 0
#endif
#include "conv/conv_phase.cl"
#include "lib/divisor.cl"

// What a phase is to its tiles. Made once: divisions are slow.
struct Phase {
  int M, steps;                         // pixels; steps of k
  struct Divisor count_d, count_h, count_w;
  struct Axis d, h, w;
  int tap, tap_d, tap_h, tap_w;         // the first tap's place among w's, and what the next ones are away
};
#define MAKE_PHASE(phase, index)                                                  \
  {                                                                               \
    __local struct Phase* p_ = (phase);                                           \
    p_->d = axis_of((index) / (axes.h.phases * axes.w.phases), BACKWARD, axes.d); \
    p_->h = axis_of((index) / axes.w.phases % axes.h.phases, BACKWARD, axes.h);   \
    p_->w = axis_of((index) % axes.w.phases, BACKWARD, axes.w);                   \
    p_->M = (PLANES ? 1 : images) * p_->d.count * p_->h.count * p_->w.count;      \
    p_->steps = p_->d.taps * p_->h.taps * p_->w.taps * blocks;                    \
    p_->count_d = divisor_of(p_->d.count);                                        \
    p_->count_h = divisor_of(p_->h.count);                                        \
    p_->count_w = divisor_of(p_->w.count);                                        \
    p_->tap = (p_->d.last * axes.h.taps + p_->h.last) * axes.w.taps + p_->w.last; \
    p_->tap_d = -p_->d.step * axes.h.taps * axes.w.taps;                          \
    p_->tap_h = -p_->h.step * axes.w.taps;                                        \
    p_->tap_w = -p_->w.step;                                                      \
  }
// A tile: TILE_M pixels of a phase (PLANES: of image tile_plane) from m on, channels of the target from n on. Groups that run
// together share pixels.
#define TILE(index)                                                                                    \
  const int tile_row = divided(index, tiles_n), n = ((index)-tile_row * tiles_n.d) * TILE_N;           \
  const int tile_plane = divided(tile_row, tiles_m), m = (tile_row - tile_plane * tiles_m.d) * TILE_M; \
  const int group = PLANES ? 0 : divided(tile_plane, phases);                                          \
  __local const struct Phase* phase = table + (PLANES ? 0 : tile_plane - group * phases.d);
// Pixel number m of it.
#define PIXEL(m)                                                                                  \
  const int rows_ = divided(m, phase->count_w), planes_ = divided(rows_, phase->count_h);         \
  const int volumes_ = PLANES ? 0 : divided(planes_, phase->count_d), image = PLANES ? tile_plane : volumes_; \
  const int pixel_d = planes_ - volumes_ * phase->d.count;                                        \
  const int pixel_h = rows_ - planes_ * phase->h.count, pixel_w = (m)-rows_ * phase->w.count;

