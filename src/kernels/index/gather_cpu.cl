// y[i] = x[...] at places that index tensors say, on a CPU; zero where one is outside. All dimensions are family
// p; x is the table, y is dense. See indexing.cl. A work-group of one item takes a chunk of elements, run by run
// along the innermost dimension.

#include "lib/access.cl"
#include "index/indexing.cl"

#ifndef WORD
#define ELEMENT uint
#define WORD uint
#endif
#ifndef ROWS  // no index varies along the innermost dimension, x and y step by one along it
#define ROWS 0
#define INNER p0
#endif

// The innermost dimension's names.
#define OF_(prefix, d) prefix##d
#define OF(prefix, d) OF_(prefix, d)
#ifndef X_STEP  // strides along it that are known
#define X_STEP OF(t_, INNER)
#define Y_STEP OF(s_, INNER)
#endif
#define MORE(k) j* OF(i##k##_, INNER)

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gather(__global const ELEMENT* restrict x_e, long x_o,
                                                                    __global ELEMENT* restrict y_e, long y_o NEST,
                                                                    OFFSET count, OFFSET chunk) {
  OFFSET i = (OFFSET)get_group_id(0) * chunk;
  const OFFSET end = min(i + chunk, count), size = OF(n_, INNER);
  __global const WORD* restrict x = (__global const WORD*)(x_e + x_o);
  __global WORD* restrict y = (__global WORD*)(y_e + y_o);
  while (i < end) {
    struct Place place = {0, 0, {0}};
    LOCATE_P(i)
    const OFFSET run = min(end - i, size - i % size);
    __global WORD* restrict to = y + place.dense;
#if ROWS
    OFFSET at = place.table;
    bool ok = true;
    EACH_INDEX(FOLLOW_INDEX, NO_MORE)
    __global const WORD* restrict from = x + at;
    if (ok)
      for (OFFSET j = 0; j < run; j++) WIDE_STORE(WORD, to + j, WIDE_LOAD(WORD, from + j));
    else
      for (OFFSET j = 0; j < run; j++) WIDE_STORE(WORD, to + j, (WORD)(0));
#else
    for (OFFSET j = 0; j < run; j++) {
      OFFSET at = place.table + j * X_STEP;
      bool ok = true;
      EACH_INDEX(FOLLOW_INDEX, MORE)
      WIDE_STORE(WORD, to + j * Y_STEP, ok ? WIDE_LOAD(WORD, x + at) : (WORD)(0));
    }
#endif
    i += run;
  }
}
