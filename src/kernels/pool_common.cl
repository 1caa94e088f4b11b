// What the two forms of pooling share: parameters, and how a window takes an element in.

#include "types.cl"

#ifndef DTYPE
#define DTYPE f32
#define T float
#endif
#ifndef AVERAGE  // else the maximum
#define AVERAGE 0
#endif
#ifndef INDICES  // forward: whether the maxima's places are wanted
#define INDICES 0
#endif
#ifndef INCLUDE_PAD  // average: padding counts in the divisor
#define INCLUDE_PAD 1
#endif
#ifndef CHANNELS_LAST  // channels lie closer together than columns
#define CHANNELS_LAST 0
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define LOAD(p, i) JOIN(LOAD_, DTYPE)(p, i)
#define STORE(p, i, v) JOIN(STORE_, DTYPE)(p, i, v)

// A tensor and its strides; the sizes of x and y, the padding in front of and behind x, the window.
#define TENSOR(type, t) __global type *restrict t, long t##_o, long t##_n, long t##_c, long t##_h, long t##_w
#define SIZES                                                                                               \
  int N, int C, int H, int W, int P, int Q, int top, int left, int bottom, int right, int kernel_h,         \
      int kernel_w, int stride_h, int stride_w, int block

// Takes the element `value` at `place` into a window's result, if `ok`. A NaN wins, the last one if there are
// several; of equal maxima the first.
#if AVERAGE
#define TAKE(value, place, ok, result, where) result += (ok) ? (value) : 0;
#else
#define TAKE(value, place, ok, result, where)                   \
  {                                                             \
    const float v_ = (value);                                   \
    const int better_ = (ok) && (v_ > result || v_ != v_);      \
    result = better_ ? v_ : result;                             \
    where = better_ ? (place) : where;                          \
  }
#endif

// The number of elements, along one axis, that an average over the window at `start` divides by.
int divisor(int start, int window, int size, int pad_end) {
  const int end = start + window;
  return INCLUDE_PAD ? min(end, size + pad_end) - start : min(end, size) - max(start, 0);
}

// The first window along one axis that reaches padded element i.
int first_window(int i, int window, int stride) { return i < window ? 0 : (i - window) / stride + 1; }
