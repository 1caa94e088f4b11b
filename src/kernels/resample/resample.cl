// Resampling on a GPU: a work-item makes one place, or V neighbours of it along the inner axis, in PLANES planes, so that what
// it finds out about the place serves all of them and their loads are under way together. The grid is (places, planes / PLANES).
// The CPU form is in resample_cpu.cl.

#include "lib/divisor.cl"
#include "resample/resample_parts.cl"

#ifndef V
#define V 1
#endif
#ifndef PLANES
#define PLANES 1
#endif

#if V > 1
#define LOADS(p, i, d) JOIN(VLOAD_, X_DTYPE)(p, i, d)
#define STORES(p, i, d) JOIN(VSTORE_, Y_DTYPE)(p, i, d)
#else
#define LOADS(p, i, d) (d)[0] = LOAD_X(p, i);
#define STORES(p, i, d) STORE_Y(p, i, (d)[0])
#endif

// Sets up axis a at place c: the range of its taps, and for few of them where they lie and their weights.
#define FEW(a, c)                                                                       \
  int at##a[TAPS##a];                                                                   \
  real weight##a[TAPS##a];                                                              \
  for (int k = 0; k < TAPS##a; k++) {                                                   \
    at##a[k] = table[table##a + k * size##a + (c)];                           \
    weight##a[k] = WEIGHTED##a ? weights[weights##a + k * size##a + (c)] : 1; \
  }
#define MANY(a, c) const int begin##a = table[table##a + (c)], end##a = table[table##a + (c) + 1];
#if TAPS0
#define PLACE0(c) FEW(0, c)
#define EACH0 for (int k0 = 0; k0 < TAPS0; k0++)
#define AT0 at0[k0]
#define WEIGHT0 weight0[k0]
#else
#define PLACE0(c) MANY(0, c)
#define EACH0 for (int k0 = begin0; k0 < end0; k0++)
#define AT0 table[table0 + size0 + 1 + k0]
#define WEIGHT0 weights[weights0 + k0]
#endif
#if TAPS1
#define PLACE1(c) FEW(1, c)
#define EACH1 for (int k1 = 0; k1 < TAPS1; k1++)
#define AT1 at1[k1]
#define WEIGHT1 weight1[k1]
#else
#define PLACE1(c) MANY(1, c)
#define EACH1 for (int k1 = begin1; k1 < end1; k1++)
#define AT1 table[table1 + size1 + 1 + k1]
#define WEIGHT1 weights[weights1 + k1]
#endif
#if TAPS2
#define PLACE2(c) FEW(2, c)
#define EACH2 for (int k2 = 0; k2 < TAPS2; k2++)
#define AT2 at2[k2]
#define WEIGHT2 weight2[k2]
#else
#define PLACE2(c) MANY(2, c)
#define EACH2 for (int k2 = begin2; k2 < end2; k2++)
#define AT2 table[table2 + size2 + 1 + k2]
#define WEIGHT2 weights[weights2 + k2]
#endif
#define TIMES(a) (WEIGHTED##a ? WEIGHT##a : (real)1)

__kernel void resample(COMMON, int count, Divisor by_inner, Divisor by1, Divisor by2) {
  const int item = (int)get_global_id(0), first = (int)get_global_id(1) * PLANES;
  const int size0 = axes.size[0], size1 = axes.size[1], size2 = axes.size[2], inner = axes.inner;
  const int table0 = axes.table[0], table1 = axes.table[1], table2 = axes.table[2];
  const int weights0 = axes.weights[0], weights1 = axes.weights[1], weights2 = axes.weights[2];
  const index_t x0 = axes.x[0], x1 = axes.x[1], x2 = axes.x[2], x_inner = axes.x_inner;
  const index_t y0 = axes.y[0], y1 = axes.y[1], y2 = axes.y[2];
  if (item >= size0 * size1 * size2 * inner || first >= count) return;
  int place = INNER ? divided(item, by_inner) : item;
  const int i = INNER ? (item - place * inner) * V : 0;
  const int upper = divided(place, by2), c2 = place - upper * size2;
  const int c0 = divided(upper, by1), c1 = upper - c0 * size1;
  table += table_o;
  weights += weights_o;
  PLACE0(c0)
  PLACE1(c1)
  PLACE2(c2)

  index_t from[PLANES], to[PLANES];
  for (int p = 0; p < PLANES; p++) {
    find_plane(min(first + p, count - 1), levels + levels_o, &from[p], &to[p]);
    from[p] += i * x_inner;
    to[p] += c0 * y0 + c1 * y1 + c2 * y2 + i;
  }
  x += x_o;
  y += y_o;
  real sum[PLANES][V];
  for (int p = 0; p < PLANES; p++)
    for (int v = 0; v < V; v++) sum[p][v] = nothing_of(fill);
  EACH0 {
    const int i0 = AT0;
    EACH1 {
      const int i1 = AT1;
      const real w01 = TIMES(0) * TIMES(1);
      EACH2 {
        const int i2 = AT2;
        if (RAGGED && (i0 < 0 || i1 < 0 || i2 < 0)) continue;
        const index_t at = i0 * x0 + i1 * x1 + i2 * x2;
        const real w = w01 * TIMES(2);
        for (int p = 0; p < PLANES; p++) {
          real value[V];
          LOADS(x, from[p] + at, value)
          for (int v = 0; v < V; v++) sum[p][v] = SINGLE ? value[v] : sum[p][v] + w * value[v];
        }
      }
    }
  }
  for (int p = 0; p < PLANES; p++)
    if (first + p < count) STORES(y, to[p], sum[p]);
}
