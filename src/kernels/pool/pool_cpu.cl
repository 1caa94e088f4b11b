// Pooling on a CPU, the lanes along columns. A work-group of one item has `block` rows of what is written and
// makes L results at a time, by loads of neighbouring elements and without branching on data: loads by index
// or branches cost three to six times as much. Windows that touch the left or right border, or are adaptive,
// are taken one by one. Sums are those of pool.cl, in its order. The grid is (blocks of rows, C, N).

#include "pool/pool_lanes.cl"

#define MY_LINES(count)                                                    \
  const int begin = (int)get_global_id(0) * block, end = min(begin + block, count); \
  const long n = (long)get_global_id(2);                                   \
  const int c = (int)get_global_id(1);

// The elements of L neighbouring windows that lie at `p` and at each a window's step on.
#if UNIT && STRIDE_W == 1
#define WINDOWS_AT(p) LOAD_L(p)
#elif UNIT && STRIDE_W == 2
#define WINDOWS_AT(p) ((Reals)(LOAD_L(p).even, LOAD_L((p) + L - 1).odd))
#else
#define WINDOWS_AT(p) load_by(p, W.stride * x_w)
#endif

#if MAXIMUM
#define FINISHED(v) v
#elif AVERAGE
#define FINISHED(v) (v) / (REAL)elements
#else
#define FINISHED(v) ROOT((v) * scale_of(elements, taps_in_all(D, H, W)), norm)
#endif

// Takes window `q` of a line, or those from q on, by TAKER of what LOADER reads.
#define TAKE_WINDOW(TAKER, LOADER, IOTA)                                                            \
  for (int a = td.begin; a < td.end; a++)                                                           \
    for (int b = th.begin; b < th.end; b++) {                                                       \
      const int at_d = td.start + a * D.dilation, at_h = th.start + b * H.dilation;                 \
      __global const T* line_from = from + at_d * x_d + at_h * x_h;                                 \
      for (int e = tw.begin; e < tw.end; e++) {                                                     \
        const int at_w = tw.start + e * W.dilation;                                                 \
        TAKER(LOADER(line_from, at_w * x_w), (at_d * H.size + at_h) * W.size + at_w + IOTA, result, where) \
      }                                                                                             \
    }
#define LOAD_WINDOWS(p, at) WINDOWS_AT((p) + (at))
// Whether the maximum of a large window may be taken with the lanes along its rows.
#define IN_ROWS (MAXIMUM && UNIT && !DILATED)

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(PLACE_TYPE, i), AXES, int block) {
  MAKE_AXES
  BRING_CONSTANTS_IN
  MY_LINES(D.out * H.out)
  // The windows of columns [inner, outer) lie inside, and are at least L or none.
  const int reach = (W.taps - 1) * W.dilation + 1;
  int inner = W.out, outer = W.out;
  if (ADAPTIVE == 0 && W.size + W.pad >= reach) {
    inner = min((W.pad + W.stride - 1) / W.stride, W.out);
    outer = min((W.size + W.pad - reach) / W.stride + 1, W.out);
    if (outer - inner < L) inner = outer = W.out;
  }
  __global const T* from = x + x_o + n * x_n + c * x_c;
  for (int line = begin; line < end; line++) {
    const int o = line / H.out, p = line % H.out;
    const struct Taps td = taps_of(D, o), th = taps_of(H, p);
    __global T* y_to = y + y_o + n * y_n + c * y_c + o * y_d + p * y_h;
    __global PLACE_TYPE* i_to = i + i_o + n * i_n + c * i_c + o * i_d + p * i_h;
    for (int q = 0; q < W.out; q++) {
      if (q == inner) q = outer;
      if (q >= W.out) break;
      const struct Taps tw = taps_of(W, q);
      const int elements = UNIFORM ? axes.divided : elements_of(td, th, tw);
      REAL result = MAXIMUM ? -INFINITY : 0;
      int where = first_place(H, W, D, td, th, tw);
      if (!IN_ROWS || tw.end - tw.begin < L) {
        TAKE_WINDOW(TAKE, LOAD, 0)
      } else {
        Reals best = -INFINITY;
        Places at = where;
        for (int a = td.begin; a < td.end; a++)
          for (int b = th.begin; b < th.end; b++) {
            const int row = (td.start + a) * H.size + th.start + b;
            __global const T* row_from = from + (td.start + a) * x_d + (th.start + b) * x_h + tw.start;
            for (int e_ = tw.begin; e_ < tw.end; e_ += L) {
              const int e = min(e_, tw.end - L);
              TAKE_LANES(LOAD_L(row_from + e), row * W.size + tw.start + e + IOTA, best, at)
            }
          }
        REAL values[L];
        LANE places[L];
        JOIN(vstore, L)(best, 0, values);
        JOIN(vstore, L)(at, 0, places);
        for (int k = 0; k < L; k++)
          if (better(values[k], (int)places[k], result, where)) {
            result = values[k];
            where = (int)places[k];
          }
      }
      const REAL made = FINISHED(result);
      STORE(y_to, q * y_w, made);
      if (INDICES) i_to[q * i_w] = where;
    }
    for (int q_ = inner; q_ < outer; q_ += L) {
      const int q = min(q_, outer - L);  // the last may overlap those before: they are made twice, and equal
      struct Taps tw = taps_of(W, q);
      tw.counted = W.taps;
      const int elements = UNIFORM ? axes.divided : elements_of(td, th, tw);
      const int none = first_place(H, W, D, td, th, tw);
      Reals result = MAXIMUM ? -INFINITY : 0;
      Places where = none < 0 ? (Places)(none) : none + IOTA * W.stride;
      TAKE_WINDOW(TAKE_LANES, LOAD_WINDOWS, IOTA * W.stride)
      const Reals made = FINISHED(result);
      PUT(y_to + q * y_w, y_w, made);
      if (INDICES) PUT_PLACES(i_to + q * i_w, i_w, where);
    }
  }
}

// What a window hands back to its elements in `sums`, which stand for the columns [first, last) of a row:
// `handed` is its dy, divided where that is due; `hit` the column of its maximum.
#define CHUNK 64
static void hand_back(__private REAL* sums, int first, int last, PoolWindows w, struct Taps tw, REAL handed, int hit,
               __global const T* x, INDEX x_step, REAL root, REAL norm) {
#if MAXIMUM
  const int tap = hit - tw.start;
  if (hit >= first && hit < last && tap >= 0 && tap < tw.end * w.dilation && tap % w.dilation == 0)
    sums[hit - first] += handed;
#else
  const int begin = max(tw.begin, (first - tw.start + w.dilation - 1) / w.dilation);
  const int end = min(tw.end, (last - tw.start + w.dilation - 1) / w.dilation);
  for (int e = begin; e < end; e++) {
    const int column = tw.start + e * w.dilation;
#if AVERAGE
    sums[column - first] += handed;
#else
    const REAL ratio = LOAD(x, column * x_step) / root;
    sums[column - first] += root == 0 ? 0 : handed * SLOPE(ratio, norm);
#endif
  }
#endif
}

// x stands for dx, y for dy; of norms s is x and t is y. Padded columns u = column + pad are seen as
// u = m stride + phase: window m - b holds u by its tap phase + b stride, so that for one phase neighbours m
// have neighbouring windows.
__kernel void pool_backward(TENSOR(T, x), TENSOR(const T, y), TENSOR(const PLACE_TYPE, i), TENSOR(const T, s),
                            TENSOR(const T, t), AXES, int block) {
  MAKE_AXES
  BRING_CONSTANTS_IN
  MY_LINES(D.size * H.size)
  const int step = W.stride, reach = (W.taps - 1) * W.dilation, most = reach / step;
  // For m in [inner, outer), at least L or none, all windows and all elements exist.
  int inner = 0, outer = 0;
#if !ADAPTIVE && MODE != 2 && (UNIFORM || !DILATED)
  inner = max(most, (W.pad + step - 1) / step);
  outer = min((W.pad + W.size) / step, W.out);
  if (outer - inner < L) inner = outer = 0;
#endif
  __global const T* y_from = y + y_o + n * y_n + c * y_c;
  __global const PLACE_TYPE* i_from = i + i_o + n * i_n + c * i_c;
  __global const T* t_from = t + t_o + n * t_n + c * t_c;
  for (int line = begin; line < end; line++) {
    const int depth = line / H.size, row = line % H.size;
    const struct Windows in_d = windows_of(D, depth), in_h = windows_of(H, row);
    __global T* x_to = x + x_o + n * x_n + c * x_c + depth * x_d + row * x_h;
    __global const T* s_from = s + s_o + n * s_n + c * s_c + depth * s_d + row * s_h;
    for (int first = 0, last; first < W.size; first = last) {
      if (first + W.pad >= inner * step && first + W.pad < outer * step) first = outer * step - W.pad;
      last = min(first + CHUNK, W.size);
      if (first + W.pad < inner * step) last = min(last, inner * step - W.pad);
      if (first >= last) break;
      const struct Windows in_first = windows_of(W, first), in_last = windows_of(W, last - 1);
      const int q_end = min(in_last.first + in_last.count, W.out);
      REAL sums[CHUNK];
      for (int k = 0; k < CHUNK; k++) sums[k] = 0;
      for (int a = 0; a < in_d.count; a++)
        for (int b = 0; b < in_h.count; b++) {
          const int o = in_d.first + a, p = in_h.first + b;
          if (!holds(D, o, depth) || !holds(H, p, row)) continue;
          const struct Taps td = taps_of(D, o), th = taps_of(H, p);
          for (int q = max(in_first.first, 0); q < q_end; q++) {
            const struct Taps tw = taps_of(W, q);
            const int elements = UNIFORM ? axes.divided : elements_of(td, th, tw);
            REAL handed = LOAD(y_from, o * y_d + p * y_h + q * y_w), root = 0;
            int hit = 0;
#if MAXIMUM
            hit = (int)i_from[o * i_d + p * i_h + q * i_w] - line * W.size;
#elif AVERAGE
            if (!UNIFORM) handed /= (REAL)elements;
#else
            handed *= scale_of(elements, taps_in_all(D, H, W));
            root = LOAD(t_from, o * t_d + p * t_h + q * t_w);
#endif
            hand_back(sums, first, last, W, tw, handed, hit, s_from, s_w, root, norm);
          }
        }
      for (int k = first; k < last; k++) {
        const REAL sum = AVERAGE && UNIFORM ? sums[k - first] / (REAL)axes.divided : sums[k - first];
        STORE(x_to, k * x_w, sum);
      }
    }
    for (int m_ = inner; m_ < outer; m_ += L) {
      const int m = min(m_, outer - L);
      Reals even = 0;  // the sums of phase 0, kept until those of phase 1 are there
      for (int phase = 0; phase < step; phase++) {
        const int column = m * step + phase - W.pad;
        Reals sum = 0;
        for (int a = 0; a < in_d.count; a++)
          for (int r = 0; r < in_h.count; r++) {
            const int o = in_d.first + a, p = in_h.first + r;
            if (!holds(D, o, depth) || !holds(H, p, row)) continue;
            for (int b = most; b >= 0; b--) {
              const int tap = phase + b * step;
              if (tap > reach || tap % W.dilation != 0) continue;
              const Reals handed = NEAR(y_from + o * y_d + p * y_h + (m - b) * y_w, y_w);
#if MAXIMUM
              const Places place = NEAR_PLACES(i_from + o * i_d + p * i_h + (m - b) * i_w, i_w);
              sum += select((Reals)(0), handed, place == line * W.size + column + IOTA * step);
#elif UNIFORM
              sum += handed;
#else
              const Places start = (m - b + IOTA) * step - W.pad, last = start + W.taps;
              const Places counted = INCLUDE_PAD ? min(last, (Places)(W.limit)) - start
                                                 : min(last, (Places)(W.size)) - max(start, (Places)(0));
              sum += handed / TO(REAL)(counted * (LANE)(taps_of(D, o).counted * taps_of(H, p).counted));
#endif
            }
          }
        if (AVERAGE && UNIFORM) sum /= (REAL)axes.divided;
        if (UNIT && step == 1) {
          STORE_L(x_to + column, sum);
        } else if (UNIT && step == 2 && phase == 0) {
          even = sum;
        } else if (UNIT && step == 2) {
          Reals low, high;
          low.even = even.lo;
          low.odd = sum.lo;
          high.even = even.hi;
          high.odd = sum.hi;
          STORE_L(x_to + column - 1, low);
          STORE_L(x_to + column - 1 + L, high);
        } else {
          store_by(x_to + column * x_w, step * x_w, sum);
        }
      }
    }
  }
}
