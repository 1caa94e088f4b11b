// y = up to INPUTS tensors one behind the other along an axis, in one launch: of each input, a run of words after run goes to
// every row of y. A work-group moves LOCAL * UNROLL words of one input.

#ifndef WORD
#define WORD uint4
#define INPUTS 16  // the kernel has as many parameters
#define LOCAL 256
#define UNROLL 4
#endif
#include "lib/access.cl"
#include "lib/arguments.cl"
#include "lib/divisor.cl"

// All in words. Input k has groups first[k] to first[k + 1] - 1; of inputs that there are not, none.
typedef struct {
  long offset[INPUTS], y_offset;
  int first[INPUTS + 1], count[INPUTS], start[INPUTS];  // where in y's rows its runs go
  struct Divisor run[INPUTS];
  int y_run;
} Table;

#define PARAMETER(k) __global const WORD *x##k,
#define CHOOSE(k) \
  case k:         \
    x = x##k;     \
    break;

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void concat(
    PARAMETER(0) PARAMETER(1) PARAMETER(2) PARAMETER(3) PARAMETER(4) PARAMETER(5) PARAMETER(6) PARAMETER(7) PARAMETER(8)
        PARAMETER(9) PARAMETER(10) PARAMETER(11) PARAMETER(12) PARAMETER(13) PARAMETER(14) PARAMETER(15)
            __global WORD* restrict y,
    Table STRUCT_ARGUMENT(table)) {
  COPY_STRUCT(Table, table)
  const int group = (int)get_group_id(0);
  int k = 0;
  // Without its bound a driver makes a wrong loop of it.
  while (k + 1 < INPUTS && group >= table.first[k + 1]) k++;
  __global const WORD* x = x0;
  switch (k) {
    CHOOSE(1) CHOOSE(2) CHOOSE(3) CHOOSE(4) CHOOSE(5) CHOOSE(6) CHOOSE(7) CHOOSE(8)
    CHOOSE(9) CHOOSE(10) CHOOSE(11) CHOOSE(12) CHOOSE(13) CHOOSE(14) CHOOSE(15)
  }
  x += table.offset[k];
  y += table.y_offset + table.start[k];
  const struct Divisor run = table.run[k];
  const int count = table.count[k], skipped = table.y_run - run.d;
  const int begin = (group - table.first[k]) * (LOCAL * UNROLL) + (int)get_local_id(0);
  WORD words[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
    if (begin + u * LOCAL < count) words[u] = WIDE_LOAD(WORD, x + begin + u * LOCAL);
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    const int i = begin + u * LOCAL;
    if (i < count) WIDE_STORE(WORD, y + i + divided(i, run) * skipped, words[u]);
  }
}
