// Winograd's transform of a tensor's tiles: v = B^T x B of what is convolved, or v = G w G^T of filters. One work-item for
// each tile and channel, or pair of them. Generators fill the slots; as it stands the file has the B^T of F(2, 3). For
// CPUs: conv_winograd_source_cpu.cl.

// 1: neighbouring work-items have neighbouring channels, else tiles.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
#include "conv/conv_winograd_grid.cl"
#include "gemm/gemm_types.cl"
#include "conv/conv_winograd_lanes.cl"

INLINE void along_height(Lanes* t, const Lanes* d) {
  //$ ALONG_HEIGHT
  t[0] = -d[0] + d[2];
  t[1] = d[1] + d[2];
  t[2] = d[2] - d[1];
  t[3] = d[3] - d[1];
  //$ END
}

INLINE void along_width(Lanes* t, const Lanes* d) {
  //$ ALONG_WIDTH
  t[0] = -d[0] + d[2];
  t[1] = d[1] + d[2];
  t[2] = d[2] - d[1];
  t[3] = d[3] - d[1];
  //$ END
}

__kernel void conv_winograd_source(__global const AB_STORAGE* restrict x, long x_offset, WinogradGrid grid,
                                   __global float* restrict v, long v_offset) {
  const int c = (int)get_global_id(CHANNELS_LAST ? 0 : 1) * LANES, tile = (int)get_global_id(CHANNELS_LAST ? 1 : 0);
  if (c >= grid.channels || tile >= grid.rows * grid.tiles_w) return;
  const int row = tile / grid.tiles_w, column = tile - row * grid.tiles_w;
  const int image = (grid.first_row + row) / grid.tiles_h, down = grid.first_row + row - image * grid.tiles_h;
  const int h0 = down * STEP_H - grid.pad_h, w0 = column * STEP_W - grid.pad_w;
  const long at = x_offset + grid.first + (long)image * grid.n_stride + (long)c * grid.c_stride;
  Lanes half_way[POINTS_H * SIZE_W];
#pragma unroll
  for (int j = 0; j < SIZE_W; j++) {
    Lanes d[SIZE_H], t[POINTS_H];
    const bool inside = w0 + j >= 0 && w0 + j < grid.width;
#pragma unroll
    for (int i = 0; i < SIZE_H; i++)
      d[i] = inside && h0 + i >= 0 && h0 + i < grid.height
                 ? LOAD_LANES(x, at + (long)(h0 + i) * grid.h_stride + (long)(w0 + j) * grid.w_stride)
                 : (Lanes)0;
    along_height(t, d);
#pragma unroll
    for (int i = 0; i < POINTS_H; i++) half_way[i * SIZE_W + j] = t[i];
  }
  const int part = row / grid.part_rows, in_part = tile - part * grid.part_rows * grid.tiles_w;
  v += v_offset + part * grid.part + (long)in_part * grid.tile_step + (long)c * grid.channel_step;
#pragma unroll
  for (int i = 0; i < POINTS_H; i++) {
    Lanes t[POINTS_W];
    along_width(t, half_way + i * SIZE_W);
#pragma unroll
    for (int j = 0; j < POINTS_W; j++) WIDE_STORE(Lanes, v + (i * POINTS_W + j) * grid.plane, t[j]);
  }
}
