// conv_winograd_target.cl for CPUs. A work-group of one item has VW channels, the lanes of its vectors, and `segment` tiles
// side by side, in `deep` rows of tiles. Channels of v are side by side, and it has room for whole vectors.

#ifndef SEGMENT
#define SEGMENT 8  // most tiles side by side
#endif
// What lies side by side in y: 1 channels, 2 columns, 0 neither. The epilogue's vectors (n in epilogue.cl) run along columns
// for 2, else along channels.
#ifndef UNIT_AXIS
#define UNIT_AXIS 1
#endif
#define SIZE_H STEP_H
#define SIZE_W STEP_W
#include "conv/conv_winograd_grid.cl"

#if UNIT_AXIS == 1
#define APART 1
#else
#define APART grid.c_stride
#endif
#define ROW_BIAS(n) read_c(bias + bias_offset + (n), count)
#define ROW_SCALE(n) read_c(scale + scale_offset + (n), count)
#define LOAD_RESIDUAL(at) read_apart(residual + residual_offset + (at), apart, count)
#define KEEP(v, at) keep_apart(preactivation + preactivation_offset + (at), v, apart, count)
#include "gemm/gemm_cpu_types.cl"

typedef REAL Lanes;

// Elements that lie `apart`.
INLINE VEC read_apart(__global const C_STORAGE* p, int apart, int count) {
#if UNIT_AXIS != 0
  return read_c(p, count);
#else
  Scalar values[VW];
  for (int l = 0; l < VW; l++) values[l] = l < count ? LOAD_C(p, (long)l * apart) : 0;
  return VEC_AT(__private const, values);
#endif
}
INLINE void write_apart(__global C_STORAGE* p, VEC v, int apart, int count) {
#if UNIT_AXIS != 0
  write_c(p, v, count);
#else
  Scalar values[VW];
  VEC_AT(__private, values) = v;
  for (int l = 0; l < count; l++) STORE_C(p, (long)l * apart, values[l]);
#endif
}
INLINE VEC keep_apart(__global C_STORAGE* p, VEC v, int apart, int count) {
  write_apart(p, v, apart, count);
  return v;
}

INLINE void along_height(REAL* t, const REAL* d) {
  //$ ALONG_HEIGHT
  t[0] = d[0] + d[1] + d[2];
  t[1] = d[1] - d[2] + d[3];
  //$ END
}

INLINE void along_width(REAL* t, const REAL* d) {
  //$ ALONG_WIDTH
  t[0] = d[0] + d[1] + d[2];
  t[1] = d[1] - d[2] + d[3];
  //$ END
}

#define COLUMNS (SEGMENT * STEP_W)
#define FULL_COLUMNS ((COLUMNS + VW - 1) / VW * VW)

__kernel void conv_winograd_target(__global const float* restrict v, long v_offset, __global C_STORAGE* restrict y,
                                   long y_offset, WinogradGrid grid, EPILOGUE_PARAMETERS, int segment, int deep) {
  const int c0 = (int)get_group_id(0) * VW, lanes = min(VW, grid.channels - c0);
  const int column = (int)get_group_id(1) * segment, tiles = min(segment, grid.tiles_w - column);
  const int w0 = column * STEP_W - grid.pad_w, columns = min(tiles * STEP_W, grid.width - w0);
  const int end = min(grid.rows, ((int)get_group_id(2) + 1) * deep);
  v += v_offset + c0;
  y += y_offset;
  for (int row = (int)get_group_id(2) * deep; row < end; row++) {
    const int image = (grid.first_row + row) / grid.tiles_h, down = grid.first_row + row - image * grid.tiles_h;
    const int h0 = down * STEP_H - grid.pad_h;
    const long corner = grid.first + (long)image * grid.n_stride + (long)c0 * grid.c_stride + (long)h0 * grid.h_stride +
                        (long)w0 * grid.w_stride;
#if UNIT_AXIS == 2
    VEC strip[STEP_H * FULL_COLUMNS];
#endif
    for (int tile = 0; tile < tiles; tile++) {
      __global const float* from = v + ((long)row * grid.tiles_w + column + tile) * grid.tile_step;
      VEC half_way[STEP_H * POINTS_W];
#pragma unroll
      for (int j = 0; j < POINTS_W; j++) {
        VEC d[POINTS_H], t[STEP_H];
#pragma unroll
        for (int i = 0; i < POINTS_H; i++) d[i] = VEC_AT(__global const, from + (i * POINTS_W + j) * grid.plane);
        along_height(t, d);
#pragma unroll
        for (int i = 0; i < STEP_H; i++) half_way[i * POINTS_W + j] = t[i];
      }
#pragma unroll
      for (int i = 0; i < STEP_H; i++) {
        VEC t[STEP_W];
        along_width(t, half_way + i * POINTS_W);
#if UNIT_AXIS == 2
#pragma unroll
        for (int j = 0; j < STEP_W; j++) strip[i * FULL_COLUMNS + tile * STEP_W + j] = t[j];
#else
        if (h0 + i >= grid.height) continue;
#pragma unroll
        for (int j = 0; j < STEP_W; j++) {
          const int count = lanes, apart = APART;
          const long at = corner + (long)i * grid.h_stride + (long)(tile * STEP_W + j) * grid.w_stride;
          if (tile * STEP_W + j < columns)
            write_apart(y + at, FINISH(SCALED(t[j], 0, c0), 0, c0, at), apart, count);
        }
#endif
      }
    }
#if UNIT_AXIS == 2
    for (int i = 0; i < min(STEP_H, grid.height - h0); i++)
      for (int j = 0; j < columns; j += VW)
        for (int l0 = 0; l0 < lanes; l0 += 8) {
          // Lines of 8 channels, VW columns of each.
          Scalar lines[8 * VW];
          for (int part = 0; part < VW; part += 8) {
            Run8 r[8];
            for (int q = 0; q < 8; q++)
              r[q] = *(const LooseRun8*)((const Scalar*)(strip + i * FULL_COLUMNS + j + part + q) + l0);
            transpose8(r);
            for (int l = 0; l < 8; l++) *(LooseRun8*)(lines + l * VW + part) = r[l];
          }
          const int count = min(VW, columns - j), apart = 1;
          for (int l = 0; l < min(8, lanes - l0); l++) {
            const int c = c0 + l0 + l;
            const long at = corner + (long)(l0 + l) * grid.c_stride + (long)i * grid.h_stride + j;
            const VEC value = VEC_AT(__private const, lines + l * VW);
            write_apart(y + at, FINISH(SCALED(value, c, 0), c, 0, at), apart, count);
          }
        }
#endif
  }
}
