// A tile of gemm_fragment.cl by multiply-adds: both operands as they are in local memory, to[k][row], each work-item with some
// rows and columns of its own, and from there to those that it has of the fragments.

#ifndef SPLIT
#define SPLIT 3
#endif
#include "gemm/gemm_fragment_tile.cl"

#define WHOLE_PITCH(rows) ((rows) + 4)
// Work-items along a row of the tile, and what each has.
#if ITEMS >= 128
#define WHOLE_X 16
#elif ITEMS >= 8
#define WHOLE_X 8
#else
#define WHOLE_X ITEMS
#endif
#define WHOLE_COLUMNS (TN / WHOLE_X)
#define WHOLE_ROWS (SUMS / WHOLE_COLUMNS)
// Fours of neighbours, where they are as many.
#define COLUMN_OF(x, j) (WHOLE_COLUMNS % 4 == 0 ? 4 * (x) + (j) / 4 * 4 * WHOLE_X + (j) % 4 : (x) + (j)*WHOLE_X)

static void put_whole(__local float* to, const ELEMENT* from, int loads, int wide, int unit_k, int rows, int item) {
  UNROLL
  for (int i = 0; i < loads; i++) {
    const int at = item + i * ITEMS;
    if (rows * TK / wide % ITEMS != 0 && at >= rows * TK / wide) continue;
    __local float* first = to + LOAD_STEP(at) * WHOLE_PITCH(rows) + LOAD_ROW(at);
    UNROLL
    for (int j = 0; j < wide; j++) first[unit_k ? j * WHOLE_PITCH(rows) : j] = as_float(from[i * wide + j]);
  }
}
// `count` of a row of it, from where `first` is for i = 0 on.
#define LOAD_WHOLE(to, count, at, place)                                      \
  UNROLL                                                                      \
  for (int i = 0; i < (count); i += (count) % 4 == 0 ? 4 : 1) {               \
    if ((count) % 4 == 0) {                                                   \
      const float4 four = *(__local const float4*)((at) + (place));           \
      to[i] = four.s0, to[i + 1] = four.s1, to[i + 2] = four.s2, to[i + 3] = four.s3; \
    } else {                                                                  \
      to[i] = (at)[place];                                                    \
    }                                                                         \
  }
static void multiply_whole(float* acc, __local const float* a, __local const float* b, int item) {
  const int x = item % WHOLE_X, y = item / WHOLE_X;
  _Pragma("nounroll")
  for (int k = 0; k < TK; k++) {
    float own_a[WHOLE_ROWS], own_b[WHOLE_COLUMNS];
    LOAD_WHOLE(own_b, WHOLE_COLUMNS, b + k * WHOLE_PITCH(TN), COLUMN_OF(x, i))
    LOAD_WHOLE(own_a, WHOLE_ROWS, a + k * WHOLE_PITCH(TM), y * WHOLE_ROWS + i)
    UNROLL
    for (int i = 0; i < WHOLE_ROWS; i++) {
      UNROLL
      for (int j = 0; j < WHOLE_COLUMNS; j++) acc[i * WHOLE_COLUMNS + j] = fma(own_a[i], own_b[j], acc[i * WHOLE_COLUMNS + j]);
    }
  }
}
// To room[row][column].
static void give_whole(__local float* room, const float* acc, int item) {
  const int x = item % WHOLE_X, y = item / WHOLE_X;
  UNROLL
  for (int i = 0; i < WHOLE_ROWS; i++) {
    UNROLL
    for (int j = 0; j < WHOLE_COLUMNS; j++)
      room[(y * WHOLE_ROWS + i) * WHOLE_PITCH(TN) + COLUMN_OF(x, j)] = acc[i * WHOLE_COLUMNS + j];
  }
}
// Whether v is not 0 in any work-item.
static int any_of_group(int v, __local int* any, int item) {
  if (item == 0) *any = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (v) *any = 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  return *any;
}
