// As random.cl, of memory whose neighbours are far apart in the order of the stream's words: images with channels last. A work-item
// makes V neighbours in memory times TILES * 4 neighbours in that order, one block of words for four of them; its columns begin
// at words of their own, which need be no multiples of four.

#include "random/random_values.cl"
#ifndef TILES
#define TILES 4
#define LOCAL 64
#define OUTERS 1  // dimensions beside the two
#define WHOLE 1   // all lanes exist, and are words in memory
#define OFFSET int
#endif
#include "lib/divisor.cl"
#include "lib/int64.h"
#include "random/random_tiles.h"

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void random_tiles(
    SOURCE __global T* y, long y_o, ulong seed, ulong offset, DRAW_PARAMETERS, RandomTilesNest nest) {
  const int item = (int)get_global_id(0);
  if (item >= nest.count) return;
  const OFFSET x_run = (OFFSET)nest.x_run, y_run = (OFFSET)nest.y_run;
  int rest = divided(item, nest.lane_words);
  const int lane = (item - rest * nest.lane_words.d) * V;
  const int place = rest, chunk = divided(place, nest.chunks), begin = (place - chunk * nest.chunks.d) * (4 * TILES);
  rest = chunk;
  ulong word = offset + (ulong)(lane * nest.lane_step + begin);
  OFFSET in_x = lane + begin * x_run, in_y = lane + begin * y_run;
#pragma unroll
  for (int k = 0; k < OUTERS; k++) {
    const int next = k + 1 < OUTERS ? divided(rest, nest.size[k]) : 0, c = rest - next * nest.size[k].d;
    rest = next;
    word += (ulong)(c * nest.step[k]);
    in_x += c * (OFFSET)nest.x[k];
    in_y += c * (OFFSET)nest.y[k];
  }
  const int end = min(nest.run - begin, 4 * TILES), here = min(V, nest.lanes - lane);
  y += y_o + in_y;
#ifdef DROPOUT
  x += x_o + in_x;
#endif
  // What a column's block has before its first word belongs to others; `skipped` words of each block, or 4, are of the block before.
  VALUE before[V][4];
  int skipped[V];
#pragma unroll
  for (int v = 0; v < V; v++) {
    const ulong first = word + (ulong)(v * nest.lane_step);
    skipped[v] = (int)(first & 3);
    if (skipped[v])
      block_values(first / 4, seed, a, b, top, threshold, low, before[v]);
    else
      skipped[v] = 4;
  }
  for (int i = 0; i < end; i += 4) {
#ifdef DROPOUT
    float xs[4][V];
#pragma unroll
    for (int j = 0; j < 4; j++) {
#if WHOLE
      if (i + j < end) {
        JOIN(VLOAD_, X_DTYPE)(x, (i + j) * x_run, xs[j]);
      }
#else
#pragma unroll
      for (int v = 0; v < V; v++) xs[j][v] = i + j < end && v < here ? JOIN(LOAD_, X_DTYPE)(x, (i + j) * x_run + v) : 0;
#endif
    }
#endif
    VALUE values[4][V];
#pragma unroll
    for (int v = 0; v < V; v++) {
      VALUE both[8];
#pragma unroll
      for (int j = 0; j < 4; j++) both[j] = before[v][j];
      const int s = skipped[v];
      block_values((word + (ulong)(v * nest.lane_step) + 3) / 4 + (uint)(i / 4), seed, a, b, top, threshold, low, both + 4);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        values[j][v] = s == 1 ? both[j + 1] : s == 2 ? both[j + 2] : s == 3 ? both[j + 3] : both[j + 4];
        before[v][j] = both[j + 4];
      }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (i + j >= end) continue;
#pragma unroll
      for (int v = 0; v < V; v++) values[j][v] = ELEMENT(values[j][v], xs[j][v]);
#if WHOLE
      JOIN(VSTORE_, DTYPE)(y, (i + j) * y_run, values[j]);
#else
#pragma unroll
      for (int v = 0; v < V; v++)
        if (v < here) JOIN(STORE_, DTYPE)(y, (i + j) * y_run + v, values[j][v]);
#endif
    }
  }
}
