// y = x where a few planes of one tensor are the neighbouring elements of the other, on a GPU. A work-item moves BLOCKS blocks of V
// places of all planes through registers, so that neighbouring work-items read and write neighbouring words on both sides; no
// local memory.

#include "movement/interleave_dims.cl"
// Elements of SIZE bytes. V elements of a plane and P packed ones are a word of up to 16 bytes; P divides R * V.
#ifndef SIZE
#define SIZE 4
#define V 2
#define P 4
#define BLOCKS 2
#endif
#include "lib/words.cl"
#define GROUP 256

// V places of a plane.
static void read_places(uint* word, __global const ELEMENT* from, OFFSET place_step) {
  if (STEPPED) {
#pragma unroll
    for (int v = 0; v < V; v++) {
      uint one[4];
      read_word(one, from + PLACE(v), SIZE);
      move_element(word, v, one, 0);
    }
  } else {
    read_word(word, from, V * SIZE);
  }
}
static void write_places(__global ELEMENT* to, const uint* word, OFFSET place_step) {
  if (STEPPED) {
#pragma unroll
    for (int v = 0; v < V; v++) {
      uint one[4] = {0, 0, 0, 0};
      move_element(one, 0, word, v);
      write_word(to + PLACE(v), one, SIZE);
    }
  } else {
    write_word(to, word, V * SIZE);
  }
}

#define WORDS (R * V / P)
#define BLOCK(k) ((int)get_group_id(0) * (GROUP * BLOCKS) + (k) * GROUP + (int)get_local_id(0))

// x: planes, y: packed.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void interleave(
    __global const ELEMENT* restrict x, long x_o, __global ELEMENT* restrict y, long y_o, InterleaveNest nest) {
  const OFFSET place_step = (OFFSET)nest.place_step;
  uint planes[BLOCKS][R][4];
  OFFSET to[BLOCKS];
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= nest.count) continue;
    FIND_PART(BLOCK(k), V)
    to[k] = in_packed;
#pragma unroll
    for (int r = 0; r < R; r++) {
      for (int i = 0; STEPPED && i < 4; i++) planes[k][r][i] = 0;
      read_places(planes[k][r], x + x_o + in_planes + PLANE(r), place_step);
    }
  }
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= nest.count) continue;
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
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void deinterleave(
    __global const ELEMENT* restrict x, long x_o, __global ELEMENT* restrict y, long y_o, InterleaveNest nest) {
  const OFFSET place_step = (OFFSET)nest.place_step;
  uint packed[BLOCKS][WORDS][4];
  OFFSET to[BLOCKS];
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= nest.count) continue;
    FIND_PART(BLOCK(k), V)
    to[k] = in_planes;
#pragma unroll
    for (int j = 0; j < WORDS; j++) read_word(packed[k][j], x + x_o + in_packed + j * P, P * SIZE);
  }
#pragma unroll
  for (int k = 0; k < BLOCKS; k++) {
    if (BLOCK(k) >= nest.count) continue;
#pragma unroll
    for (int r = 0; r < R; r++) {
      uint word[4] = {0, 0, 0, 0};
#pragma unroll
      for (int v = 0; v < V; v++) move_element(word, v, packed[k][(v * R + r) / P], (v * R + r) % P);
      write_places(y + y_o + to[k] + PLANE(r), word, place_step);
    }
  }
}
