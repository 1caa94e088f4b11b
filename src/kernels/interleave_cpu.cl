// y = x where a few planes of one tensor are the neighbouring elements of the other, on a CPU: a work-group of one item goes along
// parts of rows. See interleave.cl.

#ifndef ELEMENT
#define ELEMENT uint
#define R 2
#define INNER 2
#define PART 1024
#define OUTERS 3
#define OFFSET int
#endif
#include "divisor.cl"

#define OUTER(d) , DIVISOR(n_##d), OFFSET planes_##d, OFFSET packed_##d
#define ARGUMENTS                                                                                                            \
  int count, DIVISOR(row), OFFSET inner_step, OFFSET outer_step OUTER(d0) OUTER(d1) OUTER(d2) OUTER(d3) OUTER(d4) OUTER(d5), \
      int places, int chunk
#define PLANE(r) ((OFFSET)((r) % INNER) * inner_step + (OFFSET)((r) / INNER) * outer_step)
#define STEP(k, d)                               \
  if (OUTERS > k) {                              \
    const int next = QUOTIENT(rest, n_##d), c = rest - next * n_##d; \
    rest = next;                                 \
    in_planes += (OFFSET)c * planes_##d;         \
    in_packed += (OFFSET)c * packed_##d;         \
  }
#define FOR_PARTS(part)                                                                                                  \
  for (int part = (int)get_global_id(0) * chunk, parts_end = min(part + chunk, count); part < parts_end; part++)
// `size` places from `in_planes` and `in_packed` on.
#define FIND_PART(part)                                                  \
  int rest = QUOTIENT(part, row);                                        \
  const int begin = (part - rest * row) * PART, size = min(PART, places - begin); \
  OFFSET in_planes = begin, in_packed = in_planes * R;                   \
  STEP(0, d0) STEP(1, d1) STEP(2, d2) STEP(3, d3) STEP(4, d4) STEP(5, d5)

// x: planes, y: packed.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void interleave(__global const ELEMENT* restrict x, long x_o,
                                                                        __global ELEMENT* restrict y, long y_o, ARGUMENTS) {
  FOR_PARTS(part) {
    FIND_PART(part)
    __global const ELEMENT* from = x + x_o + in_planes;
    __global ELEMENT* to = y + y_o + in_packed;
    for (int i = 0; i < size; i++)
#pragma unroll
      for (int r = 0; r < R; r++) to[i * R + r] = from[PLANE(r) + i];
  }
}

// x: packed, y: planes.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void deinterleave(__global const ELEMENT* restrict x, long x_o,
                                                                          __global ELEMENT* restrict y, long y_o, ARGUMENTS) {
  FOR_PARTS(part) {
    FIND_PART(part)
    __global const ELEMENT* from = x + x_o + in_packed;
    __global ELEMENT* to = y + y_o + in_planes;
    for (int i = 0; i < size; i++)
#pragma unroll
      for (int r = 0; r < R; r++) to[PLANE(r) + i] = from[i * R + r];
  }
}
