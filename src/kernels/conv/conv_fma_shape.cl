// Shapes as arguments of conv_fma.cl: numbers along axes, divisors, and the phases of strided backward data.
//
// To a phase (conv_phase.cl) backward data is a convolution without stride, by every step-th tap. Pixels that meet no tap have
// phases too, with K = 0. Phases are the fastest part of get_group_id(0), so that groups which write between each other's
// pixels run at about the same time; those of a phase with fewer tiles than the first one may find nothing to do.

#ifndef DEPTH
#define DEPTH 0
#endif
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
#ifndef STRIDED
#define STRIDED 0
#endif

// A number for each axis.
#if DEPTH
#define AXES(x) int x##_d, int x##_h, int x##_w
#define OF_AXES(x) x##_d, x##_h, x##_w
#else
#define AXES(x) int x##_h, int x##_w
#define OF_AXES(x) x##_h, x##_w
#endif

#include "lib/divisor.cl"

#if STRIDED

#define BACKWARD 1
#include "conv/conv_phase.cl"

// Makes pad, dilation, w's strides and the target's those of the phase; the stride is not used any more.
// (Taps are counted from the first one, not from the last as in conv_phase.cl.)
#define SET_AXIS(x)                                                      \
  pad_##x = phase_##x.lower + (phase_##x.taps - 1) * phase_##x.dilation; \
  dilation_##x = phase_##x.dilation;                                     \
  w += (phase_##x.last - (phase_##x.taps - 1) * phase_##x.step) * w_##x; \
  w_##x *= step_##x;                                                     \
  target_at += (long)phase_##x.first * t_##x;                            \
  t_##x *= stride_##x;
#define PHASE_ON(x, number) axis_of(number, BACKWARD, pixels_##x, taps_##x, stride_##x, step_##x, pad_##x, dilation_##x)

// The target's sizes, w's, and the steps of taps.
#define PHASE_PARAMETERS AXES(pixels), AXES(taps), AXES(step),
#define PHASE_SETUP                                                                                       \
  const int phases_w = min(stride_w, pixels_w), phases_h = min(stride_h, pixels_h);                       \
  const int phases = phases_w * phases_h * PHASES_D, n_tile = (int)get_group_id(0) / phases;              \
  const int phase = (int)get_group_id(0) % phases;                                                        \
  const struct Axis phase_w = PHASE_ON(w, phase % phases_w), phase_h = PHASE_ON(h, phase / phases_w % phases_h); \
  SET_DEPTH                                                                                               \
  const int images = N, slice_count = phase_h.count * phase_w.count, slice_taps = phase_h.taps * phase_w.taps; \
  SET_DIVISOR(plane, slice_count * COUNT_D)                                                               \
  SET_DIVISOR(columns, phase_w.count)                                                                     \
  SET_DIVISOR(window, phase_w.taps)                                                                       \
  SET_INNER(slice_taps * TAPS_D)                                                                          \
  N = images * plane;                                                                                     \
  K = channels * slice_taps * TAPS_D;                                                                     \
  SET_AXIS(h)                                                                                             \
  SET_AXIS(w)                                                                                             \
  if (n_tile * TN >= N) return;
#if DEPTH
#define PHASES_D min(stride_d, pixels_d)
#define SET_DEPTH                                                           \
  const struct Axis phase_d = PHASE_ON(d, phase / (phases_w * phases_h));         \
  SET_DIVISOR(slice, phase_h.count * phase_w.count)                         \
  SET_DIVISOR(window_slice, phase_h.taps * phase_w.taps)                    \
  SET_AXIS(d)
#define COUNT_D phase_d.count
#define TAPS_D phase_d.taps
#else
#define PHASES_D 1
#define SET_DEPTH
#define COUNT_D 1
#define TAPS_D 1
#endif
#if CHANNELS_LAST
#define SET_INNER(taps)
#else
#define SET_INNER(taps) SET_DIVISOR(inner, taps)
#endif
#define N_TILE n_tile

#else
#define PHASE_PARAMETERS
#define PHASE_SETUP
#endif
