// table[indices] = dense, column by column: family p are the dimensions along which both move, so that no two
// work-items meet; family w are walked by each work-item in order. See indexing.cl and fold.cl. A work-item has
// `chunk` columns: one on GPUs, many on CPUs.

#define SKIPPED(v) ((v) == skip)
#include "index/indexing.cl"
#include "lib/fold.cl"

#ifndef ROWS
#define ROWS 0        // no index varies along the innermost column dimension
#define UNIT 0        // both tensors step by one along it
#define WALK_INNER 0  // a column is walked before the next one, because there dense's elements are neighbours
#define INNER p0
#endif

#define OF_(prefix, d) prefix##d
#define OF(prefix, d) OF_(prefix, d)
#define T_STEP (UNIT ? 1 : OF(t_, INNER))
#define S_STEP (UNIT ? 1 : OF(s_, INNER))
#define MORE(k) j* OF(i##k##_, INNER)

#define RESET(at, from) STORE(table, at, (ACC)(IDENTITY));
#define UPDATE(at, from)                                                             \
  {                                                                                  \
    const ACC v_ = LOAD_DENSE(dense, from);                                          \
    STORE(table, at, FOLD(LOAD(table, at), v_));                                     \
  }

#define ONE(APPLY)                                        \
  {                                                       \
    OFFSET at = place.table + j * T_STEP;                 \
    bool ok = true;                                       \
    EACH_INDEX(FOLLOW_INDEX, MORE)                        \
    if (ok) APPLY(at, place.dense + j * S_STEP)           \
  }
#if WALK_INNER
#define WALK(APPLY)                               \
  for (OFFSET j = 0; j < run; j++)                \
    for (OFFSET w = 0; w < walked; w++) {         \
      struct Place place = start;                 \
      LOCATE_W(w)                                 \
      ONE(APPLY)                                  \
    }
#elif ROWS
#define WALK(APPLY)                                                                    \
  for (OFFSET w = 0; w < walked; w++) {                                                \
    struct Place place = start;                                                        \
    LOCATE_W(w)                                                                        \
    OFFSET at = place.table;                                                           \
    bool ok = true;                                                                    \
    EACH_INDEX(FOLLOW_INDEX, NO_MORE)                                                  \
    if (ok) {                                                                          \
      INDEPENDENT_ROUNDS                                                               \
      for (OFFSET j = 0; j < run; j++) APPLY(at + j * T_STEP, place.dense + j * S_STEP) \
    }                                                                                  \
  }
#else
#define WALK(APPLY)                                \
  for (OFFSET w = 0; w < walked; w++) {            \
    struct Place place = start;                    \
    LOCATE_W(w)                                    \
    for (OFFSET j = 0; j < run; j++) ONE(APPLY)    \
  }
#endif

__kernel void scatter_columns(__global const S* restrict dense, long dense_o, __global T* restrict table,
                              long table_o NEST, long skip, OFFSET walked, OFFSET columns, OFFSET chunk) {
  BRING_CONSTANTS_IN
  OFFSET i = (OFFSET)get_global_id(0) * chunk;
  const OFFSET end = min(i + chunk, columns), size = OF(n_, INNER);
  dense += dense_o;
  table += table_o;
  while (i < end) {
    struct Place start = {0, 0, {0}};
    {
      struct Place place = start;
      LOCATE_P(i)
      start = place;
    }
    const OFFSET run = min(end - i, size - i % size);
#if RESETS
    WALK(RESET)
#endif
    WALK(UPDATE)
    i += run;
  }
}
