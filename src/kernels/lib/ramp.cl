// y[i] = start + i step below `half`, and end - (count - 1 - i) step from there on: arange and linspace. Of whole numbers
// linspace's is start + i (whole + rest / intervals), without its fraction.
#include "lib/types.cl"

#ifndef DTYPE
#define DTYPE f32
#define T float
#define REAL float
#endif

__kernel void ramp(__global T* y, long y_o, long stride, long count, long half_way, REAL start, REAL step, REAL end) {
  const long i = (long)get_global_id(0);
  if (i >= count) return;
  const REAL v = i < half_way ? start + step * (REAL)i : end - step * (REAL)(count - 1 - i);
  JOIN(STORE_, DTYPE)(y + y_o, i * stride, v);
}

__kernel void whole_ramp(__global T* y, long y_o, long stride, long count, long start, long whole, long rest,
                         long intervals) {
  const long i = (long)get_global_id(0);
  if (i >= count) return;
  const long floored = start + i * whole + i * rest / intervals;  // 0 <= rest < intervals < 2^31
  JOIN(STORE_, DTYPE)(y + y_o, i * stride, floored + (floored < 0 && i * rest % intervals != 0));
}
