// Means of regions' bins. What a bin takes of a plane is a product of weights along both axes, and so two small tables, made
// first, say all of a region: weights [2, R, P, H], and where they are not 0. Forward and backward read them.
//
//   ends    [R, P, 2]  rows h of the plane that bin p reads: from, to
//   inverse [R, H, 2]  bins p that read row h: from, to

#include "lib/types.cl"

// As torchvision rounds: where a bin ends, and which samples lie outside, depends on the last bit.
#define ROUNDED_QUOTIENTS
#pragma OPENCL FP_CONTRACT OFF

#ifndef X_DTYPE
#define X_DTYPE f32  // a plane's elements, or their gradients
#define X_T float
#define R_DTYPE f32  // regions
#define R_T float
#define Y_DTYPE f32  // bins, or their gradients
#define Y_T float
#define REAL float
#endif
#ifndef SAMPLES
#define SAMPLES 1      // bins have samples, else elements with rounded ends
#define ALIGNED 0
#define BY_POSITION 0
#define CHANNELS 8     // that a work-item of the gradient has
#define ROWS 1         // tables of rows: of a region's second and fourth number, else of its first and third
#endif
#define LOAD(t, p, i) JOIN(LOAD_, t)(p, i)
#define STORE(t, p, i, v) JOIN(STORE_, t)(p, i, v)

// A work-item has one bin of a region along one axis, `size` elements long.
__kernel void roi_weights(__global const R_T* rois, long rois_o, __global REAL* weights, long weights_o, __global int* ends,
                          long ends_o, int regions, int bins, int size, REAL scale, int samples) {
  const int item = (int)get_global_id(0);
  if (item >= regions * bins) return;
  const int r = item / bins, p = item % bins;
  rois += rois_o + (long)r * 5;
  weights += weights_o + (long)item * size;
  ends += ends_o + 2 * (long)item;
  for (int h = 0; h < size; h++) weights[h] = 0;
  int from = size, to = 0;
  REAL low = (REAL)LOAD(R_DTYPE, rois, ROWS ? 2 : 1) * scale, high = (REAL)LOAD(R_DTYPE, rois, ROWS ? 4 : 3) * scale;
#if SAMPLES
  if (ALIGNED) low -= (REAL)0.5, high -= (REAL)0.5;
  REAL length = high - low;
  if (!ALIGNED) length = fmax(length, (REAL)1);
  const REAL bin = length / bins;
  const int count = samples > 0 ? samples : (int)ceil(bin);
  for (int i = 0; i < count; i++) {
    REAL at = low + p * bin + (i + (REAL)0.5) * bin / count;
    if (!(at >= -1 && at <= size)) continue;
    at = fmax(at, (REAL)0);
    int lower = (int)at, upper = lower + 1;
    if (lower >= size - 1) {
      lower = upper = size - 1;
      at = lower;
    }
    const REAL part = at - lower;
    weights[lower] += (1 - part) / count;
    weights[upper] += part / count;
    from = min(from, lower);
    to = max(to, upper + 1);
  }
#else
  const int first = (int)round(low), length = max((int)round(high) - first, 1);
  const REAL bin = (REAL)length / bins;
  from = min(max((int)floor(p * bin) + first, 0), size - 1);
  to = min(max((int)ceil((p + 1) * bin) + first, 0), size - 1);
  for (int h = from; h < to; h++) weights[h] = (REAL)1 / (to - from);
#endif
  ends[0] = from;
  ends[1] = to;
}

// A work-item has one element of an axis, and looks which bins of a region read it.
__kernel void roi_inverse(__global const int* ends, long ends_o, __global int* inverse, long inverse_o, int regions, int bins,
                          int size) {
  const int item = (int)get_global_id(0);
  if (item >= regions * size) return;
  const int r = item / size, h = item % size;
  ends += ends_o + 2 * (long)r * bins;
  int from = bins, to = 0;
  for (int p = 0; p < bins; p++)
    if (h >= ends[2 * p] && h < ends[2 * p + 1]) {
      from = min(from, p);
      to = p + 1;
    }
  inverse += inverse_o + 2 * (long)item;
  inverse[0] = from;
  inverse[1] = to;
}

typedef struct {
  int regions, images, channels, height, width, rows, columns;  // channels are x's
} Sizes;
#define SIZES int regions, int images, int channels, int height, int width, int rows, int columns

static int image_of(__global const R_T* rois, int r, int images) {
  const REAL image = (REAL)LOAD(R_DTYPE, rois, (long)r * 5);
  return image >= 0 && image < images ? (int)image : -1;
}

// y [R, C, P, Q], row-major; a work-item has one element.
__kernel void roi_pool(__global const X_T* x, long x_o, __global const R_T* rois, long rois_o, __global const REAL* wh,
                       long wh_o, __global const int* eh, long eh_o, __global const REAL* ww, long ww_o,
                       __global const int* ew, long ew_o, __global Y_T* y, long y_o, SIZES, long count) {
  const long item = (long)get_global_id(0);
  if (item >= count) return;
  const int q = (int)(item % columns), p = (int)(item / columns % rows);
  const int of_y = BY_POSITION ? channels / (rows * columns) : channels;
  const int c = (int)(item / ((long)columns * rows) % of_y), r = (int)(item / ((long)columns * rows * of_y));
  const int image = image_of(rois + rois_o, r, images);
  REAL sum = 0;
  if (image >= 0) {
    const int plane = BY_POSITION ? (c * rows + p) * columns + q : c;
    x += x_o + ((long)image * channels + plane) * height * width;
    wh += wh_o + ((long)r * rows + p) * height;
    eh += eh_o + 2 * ((long)r * rows + p);
    ww += ww_o + ((long)r * columns + q) * width;
    ew += ew_o + 2 * ((long)r * columns + q);
    const int left = ew[0], right = ew[1], end = eh[1];
    for (int h = eh[0]; h < end; h++) {
      if (wh[h] == 0) continue;
      REAL row = 0;
      for (int w = left; w < right; w++)
        if (ww[w] != 0) row = fma(ww[w], (REAL)LOAD(X_DTYPE, x, (long)h * width + w), row);
      sum = fma(wh[h], row, sum);
    }
  }
  STORE(Y_DTYPE, y, y_o + item, sum);
}

// dx [N, C, H, W], row-major; a work-item has CHANNELS channels of one element, or by position one, whose bin is its own.
__kernel void roi_pool_backward(__global const Y_T* dy, long dy_o, __global const R_T* rois, long rois_o,
                                __global const REAL* wh, long wh_o, __global const int* ih, long ih_o,
                                __global const REAL* ww, long ww_o, __global const int* iw, long iw_o, __global X_T* dx,
                                long dx_o, SIZES, long count) {
  const long item = (long)get_global_id(0);
  if (item >= count) return;
  const int w = (int)(item % width), h = (int)(item / width % height);
  const int blocks = (channels + CHANNELS - 1) / CHANNELS, first = (int)(item / ((long)width * height) % blocks) * CHANNELS;
  const int image = (int)(item / ((long)width * height * blocks)), here = min(CHANNELS, channels - first);
  dy += dy_o;
  wh += wh_o + h;
  ih += ih_o + 2 * (long)h;
  ww += ww_o + w;
  iw += iw_o + 2 * (long)w;
  REAL sum[CHANNELS];
  for (int k = 0; k < CHANNELS; k++) sum[k] = 0;
  for (int r = 0; r < regions; r++) {
    int top = ih[2 * (long)r * height], bottom = ih[2 * (long)r * height + 1];
    int left = iw[2 * (long)r * width], right = iw[2 * (long)r * width + 1];
    if (top >= bottom || left >= right || image_of(rois + rois_o, r, images) != image) continue;
#if BY_POSITION
    const int p = first / columns % rows, q = first % columns, c = first / (rows * columns);
    if (p < top || p >= bottom || q < left || q >= right) continue;
    const REAL weight = wh[((long)r * rows + p) * height] * ww[((long)r * columns + q) * width];
    const int of_y = channels / (rows * columns);
    sum[0] = fma(weight, (REAL)LOAD(Y_DTYPE, dy, (((long)r * of_y + c) * rows + p) * columns + q), sum[0]);
#else
    for (int p = top; p < bottom; p++) {
      const REAL along = wh[((long)r * rows + p) * height];
      if (along == 0) continue;
      for (int q = left; q < right; q++) {
        const REAL weight = along * ww[((long)r * columns + q) * width];
        if (weight == 0) continue;
        const long at = (((long)r * channels + first) * rows + p) * columns + q;
        for (int k = 0; k < here; k++)
          sum[k] = fma(weight, (REAL)LOAD(Y_DTYPE, dy, at + (long)k * rows * columns), sum[k]);
      }
    }
#endif
  }
  dx += dx_o + ((long)image * channels + first) * height * width + (long)h * width + w;
  for (int k = 0; k < here; k++) STORE(X_DTYPE, dx, (long)k * height * width, sum[k]);
}

// y, indices [R, C, P, Q], row-major; a work-item has one element.
__kernel void roi_max_pool(__global const X_T* x, long x_o, __global const R_T* rois, long rois_o, __global Y_T* y, long y_o,
                           __global int* indices, long indices_o, SIZES, REAL scale, long count) {
  const long item = (long)get_global_id(0);
  if (item >= count) return;
  const int q = (int)(item % columns), p = (int)(item / columns % rows);
  const int c = (int)(item / ((long)columns * rows) % channels), r = (int)(item / ((long)columns * rows * channels));
  rois += rois_o;
  const int image = image_of(rois, r, images);
  REAL most = 0;
  int at = -1;
  if (image >= 0) {
    rois += (long)r * 5;
    const int left = (int)round((REAL)LOAD(R_DTYPE, rois, 1) * scale), top = (int)round((REAL)LOAD(R_DTYPE, rois, 2) * scale);
    const int across = max((int)round((REAL)LOAD(R_DTYPE, rois, 3) * scale) - left + 1, 1);
    const int down = max((int)round((REAL)LOAD(R_DTYPE, rois, 4) * scale) - top + 1, 1);
    const REAL row = (REAL)down / rows, column = (REAL)across / columns;
    const int h0 = min(max((int)floor(p * row) + top, 0), height), h1 = min(max((int)ceil((p + 1) * row) + top, 0), height);
    const int w0 = min(max((int)floor(q * column) + left, 0), width), w1 = min(max((int)ceil((q + 1) * column) + left, 0), width);
    x += x_o + ((long)image * channels + c) * height * width;
    for (int h = h0; h < h1; h++)
      for (int w = w0; w < w1; w++) {
        const REAL v = (REAL)LOAD(X_DTYPE, x, (long)h * width + w);
        if (at >= 0 && !(v > most)) continue;
        most = v;
        at = h * width + w;
      }
  }
  STORE(Y_DTYPE, y, y_o + item, most);
  indices[indices_o + item] = at;
}
