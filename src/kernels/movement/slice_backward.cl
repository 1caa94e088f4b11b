// dx = 0, but at `filled` places of one axis, `step` apart, the slices of dy. A work-item makes UNROLL words of V neighbouring
// elements of dx, LOCAL words apart, along up to eight dimensions, d0 innermost in dx; AXIS is the number of the sliced one.

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
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define LOAD(p, i) JOIN(LOAD_, X_DTYPE)(p, i)
#if TO_TRUTH
#define CONVERT(x) ((x) != 0)
#else
#define CONVERT(x) (x)
#endif

#define DIMENSION(d) , DIVISOR(n_##d), OFFSET dy_##d, OFFSET dx_##d
#define FIND(k, d)                                                    \
  if (DIMS > k) {                                                     \
    const int next = k + 1 < DIMS ? QUOTIENT(rest, n_##d) : 0;        \
    const int c = (rest - next * n_##d) * (k == 0 ? V : 1);           \
    rest = next;                                                      \
    in_dx += (OFFSET)c * dx_##d;                                      \
    if (AXIS == k)                                                    \
      place = c, dy_step = dy_##d;                                    \
    else                                                              \
      in_dy += (OFFSET)c * dy_##d;                                    \
  }
// Whether the slice with number `slice` lands `over` places before the element at hand: on it, and is one of dy's.
#define IS_FILLED(over, slice) ((over) == 0 && (uint)(slice) < (uint)filled)

// The first slice goes to place first * step + lead, lead < step. d0 counts words.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void slice_backward(
    __global const X_T* restrict dy, long dy_o, __global Y_T* restrict dx, long dx_o, int count, DIVISOR(step), int first,
    int lead, int filled DIMENSION(d0) DIMENSION(d1) DIMENSION(d2) DIMENSION(d3) DIMENSION(d4) DIMENSION(d5) DIMENSION(d6)
        DIMENSION(d7)) {
  const int word = (int)get_group_id(0) * (LOCAL * UNROLL) + (int)get_local_id(0);
  dy += dy_o;
  dx += dx_o;
  X_C x[UNROLL][V];
  OFFSET to[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
#pragma unroll
    for (int v = 0; v < V; v++) x[u][v] = 0;
    if (word + u * LOCAL >= count) continue;
    int rest = word + u * LOCAL, place = 0;
    OFFSET in_dx = 0, in_dy = 0, dy_step = 0;
    FIND(0, d0) FIND(1, d1) FIND(2, d2) FIND(3, d3) FIND(4, d4) FIND(5, d5) FIND(6, d6) FIND(7, d7)
    to[u] = in_dx;
    const int from_lead = place - lead + step, turn = QUOTIENT(from_lead, step);
    int over = from_lead - turn * step, slice = turn - 1 - first;
#if WHOLE
    if (IS_FILLED(over, slice)) {
      JOIN(VLOAD_, X_DTYPE)(dy, in_dy + (OFFSET)slice * dy_step, x[u]);
    }
#elif AXIS == 0
#pragma unroll
    for (int v = 0; v < V; v++) {
      if (IS_FILLED(over, slice)) x[u][v] = LOAD(dy, in_dy + (OFFSET)slice * dy_step);
      if (++over == step) over = 0, slice++;
    }
#else
    if (IS_FILLED(over, slice)) {
#pragma unroll
      for (int v = 0; v < V; v++) x[u][v] = LOAD(dy, in_dy + (OFFSET)slice * dy_step + v * dy_d0);
    }
#endif
  }
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    if (word + u * LOCAL >= count) continue;
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
