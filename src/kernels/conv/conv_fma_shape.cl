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

#include "lib/divisor.cl"
#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_fma.h"

#if STRIDED

#define BACKWARD 1
#include "conv/conv_phase.cl"

// Makes pad, dilation, w's strides and the target's those of the phase; the stride is not used any more.
// (Taps are counted from the first one, not from the last as in conv_phase.cl.)
#define SET_AXIS(x)                                                         \
  conv.pad.x = phase_##x.lower + (phase_##x.taps - 1) * phase_##x.dilation; \
  conv.dilation.x = phase_##x.dilation;                                     \
  w += (phase_##x.last - (phase_##x.taps - 1) * phase_##x.step) * conv.w.x; \
  conv.w.x *= axes.x.step;                                                  \
  target_at += (long)phase_##x.first * conv.t.x;                            \
  conv.t.x *= axes.x.stride;
#define SET_DIVISOR_OF(name, value) conv.name = divisor_of(max(1, value));

#define PHASE_PARAMETERS PhaseAxes axes, FmaShape given
// A phase changes a copy: on PoCL work-items share a kernel's structs.
#define COPY_SHAPE FmaShape conv = given;
#define PHASE_SETUP                                                                                            \
  const int phases_w = axes.w.phases, phases_h = axes.h.phases, phases = phases_w * phases_h * axes.d.phases;  \
  const int n_tile = (int)get_group_id(0) / phases, phase = (int)get_group_id(0) % phases;                     \
  const struct Axis phase_w = axis_of(phase % phases_w, BACKWARD, axes.w);                                     \
  const struct Axis phase_h = axis_of(phase / phases_w % phases_h, BACKWARD, axes.h);                          \
  SET_DEPTH                                                                                                    \
  const int images = N, slice_count = phase_h.count * phase_w.count, slice_taps = phase_h.taps * phase_w.taps; \
  SET_DIVISOR_OF(plane, slice_count * COUNT_D)                                                                 \
  SET_DIVISOR_OF(columns, phase_w.count)                                                                       \
  SET_DIVISOR_OF(window, phase_w.taps)                                                                         \
  SET_INNER(slice_taps * TAPS_D)                                                                               \
  N = images * conv.plane.d;                                                                                   \
  K = conv.channels * slice_taps * TAPS_D;                                                                     \
  SET_AXIS(h)                                                                                                  \
  SET_AXIS(w)                                                                                                  \
  if (n_tile * TN >= N) return;
#if DEPTH
#define SET_DEPTH                                                                       \
  const struct Axis phase_d = axis_of(phase / (phases_w * phases_h), BACKWARD, axes.d); \
  SET_DIVISOR_OF(slice, phase_h.count * phase_w.count)                                  \
  SET_DIVISOR_OF(window_slice, phase_h.taps * phase_w.taps)                             \
  SET_AXIS(d)
#define COUNT_D phase_d.count
#define TAPS_D phase_d.taps
#else
#define SET_DEPTH
#define COUNT_D 1
#define TAPS_D 1
#endif
#if CHANNELS_LAST
#define SET_INNER(taps)
#else
#define SET_INNER(taps) SET_DIVISOR_OF(inner, taps)
#endif
#define N_TILE n_tile

#else
#define PHASE_PARAMETERS FmaShape conv
#define COPY_SHAPE
#define PHASE_SETUP
#endif
