// dx = 0, but at `filled` places of one axis, `step` apart, the slices of dy. A work-item makes UNROLL words of V neighbouring
// elements of dx, LOCAL words apart, along DIMS dimensions, up to eight; AXIS is the number of the sliced one.

#ifndef V  // 1, 4 or 8
#define V 4
#define UNROLL 4
#define LOCAL 256
#define DIMS 2
#define AXIS 0
#define WHOLE 0  // a word of dx is a word of dy, or has nothing of it
#define OFFSET int
#define X_DTYPE f32  // dy's: in memory, and as numbers
#define X_T float
#define X_C float
#define Y_DTYPE f32  // dx's
#define Y_T float
#define Y_C float
#define TO_TRUTH 0  // from another dtype to bool
#endif
#include "lib/types.cl"
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "movement/slice_backward.h"
#define LOAD(p, i) JOIN(LOAD_, X_DTYPE)(p, i)
#if TO_TRUTH
#define CONVERT(x) ((x) != 0)
#else
#define CONVERT(x) (x)
#endif

// Whether the slice with number `slice` lands `over` places before the element at hand: on it, and is one of dy's.
#define IS_FILLED(over, slice) ((over) == 0 && (uint)(slice) < (uint)nest.filled)

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void slice_backward(
    __global const X_T* restrict dy, long dy_o, __global Y_T* restrict dx, long dx_o, SliceBackwardNest nest) {
  const int word = (int)get_group_id(0) * (LOCAL * UNROLL) + (int)get_local_id(0);
  dy += dy_o;
  dx += dx_o;
  X_C x[UNROLL][V];
  OFFSET to[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
#pragma unroll
    for (int v = 0; v < V; v++) x[u][v] = 0;
    if (word + u * LOCAL >= nest.count) continue;
    int rest = word + u * LOCAL, place = 0;
    OFFSET in_dx = 0, in_dy = 0, dy_step = 0;
#pragma unroll
    for (int k = 0; k < DIMS; k++) {
      const int next = k + 1 < DIMS ? divided(rest, nest.size[k]) : 0;
      const int c = (rest - next * nest.size[k].d) * (k == 0 ? V : 1);
      rest = next;
      in_dx += c * (OFFSET)nest.dx[k];
      if (AXIS == k)
        place = c, dy_step = (OFFSET)nest.dy[k];
      else
        in_dy += c * (OFFSET)nest.dy[k];
    }
    to[u] = in_dx;
    const int from_lead = place - nest.lead + nest.step.d, turn = divided(from_lead, nest.step);
    int over = from_lead - turn * nest.step.d, slice = turn - 1 - nest.first;
#if WHOLE
    if (IS_FILLED(over, slice)) {
      JOIN(VLOAD_, X_DTYPE)(dy, in_dy + (OFFSET)slice * dy_step, x[u]);
    }
#elif AXIS == 0
#pragma unroll
    for (int v = 0; v < V; v++) {
      if (IS_FILLED(over, slice)) x[u][v] = LOAD(dy, in_dy + (OFFSET)slice * dy_step);
      if (++over == nest.step.d) over = 0, slice++;
    }
#else
    if (IS_FILLED(over, slice)) {
#pragma unroll
      for (int v = 0; v < V; v++) x[u][v] = LOAD(dy, in_dy + (OFFSET)slice * dy_step + v * (OFFSET)nest.dy[0]);
    }
#endif
  }
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    if (word + u * LOCAL >= nest.count) continue;
#if V == 1
    JOIN(STORE_, Y_DTYPE)(dx, to[u], CONVERT(x[u][0]));
#else
    Y_C y[V];
#pragma unroll
    for (int v = 0; v < V; v++) y[v] = CONVERT(x[u][v]);
    JOIN(VSTORE_, Y_DTYPE)(dx, to[u], y);
#endif
  }
}
