// Pooling on a CPU where channels lie side by side: the lanes are channels. A work-group of one item has
// `block` rows of what is written. Sums are those of pool.cl, in its order.
// The grid is (blocks of rows, N).

#include "pool/pool_lanes.cl"

// Calls BODY for blocks of L channels, c the first; the last may overlap the one before: its channels are
// made twice, and equal. REST is for a channel of fewer than L.
#define FOR_CHANNELS(BODY, REST)                    \
  if (axes.channels >= L) {                         \
    for (int c_ = 0; c_ < axes.channels; c_ += L) { \
      const int c = min(c_, axes.channels - L);     \
      BODY                                          \
    }                                               \
  } else {                                          \
    for (int c = 0; c < axes.channels; c++) REST    \
  }

// The window's result in `result` and `where`, by TAKER of what LOADER reads.
#define TAKE_WINDOW(TAKER, LOADER)                                                                  \
  for (int a = td.begin; a < td.end; a++)                                                           \
    for (int b = th.begin; b < th.end; b++)                                                         \
      for (int e = tw.begin; e < tw.end; e++) {                                                     \
        const int at_d = td.start + a * D.dilation, at_h = th.start + b * H.dilation;               \
        const int at_w = tw.start + e * W.dilation;                                                 \
        const INDEX at = c * x_c + at_d * x_d + at_h * x_h + at_w * x_w;                            \
        TAKER(LOADER, (at_d * H.size + at_h) * W.size + at_w, result, where)                        \
      }

#if MAXIMUM
#define FINISHED(v) v
#elif AVERAGE
#define FINISHED(v) (v) / (REAL)elements
#else
#define FINISHED(v) ROOT((v) * scale, norm)
#endif

#define FORWARD_LANES                                                      \
  {                                                                        \
    Reals result = MAXIMUM ? -INFINITY : 0;                                \
    Places where = none;                                                   \
    TAKE_WINDOW(TAKE_LANES_AT, NEAR(from + at, x_c))                       \
    const Reals made = FINISHED(result);                                   \
    PUT(y_to + c * y_c, y_c, made);                                        \
    if (INDICES) PUT_PLACES(i_to + c * i_c, i_c, where);                   \
  }
#define TAKE_LANES_AT(value, place, result, where) TAKE_LANES(value, (Places)(place), result, where)
#define FORWARD_ONE                                                        \
  {                                                                        \
    REAL result = MAXIMUM ? -INFINITY : 0;                                 \
    int where = none;                                                      \
    TAKE_WINDOW(TAKE, LOAD(from, at))                                      \
    const REAL made = FINISHED(result);                                    \
    STORE(y_to, c * y_c, made);                                            \
    if (INDICES) i_to[c * i_c] = where;                                    \
  }

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(PLACE_TYPE, i), AXES, int block) {
  MAKE_AXES
  BRING_CONSTANTS_IN
  const long n = (long)get_global_id(1);
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, D.out * H.out);
  __global const T* from = x + x_o + n * x_n;
  for (int line = begin; line < end; line++) {
    const int o = line / H.out, p = line % H.out;
    const struct Taps td = taps_of(D, o), th = taps_of(H, p);
    for (int q = 0; q < W.out; q++) {
      const struct Taps tw = taps_of(W, q);
      const int none = first_place(H, W, D, td, th, tw);
      const int elements = UNIFORM ? axes.divided : elements_of(td, th, tw);
      const REAL scale = scale_of(elements, taps_in_all(D, H, W));
      __global T* y_to = y + y_o + n * y_n + o * y_d + p * y_h + q * y_w;
      __global PLACE_TYPE* i_to = i + i_o + n * i_n + o * i_d + p * i_h + q * i_w;
      FOR_CHANNELS(FORWARD_LANES, FORWARD_ONE)
    }
  }
}

// What window (o, p, q) hands back to the element at `mine`; AT reads dy and the others.
#if MAXIMUM
#define HANDED_LANES                                                                      \
  select((Reals)(0), NEAR(y_from + c * y_c + y_at, y_c),                                  \
         NEAR_PLACES(i_from + c * i_c + o * i_d + p * i_h + q * i_w, i_c) == (LANE)mine)
#define HANDED_ONE \
  (i_from[c * i_c + o * i_d + p * i_h + q * i_w] == mine ? LOAD(y_from, c * y_c + y_at) : 0)
#elif AVERAGE
#define HANDED_LANES NEAR(y_from + c * y_c + y_at, y_c) / (REAL)(UNIFORM ? 1 : elements)
#define HANDED_ONE LOAD(y_from, c * y_c + y_at) / (REAL)(UNIFORM ? 1 : elements)
#else
#define T_AT (c * t_c + o * t_d + p * t_h + q * t_w)
#define HANDED_LANES lanes_of_norm(NEAR(y_from + c * y_c + y_at, y_c) * scale, NEAR(s_from + c * s_c, s_c), NEAR(t_from + T_AT, t_c), norm)
#define HANDED_ONE one_of_norm(LOAD(y_from, c * y_c + y_at) * scale, LOAD(s_from, c * s_c), LOAD(t_from, T_AT), norm)
static Reals lanes_of_norm(Reals handed, Reals x, Reals root, REAL norm) {
  const Reals ratio = x / root;
  return select(handed * SLOPE(ratio, norm), (Reals)(0), root == 0);
}
static REAL one_of_norm(REAL handed, REAL x, REAL root, REAL norm) {
  const REAL ratio = x / root;
  return root == 0 ? 0 : handed * SLOPE(ratio, norm);
}
#endif

#define SUM_WINDOWS(HANDED)                                                                    \
  for (int a = 0; a < in_d.count; a++)                                                         \
    for (int b = 0; b < in_h.count; b++)                                                       \
      for (int e = 0; e < in_w.count; e++) {                                                   \
        const int o = in_d.first + a, p = in_h.first + b, q = in_w.first + e;                  \
        if (!holds(D, o, depth) || !holds(H, p, row) || !holds(W, q, column)) continue;        \
        const INDEX y_at = o * y_d + p * y_h + q * y_w;                                        \
        const int elements =                                                                   \
            UNIFORM ? axes.divided : elements_of(taps_of(D, o), taps_of(H, p), taps_of(W, q)); \
        const REAL scale = scale_of(elements, taps_in_all(D, H, W));                           \
        sum += HANDED;                                                                         \
      }

// x stands for dx, y for dy; of norms s is x and t is y.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const PLACE_TYPE, i), TENSOR(const T, s),
                            TENSOR(const T, t), AXES, int block) {
  MAKE_AXES
  BRING_CONSTANTS_IN
  const long n = (long)get_global_id(1);
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, D.size * H.size);
  __global const T* y_from = y + y_o + n * y_n;
  __global const PLACE_TYPE* i_from = i + i_o + n * i_n;
  __global const T* t_from = t + t_o + n * t_n;
  for (int line = begin; line < end; line++) {
    const int depth = line / H.size, row = line % H.size;
    const struct Windows in_d = windows_of(D, depth), in_h = windows_of(H, row);
    for (int column = 0; column < W.size; column++) {
      const struct Windows in_w = windows_of(W, column);
      const int mine = line * W.size + column;
      __global T* x_to = x + x_o + n * x_n + depth * x_d + row * x_h + column * x_w;
      __global const T* s_from = s + s_o + n * s_n + depth * s_d + row * s_h + column * s_w;
#define BACKWARD_LANES                                 \
  {                                                    \
    Reals sum = 0;                                     \
    SUM_WINDOWS(HANDED_LANES)                          \
    if (AVERAGE && UNIFORM) sum /= (REAL)axes.divided; \
    PUT(x_to + c * x_c, x_c, sum);                     \
  }
#define BACKWARD_ONE                                   \
  {                                                    \
    REAL sum = 0;                                      \
    SUM_WINDOWS(HANDED_ONE)                            \
    if (AVERAGE && UNIFORM) sum /= (REAL)axes.divided; \
    STORE(x_to, c * x_c, sum);                         \
  }
      FOR_CHANNELS(BACKWARD_LANES, BACKWARD_ONE)
    }
  }
}
