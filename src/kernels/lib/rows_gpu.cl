// Rows on a GPU: LANES work-items take a row's elements, ROWS rows a group. HOLD 1: they hold it whole in registers, ITEMS
// accesses of V elements each; else they go through it in batches of as many. ACROSS 0: neighbouring lanes take neighbours
// along the axis; 1: neighbouring rows, where these lie closer together. RAGGED 1: rows without gaps that start anywhere. Accesses
// lie as if they started at a multiple of V elements, `shift` before; what is beyond either end is left out.

#ifndef V
#define V 1
#endif
#include "lib/rows.cl"

#ifndef LANES
#define LANES 64
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef ITEMS
#define ITEMS 4
#endif
#ifndef HOLD
#define HOLD 1
#endif
#ifndef ACROSS
#define ACROSS 0
#endif

#ifndef RAGGED
#define RAGGED 0
#endif

#define GROUP (LANES * ROWS)
#define BATCH ((INDEX)(ITEMS * LANES * V))
// This work-item's row and lane; past the last row, a row of no elements at row 0.
#define MY_ROW                                                                              \
  const int lid = (int)get_local_id(0), lane = ACROSS ? lid / ROWS : lid % LANES;           \
  const INDEX given_ = (INDEX)get_group_id(0) * ROWS + (ACROSS ? lid % ROWS : lid / LANES); \
  const bool mine = given_ < (INDEX)rows;                                                   \
  COORDINATES(mine ? given_ : 0)                                                            \
  const INDEX n = mine ? (INDEX)size : 0;

// Of the row at t. Batches go on until END.
#define FIND_SHIFT(t) const INDEX shift = RAGGED ? (INDEX)((ulong)(t) / sizeof(*(t)) % V) : 0;
#define END (n + shift)
// The first element of access i of the batch at `start`; before the row it wraps around, and is beyond n.
#define ACCESS(start, i) ((start) + ((INDEX)(i)*LANES + lane) * V - shift)
#define WHOLE(k) ((k) < n && (!RAGGED || (k) + V <= n))
#define OUTSIDE(k) ((k) >= n && (!RAGGED || (k) + (V - 1) >= n))
// An access' elements between memory and d: along the axis without gaps and aligned if V is not 1.
#if V == 1
#define GET(dtype, t, k, d) (d)[0] = LOAD(dtype, t, (k) * (INDEX)t##_s.axis)
#define PUT(dtype, t, k, d) STORE(dtype, t, (k) * (INDEX)t##_s.axis, (d)[0])
#else
#define GET(dtype, t, k, d) JOIN(VLOAD_, dtype)(t, k, d)
#define PUT(dtype, t, k, d) JOIN(VSTORE_, dtype)(t, k, d)
#endif
// The same of a tensor whose elements may lie otherwise: `vector` says whether they do not.
#define GET_ANY(dtype, vector, t, k, d)                                                     \
  {                                                                                         \
    if (vector) {                                                                           \
      GET(dtype, t, k, d);                                                                  \
    } else {                                                                                \
      for (int e_ = 0; e_ < V; e_++) (d)[e_] = LOAD(dtype, t, ((k) + e_) * (INDEX)t##_s.axis); \
    }                                                                                       \
  }
#define UNROLLED _Pragma("unroll")
// Of an access those that are in the row, and `other` for the rest.
#define GET_IN(dtype, t, k, d, other)                                                       \
  {                                                                                         \
    if (WHOLE(k)) {                                                                         \
      GET(dtype, t, k, d);                                                                  \
    } else {                                                                                \
      UNROLLED for (int e_ = 0; e_ < V; e_++) (d)[e_] = RAGGED && (k) + (INDEX)e_ < n ? LOAD(dtype, t, (k) + (INDEX)e_) : other; \
    }                                                                                       \
  }
#define PUT_IN(dtype, t, k, d)                                                              \
  {                                                                                         \
    if (WHOLE(k)) {                                                                         \
      PUT(dtype, t, k, d);                                                                  \
    } else if (RAGGED) {                                                                    \
      UNROLLED for (int e_ = 0; e_ < V; e_++)                                               \
        if ((k) + (INDEX)e_ < n) STORE(dtype, t, (k) + (INDEX)e_, (d)[e_]);                 \
    }                                                                                       \
  }

// A row's result of its lanes' values; every lane gets it, and all of the group must ask. Lanes are few steps apart in local
// memory: up to sixteen read them all, more do so in two rounds.
#define MAX_OR_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define ADD(a, b) ((a) + (b))
#define OVER_LANES(name, COMBINE)                                                               \
  static real name(real value, __local real* shared, int lid, int lane) {                       \
    if (LANES == 1) return value;                                                               \
    const int first = ACROSS ? lid % ROWS : lid - lane, step = ACROSS ? ROWS : 1;               \
    shared[lid] = value;                                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                                                               \
    if (LANES > 16) {                                                                           \
      if (lane < 16) {                                                                          \
        for (int j = lane + 16; j < LANES; j += 16) value = COMBINE(value, shared[first + j * step]); \
        shared[lid] = value;                                                                    \
      }                                                                                         \
      barrier(CLK_LOCAL_MEM_FENCE);                                                             \
    }                                                                                           \
    real all = shared[first];                                                                   \
    for (int j = 1; j < (LANES < 16 ? LANES : 16); j++) all = COMBINE(all, shared[first + j * step]); \
    barrier(CLK_LOCAL_MEM_FENCE);                                                               \
    return all;                                                                                 \
  }
OVER_LANES(lanes_max, MAX_OR_NAN)
OVER_LANES(lanes_sum, ADD)
