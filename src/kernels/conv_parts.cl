// The last step of a sum that was computed in parts: y[i] = part 0's x[i] + part 1's x[i] + ..., always in
// that order.

// Elements that a work-item adds up side by side.
#ifndef WIDTH
#define WIDTH 1
#endif

__kernel void conv_add_parts(__global const float* restrict x, long x_offset, __global float* restrict y,
                             long y_offset, long count, int parts) {
  const long begin = (long)get_global_id(0) * WIDTH;
  const int width = (int)min((long)WIDTH, count - begin);
  x += x_offset + begin;
  y += y_offset + begin;
#if WIDTH == 1
  if (width < 1) return;
  float sum = x[0];
  for (int part = 1; part < parts; part++) sum += x[part * count];
  y[0] = sum;
#else
  float sums[WIDTH];
  for (int i = 0; i < width; i++) sums[i] = x[i];
  for (int part = 1; part < parts; part++) {
    x += count;
    for (int i = 0; i < width; i++) sums[i] += x[i];
  }
  for (int i = 0; i < width; i++) y[i] = sums[i];
#endif
}
