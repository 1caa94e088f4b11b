// y = x where a few planes of one tensor are the neighbouring elements of the other, on a CPU: a work-group of one item goes along
// parts of rows.

#include "movement/interleave_dims.cl"
#ifndef PART  // places of a part, but for a row's last
#define PART 1024
#endif

#define FOR_PARTS(part) \
  for (int part = (int)get_global_id(0) * chunk, parts_end = min(part + chunk, nest.count); part < parts_end; part++)
// x: planes, y: packed.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void interleave(
    __global const ELEMENT* restrict x, long x_o, __global ELEMENT* restrict y, long y_o, InterleaveNest nest, int places,
    int chunk) {
  const OFFSET place_step = (OFFSET)nest.place_step;
  FOR_PARTS(part) {
    FIND_PART(part, PART)
    const int size = min(PART, places - begin);
    __global const ELEMENT* from = x + x_o + in_planes;
    __global ELEMENT* to = y + y_o + in_packed;
    for (int i = 0; i < size; i++)
#pragma unroll
      for (int r = 0; r < R; r++) to[i * R + r] = from[PLANE(r) + PLACE(i)];
  }
}

// x: packed, y: planes.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void deinterleave(
    __global const ELEMENT* restrict x, long x_o, __global ELEMENT* restrict y, long y_o, InterleaveNest nest, int places,
    int chunk) {
  const OFFSET place_step = (OFFSET)nest.place_step;
  FOR_PARTS(part) {
    FIND_PART(part, PART)
    const int size = min(PART, places - begin);
    __global const ELEMENT* from = x + x_o + in_packed;
    __global ELEMENT* to = y + y_o + in_planes;
    for (int i = 0; i < size; i++)
#pragma unroll
      for (int r = 0; r < R; r++) to[PLANE(r) + PLACE(i)] = from[i * R + r];
  }
}
