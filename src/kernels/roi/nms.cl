// Boxes that no better box covers. nms_covered: bit j of word w of box i says that box 32 w + j, which comes later, shares
// too much with it. nms_keep, one work-group, goes through the boxes in order: what a kept one covers is gone.

#include "lib/types.cl"

// As torchvision rounds: which box is covered depends on the last bit where a share is the threshold.
#define ROUNDED_QUOTIENTS
#pragma OPENCL FP_CONTRACT OFF

#ifndef X_DTYPE
#define X_DTYPE f32
#define X_T float
#define REAL float
#define GROUP 64  // work-items of nms_keep
#endif
#define LOAD(p, i) (REAL)JOIN(LOAD_, X_DTYPE)(p, i)

__kernel void nms_covered(__global const X_T* boxes, long boxes_o, __global uint* covered, long covered_o, int count,
                          REAL threshold) {
  const int words = (count + 31) / 32, item = (int)get_global_id(0), word = item % words, i = item / words;
  if (i >= count) return;
  boxes += boxes_o;
  uint bits = 0;
  if (32 * word + 31 > i) {
    const REAL x0 = LOAD(boxes, 4 * (long)i), y0 = LOAD(boxes, 4 * (long)i + 1), x1 = LOAD(boxes, 4 * (long)i + 2),
               y1 = LOAD(boxes, 4 * (long)i + 3), area = (x1 - x0) * (y1 - y0);
    for (int k = 0; k < 32; k++) {
      const int j = 32 * word + k;
      if (j <= i || j >= count) continue;
      const REAL u0 = LOAD(boxes, 4 * (long)j), v0 = LOAD(boxes, 4 * (long)j + 1), u1 = LOAD(boxes, 4 * (long)j + 2),
                 v1 = LOAD(boxes, 4 * (long)j + 3);
      const REAL across = fmax((REAL)0, fmin(x1, u1) - fmax(x0, u0)), down = fmax((REAL)0, fmin(y1, v1) - fmax(y0, v0));
      const REAL shared = across * down;
      if (shared / (area + (u1 - u0) * (v1 - v0) - shared) > threshold) bits |= 1u << k;
    }
  }
  covered[covered_o + (long)i * words + word] = bits;
}

// gone: [words], scratch memory.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void nms_keep(__global const uint* covered, long covered_o,
                                                                          volatile __global uint* gone, long gone_o,
                                                                          __global uchar* keep, long keep_o, int count) {
  const int words = (count + 31) / 32, item = (int)get_local_id(0);
  covered += covered_o;
  gone += gone_o;
  for (int w = item; w < words; w += GROUP) gone[w] = 0;
  for (int i = 0; i < count; i++) {
    barrier(CLK_GLOBAL_MEM_FENCE);
    const bool kept = !(gone[i / 32] >> i % 32 & 1);
    if (item == 0) keep[keep_o + i] = kept;
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (kept)
      for (int w = item; w < words; w += GROUP) gone[w] |= covered[(long)i * words + w];
  }
}
