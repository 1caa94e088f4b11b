// conv_winograd_source.cl for CPUs. A work-group of one item has VW channels, the lanes of its vectors, and `segment` tiles
// side by side, in `deep` rows of tiles. Columns are transformed once for all tiles that share them. Channels of v are
// side by side, and VW of them are always written: v has room for whole vectors, zeros in the last.

#ifndef SEGMENT
#define SEGMENT 8  // most tiles side by side
#endif
// What lies side by side in x: 1 channels, 2 columns, 0 neither.
#ifndef UNIT_AXIS
#define UNIT_AXIS 1
#endif
#include "conv/conv_winograd_grid.cl"
#include "gemm/gemm_cpu_types.cl"

typedef REAL Lanes;

#define COLUMNS ((SEGMENT - 1) * STEP_W + SIZE_W)

INLINE void along_height(REAL* t, const REAL* d) {
  //$ ALONG_HEIGHT
  t[0] = -d[0] + d[2];
  t[1] = d[1] + d[2];
  t[2] = d[2] - d[1];
  t[3] = d[3] - d[1];
  //$ END
}

INLINE void along_width(REAL* t, const REAL* d) {
  //$ ALONG_WIDTH
  t[0] = -d[0] + d[2];
  t[1] = d[1] + d[2];
  t[2] = d[2] - d[1];
  t[3] = d[3] - d[1];
  //$ END
}

// A pixel's channels.
INLINE VEC read_lanes(__global const AB_STORAGE* p, int c_stride, int lanes) {
#if UNIT_AXIS == 1
  return read_ab(p, lanes);
#else
  Scalar values[VW];
  for (int l = 0; l < VW; l++) values[l] = l < lanes ? LOAD_AB(p, (long)l * c_stride) : 0;
  return VEC_AT(__private const, values);
#endif
}

#if UNIT_AXIS == 2
// Pixels of `count` neighbouring columns of a row, from x[at] on. Eight are read at a time, where x has so many elements.
INLINE void transpose_row(VEC* to, __global const AB_STORAGE* x, long at, long end, int count, int c_stride,
                          int lanes) {
  for (int first = 0; first < count; first += 8) {
    const int j = count >= 8 ? min(first, count - 8) : 0, there = min(8, count - j);
    for (int l0 = 0; l0 < VW; l0 += 8) {
      const int l_end = min(8, lanes - l0);
      Run8 r[8];
      for (int l = 0; l < 8; l++) {
        const long line = at + (long)(l0 + l) * c_stride + j;
        if (l >= l_end) {
          r[l] = 0;
        } else if (line + 8 <= end) {
          r[l] = LOAD_RUN(8, x + line);
        } else {
          Scalar values[8];
          for (int i = 0; i < 8; i++) values[i] = i < there ? LOAD_AB(x, line + i) : 0;
          r[l] = *(LooseRun8*)values;
        }
      }
      transpose8(r);
      for (int i = 0; i < there; i++) *(LooseRun8*)((Scalar*)(to + j + i) + l0) = r[i];
    }
  }
}
#endif

__kernel void conv_winograd_source(__global const AB_STORAGE* restrict x, long x_offset, WinogradGrid grid,
                                   __global float* restrict v, long v_offset, int segment, int deep) {
  const int c0 = (int)get_group_id(0) * VW, lanes = min(VW, grid.channels - c0);
  const int column = (int)get_group_id(1) * segment, tiles = min(segment, grid.tiles_w - column);
  const int columns = (tiles - 1) * STEP_W + SIZE_W, w0 = column * STEP_W - grid.pad_w;
  const int from = clamp(-w0, 0, columns), to = clamp(grid.width - w0, from, columns);
  const int end = min(grid.rows, ((int)get_group_id(2) + 1) * deep);
  x += x_offset + grid.first;
  v += v_offset + c0;
  for (int row = (int)get_group_id(2) * deep; row < end; row++) {
    const int image = (grid.first_row + row) / grid.tiles_h, down = grid.first_row + row - image * grid.tiles_h;
    const int h0 = down * STEP_H - grid.pad_h;
    const long corner = (long)image * grid.n_stride + (long)c0 * grid.c_stride + (long)h0 * grid.h_stride +
                        (long)w0 * grid.w_stride;
#if UNIT_AXIS == 2
    VEC strip[SIZE_H * COLUMNS];
    for (int i = 0; i < SIZE_H; i++)
      if (h0 + i >= 0 && h0 + i < grid.height)
        transpose_row(strip + i * COLUMNS + from, x, corner + (long)i * grid.h_stride + from, grid.extent, to - from,
                      grid.c_stride, lanes);
#endif
    VEC half_way[POINTS_H * COLUMNS];
    for (int j = 0; j < columns; j++) {
      VEC d[SIZE_H], t[POINTS_H];
      const bool inside = j >= from && j < to;
#pragma unroll
      for (int i = 0; i < SIZE_H; i++) {
        d[i] = 0;
        if (inside && h0 + i >= 0 && h0 + i < grid.height)
#if UNIT_AXIS == 2
          d[i] = strip[i * COLUMNS + j];
#else
          d[i] = read_lanes(x + corner + (long)i * grid.h_stride + (long)j * grid.w_stride, grid.c_stride, lanes);
#endif
      }
      along_height(t, d);
#pragma unroll
      for (int i = 0; i < POINTS_H; i++) half_way[i * COLUMNS + j] = t[i];
    }
    for (int tile = 0; tile < tiles; tile++) {
      __global float* out = v + ((long)row * grid.tiles_w + column + tile) * grid.tile_step;
#pragma unroll
      for (int i = 0; i < POINTS_H; i++) {
        VEC t[POINTS_W];
        along_width(t, half_way + i * COLUMNS + tile * STEP_W);
#pragma unroll
        for (int j = 0; j < POINTS_W; j++) VEC_AT(__global, out + (i * POINTS_W + j) * grid.plane) = t[j];
      }
    }
  }
}
