// Pooling forward over large windows on a GPU: a work-group of LANES_W x LANES_H items makes one element, its
// items running along the window's rows, so that neighbours read neighbouring elements. The grid is
// (LANES_W times elements of an image of y, LANES_H, N).

#include "pool/pool_common.cl"

#ifndef LANES_W  // powers of two
#define LANES_W 32
#define LANES_H 4
#endif
#define GROUP (LANES_W * LANES_H)

__kernel void pool_forward(TENSOR(const T, x), TENSOR(T, y), TENSOR(PLACE_TYPE, i), AXES, PoolGrid grid) {
  __local REAL values[GROUP];
  __local int places[GROUP];
  MAKE_AXES
  const int item = (int)get_group_id(0), lane_w = (int)get_local_id(0), lane_h = (int)get_local_id(1);
  const long n = (long)get_global_id(2);
  const int line = divided(item, grid.across), column = item - line * grid.across.d;
  const int sheet = divided(line, grid.down), row = line - sheet * grid.down.d;
  const int c = divided(sheet, grid.deep), depth = sheet - c * grid.deep.d;
  const struct Taps td = taps_of(D, depth), th = taps_of(H, row), tw = taps_of(W, column);
  x += x_o + n * x_n + c * x_c;
  REAL result = MAXIMUM ? -INFINITY : 0;
  int where = -1;
  for (int a = td.begin; a < td.end; a++)
    for (int b = th.begin + lane_h; b < th.end; b += LANES_H)
      for (int e = tw.begin + lane_w; e < tw.end; e += LANES_W) {
        const int at_d = td.start + a * D.dilation, at_h = th.start + b * H.dilation, at_w = tw.start + e * W.dilation;
        const int place = (at_d * H.size + at_h) * W.size + at_w;
        if (MAXIMUM && where < 0) where = place;
        TAKE(LOAD(x, at_d * x_d + at_h * x_h + at_w * x_w), place, result, where)
      }

  const int lane = lane_h * LANES_W + lane_w;
  values[lane] = result;
  places[lane] = where;
  for (int half_ = GROUP / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= half_) continue;
    const REAL other = values[lane + half_];
    if (!MAXIMUM) {
      result += other;
    } else if (better(other, places[lane + half_], result, where)) {
      result = other;
      where = places[lane + half_];
    }
    values[lane] = result;
    places[lane] = where;
  }
  if (lane > 0) return;
#if !MAXIMUM
  const int elements = UNIFORM ? axes.divided : elements_of(td, th, tw);
  result = AVERAGE ? result / (REAL)elements : ROOT(result * scale_of(elements, taps_in_all(D, H, W)), norm);
#endif
  STORE(y, y_o + n * y_n + c * y_c + depth * y_d + row * y_h + column * y_w, result);
  if (INDICES) i[i_o + n * i_n + c * i_c + depth * i_d + row * i_h + column * i_w] = where;
}
