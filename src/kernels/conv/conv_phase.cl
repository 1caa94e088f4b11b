// Forward and backward data convolution as one thing: pixels of the target, each the sum over taps of the source's pixels
// around it. In backward data with a stride, pixels of the target that lie a stride apart meet the same taps; they are a
// phase. To a phase the convolution has stride 1 and those taps only, in reverse order.

// Whether it is backward data: 0, 1, or what a kernel is told.
#ifndef BACKWARD
#define BACKWARD 0
#endif

// What an axis has. Sizes of target and source, `phases`: min(stride, target), `step`: stride / gcd(stride, dilation).
#define AXIS_PARAMETERS(x) \
  int target_##x, int source_##x, int taps_##x, int stride_##x, int phases_##x, int step_##x, int pad_##x, int dilation_##x
#define AXIS_ARGUMENTS(x) BACKWARD, target_##x, taps_##x, stride_##x, step_##x, pad_##x, dilation_##x

// A phase along an axis: `count` pixels of the target from `first` on, a stride apart. The first one's taps begin at the
// source's `lower` and lie `dilation` apart there; tap j is w's last - j * step.
struct Axis {
  int first, count, taps, last, step, lower, dilation;
};

static struct Axis axis_of(int phase, int backward, int target, int taps, int stride, int step, int pad, int dilation) {
  if (!backward) {
    const struct Axis forward = {0, target, taps, 0, -1, -pad, dilation};
    return forward;
  }
  struct Axis a;
  // The first tap whose distance to the pixel is a multiple of the stride.
  const int turn = dilation % stride;
  int tap = 0, rest = (phase + pad) % stride;
  if (rest < 0) rest += stride;
  for (; tap < min(step, taps) && rest != 0; tap++) rest += rest < turn ? stride - turn : -turn;
  a.first = phase;
  a.count = (target - phase + stride - 1) / stride;
  a.taps = tap < min(step, taps) ? (taps - tap + step - 1) / step : 0;
  a.last = tap + (a.taps - 1) * step;
  a.step = step;
  a.dilation = step * dilation / stride;
  a.lower = (phase + pad - tap * dilation) / stride - (a.taps - 1) * a.dilation;
  return a;
}
// From one pixel of a phase to the next: in the target, in the source.
#define TARGET_STEP(x) (BACKWARD ? stride_##x : 1)
#define SOURCE_STEP(x) (BACKWARD ? 1 : stride_##x)
