// What both forms of interleaving share: the dimensions of planes of one tensor that are the neighbouring elements of the other.
// The element of plane r at place i of a row is the packed one at i * R + r. R planes lie along one dimension, or two: INNER along
// the inner one. OUTERS: dimensions beside rows and planes.

#ifndef ELEMENT
#define ELEMENT uint
#define R 2
#define INNER 2
#define OUTERS 3
#define OFFSET int
#define STEPPED 0  // neighbouring places lie place_step elements apart in a plane, not 1
#endif
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "movement/interleave.h"

#define PLANE(r) ((OFFSET)((r) % INNER) * (OFFSET)nest.inner_step + (OFFSET)((r) / INNER) * (OFFSET)nest.outer_step)
#define PLACE(i) (STEPPED ? (OFFSET)(i)*place_step : (OFFSET)(i))
// Where part `part`, of `each` places, begins: `begin` in its row, and in either tensor.
#define FIND_PART(part, each)                                                         \
  int rest = divided(part, nest.row);                                                 \
  const int begin = ((part) - rest * nest.row.d) * (each);                            \
  OFFSET in_planes = PLACE(begin), in_packed = (OFFSET)begin * R;                     \
  _Pragma("unroll") for (int k_ = 0; k_ < OUTERS; k_++) {                             \
    const int next = divided(rest, nest.size[k_]), c = rest - next * nest.size[k_].d; \
    rest = next;                                                                      \
    in_planes += c * (OFFSET)nest.planes[k_];                                         \
    in_packed += c * (OFFSET)nest.packed[k_];                                         \
  }
