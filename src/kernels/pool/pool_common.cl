// What all forms of pooling share: parameters, the windows over an axis and the taps of a window, and how a
// window takes elements in. Tensors are [N, C, D, H, W]; their windows along the last three are counted by O, P, Q.

#include "lib/types.cl"
#include "lib/divisor.cl"
#include "pool/pool.h"

#ifndef DTYPE
#define DTYPE f32
#define T float
#define REAL float  // of sums
#define LANE int    // as wide
#endif
#ifndef PLACE_TYPE  // of indices in memory
#define PLACE_TYPE int
#endif
#ifndef INDEX  // holds every offset within an image
#define INDEX long
#endif
#ifndef MODE  // 0: maximum, 1: average, 2: norm
#define MODE 0
#endif
#ifndef INDICES  // forward: whether the maxima's places are wanted
#define INDICES 0
#endif
#ifndef NORM  // of norms 1 to 4; 0: the argument `norm`
#define NORM 2
#endif
#ifndef UNIFORM  // all averages divide by `divided`, all norms are of whole windows
#define UNIFORM 1
#endif
#ifndef INCLUDE_PAD  // padding counts among a window's elements
#define INCLUDE_PAD 1
#endif
#ifndef ADAPTIVE  // 1: adaptive windows; 2: and their bounds are computed in 64 bits
#define ADAPTIVE 0
#endif
#ifndef DILATED
#define DILATED 0
#endif
#ifndef KERNEL_D  // the window and its steps, where they are small; 0: they come as arguments
#define KERNEL_D 0
#define KERNEL_H 0
#define KERNEL_W 0
#endif
#ifndef STRIDE_D
#define STRIDE_D 0
#define STRIDE_H 0
#define STRIDE_W 0
#endif
#ifndef CHANNELS_LAST  // channels lie closer together than columns
#define CHANNELS_LAST 0
#endif
#define MAXIMUM (MODE == 0)
#define AVERAGE (MODE == 1)

#define LOAD(p, i) JOIN(LOAD_, DTYPE)(p, i)
#define STORE(p, i, v) JOIN(STORE_, DTYPE)(p, i, v)

// A tensor and its strides. AXES has what there is to know of the three axes.
#define TENSOR(type, t) \
  __global type *restrict t, long t##_o, long t##_n, INDEX t##_c, INDEX t##_d, INDEX t##_h, INDEX t##_w
#define AXES PoolAxes axes, REAL norm
#define MAKE_AXIS(a, K, S)                                                                                   \
  {                                                                                                          \
    a.size, a.out, K ? K : a.taps, S ? S : a.stride, DILATED ? a.dilation : 1, a.pad, a.limit                \
  }
#define MAKE_AXES                                                     \
  const PoolWindows D = MAKE_AXIS(axes.d, KERNEL_D, STRIDE_D);        \
  const PoolWindows H = MAKE_AXIS(axes.h, KERNEL_H, STRIDE_H);        \
  const PoolWindows W = MAKE_AXIS(axes.w, KERNEL_W, STRIDE_W);

#if ADAPTIVE == 2
typedef long Product;
#else
typedef int Product;
#endif

// A window along one axis: tap t in [begin, end) is the element start + t * dilation of x; `counted` taps
// count in an average.
struct Taps {
  int start, begin, end, counted;
};
static struct Taps taps_of(PoolWindows a, int window) {
  struct Taps t;
#if ADAPTIVE
  t.start = (int)((Product)window * a.size / a.out);
  t.begin = 0;
  t.end = (int)(((Product)(window + 1) * a.size + a.out - 1) / a.out) - t.start;
  t.counted = t.end;
#else
  t.start = window * a.stride - a.pad;
  t.begin = t.start < 0 ? (a.dilation - 1 - t.start) / a.dilation : 0;
  t.end = min(a.taps, (a.size - t.start + a.dilation - 1) / a.dilation);
  t.counted = INCLUDE_PAD ? min(a.taps, (a.limit - t.start + a.dilation - 1) / a.dilation)
                          : max(0, t.end - t.begin);
#endif
  return t;
}

// The windows that may hold an element of x along one axis: `count` from `first` on, those that do by holds().
struct Windows {
  int first, count;
};
static struct Windows windows_of(PoolWindows a, int place) {
  struct Windows result;
#if ADAPTIVE
  result.first = (int)((Product)place * a.out / a.size);
  result.count = (int)(((Product)(place + 1) * a.out + a.size - 1) / a.size) - result.first;
#else
  result.count = (a.taps - 1) * a.dilation / a.stride + 1;
  result.first = (place + a.pad) / a.stride - (result.count - 1);
#endif
  return result;
}
static int holds(PoolWindows a, int window, int place) {
#if ADAPTIVE
  return 1;
#else
  const int tap = place + a.pad - window * a.stride;
  return window >= 0 && window < a.out && tap <= (a.taps - 1) * a.dilation && tap % a.dilation == 0;
#endif
}

// The elements that an average divides by; of norms, those that the sum is of.
static int elements_of(struct Taps d, struct Taps h, struct Taps w) {
  return max(1, d.counted * h.counted * w.counted);
}
static int taps_in_all(PoolWindows d, PoolWindows h, PoolWindows w) { return d.taps * h.taps * w.taps; }
// What a norm's sum is multiplied by.
static REAL scale_of(int elements, int all) { return UNIFORM || ADAPTIVE ? 1 : (REAL)all / (REAL)elements; }

// v^norm, its root, and the slope (x / y)^(norm - 1) by the ratio; of numbers and of vectors.
#if NORM == 1
#define POWER(v, norm) (v)
#define ROOT(v, norm) (v)
#define SLOPE(ratio, norm) ((ratio) * 0 + 1)
#elif NORM == 2
#define POWER(v, norm) ((v) * (v))
#define ROOT(v, norm) sqrt(v)
#define SLOPE(ratio, norm) (ratio)
#elif NORM == 3
#define POWER(v, norm) ((v) * (v) * (v))
#define ROOT(v, norm) pow(v, (REAL)1 / 3)
#define SLOPE(ratio, norm) ((ratio) * (ratio))
#elif NORM == 4
#define POWER(v, norm) (((v) * (v)) * ((v) * (v)))
#define ROOT(v, norm) sqrt(sqrt(v))
#define SLOPE(ratio, norm) ((ratio) * (ratio) * (ratio))
#else
#define POWER(v, norm) pow(v, norm)
#define ROOT(v, norm) pow(v, 1 / (norm))
#define SLOPE(ratio, norm) pow(ratio, (norm)-1)
#endif

// Takes the element `value` at `place` into a window's result. A NaN wins, the last one if there are several;
// of equal maxima the first.
#if MODE == 0
#define TAKE(value, place, result, where)             \
  {                                                   \
    const REAL v_ = (value);                          \
    const int better_ = v_ > result || v_ != v_;      \
    result = better_ ? v_ : result;                   \
    where = better_ ? (place) : where;                \
  }
#elif MODE == 1
#define TAKE(value, place, result, where) result += (value);
#else
#define TAKE(value, place, result, where) \
  {                                       \
    const REAL v_ = (value);              \
    result += POWER(v_, norm);            \
  }
#endif

// Where the first element of a window lies in its plane; -1 if it has none.
static int first_place(PoolWindows h, PoolWindows w, PoolWindows d, struct Taps td, struct Taps th, struct Taps tw) {
  if (td.begin >= td.end || th.begin >= th.end || tw.begin >= tw.end) return -1;
  const int depth = td.start + td.begin * d.dilation, row = th.start + th.begin * h.dilation;
  return (depth * h.size + row) * w.size + tw.start + tw.begin * w.dilation;
}

// Whether a is the result rather than b: a NaN before a number, the greater one, the last NaN, the first of
// equals. A place below 0 is none.
static int better(REAL a, int a_place, REAL b, int b_place) {
  const int a_nan = a != a, b_nan = b != b;
  if (b_place < 0 || a_place < 0) return b_place < 0;
  if (a_nan || b_nan) return a_nan && (!b_nan || a_place > b_place);
  return a > b || (a == b && a_place < b_place);
}
