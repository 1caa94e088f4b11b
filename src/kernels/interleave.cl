// y = x where a few planes of one tensor are the neighbouring elements of the other, on a GPU: the element of plane r at place i
// of a row is the packed one at i * R + r. A work-item moves BLOCKS blocks of V places of all R planes through registers, so that
// neighbouring work-items read and write neighbouring words on both sides; no local memory.

// Elements of SIZE bytes. R planes along one dimension, or two: INNER to the inner one. V elements of a plane and P packed ones
// are a word of up to 16 bytes; P divides R * V. OUTERS: dimensions beside rows and planes, d0 innermost.
#ifndef SIZE
#define SIZE 4
#define ELEMENT uint
#define R 2
#define INNER 2
#define V 2
#define P 4
#define BLOCKS 2
#define OUTERS 3
#define OFFSET int
#endif
#include "divisor.cl"
#include "words.cl"
#define GROUP 256
#define WORDS (R * V / P)

#define OUTER(d) , DIVISOR(n_##d), OFFSET planes_##d, OFFSET packed_##d
#define ARGUMENTS                                                                                                            \
  int count, DIVISOR(row), OFFSET inner_step, OFFSET outer_step OUTER(d0) OUTER(d1) OUTER(d2) OUTER(d3) OUTER(d4) OUTER(d5)
#define PLANE(r) ((OFFSET)((r) % INNER) * inner_step + (OFFSET)((r) / INNER) * outer_step)
#define STEP(k, d)                               \
  if (OUTERS > k) {                              \
    const int next = QUOTIENT(rest, n_##d), c = rest - next * n_##d; \
    rest = next;                                 \
    in_planes += (OFFSET)c * planes_##d;         \
    in_packed += (OFFSET)c * packed_##d;         \
  }
// The places of block `b`, which is one of `row` in its row.
#define FIND_BLOCK(b)                                                                                              \
  int rest = QUOTIENT(b, row);                                                                                     \
  OFFSET in_planes = (OFFSET)((b) - rest * row) * V, in_packed = in_planes * R;                                    \
  STEP(0, d0) STEP(1, d1) STEP(2, d2) STEP(3, d3) STEP(4, d4) STEP(5, d5)
#define BLOCK(k) ((int)get_group_id(0) * (GROUP * BLOCKS) + (k) * GROUP + (int)get_local_id(0))

// x: planes, y: packed.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void interleave(__global const ELEMENT* restrict x, long x_o,
                                                                            __global ELEMENT* restrict y, long y_o, ARGUMENTS) {
  uint planes[BLOCKS][R][4];
  OFFSET to[BLOCKS];
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= count) continue;
    FIND_BLOCK(BLOCK(k))
    to[k] = in_packed;
#pragma unroll
    for (int r = 0; r < R; r++) read_word(planes[k][r], x + x_o + in_planes + PLANE(r), V * SIZE);
  }
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= count) continue;
#pragma unroll
    for (int j = 0; j < WORDS; j++) {
      uint word[4] = {0, 0, 0, 0};
#pragma unroll
      for (int p = 0; p < P; p++) move_element(word, p, planes[k][(j * P + p) % R], (j * P + p) / R);
      write_word(y + y_o + to[k] + j * P, word, P * SIZE);
    }
  }
}

// x: packed, y: planes.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void deinterleave(__global const ELEMENT* restrict x, long x_o,
                                                                              __global ELEMENT* restrict y, long y_o, ARGUMENTS) {
  uint packed[BLOCKS][WORDS][4];
  OFFSET to[BLOCKS];
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= count) continue;
    FIND_BLOCK(BLOCK(k))
    to[k] = in_planes;
#pragma unroll
    for (int j = 0; j < WORDS; j++) read_word(packed[k][j], x + x_o + in_packed + j * P, P * SIZE);
  }
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= count) continue;
#pragma unroll
    for (int r = 0; r < R; r++) {
      uint word[4] = {0, 0, 0, 0};
#pragma unroll
      for (int v = 0; v < V; v++) move_element(word, v, packed[k][(v * R + r) / P], (v * R + r) % P);
      write_word(y + y_o + to[k] + PLANE(r), word, V * SIZE);
    }
  }
}
