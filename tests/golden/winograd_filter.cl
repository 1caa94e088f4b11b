// Winograd's transform of a tensor's tiles: v = B^T x B of what is convolved, or v = G w G^T of filters. One work-item for
// each tile and channel. Generators fill the slots; as it stands the file has the B^T of F(2, 3). For CPUs:
// conv_winograd_source_cpu.cl.

// 1: neighbouring work-items have neighbouring channels, else tiles.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
// conv_winograd_grid.cl

// gemm_types.cl


INLINE void along_height(REAL* t, const REAL* d) {
  t[0] = 0.790123457f * d[0];
  const REAL same1 = MULTIPLY_ADD((REAL)(0.296296296f), d[2], 0.526748971f * d[0]);
  const REAL other1 = 0.395061728f * d[1];
  t[1] = same1 + other1;
  t[2] = same1 - other1;
  const REAL same3 = MULTIPLY_ADD((REAL)(0.296296296f), d[2], 0.131687243f * d[0]);
  const REAL other3 = 0.197530864f * d[1];
  t[3] = same3 + other3;
  t[4] = same3 - other3;
  t[5] = d[2];
}

INLINE void along_width(REAL* t, const REAL* d) {
  t[0] = 0.790123457f * d[0];
  const REAL same1 = MULTIPLY_ADD((REAL)(0.296296296f), d[2], 0.526748971f * d[0]);
  const REAL other1 = 0.395061728f * d[1];
  t[1] = same1 + other1;
  t[2] = same1 - other1;
  const REAL same3 = MULTIPLY_ADD((REAL)(0.296296296f), d[2], 0.131687243f * d[0]);
  const REAL other3 = 0.197530864f * d[1];
  t[3] = same3 + other3;
  t[4] = same3 - other3;
  t[5] = d[2];
}

__kernel void conv_winograd_source(__global const AB_STORAGE* restrict x, long x_offset, WinogradGrid grid,
                                   __global float* restrict v, long v_offset) {
  const int c = (int)get_global_id(CHANNELS_LAST ? 0 : 1), tile = (int)get_global_id(CHANNELS_LAST ? 1 : 0);
  if (c >= grid.channels || tile >= grid.rows * grid.tiles_w) return;
  const int row = tile / grid.tiles_w, column = tile - row * grid.tiles_w;
  const int image = (grid.first_row + row) / grid.tiles_h, down = grid.first_row + row - image * grid.tiles_h;
  const int h0 = down * STEP_H - grid.pad_h, w0 = column * STEP_W - grid.pad_w;
  const long at = x_offset + grid.first + (long)image * grid.n_stride + (long)c * grid.c_stride;
  REAL half_way[POINTS_H * SIZE_W];
#pragma unroll
  for (int j = 0; j < SIZE_W; j++) {
    REAL d[SIZE_H], t[POINTS_H];
    const bool inside = w0 + j >= 0 && w0 + j < grid.width;
#pragma unroll
    for (int i = 0; i < SIZE_H; i++)
      d[i] = inside && h0 + i >= 0 && h0 + i < grid.height
                 ? LOAD_AB(x, at + (long)(h0 + i) * grid.h_stride + (long)(w0 + j) * grid.w_stride)
                 : 0;
    along_height(t, d);
#pragma unroll
    for (int i = 0; i < POINTS_H; i++) half_way[i * SIZE_W + j] = t[i];
  }
  v += v_offset + (long)tile * grid.tile_step + (long)c * grid.channel_step;
#pragma unroll
  for (int i = 0; i < POINTS_H; i++) {
    REAL t[POINTS_W];
    along_width(t, half_way + i * SIZE_W);
#pragma unroll
    for (int j = 0; j < POINTS_W; j++) v[(i * POINTS_W + j) * grid.plane] = t[j];
  }
}
