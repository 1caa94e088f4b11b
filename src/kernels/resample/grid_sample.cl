// Grid sampling forward, and backward with respect to the grid; and for CPUs backward with respect to x. An item of the grid (dimension 0)
// has `block` places of y, STRIP at a time, so that loops over them become vectors on a CPU; dimension 1 is (n, part of the
// channels). With INNER channels are neighbours in all tensors, and loops run along them.
// Sums over channels and taps are in one order: the same bits each time.

#include "resample/grid_sample_parts.cl"

// The taps of place `first`, by combinations. SLOPES: their derivatives are wanted, too.
#if STRIP == 1
#define FIND_STRIP(first, end, SLOPES)                                                              \
  const int count = 1;                                                                              \
  index_t in_y[1], in_grid[1], from[COMBINATIONS][1];                                               \
  real weight[COMBINATIONS][1], slopes[AXES][COMBINATIONS][1];                                      \
  {                                                                                                 \
    const int o = (first) / (size_p * size_q), p = (first) / size_q % size_p, q = (first) % size_q; \
    int at[AXES * TAPS];                                                                            \
    real w[AXES * TAPS], d[AXES * TAPS];                                                            \
    in_y[0] = AT(y, o, p, q);                                                                       \
    in_grid[0] = AT(grid, o, p, q);                                                                 \
    find_place(grid, in_grid[0], grid_c, size_d, size_h, size_w, at, w, d);                         \
    UNROLLED                                                                                        \
    for (int k = 0; k < COMBINATIONS; k++) {                                                        \
      from[k][0] = combined_at(at, k, x_d, x_h, x_w);                                               \
      weight[k][0] = combined_weight(w, k);                                                         \
      for (int a = 0; SLOPES && a < AXES; a++) {                                                    \
        real product = 1;                                                                           \
        for (int b = 0; b < AXES; b++) product *= (a == b ? d : w)[b * TAPS + TAP_OF(b, k)];        \
        slopes[a][k][0] = product;                                                                  \
      }                                                                                             \
    }                                                                                               \
  }
#else
// The same of the places [first, first + STRIP) below `end`, in loops over places that become vector instructions, all but the
// first. (Places are counted up: divisions would take as long as all else.)
#define FIND_STRIP(first, end, SLOPES)                                                                           \
  const int count = min(STRIP, (end) - (first));                                                                 \
  index_t in_y[STRIP], in_grid[STRIP], from[COMBINATIONS][STRIP];                                                \
  int at[AXES * TAPS][STRIP];                                                                                    \
  real along[AXES * TAPS][STRIP], slope_along[AXES * TAPS][STRIP];                                               \
  real weight[COMBINATIONS][STRIP], slopes[AXES][COMBINATIONS][STRIP];                                           \
  FOR_PLACES(first) {                                                                                            \
    in_y[s] = AT(y, o, p, q);                                                                                    \
    in_grid[s] = AT(grid, o, p, q);                                                                              \
  }                                                                                                              \
  for (int a = 0; a < AXES; a++) {                                                                               \
    const int size = a == 0 ? size_w : a == 1 ? size_h : size_d;                                                 \
    INDEPENDENT_ROUNDS                                                                                           \
    for (int s = 0; s < count; s++) {                                                                            \
      int at_[TAPS];                                                                                             \
      real w_[TAPS], d_[TAPS];                                                                                   \
      find_taps(LOAD_GRID(grid, in_grid[s] + a * grid_c), size, at_, w_, d_);                                    \
      ALWAYS_UNROLLED                                                                                            \
      for (int k = 0; k < TAPS; k++) {                                                                           \
        at[a * TAPS + k][s] = at_[k];                                                                            \
        along[a * TAPS + k][s] = w_[k];                                                                          \
        slope_along[a * TAPS + k][s] = d_[k];                                                                    \
      }                                                                                                          \
    }                                                                                                            \
  }                                                                                                              \
  for (int k = 0; k < COMBINATIONS; k++) {                                                                       \
    const int on_w = TAP_OF(0, k), on_h = TAPS + TAP_OF(1, k), on_d = (AXES - 1) * TAPS + TAP_OF(2, k);          \
    INDEPENDENT_ROUNDS                                                                                           \
    for (int s = 0; s < count; s++) {                                                                            \
      const int w = at[on_w][s], h = at[on_h][s], d = AXES == 3 ? at[on_d][s] : 0;                               \
      const index_t sum = d * x_d + h * x_h + w * x_w;                                                           \
      from[k][s] = w < 0 || h < 0 || d < 0 ? -1 : sum;                                                           \
      const real on_plane = along[on_w][s] * along[on_h][s];                                                     \
      weight[k][s] = AXES == 3 ? on_plane * along[on_d][s] : on_plane;                                           \
    }                                                                                                            \
    for (int a = 0; SLOPES && a < AXES; a++)                                                                     \
      for (int s = 0; s < count; s++) {                                                                          \
        const real on_plane = (a == 0 ? slope_along : along)[on_w][s] * (a == 1 ? slope_along : along)[on_h][s]; \
        slopes[a][k][s] = AXES == 3 ? on_plane * (a == 2 ? slope_along : along)[on_d][s] : on_plane;             \
      }                                                                                                          \
  }
// s counts the strip's places from `first` on, (o, p, q).
#define FOR_PLACES(first)                                                                                          \
  for (int s = 0, o = (first) / (size_p * size_q), p = (first) / size_q % size_p, q = (first) % size_q; s < count; \
       s++, q = q + 1 < size_q ? q + 1 : 0, p = q > 0 ? p : p + 1 < size_p ? p + 1 : 0, o = q > 0 || p > 0 ? o : o + 1)
// `factor` times what tap k of place s has in a channel, 0 outside.
#define TAPPED(factor, channel, k, s) (from[k][s] < 0 ? 0 : (factor)*LOAD_X(channel, from[k][s] < 0 ? 0 : from[k][s]))
#endif

// The taps of place s of the strip in registers, and on a CPU whether all are inside: loops over channels need no tests then.
#define TAKE_PLACE(s)                      \
  index_t own[COMBINATIONS], least = 0;    \
  real own_weight[COMBINATIONS];           \
  for (int k = 0; k < COMBINATIONS; k++) { \
    own[k] = from[k][s];                   \
    own_weight[k] = weight[k][s];          \
    least = min(least, own[k]);            \
  }
#define ALL_INSIDE (STRIP > 1 && least == 0)

#define SIZES                                                                                                           \
  const int size_n = sizes.n, size_c = sizes.c, size_d = sizes.d, size_h = sizes.h, size_w = sizes.w, size_p = sizes.p; \
  const int size_q = sizes.q, places = sizes.o * size_p * size_q;
#define MY_PLACES const int begin = (int)get_global_id(0) * block, end = min(begin + block, places);
#define MY_CHANNELS                                                                                            \
  const int parts = (size_c + channels - 1) / channels;                                                        \
  const int n = (int)get_global_id(1) / parts;                                                                 \
  const int c_begin = ((int)get_global_id(1) - n * parts) * channels, c_end = min(c_begin + channels, size_c); \
  if (n >= size_n) return;

__kernel void grid_sample(TENSOR(const X_T, x), TENSOR(const GRID_T, grid), TENSOR(Y_T, y), SampleSizes sizes, int block,
                          int channels) {
  STEPS(x)
  STEPS(y)
  STEPS(grid)
  SIZES
  MY_CHANNELS
  MY_PLACES
  x += x_o + n * x_steps.n;
  y += y_o + n * y_steps.n;
  grid += grid_o + n * grid_steps.n;
  for (int first = begin; first < end; first += STRIP) {
    FIND_STRIP(first, end, 0)
#if INNER
    for (int s = 0; s < count; s++) {
      for (int c = c_begin; c < c_end; c += 8) {
        const int lanes = min(c_end - c, 8);
        real sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        UNROLLED
        for (int k = 0; k < COMBINATIONS; k++) {
          if (from[k][s] < 0) continue;
          if (lanes == 8)
            for (int i = 0; i < 8; i++) sum[i] += weight[k][s] * LOAD_X(x, from[k][s] + c + i);
          else
            for (int i = 0; i < lanes; i++) sum[i] += weight[k][s] * LOAD_X(x, from[k][s] + c + i);
        }
        for (int i = 0; i < lanes; i++) STORE_Y(y, in_y[s] + c + i, sum[i]);
      }
    }
#elif STRIP > 1
    const bool together = in_y[count - 1] - in_y[0] == count - 1;
    for (int c = c_begin; c < c_end; c++) {
      __global const X_T* channel = x + c * x_c;
      __global Y_T* to = y + c * y_c;
      real sum[STRIP];
      INDEPENDENT_ROUNDS
      for (int s = 0; s < count; s++) {
        real sum_ = 0;
        ALWAYS_UNROLLED
        for (int k = 0; k < COMBINATIONS; k++) sum_ += TAPPED(weight[k][s], channel, k, s);
        sum[s] = sum_;
      }
      if (together)
        for (int s = 0; s < count; s++) STORE_Y(to, in_y[0] + s, sum[s]);
      else
        for (int s = 0; s < count; s++) STORE_Y(to, in_y[s], sum[s]);
    }
#else
    for (int s = 0; s < count; s++) {
      TAKE_PLACE(s)
      BITS inside[COMBINATIONS];
      UNROLLED
      for (int k = 0; k < COMBINATIONS; k++) {
        inside[k] = own[k] >= 0 ? -1 : 0;
        own[k] = max(own[k], 0);
        own_weight[k] = MASKED(own_weight[k], inside[k]);
      }
      FOUR_TOGETHER
      for (int c = c_begin; c < c_end; c++) {
        __global const X_T* channel = x + c * x_c;
        real sum = 0;
        UNROLLED
        for (int k = 0; k < COMBINATIONS; k++) sum += own_weight[k] * MASKED(LOAD_X(channel, own[k]), inside[k]);
        STORE_Y(y, c * y_c + in_y[s], sum);
      }
    }
#endif
  }
}

// y is dy, to is dgrid. All channels are one item's.
__kernel void grid_sample_backward_grid(TENSOR(const X_T, x), TENSOR(const GRID_T, grid), TENSOR(const Y_T, y),
                                        TENSOR(GRID_T, to), SampleSizes sizes, int block) {
  STEPS(x)
  STEPS(y)
  STEPS(grid)
  STEPS(to)
  SIZES
  const int n = (int)get_global_id(1);
  MY_PLACES
  x += x_o + n * x_steps.n;
  y += y_o + n * y_steps.n;
  grid += grid_o + n * grid_steps.n;
  to += to_o + n * to_steps.n;
  for (int first = begin; first < end; first += STRIP) {
    FIND_STRIP(first, end, 1)
#if STRIP > 1 && !INNER
    real sum[COMBINATIONS][STRIP];
    for (int k = 0; k < COMBINATIONS; k++)
      for (int s = 0; s < count; s++) sum[k][s] = 0;
    for (int c = 0; c < size_c; c++) {
      __global const X_T* channel = x + c * x_c;
      __global const Y_T* d = y + c * y_c;
      INDEPENDENT_ROUNDS
      for (int s = 0; s < count; s++) {
        const real own = LOAD_Y(d, in_y[s]);
        ALWAYS_UNROLLED
        for (int k = 0; k < COMBINATIONS; k++) sum[k][s] += TAPPED(own, channel, k, s);
      }
    }
    FOR_PLACES(first)
      for (int a = 0; a < AXES; a++) {
        real gradient = 0;
        for (int k = 0; k < COMBINATIONS; k++) gradient += from[k][s] < 0 ? 0 : slopes[a][k][s] * sum[k][s];
        STORE_GRID(to, AT(to, o, p, q) + a * to_c, gradient);
      }
  }
}
#else
    for (int s = 0; s < count; s++) {
      const int place = first + s, to_o = place / (size_p * size_q), to_p = place / size_q % size_p, to_q = place % size_q;
      TAKE_PLACE(s)
      real sum[COMBINATIONS];
      for (int k = 0; k < COMBINATIONS; k++) sum[k] = 0;
      FOUR_TOGETHER
      for (int c = 0; c < size_c; c++) {
        __global const X_T* channel = x + c * x_c;
        const real d = LOAD_Y(y, c * y_c + in_y[s]);
        if (ALL_INSIDE) {
          UNROLLED
          for (int k = 0; k < COMBINATIONS; k++) sum[k] += d * LOAD_X(channel, own[k]);
        } else {
          UNROLLED
          for (int k = 0; k < COMBINATIONS; k++)
            if (own[k] >= 0) sum[k] += d * LOAD_X(channel, own[k]);
        }
      }
      for (int a = 0; a < AXES; a++) {
        real gradient = 0;
        UNROLLED
        for (int k = 0; k < COMBINATIONS; k++)
          if (from[k][s] >= 0) gradient += slopes[a][k][s] * sum[k];
        STORE_GRID(to, AT(to, to_o, to_p, to_q) + a * to_c, gradient);
      }
    }
  }
}
#endif

// x is dx, y is dy. An item has all places of its channels to itself, so it adds without atomics, by ascending places. `add`
// points to sums as REAL with x's steps.
__kernel void grid_sample_backward_input(__global real* x, long x_o, SampleSteps x_steps,
                                         TENSOR(const GRID_T, grid), TENSOR(const Y_T, y), SampleSizes sizes, int channels) {
  STEPS(x)
  STEPS(y)
  STEPS(grid)
  SIZES
  MY_CHANNELS
  x += x_o + n * x_steps.n;
  y += y_o + n * y_steps.n;
  grid += grid_o + n * grid_steps.n;
  for (int c = c_begin; c < c_end; c++)
    for (int d = 0; d < size_d; d++)
      for (int h = 0; h < size_h; h++)
        for (int w = 0; w < size_w; w++) x[c * x_c + d * x_d + h * x_h + w * x_w] = 0;
  for (int first = 0; first < places; first += STRIP) {
    FIND_STRIP(first, places, 0)
#if INNER
    for (int s = 0; s < count; s++)
      UNROLLED
      for (int k = 0; k < COMBINATIONS; k++) {
        if (from[k][s] < 0) continue;
        __global real* add = x + from[k][s];
        __global const Y_T* d = y + in_y[s];
        INDEPENDENT_ROUNDS
        for (int c = c_begin; c < c_end; c++) add[c] += weight[k][s] * LOAD_Y(d, c);
      }
#else
    for (int c = c_begin; c < c_end; c++) {
      __global real* add = x + c * x_c;
      for (int s = 0; s < count; s++) {
        const real d = LOAD_Y(y, c * y_c + in_y[s]);
        UNROLLED
        for (int k = 0; k < COMBINATIONS; k++)
          if (from[k][s] >= 0) add[from[k][s]] += weight[k][s] * d;
      }
    }
#endif
  }
}
