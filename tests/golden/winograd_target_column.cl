// Winograd's last transform: y = A^T m A of the sums of products, which may lie in parts, and the epilogue. One work-item
// for each tile and channel, or pair of them. Generators fill the slots; as it stands the file has the A^T of F(2, 3).
// For CPUs: conv_winograd_target_cpu.cl.

// 1: neighbouring work-items have neighbouring channels, else tiles.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif
#define SIZE_H STEP_H
#define SIZE_W STEP_W
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
  const Lanes sum1 = d[1] + d[2], difference1 = d[1] - d[2];
  const Lanes sum3 = d[3] + d[4], difference3 = d[3] - d[4];
  t[0] = d[0] + sum1 + sum3;
  t[1] = MULTIPLY_ADD((Lanes)(1.5f), difference3, 0.75f * difference1);
  t[2] = MULTIPLY_ADD((Lanes)(2.25f), sum3, 0.5625f * sum1);
  t[3] = MULTIPLY_ADD((Lanes)(3.375f), difference3, MULTIPLY_ADD((Lanes)(0.421875f), difference1, d[5]));
}

INLINE void along_width(Lanes* t, const Lanes* d) {
  t[0] = d[0];
}

__kernel void conv_winograd_target(__global const float* restrict v, long v_offset, __global C_STORAGE* restrict y,
                                   long y_offset, WinogradGrid grid, EPILOGUE_PARAMETERS) {
  const int c = (int)get_global_id(CHANNELS_LAST ? 0 : 1) * LANES, tile = (int)get_global_id(CHANNELS_LAST ? 1 : 0);
  if (c >= grid.channels || tile >= grid.rows * grid.tiles_w) return;
  v += v_offset + (long)tile * grid.tile_step + (long)c * grid.channel_step;
  Lanes half_way[STEP_H * POINTS_W];
#pragma unroll
  for (int j = 0; j < POINTS_W; j++) {
    Lanes d[POINTS_H], t[STEP_H];
#pragma unroll
    for (int i = 0; i < POINTS_H; i++) d[i] = WIDE_LOAD(Lanes, v + (i * POINTS_W + j) * grid.plane);
    for (int part = 1; part < grid.parts; part++)
#pragma unroll
      for (int i = 0; i < POINTS_H; i++)
        d[i] += WIDE_LOAD(Lanes, v + part * grid.part + (i * POINTS_W + j) * grid.plane);
    along_height(t, d);
#pragma unroll
    for (int i = 0; i < STEP_H; i++) half_way[i * POINTS_W + j] = t[i];
  }
  const int row = tile / grid.tiles_w, column = tile - row * grid.tiles_w;
  const int image = (grid.first_row + row) / grid.tiles_h, down = grid.first_row + row - image * grid.tiles_h;
  const int h0 = down * STEP_H - grid.pad_h, w0 = column * STEP_W - grid.pad_w;
#pragma unroll
  for (int i = 0; i < STEP_H; i++) {
    Lanes t[STEP_W];
    along_width(t, half_way + i * POINTS_W);
    const int h = h0 + i;
    const long line = grid.first + (long)image * grid.n_stride + (long)c * grid.c_stride + (long)h * grid.h_stride;
#pragma unroll
    for (int j = 0; j < STEP_W; j++) {
      const int w = w0 + j;
      const long at = line + (long)w * grid.w_stride;
      if (h >= grid.height || w >= grid.width) continue;
#if PAIRS
      Lanes result;
      result.x = FINISH(SCALED(t[j].x, c, 0), c, 0, at);
      result.y = FINISH(SCALED(t[j].y, c + 1, 0), c + 1, 0, at + 1);
      WIDE_STORE(Lanes, y + y_offset + at, result);
#else
      STORE_C(y + y_offset, at, FINISH(SCALED(t[j], c, 0), c, 0, at));
#endif
    }
  }
}
