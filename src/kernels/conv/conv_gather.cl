// Convolution as implicit GEMM: where the elements of its operands lie in x, w and dy, for kernels whose loops are GEMM's.
//
//   DIRECTION 0  forward          y[npq, k]  = sum over rsc of x[npq, rsc] w[rsc, k]
//   DIRECTION 1  backward data    dx[nhw, c] = sum over rsk of dy[nhw, rsk] w[rsk, c], of one phase (conv_phase.cl)
//   DIRECTION 2  backward filter  dw[k, rsc] = sum over npq of dy[k, npq] x[npq, rsc]
//
// A "pixel" is a position npq, or nhw in backward data; a "tap" is one of rsc, or rsk. "Source" is the tensor that taps reach
// into (x, or dy in backward data), "target" the other one (y, dx; dy in backward filter).
// The number of a pixel or a tap has digits: along width, height and depth, and one that is the image or the channel. A step of
// the sum adds digits to digits, without divisions. Offsets inside a tensor are 32-bit.

#ifndef DIRECTION
#define DIRECTION 0
#endif
// 1: there are three spatial axes, not two.
#ifndef DEPTH
#define DEPTH 0
#endif
// 0: there is only one tap in a channel, and it lies inside for every pixel (1x1, no padding).
#ifndef WINDOW
#define WINDOW 1
#endif
// Neighbouring taps are channels, rsc, or, 0, neighbours in the window, crs.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 1
#endif
// Backward data: whether a stride is above 1.
#ifndef STRIDED
#define STRIDED 0
#endif

#ifndef BACKWARD
#define BACKWARD (DIRECTION == 1)
#endif
#include "conv/conv_phase.cl"
#include "lib/divisor.cl"
#include "conv/conv_gather.h"

struct Digits {
  int other, d, h, w;
};
struct Radices {
  struct Divisor other, d, h, w;
};
// A place in a tensor: how many elements from its first one, modulo 2^32 (those of sums that lie inside are right), and where
// along the axes.
struct Place {
  uint at;
  int d, h, w;
};
// Digits to places: along an axis `base` and `step` for each; and the tensor's strides.
struct Map {
  int base_d, base_h, base_w, step_d, step_h, step_w, other, d, h, w;
};

// The highest axis, whose digit has no other axis above it.
#if DEPTH
#define TOP d
#else
#define TOP h
#endif

// `first`: the other digit is the lowest one, else the highest. The highest is not limited.
static struct Digits digits_of(int number, int first, const struct Radices* radices) {
  struct Digits x;
  int rest = number;
  x.d = 0;
  if (first) {
    rest = divided(number, radices->other);
    x.other = number - rest * radices->other.d;
  }
  const int rows = divided(rest, radices->w);
  x.w = rest - rows * radices->w.d;
#if DEPTH
  rest = divided(rows, radices->h);
  x.h = rows - rest * radices->h.d;
#else
  rest = rows;
#endif
  x.TOP = rest;
  if (!first) {
    x.other = divided(rest, radices->TOP);
    x.TOP = rest - x.other * radices->TOP.d;
  }
  return x;
}

static int carry(int* digit, int radix) {
  const int over = *digit >= radix;
  *digit -= over ? radix : 0;
  return over;
}
static void add_digits(struct Digits* x, const struct Digits* more, int first, const struct Radices* radices) {
  int over = 0;
  if (first) {
    x->other += more->other;
    over = carry(&x->other, radices->other.d);
  }
  x->w += more->w + over;
  over = carry(&x->w, radices->w.d);
#if DEPTH
  x->h += more->h + over;
  over = carry(&x->h, radices->h.d);
#endif
  x->TOP += more->TOP + over;
  if (!first) x->other += more->other + carry(&x->TOP, radices->TOP.d);
}

static struct Place place_of(const struct Digits* x, const struct Map* map) {
  struct Place place;
  place.h = map->base_h + x->h * map->step_h;
  place.w = map->base_w + x->w * map->step_w;
  place.at = (uint)x->other * map->other + (uint)place.h * map->h + (uint)place.w * map->w;
  place.d = 0;
  if (DEPTH) {
    place.d = map->base_d + x->d * map->step_d;
    place.at += (uint)place.d * map->d;
  }
  return place;
}

struct Shape {
  int pixels, taps;  // how many
  struct Radices pixel_radices, tap_radices;
  struct Map source_pixel, source_tap, w_tap, target_pixel;
  int source_d, source_h, source_w;
  int others;  // digits `other` of k from there on are padding
  int target_row, w_row;  // from one of the target's channels to the next
};

static struct Shape shape_of(int phase, GatherShape conv) {
  struct Shape s;
  const PhaseAxes axes = conv.axes;
  const struct Axis d = axis_of(phase / (axes.h.phases * axes.w.phases), BACKWARD, axes.d);
  const struct Axis h = axis_of(phase / axes.w.phases % axes.h.phases, BACKWARD, axes.h);
  const struct Axis w = axis_of(phase % axes.w.phases, BACKWARD, axes.w);
  s.pixels = conv.images * d.count * h.count * w.count;
  s.taps = conv.channels.d * d.taps * h.taps * w.taps;
#if STRIDED
#define COUNT_OF(x) divisor_of(x.count)
#define TAPS_OF(x) divisor_of(x.taps)
#else
#define COUNT_OF(x) conv.count.x
#define TAPS_OF(x) conv.window.x
#endif
  s.pixel_radices = (struct Radices){{conv.images, 0, 0}, COUNT_OF(d), COUNT_OF(h), COUNT_OF(w)};
  s.tap_radices = (struct Radices){conv.channels, TAPS_OF(d), TAPS_OF(h), TAPS_OF(w)};
  s.source_pixel = (struct Map){d.lower, h.lower, w.lower, SOURCE_STEP(axes.d), SOURCE_STEP(axes.h), SOURCE_STEP(axes.w),
                                conv.s.n, conv.s.d, conv.s.h, conv.s.w};
  s.source_tap =
      (struct Map){0, 0, 0, d.dilation, h.dilation, w.dilation, conv.s.c, conv.s.d, conv.s.h, conv.s.w};
  s.w_tap = (struct Map){d.last, h.last, w.last, -d.step, -h.step, -w.step, conv.w.c, conv.w.d, conv.w.h, conv.w.w};
  s.target_pixel = (struct Map){d.first, h.first, w.first, TARGET_STEP(axes.d), TARGET_STEP(axes.h), TARGET_STEP(axes.w),
                                conv.t.n, conv.t.d, conv.t.h, conv.t.w};
  s.source_d = axes.d.source, s.source_h = axes.h.source, s.source_w = axes.w.source;
  s.others = DIRECTION == 2 ? conv.images : conv.channels.d;
  s.target_row = conv.t.c, s.w_row = conv.w.n;
  return s;
}

// Whether a pixel and a tap, whichever is k's, meet inside the source.
static int meet(const struct Place* x, const struct Place* y, const struct Shape* shape) {
#if WINDOW
#if DEPTH
  if ((uint)(x->d + y->d) >= (uint)shape->source_d) return 0;
#endif
  return (uint)(x->h + y->h) < (uint)shape->source_h && (uint)(x->w + y->w) < (uint)shape->source_w;
#else
  return 1;
#endif
}

// The sum's steps k are taps, or, in backward filter, pixels. Two operands: the source, and the other one, w or dy.
#if DIRECTION == 2
#define K_FIRST 0
#define K_RADICES(shape) (&(shape)->pixel_radices)
#define K_OF_SOURCE(shape) (&(shape)->source_pixel)
#define K_OF_OTHER(shape) (&(shape)->target_pixel)
#define ROW_OF_OTHER(shape) (shape)->target_row
#define OTHER_GROUP conv.t.g
#else
#define K_FIRST CHANNELS_LAST
#define K_RADICES(shape) (&(shape)->tap_radices)
#define K_OF_SOURCE(shape) (&(shape)->source_tap)
#define K_OF_OTHER(shape) (&(shape)->w_tap)
#define ROW_OF_OTHER(shape) (shape)->w_row
#define OTHER_GROUP conv.w.g
#endif

// Row `number` of an operand's matrix [row][k].
static struct Place row_place(int source, int number, const struct Shape* shape) {
  struct Place place = {0, 0, 0, 0};
  if (!source) {
    place.at = (uint)number * ROW_OF_OTHER(shape);
    return place;
  }
#if DIRECTION == 2
  const struct Digits digits = digits_of(number, CHANNELS_LAST, &shape->tap_radices);
  return place_of(&digits, &shape->source_tap);
#else
  const struct Digits digits = digits_of(number, 0, &shape->pixel_radices);
  return place_of(&digits, &shape->source_pixel);
#endif
}
// What the source's row `number` is in the result: a pixel of channel 0, or a tap of filter 0.
static uint place_in_result(int number, const struct Shape* shape) {
#if DIRECTION == 2
  const struct Digits digits = digits_of(number, CHANNELS_LAST, &shape->tap_radices);
  return place_of(&digits, &shape->w_tap).at;
#else
  const struct Digits digits = digits_of(number, 0, &shape->pixel_radices);
  return place_of(&digits, &shape->target_pixel).at;
#endif
}

// Walks along k of an operand.
struct Walk {
  struct Digits at, more;
  int k, by;
};
static struct Walk walk_from(int k, int by, const struct Shape* shape) {
  struct Walk walk;
  walk.at = digits_of(k, K_FIRST, K_RADICES(shape));
  walk.more = digits_of(by, K_FIRST, K_RADICES(shape));
  walk.k = k;
  walk.by = by;
  return walk;
}
static void walk_on(struct Walk* walk, const struct Shape* shape) {
  add_digits(&walk->at, &walk->more, K_FIRST, K_RADICES(shape));
  walk->k += walk->by;
}
