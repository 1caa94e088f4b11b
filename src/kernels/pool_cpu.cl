// Two-dimensional pooling, forward and backward, on a CPU. A work-group of one item has eight results at a time in
// vector registers and loops over the window outside of them; nothing branches on data (with branches, random
// maxima cost five times as much). Sums are those of pool.cl, in its order.
// CHANNELS_LAST 0: the lanes are neighbouring elements of a plane, a work-item has `block` of them, the grid is
// (blocks, N * C). CHANNELS_LAST 1: the lanes are channels, a work-item has `block` rows, the grid is (blocks, N).

#include "pool_common.cl"

#ifndef UNIT  // what the lanes run along lies without gaps: channels of all tensors, else planes that are written
#define UNIT 0
#endif
#ifndef FLOATS  // DTYPE is f32
#define FLOATS 0
#endif

#define LOAD8(p, at)                                                                              \
  ((float8)(LOAD(p, (at).s0), LOAD(p, (at).s1), LOAD(p, (at).s2), LOAD(p, (at).s3), LOAD(p, (at).s4), \
            LOAD(p, (at).s5), LOAD(p, (at).s6), LOAD(p, (at).s7)))
#define LOAD8_INT(p, at) \
  ((int8)((p)[(at).s0], (p)[(at).s1], (p)[(at).s2], (p)[(at).s3], (p)[(at).s4], (p)[(at).s5], (p)[(at).s6], (p)[(at).s7]))

// The first `count` lanes of `v` to `to`, lane l at offset place[l].
#define STORE_LANES(to, place, count, v)                                     \
  if (UNIT && FLOATS && (count) == 8) {                                      \
    vstore8(v, 0, (__global float*)(to) + (place).s0);                       \
  } else {                                                                   \
    float value_[8];                                                         \
    int at_[8];                                                              \
    vstore8(v, 0, value_);                                                   \
    vstore8(place, 0, at_);                                                  \
    for (int l = 0; l < (count); l++) STORE(to, at_[l], value_[l]);          \
  }
#define STORE_LANES_INT(to, place, count, v)                                 \
  if (UNIT && (count) == 8) {                                                \
    vstore8(v, 0, (to) + (place).s0);                                        \
  } else {                                                                   \
    int value_[8], at_[8];                                                   \
    vstore8(v, 0, value_);                                                   \
    vstore8(place, 0, at_);                                                  \
    for (int l = 0; l < (count); l++) (to)[at_[l]] = value_[l];              \
  }

#define IOTA ((int8)(0, 1, 2, 3, 4, 5, 6, 7))

// TAKE of pool_common.cl for eight lanes, `ok` as OpenCL's vector comparisons give it.
#if AVERAGE
#define TAKE8(value, place, ok, result, where) result += select((float8)(0), value, ok);
#else
#define TAKE8(value, place, ok, result, where)                       \
  {                                                                  \
    const float8 v_ = (value);                                       \
    const int8 better_ = (ok) & ((v_ > result) | (v_ != v_));        \
    result = select(result, v_, better_);                            \
    where = select(where, place, better_);                           \
  }
#endif

#if CHANNELS_LAST

// Eight channels from `p` on; lanes that do not exist read an existing one's.
#define LOAD_CHANNELS(p, at, count) \
  (UNIT && FLOATS && (count) == 8 ? vload8(0, (__global const float*)(p)) : LOAD8(p, at))

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(int, i), SIZES) {
  const long n = (long)get_global_id(1);
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, P);
  for (int p = begin; p < end; p++)
    for (int q = 0; q < Q; q++) {
      const int h0 = p * stride_h - top, w0 = q * stride_w - left;
      const int r0 = max(0, -h0), r1 = min(kernel_h, H - h0), s0 = max(0, -w0), s1 = min(kernel_w, W - w0);
      const float divided = (float)(divisor(h0, kernel_h, H, bottom) * divisor(w0, kernel_w, W, right));
      for (int c = 0; c < C; c += 8) {
        const int count = min(8, C - c);
        const int8 lane = min(IOTA, count - 1), x_at = lane * (int)x_c;
        __global const T* from = x + x_o + n * x_n + c * x_c;
        float8 result = AVERAGE ? 0 : -INFINITY;
        int8 where = (h0 + r0) * W + w0 + s0;
        for (int r = r0; r < r1; r++)
          for (int s = s0; s < s1; s++) {
            __global const T* here = from + (h0 + r) * x_h + (w0 + s) * x_w;
            TAKE8(LOAD_CHANNELS(here, x_at, count), (int8)((h0 + r) * W + w0 + s), (int8)(-1), result, where)
          }
        if (AVERAGE) result /= divided;
        STORE_LANES(y + y_o + n * y_n + c * y_c + p * y_h + q * y_w, lane * (int)y_c, count, result)
        if (INDICES) STORE_LANES_INT(i + i_o + n * i_n + c * i_c + p * i_h + q * i_w, lane * (int)i_c, count, where)
      }
    }
}

// x stands for dx, y for dy.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const int, i), SIZES) {
  const long n = (long)get_global_id(1);
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, H);
  for (int h = begin; h < end; h++)
    for (int w = 0; w < W; w++) {
      const int p0 = first_window(h + top, kernel_h, stride_h), p1 = min((h + top) / stride_h, P - 1);
      const int q0 = first_window(w + left, kernel_w, stride_w), q1 = min((w + left) / stride_w, Q - 1);
      for (int c = 0; c < C; c += 8) {
        const int count = min(8, C - c);
        const int8 lane = min(IOTA, count - 1), y_at = lane * (int)y_c, i_at = lane * (int)i_c;
        float8 sum = 0;
        for (int p = p0; p <= p1; p++)
          for (int q = q0; q <= q1; q++) {
            const float8 d = LOAD_CHANNELS(y + y_o + n * y_n + c * y_c + p * y_h + q * y_w, y_at, count);
#if AVERAGE
            sum += d / (float)(divisor(p * stride_h - top, kernel_h, H, bottom) *
                               divisor(q * stride_w - left, kernel_w, W, right));
#else
            __global const int* from = i + i_o + n * i_n + c * i_c + p * i_h + q * i_w;
            const int8 place = UNIT && count == 8 ? vload8(0, from) : LOAD8_INT(from, i_at);
            sum += select((float8)(0), d, place == h * W + w);
#endif
          }
        STORE_LANES(x + x_o + n * x_n + c * x_c + h * x_h + w * x_w, lane * (int)x_c, count, sum)
      }
    }
}

#else

// Lanes' rows and columns in a plane of width WIDTH, from element `begin` on, and how they move on by eight.
#define LANES_START(WIDTH)                                               \
  int8 row, column;                                                      \
  {                                                                      \
    int row_[8], column_[8];                                             \
    row_[0] = begin / (WIDTH);                                           \
    column_[0] = begin % (WIDTH);                                        \
    for (int l = 1; l < 8; l++) {                                        \
      const int wrap_ = column_[l - 1] + 1 == (WIDTH);                   \
      row_[l] = row_[l - 1] + wrap_;                                     \
      column_[l] = wrap_ ? 0 : column_[l - 1] + 1;                       \
    }                                                                    \
    row = vload8(0, row_);                                               \
    column = vload8(0, column_);                                         \
  }                                                                      \
  const int rows_on = 8 / (WIDTH), columns_on = 8 % (WIDTH);
#define LANES_ON(WIDTH)                           \
  {                                               \
    column += columns_on;                         \
    const int8 wrap_ = column >= (WIDTH);         \
    column -= wrap_ & (WIDTH);                    \
    row += rows_on - wrap_;                       \
  }

#define DIVISORS(start, window, size, pad_end) \
  (INCLUDE_PAD ? min((start) + (window), (size) + (pad_end)) - (start) : min((start) + (window), size) - max(start, 0))

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(int, i), SIZES) {
  const long plane = (long)get_global_id(1), n = plane / C, c = plane % C;
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, P * Q);
  const int x_down = (int)x_h, x_right = (int)x_w;
  x += x_o + n * x_n + c * x_c;
  y += y_o + n * y_n + c * y_c;
  i += i_o + n * i_n + c * i_c;
  LANES_START(Q)
  for (int e = begin; e < end; e += 8) {
    const int8 h0 = row * stride_h - top, w0 = column * stride_w - left;
    float8 result = AVERAGE ? 0 : -INFINITY;
    int8 where = max(h0, 0) * W + max(w0, 0);
    for (int r = 0; r < kernel_h; r++)
      for (int s = 0; s < kernel_w; s++) {
        const int8 h = h0 + r, w = w0 + s;
        const int8 ok = (h >= 0) & (h < H) & (w >= 0) & (w < W);
        const int8 from = (h * x_down + w * x_right) & ok;
        TAKE8(LOAD8(x, from), h * W + w, ok, result, where)
      }
#if AVERAGE
    result /= convert_float8(DIVISORS(h0, kernel_h, H, bottom) * DIVISORS(w0, kernel_w, W, right));
#endif
    STORE_LANES(y, row * (int)y_h + column * (int)y_w, min(8, end - e), result)
    if (INDICES) STORE_LANES_INT(i, row * (int)i_h + column * (int)i_w, min(8, end - e), where)
    LANES_ON(Q)
  }
}

// x stands for dx, y for dy.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const int, i), SIZES) {
  const long plane = (long)get_global_id(1), n = plane / C, c = plane % C;
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, H * W);
  const int y_down = (int)y_h, y_right = (int)y_w, i_down = (int)i_h, i_right = (int)i_w;
  // A division that vectorises: below 2^21, i + 0.5 is farther from a multiple than the rounding reaches.
  const float per_h = 1.0f / (float)stride_h, per_w = 1.0f / (float)stride_w;
  // The most windows over one element, along H and W.
  const int over_h = (kernel_h - 1) / stride_h + 1, over_w = (kernel_w - 1) / stride_w + 1;
  x += x_o + n * x_n + c * x_c;
  y += y_o + n * y_n + c * y_c;
  i += i_o + n * i_n + c * i_c;
  LANES_START(W)
  for (int e = begin; e < end; e += 8) {
    const int8 h = row + top, w = column + left;
    const int8 p_last = convert_int8((convert_float8(h) + 0.5f) * per_h);
    const int8 q_last = convert_int8((convert_float8(w) + 0.5f) * per_w);
    float8 sum = 0;
    for (int a = over_h - 1; a >= 0; a--)
      for (int b = over_w - 1; b >= 0; b--) {
        const int8 p = p_last - a, q = q_last - b;
        const int8 ok = (p >= 0) & (p < P) & (q >= 0) & (q < Q) & (h - p * stride_h < kernel_h) &
                        (w - q * stride_w < kernel_w);
        const float8 d = LOAD8(y, (p * y_down + q * y_right) & ok);
#if AVERAGE
        const int8 divided = DIVISORS(p * stride_h - top, kernel_h, H, bottom) *
                             DIVISORS(q * stride_w - left, kernel_w, W, right);
        sum += select((float8)(0), d / convert_float8(divided), ok);
#else
        const int8 place = LOAD8_INT(i, (p * i_down + q * i_right) & ok);
        sum += select((float8)(0), d, ok & (place == row * W + column));
#endif
      }
    STORE_LANES(x, row * (int)x_h + column * (int)x_w, min(8, end - e), sum)
    LANES_ON(W)
  }
}

#endif
