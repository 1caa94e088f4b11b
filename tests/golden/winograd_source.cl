// Winograd's transform of a tensor's tiles: v = B^T x B of what is convolved, or v = G w G^T of filters. One work-item for
// each tile and channel, or pair of them. Generators fill the slots; as it stands the file has the B^T of F(2, 3). For
// CPUs: conv_winograd_source_cpu.cl.

// 1: neighbouring work-items have neighbouring channels, else tiles.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
// conv_winograd_grid.cl

// gemm_types.cl

// What a work-item of Winograd's transforms has at a time: a channel, or with PAIRS 1 two neighbouring ones of f32 that lie
// on 8-byte boundaries, in x as in transformed tiles.

#ifndef PAIRS
#define PAIRS 0
#endif
#if PAIRS
#define LANES 2
typedef float2 Lanes;
#define LOAD_LANES(x, at) WIDE_LOAD(Lanes, (x) + (at))
#else
#define LANES 1
typedef REAL Lanes;
#define LOAD_LANES(x, at) LOAD_AB(x, at)
#endif


INLINE void along_height(Lanes* t, const Lanes* d) {
  t[0] = MULTIPLY_ADD((Lanes)(-2.8125f), d[2], MULTIPLY_ADD((Lanes)(1.265625f), d[0], d[4]));
  const Lanes same1 = MULTIPLY_ADD((Lanes)(2.25f), d[2], -d[4]);
  const Lanes other1 = MULTIPLY_ADD((Lanes)(-0.75f), d[3], 1.6875f * d[1]);
  t[1] = same1 + other1;
  t[2] = same1 - other1;
  const Lanes same3 = MULTIPLY_ADD((Lanes)(-0.5625f), d[2], d[4]);
  const Lanes other3 = MULTIPLY_ADD((Lanes)(1.5f), d[3], -0.84375f * d[1]);
  t[3] = same3 + other3;
  t[4] = same3 - other3;
  t[5] = MULTIPLY_ADD((Lanes)(-2.8125f), d[3], MULTIPLY_ADD((Lanes)(1.265625f), d[1], d[5]));
}

INLINE void along_width(Lanes* t, const Lanes* d) {
  t[0] = MULTIPLY_ADD((Lanes)(-2.8125f), d[2], MULTIPLY_ADD((Lanes)(1.265625f), d[0], d[4]));
  const Lanes same1 = MULTIPLY_ADD((Lanes)(2.25f), d[2], -d[4]);
  const Lanes other1 = MULTIPLY_ADD((Lanes)(-0.75f), d[3], 1.6875f * d[1]);
  t[1] = same1 + other1;
  t[2] = same1 - other1;
  const Lanes same3 = MULTIPLY_ADD((Lanes)(-0.5625f), d[2], d[4]);
  const Lanes other3 = MULTIPLY_ADD((Lanes)(1.5f), d[3], -0.84375f * d[1]);
  t[3] = same3 + other3;
  t[4] = same3 - other3;
  t[5] = MULTIPLY_ADD((Lanes)(-2.8125f), d[3], MULTIPLY_ADD((Lanes)(1.265625f), d[1], d[5]));
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
