// Forward and backward data convolution as one thing: pixels of the target, each the sum over taps of the source's pixels
// around it. In backward data with a stride, pixels of the target that lie a stride apart meet the same taps; they are a
// phase. To a phase the convolution has stride 1 and those taps only, in reverse order.

// Whether it is backward data: 0, 1, or what a kernel is told.
#ifndef BACKWARD
#define BACKWARD 0
#endif

#include "conv/conv_phase.h"

// A phase along an axis: `count` pixels of the target from `first` on, a stride apart. The first one's taps begin at the
// source's `lower` and lie `dilation` apart there; tap j is w's last - j * step.
struct Axis {
  int first, count, taps, last, step, lower, dilation;
};

static struct Axis axis_of(int phase, int backward, PhaseAxis x) {
  if (!backward) {
    const struct Axis forward = {0, x.target, x.taps, 0, -1, -x.pad, x.dilation};
    return forward;
  }
  struct Axis a;
  // The first tap whose distance to the pixel is a multiple of the stride.
  const int turn = x.dilation % x.stride;
  int tap = 0, rest = (phase + x.pad) % x.stride;
  if (rest < 0) rest += x.stride;
  for (; tap < min(x.step, x.taps) && rest != 0; tap++) rest += rest < turn ? x.stride - turn : -turn;
  a.first = phase;
  a.count = (x.target - phase + x.stride - 1) / x.stride;
  a.taps = tap < min(x.step, x.taps) ? (x.taps - tap + x.step - 1) / x.step : 0;
  a.last = tap + (a.taps - 1) * x.step;
  a.step = x.step;
  a.dilation = x.step * x.dilation / x.stride;
  a.lower = (phase + x.pad - tap * x.dilation) / x.stride - (a.taps - 1) * a.dilation;
  return a;
}
// From one pixel of a phase to the next: in the target, in the source.
#define TARGET_STEP(axis) (BACKWARD ? (axis).stride : 1)
#define SOURCE_STEP(axis) (BACKWARD ? 1 : (axis).stride)
