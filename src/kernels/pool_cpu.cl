// Two-dimensional pooling, forward and backward, on a CPU. A work-group of one item has `block` rows of what
// is written and makes four results at a time, by loads of neighbouring elements and without branching on
// data: loads by index or branches cost three to six times as much. Sums are those of pool.cl, in its order.
// CHANNELS_LAST 0: the lanes run along W, and the grid is (blocks, N * C). Elements whose window touches the
// left or right border are made one by one. CHANNELS_LAST 1: the lanes are channels, the grid is (blocks, N).

#include "pool_common.cl"

#ifndef UNIT  // the axis of the lanes has stride 1 in all tensors
#define UNIT 0
#endif
#ifndef STRIDE_W  // the window's step along W if it is 1 or 2, else 0
#define STRIDE_W 0
#endif

#define LOAD4_f32(p) vload4(0, p)
#define LOAD4_f16(p) vload_half4(0, p)
#define LOAD4_bf16(p) as_float4(convert_uint4(vload4(0, p)) << 16)
#define STORE4_f32(p, v) vstore4(v, 0, p)
#define STORE4_f16(p, v) vstore_half4_rte(v, 0, p)
#define STORE4_bf16(p, v) \
  vstore4((ushort4)(bf16_bits((v).s0), bf16_bits((v).s1), bf16_bits((v).s2), bf16_bits((v).s3)), 0, p)
#define LOAD4(p) JOIN(LOAD4_, DTYPE)(p)
#define STORE4(p, v) JOIN(STORE4_, DTYPE)(p, v)

// Four elements `step` apart.
#define LOAD4_BY(p, step) \
  ((float4)(LOAD(p, 0), LOAD(p, step), LOAD(p, 2 * (step)), LOAD(p, 3 * (step))))
#define LOAD4_INT_BY(p, step) ((int4)((p)[0], (p)[step], (p)[2 * (step)], (p)[3 * (step)]))
#define STORE4_BY(p, step, v) \
  { STORE(p, 0, (v).s0); STORE(p, step, (v).s1); STORE(p, 2 * (step), (v).s2); STORE(p, 3 * (step), (v).s3); }
#define STORE4_INT_BY(p, step, v) \
  { (p)[0] = (v).s0; (p)[step] = (v).s1; (p)[2 * (step)] = (v).s2; (p)[3 * (step)] = (v).s3; }

// Neighbours along the lanes' axis, `step` its stride.
#if UNIT
#define NEAR4(p, step) LOAD4(p)
#define NEAR4_INT(p, step) vload4(0, p)
#define PUT4(p, step, v) STORE4(p, v)
#define PUT4_INT(p, step, v) vstore4(v, 0, p)
#else
#define NEAR4(p, step) LOAD4_BY(p, step)
#define NEAR4_INT(p, step) LOAD4_INT_BY(p, step)
#define PUT4(p, step, v) STORE4_BY(p, step, v)
#define PUT4_INT(p, step, v) STORE4_INT_BY(p, step, v)
#endif

// TAKE of pool_common.cl for four lanes.
#if AVERAGE
#define TAKE4(value, place, result, where) result += (value);
#else
#define TAKE4(value, place, result, where)            \
  {                                                   \
    const float4 v_ = (value);                        \
    const int4 better_ = v_ > result | v_ != v_;      \
    result = select(result, v_, better_);             \
    where = select(where, place, better_);            \
  }
#endif

// The divisors of four averages, their windows starting at `start`.
#define LEAST(a, b) min((int4)(a), (int4)(b))
#define DIVISOR4(start, window, size, pad_end)                         \
  (INCLUDE_PAD ? LEAST((start) + (window), (size) + (pad_end)) - (start) \
               : LEAST((start) + (window), size) - max((int4)(start), (int4)(0)))

#define IOTA ((int4)(0, 1, 2, 3))

// One element of y, its window's rows [r0, r1) and columns [s0, s1).
#define POOL_ONE(from, x_step, y_to, i_to)                                                                  \
  {                                                                                                         \
    float result_ = AVERAGE ? 0 : -INFINITY;                                                                \
    int where_ = (h0 + r0) * W + w0 + s0;                                                                   \
    for (int r = r0; r < r1; r++)                                                                           \
      for (int s = s0; s < s1; s++)                                                                         \
        TAKE(LOAD(from, (h0 + r) * x_h + (w0 + s) * x_w), (h0 + r) * W + w0 + s, 1, result_, where_)        \
    STORE(y_to, 0, AVERAGE ? result_ / (float)(down * divisor(w0, kernel_w, W, right)) : result_);          \
    if (INDICES) *(i_to) = where_;                                                                          \
  }

// One element of dx: what the windows [p0, p1] x [q0, q1] hand to (h, w).
#if AVERAGE
#define HANDED(y_from, i_from, p, q)                                                \
  LOAD(y_from, (p) * y_h + (q) * y_w) / (float)(divisor((p) * stride_h - top, kernel_h, H, bottom) * \
                                                divisor((q) * sw - left, kernel_w, W, right))
#else
#define HANDED(y_from, i_from, p, q) \
  ((i_from)[(p) * i_h + (q) * i_w] == h * W + w ? LOAD(y_from, (p) * y_h + (q) * y_w) : 0)
#endif
#define GATHER_ONE(y_from, i_from, x_to)                                                      \
  {                                                                                           \
    (void)(i_from);                                                                           \
    const int q0_ = first_window(w + left, kernel_w, sw), q1_ = min((w + left) / sw, Q - 1);  \
    float sum_ = 0;                                                                           \
    for (int p = p0; p <= p1; p++)                                                            \
      for (int q = q0_; q <= q1_; q++) sum_ += HANDED(y_from, i_from, p, q);                  \
    STORE(x_to, 0, sum_);                                                                     \
  }

#define MY_ROWS(count) const int begin = (int)get_global_id(0) * block, end = min(begin + block, count);

#if CHANNELS_LAST

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(int, i), SIZES) {
  const long n = (long)get_global_id(1);
  MY_ROWS(P)
  for (int p = begin; p < end; p++)
    for (int q = 0; q < Q; q++) {
      const int h0 = p * stride_h - top, w0 = q * stride_w - left;
      const int r0 = max(0, -h0), r1 = min(kernel_h, H - h0), s0 = max(0, -w0), s1 = min(kernel_w, W - w0);
      const int down = divisor(h0, kernel_h, H, bottom), divided = down * divisor(w0, kernel_w, W, right);
      __global const T* from = x + x_o + n * x_n;
      __global T* y_to = y + y_o + n * y_n + p * y_h + q * y_w;
      __global int* i_to = i + i_o + n * i_n + p * i_h + q * i_w;
      int c = 0;
      for (; c + 4 <= C; c += 4) {
        float4 result = AVERAGE ? 0 : -INFINITY;
        int4 where = (h0 + r0) * W + w0 + s0;
        for (int r = r0; r < r1; r++)
          for (int s = s0; s < s1; s++)
            TAKE4(NEAR4(from + c * x_c + (h0 + r) * x_h + (w0 + s) * x_w, x_c),
                  (int4)((h0 + r) * W + w0 + s), result, where)
        if (AVERAGE) result /= (float)divided;
        PUT4(y_to + c * y_c, y_c, result);
        if (INDICES) PUT4_INT(i_to + c * i_c, i_c, where);
      }
      for (; c < C; c++) POOL_ONE(from + c * x_c, x_c, y_to + c * y_c, i_to + c * i_c)
    }
}

// x stands for dx, y for dy.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const int, i), SIZES) {
  const long n = (long)get_global_id(1);
  const int sw = stride_w;
  MY_ROWS(H)
  for (int h = begin; h < end; h++)
    for (int w = 0; w < W; w++) {
      const int p0 = first_window(h + top, kernel_h, stride_h), p1 = min((h + top) / stride_h, P - 1);
      const int q0 = first_window(w + left, kernel_w, sw), q1 = min((w + left) / sw, Q - 1);
      __global T* x_to = x + x_o + n * x_n + h * x_h + w * x_w;
      __global const T* y_from = y + y_o + n * y_n;
      __global const int* i_from = i + i_o + n * i_n;
      int c = 0;
      for (; c + 4 <= C; c += 4) {
        float4 sum = 0;
        for (int p = p0; p <= p1; p++)
          for (int q = q0; q <= q1; q++) {
            const float4 d = NEAR4(y_from + c * y_c + p * y_h + q * y_w, y_c);
#if AVERAGE
            sum += d / (float)(divisor(p * stride_h - top, kernel_h, H, bottom) *
                               divisor(q * sw - left, kernel_w, W, right));
#else
            const int4 place = NEAR4_INT(i_from + c * i_c + p * i_h + q * i_w, i_c);
            sum += select((float4)(0), d, place == h * W + w);
#endif
          }
        PUT4(x_to + c * x_c, x_c, sum);
      }
      for (; c < C; c++) GATHER_ONE(y_from + c * y_c, i_from + c * i_c, x_to + c * x_c)
    }
}

#else

// The elements of four neighbouring windows that lie at `p` and at each a window's step on.
#if UNIT && STRIDE_W == 1
#define WINDOWS4(p) LOAD4(p)
#elif UNIT && STRIDE_W == 2
#define WINDOWS4(p) ((float4)(LOAD4(p).s02, LOAD4((p) + 3).s13))
#else
#define WINDOWS4(p) LOAD4_BY(p, sw * x_w)
#endif

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(int, i), SIZES) {
  const long plane = (long)get_global_id(1), n = plane / C, c = plane % C;
  const int sw = STRIDE_W ? STRIDE_W : stride_w;
  // The windows of columns [inner, outer) lie inside, and are at least four or none.
  int inner = min((left + sw - 1) / sw, Q);
  int outer = W + left < kernel_w ? 0 : min((W + left - kernel_w) / sw + 1, Q);
  if (outer - inner < 4) inner = outer = Q;
  MY_ROWS(P)
  for (int p = begin; p < end; p++) {
    const int h0 = p * stride_h - top, r0 = max(0, -h0), r1 = min(kernel_h, H - h0);
    const int down = divisor(h0, kernel_h, H, bottom);
    __global const T* from = x + x_o + n * x_n + c * x_c;
    __global T* y_to = y + y_o + n * y_n + c * y_c + p * y_h;
    __global int* i_to = i + i_o + n * i_n + c * i_c + p * i_h;
    for (int q = 0; q < Q; q++) {
      if (q == inner) q = outer;
      if (q == Q) break;
      const int w0 = q * sw - left, s0 = max(0, -w0), s1 = min(kernel_w, W - w0);
      POOL_ONE(from, x_w, y_to + q * y_w, i_to + q * i_w)
    }
    for (int q = inner; q < outer; q += 4) {
      q = min(q, outer - 4);  // the last four may overlap those before: they are made twice, and equal
      const int w0 = q * sw - left;
      const int4 corner = (h0 + r0) * W + w0 + IOTA * sw;
      float4 result = AVERAGE ? 0 : -INFINITY;
      int4 where = corner;
      for (int r = r0; r < r1; r++)
        for (int s = 0; s < kernel_w; s++)
          TAKE4(WINDOWS4(from + (h0 + r) * x_h + (w0 + s) * x_w), corner + ((r - r0) * W + s), result, where)
      if (AVERAGE) result /= (float)(down * kernel_w);
      PUT4(y_to + q * y_w, y_w, result);
      if (INDICES) PUT4_INT(i_to + q * i_w, i_w, where);
    }
  }
}

// x stands for dx, y for dy. Padded columns u = w + left are seen as u = m sw + phase: window m - b holds u
// if phase + b sw < kernel_w, so that for one phase neighbours m have neighbouring windows.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const int, i), SIZES) {
  const long plane = (long)get_global_id(1), n = plane / C, c = plane % C;
  const int sw = STRIDE_W ? STRIDE_W : stride_w, most = (kernel_w - 1) / sw;
  // For m in [inner, outer), at least four or none, all windows and all elements exist.
  int inner = max(most, (left + sw - 1) / sw), outer = min((left + W) / sw, Q);
  if (outer - inner < 4) inner = outer = (left + W - 1) / sw + 1;
  MY_ROWS(H)
  for (int h = begin; h < end; h++) {
    const int p0 = first_window(h + top, kernel_h, stride_h), p1 = min((h + top) / stride_h, P - 1);
    __global T* x_to = x + x_o + n * x_n + c * x_c + h * x_h;
    __global const T* y_from = y + y_o + n * y_n + c * y_c;
    __global const int* i_from = i + i_o + n * i_n + c * i_c;
    for (int w = 0; w < W; w++) {
      if (w + left >= inner * sw && w + left < outer * sw) w = outer * sw - left;
      if (w >= W) break;
      GATHER_ONE(y_from, i_from, x_to + w * x_w)
    }
    for (int m = inner; m < outer; m += 4) {
      m = min(m, outer - 4);
      float4 even = 0;  // the sums of phase 0, kept until those of phase 1 are there
      for (int phase = 0; phase < sw; phase++) {
        const int w = m * sw + phase - left;
        float4 sum = 0;
        for (int p = p0; p <= p1; p++)
          for (int b = most; b >= 0; b--) {
            if (phase + b * sw >= kernel_w) continue;
            const float4 d = NEAR4(y_from + p * y_h + (m - b) * y_w, y_w);
#if AVERAGE
            const int4 start = (m - b + IOTA) * sw - left;
            const int4 divided = DIVISOR4(start, kernel_w, W, right);
            sum += d / convert_float4(divided * divisor(p * stride_h - top, kernel_h, H, bottom));
#else
            const int4 place = NEAR4_INT(i_from + p * i_h + (m - b) * i_w, i_w);
            sum += select((float4)(0), d, place == h * W + w + IOTA * sw);
#endif
          }
        const int packed = UNIT ? sw : 0;
        if (packed == 1) {
          PUT4(x_to + w * x_w, x_w, sum);
        } else if (packed == 2) {
          if (phase == 0) {
            even = sum;
          } else {
            PUT4(x_to + (w - 1) * x_w, x_w, ((float4)(even.s0, sum.s0, even.s1, sum.s1)));
            PUT4(x_to + (w + 3) * x_w, x_w, ((float4)(even.s2, sum.s2, even.s3, sum.s3)));
          }
        } else {
          STORE4_BY(x_to + w * x_w, sw * x_w, sum)
        }
      }
    }
  }
}

#endif
