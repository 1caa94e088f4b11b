// What both forms of interleaving share: the dimensions of planes of one tensor that are the neighbouring elements of the other.
// The element of plane r at place i of a row is the packed one at i * R + r. R planes lie along one dimension, or two: INNER along
// the inner one. OUTERS: dimensions beside rows and planes, d0 innermost.

#ifndef ELEMENT
#define ELEMENT uint
#define R 2
#define INNER 2
#define OUTERS 3
#define OFFSET int
#define STEPPED 0  // neighbouring places lie place_step elements apart in a plane, not 1
#endif
#include "lib/divisor.cl"

// A row has `row` parts, there are `count` in all.
#define OUTER(d) , DIVISOR(n_##d), OFFSET planes_##d, OFFSET packed_##d
#define DIMENSIONS                                                                                                            \
  int count, DIVISOR(row), OFFSET place_step, OFFSET inner_step, OFFSET outer_step OUTER(d0) OUTER(d1) OUTER(d2) OUTER(d3) OUTER(d4) OUTER(d5)
#define PLANE(r) ((OFFSET)((r) % INNER) * inner_step + (OFFSET)((r) / INNER) * outer_step)
#define PLACE(i) (STEPPED ? (OFFSET)(i)*place_step : (OFFSET)(i))
#define STEP(k, d)                               \
  if (OUTERS > k) {                              \
    const int next = QUOTIENT(rest, n_##d), c = rest - next * n_##d; \
    rest = next;                                 \
    in_planes += (OFFSET)c * planes_##d;         \
    in_packed += (OFFSET)c * packed_##d;         \
  }
// Where part `part`, of `size` places, begins: `begin` in its row, and in either tensor.
#define FIND_PART(part, size)                                      \
  int rest = QUOTIENT(part, row);                                  \
  const int begin = ((part) - rest * row) * (size);                \
  OFFSET in_planes = PLACE(begin), in_packed = (OFFSET)begin * R;             \
  STEP(0, d0) STEP(1, d1) STEP(2, d2) STEP(3, d3) STEP(4, d4) STEP(5, d5)
