// Grid sampling forward, and backward with respect to the grid, on a GPU and where channels are neighbours: LANES work-items have a
// place, each every LANES-th vector of V channels, so that what a place reads at a tap and writes lies together. Each finds the
// place's taps for itself.

#ifndef V  // channels that are moved as one: 1, 4 or 8
#define V 4
#endif
#ifndef LANES  // a power of two
#define LANES 8
#define GROUP 256
#endif
#ifndef BATCH  // vectors whose loads are issued together
#define BATCH 2
#endif

#include "resample/grid_sample_parts.cl"

#if V == 1
#define TAKE_X(p, i, to) (to)[0] = LOAD_X(p, i);
#define TAKE_Y(p, i, to) (to)[0] = LOAD_Y(p, i);
#define PUT_Y(p, i, from) STORE_Y(p, i, (from)[0])
#else
#define TAKE_X(p, i, to) JOIN(VLOAD_, X_DTYPE)(p, i, to)
#define TAKE_Y(p, i, to) JOIN(VLOAD_, Y_DTYPE)(p, i, to)
#define PUT_Y(p, i, from) JOIN(VSTORE_, Y_DTYPE)(p, i, from)
#endif

// The place of this work-item among those of all images, beyond the last that one again; its taps' weights and their derivatives
// along each axis, and where combination k of them lies in a channel of x. What lies outside is read from the image's first element
// instead, and dropped: its mask is 0, of others it is -1.
#define FIND_PLACE                                                                   \
  STEPS(x) STEPS(y) STEPS(grid)                                                      \
  const int lane = (int)get_local_id(0) % LANES;                                     \
  const size_t number = get_group_id(0) * (GROUP / LANES) + get_local_id(0) / LANES; \
  const bool exists = number < (size_t)sizes.places;                                 \
  const int place = exists ? (int)number : sizes.places - 1;                         \
  const int row = divided(place, sizes.q), q = place - row * sizes.q.d;              \
  const int slice = divided(row, sizes.p), p = row - slice * sizes.p.d;              \
  const int n = divided(slice, sizes.o), o = slice - n * sizes.o.d;                  \
  int at[AXES * TAPS];                                                               \
  real w[AXES * TAPS], d[AXES * TAPS];                                               \
  find_place(grid + (grid_o + n * grid_steps.n), AT(grid, o, p, q), grid_c,          \
             sizes.d, sizes.h, sizes.w, at, w, d);                                   \
  x += x_o + n * x_steps.n;                                                          \
  y += y_o + n * y_steps.n + AT(y, o, p, q);                                         \
  index_t from[COMBINATIONS];                                                        \
  BITS inside[COMBINATIONS];                                                         \
  UNROLLED                                                                           \
  for (int k = 0; k < COMBINATIONS; k++) {                                           \
    const index_t tap = combined_at(at, k, x_d, x_h, x_w);                           \
    inside[k] = tap >= 0 ? -1 : 0;                                                   \
    from[k] = inside[k] ? tap : 0;                                                   \
  }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void grid_sample_last(
    TENSOR(const X_T, x), TENSOR(const GRID_T, grid), TENSOR(Y_T, y), SamplePlaces sizes) {
  FIND_PLACE
  if (!exists) return;
  real weight[COMBINATIONS];
  UNROLLED
  for (int k = 0; k < COMBINATIONS; k++) weight[k] = MASKED(combined_weight(w, k), inside[k]);
  for (int first = lane; first < sizes.vectors; first += BATCH * LANES) {
    real sum[BATCH][V];
    ALWAYS_UNROLLED
    for (int b = 0; b < BATCH; b++)
      for (int i = 0; i < V; i++) sum[b][i] = 0;
    UNROLLED
    for (int k = 0; k < COMBINATIONS; k++) {
      ALWAYS_UNROLLED
      for (int b = 0; b < BATCH; b++) {
        real tapped[V];
        TAKE_X(x, from[k] + min(first + b * LANES, sizes.vectors - 1) * V, tapped)
        ALWAYS_UNROLLED
        for (int i = 0; i < V; i++) sum[b][i] += weight[k] * MASKED(tapped[i], inside[k]);
      }
    }
    ALWAYS_UNROLLED
    for (int b = 0; b < BATCH; b++)
      if (first + b * LANES < sizes.vectors) PUT_Y(y, (first + b * LANES) * V, sum[b]);
  }
}

// y is dy, to is dgrid. The lanes' parts of a place's gradient are added up one after the other.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void grid_sample_last_backward_grid(
    TENSOR(const X_T, x), TENSOR(const GRID_T, grid), TENSOR(const Y_T, y), TENSOR(GRID_T, to), SamplePlaces sizes) {
  FIND_PLACE
  STEPS(to)
  real sum[COMBINATIONS];
  UNROLLED
  for (int k = 0; k < COMBINATIONS; k++) sum[k] = 0;
  for (int v = lane; v < sizes.vectors; v += LANES) {
    real dy[V];
    TAKE_Y(y, v * V, dy)
    UNROLLED
    for (int k = 0; k < COMBINATIONS; k++) {
      real tapped[V];
      TAKE_X(x, from[k] + v * V, tapped)
      ALWAYS_UNROLLED
      for (int i = 0; i < V; i++) sum[k] += dy[i] * tapped[i];
    }
  }
  real gradient[AXES];
  ALWAYS_UNROLLED
  for (int a = 0; a < AXES; a++) {
    gradient[a] = 0;
    UNROLLED
    for (int k = 0; k < COMBINATIONS; k++) {
      real slope = 1;
      for (int b = 0; b < AXES; b++) slope *= (a == b ? d : w)[b * TAPS + TAP_OF(b, k)];
      if (inside[k]) gradient[a] += slope * sum[k];
    }
  }
  __local real parts[AXES][GROUP];
  const int own = (int)get_local_id(0);
  ALWAYS_UNROLLED
  for (int a = 0; a < AXES; a++) parts[a][own] = gradient[a];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (!exists) return;
  for (int a = lane; a < AXES; a += LANES) {
    real total = 0;
    for (int i = 0; i < LANES; i++) total += parts[a][own - lane + i];
    STORE_GRID(to, to_o + n * to_steps.n + AT(to, o, p, q) + a * to_c, total);
  }
}
