// Convolution by Winograd's F(2 x 2, 3 x 3) in one kernel, for GPUs: forward and backward data, of filters that
// conv_winograd_source.cl transformed before, u[point][channel][filter]. A work-group computes FILTERS filters of TILES tiles.
// CHANNELS channels at a time its items transform a tile each into local memory and bring in the filters; then 16 items
// for each of the 16 points multiply, with FILTERS / 4 x TILES / 4 sums each. At the end the sums meet in local memory, 8
// filters at a time, and are transformed back. Generators fill the slots.
// Launch: ceil(tiles / TILES) x ceil(filters / FILTERS) groups of 256.

#ifndef FILTERS
#define FILTERS 64
#endif
#ifndef CHANNELS
#define CHANNELS 8
#endif
#define TILES 32
// Neighbouring items read neighbouring channels of x, else tiles; and write such of y.
#ifndef X_CHANNELS_LAST
#define X_CHANNELS_LAST 0
#endif
#ifndef Y_CHANNELS_LAST
#define Y_CHANNELS_LAST 0
#endif
#include "lib/access.cl"
#include "lib/int64.h"
#include "conv/conv_winograd.h"
#include "gemm/gemm_types.cl"

typedef REAL Lanes;

#define ITEMS 256
#define POINTS 16
#define RM (FILTERS / 4)
#define RN (TILES / 4)
#define PU FILTERS
#define PV (TILES + 4)  // so that items of neighbouring channels write to other banks
#define U_SIZE (POINTS * CHANNELS * PU)
#define V_SIZE (POINTS * CHANNELS * PV)
#define SUMS_SIZE (POINTS * 8 * PV)
#define LOCAL_SIZE (U_SIZE + V_SIZE > SUMS_SIZE ? U_SIZE + V_SIZE : SUMS_SIZE)
#define U_LOADS (U_SIZE / 4 / ITEMS)
// Items that transform a tile in each step; the others only bring in filters.
#define TRANSFORMING (CHANNELS * TILES)

INLINE void along_source(float* t, const float* d) {
  //$ SOURCE
  t[0] = d[0] - d[2];
  t[1] = d[1] + d[2];
  t[2] = d[2] - d[1];
  t[3] = d[3] - d[1];
  //$ END
}

INLINE void along_target(float* t, const float* d) {
  //$ TARGET
  t[0] = d[0] + d[1] + d[2];
  t[1] = d[1] - d[2] + d[3];
  //$ END
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_winograd_fused(
    __global const AB_STORAGE* restrict x, long x_offset, WinogradImage of_x, __global const float* restrict u, long u_offset,
    __global C_STORAGE* restrict y, long y_offset, WinogradImage of_y, WinogradProduct p, EPILOGUE_PARAMETERS) {
  __local float4 memory[LOCAL_SIZE / 4];
  __local float *local_u = (__local float*)memory, *local_v = local_u + U_SIZE, *local_sums = local_u;
  const int item = (int)get_local_id(0);
  const int tile0 = (int)get_group_id(0) * TILES, filter0 = (int)get_group_id(1) * FILTERS;

  // The tile and channel that the item transforms.
  const int own_channel = X_CHANNELS_LAST ? item % CHANNELS : item / TILES;
  const int own_tile = X_CHANNELS_LAST ? item / CHANNELS % TILES : item % TILES;
  const int transforms = item < TRANSFORMING && tile0 + own_tile < p.tiles;
  const int seen = min(tile0 + own_tile, p.tiles - 1), image = seen / (p.tiles_h * p.tiles_w);
  const int h0 = seen / p.tiles_w % p.tiles_h * 2 - p.pad_h, w0 = seen % p.tiles_w * 2 - p.pad_w;
  // From the image's first pixel in the item's channel to the tile's corner.
  x += x_offset + (long)image * of_x.n + (long)own_channel * of_x.c;
  const int corner = h0 * of_x.h + w0 * of_x.w;
  int inside = 0;  // a bit for each pixel
#pragma unroll
  for (int i = 0; i < 16; i++) {
    const int h = h0 + i / 4, w = w0 + i % 4;
    if (transforms && h >= 0 && h < of_x.height && w >= 0 && w < of_x.width) inside |= 1 << i;
  }

  // The point, filters and tiles that the item multiplies.
  const int point = item / 16, ty = item / 4 % 4, tx = item % 4;
  float sums[RM][RN];
#pragma unroll
  for (int i = 0; i < RM; i++)
#pragma unroll
    for (int j = 0; j < RN; j++) sums[i][j] = 0;

  // Step s fetches into registers, multiplies what step s - 1 fetched, and puts it into local memory.
  const int steps = (p.channels + CHANNELS - 1) / CHANNELS;
  for (int s = 0; s <= steps; s++) {
    float d[16];
    float4 next_u[U_LOADS];
    if (s < steps) {
      const int seen_now = s * CHANNELS + own_channel < p.channels ? inside : 0;
#pragma unroll
      for (int i = 0; i < 16; i++)
        d[i] = seen_now >> i & 1 ? LOAD_AB(x, corner + i / 4 * of_x.h + i % 4 * of_x.w) : 0;
      x += (long)CHANNELS * of_x.c;
#pragma unroll
      for (int i = 0; i < U_LOADS; i++) {
        const int at = (item + i * ITEMS) * 4, k = min(filter0 + at % FILTERS, p.u_pitch - 4);
        const int of = min(s * CHANNELS + at / FILTERS % CHANNELS, p.channels - 1), u_point = at / (FILTERS * CHANNELS);
        next_u[i] = WIDE_LOAD(float4, u + u_offset + u_point * p.u_plane + (long)of * p.u_pitch + k);
      }
    }
    if (s > 0) {
      __local const float4 *from_u = (__local const float4*)(local_u + point * CHANNELS * PU) + ty,
                           *from_v = (__local const float4*)(local_v + point * CHANNELS * PV) + tx;
#pragma unroll
      for (int c = 0; c < CHANNELS; c++) {
        float a[RM], b[RN];
#pragma unroll
        for (int i = 0; i < RM; i += 4) {
          const float4 part = from_u[(c * PU + i * 4) / 4];
          a[i] = part.s0, a[i + 1] = part.s1, a[i + 2] = part.s2, a[i + 3] = part.s3;
        }
#pragma unroll
        for (int j = 0; j < RN; j += 4) {
          const float4 part = from_v[(c * PV + j * 4) / 4];
          b[j] = part.s0, b[j + 1] = part.s1, b[j + 2] = part.s2, b[j + 3] = part.s3;
        }
#pragma unroll
        for (int i = 0; i < RM; i++)
#pragma unroll
          for (int j = 0; j < RN; j++) sums[i][j] = MULTIPLY_ADD(a[i], b[j], sums[i][j]);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (s < steps) {
      if (item < TRANSFORMING) {
        float half_way[16];
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float column[4] = {d[j], d[4 + j], d[8 + j], d[12 + j]};
          float t[4];
          along_source(t, column);
#pragma unroll
          for (int i = 0; i < 4; i++) half_way[i * 4 + j] = t[i];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
          float t[4];
          along_source(t, half_way + i * 4);
#pragma unroll
          for (int j = 0; j < 4; j++) local_v[((i * 4 + j) * CHANNELS + own_channel) * PV + own_tile] = t[j];
        }
      }
#pragma unroll
      for (int i = 0; i < U_LOADS; i++) memory[item + i * ITEMS] = next_u[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  // The tile and filter that the item transforms back, in each round.
  const int last_filter = Y_CHANNELS_LAST ? item % 8 : item / TILES;
  const int last_tile = Y_CHANNELS_LAST ? item / 8 : item % TILES;
  const int tile = tile0 + last_tile, of_image = tile / (p.tiles_h * p.tiles_w);
  const int h1 = tile / p.tiles_w % p.tiles_h * 2, w1 = tile % p.tiles_w * 2;
  const long place = (long)of_image * of_y.n + (long)h1 * of_y.h + (long)w1 * of_y.w;
#pragma unroll
  for (int round = 0; round < FILTERS / 8; round++) {
    // Filter i / 4 * 16 + ty * 4 + i % 4 is the i-th of an item.
    if (ty / 2 == round % 2) {
      __local float* to = local_sums + (point * 8 + ty % 2 * 4) * PV + tx * 4;
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < RN; j += 4) {
          const int own = round / 2 * 4 + i;
          *(__local float4*)(to + i * PV + j * 4) =
              (float4)(sums[own][j], sums[own][j + 1], sums[own][j + 2], sums[own][j + 3]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int k = filter0 + round * 8 + last_filter;
    if (k < p.filters && tile < p.tiles) {
      float half_way[8];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float column[4], t[2];
#pragma unroll
        for (int i = 0; i < 4; i++) column[i] = local_sums[((i * 4 + j) * 8 + last_filter) * PV + last_tile];
        along_target(t, column);
        half_way[j] = t[0];
        half_way[4 + j] = t[1];
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float t[2];
        along_target(t, half_way + i * 4);
#pragma unroll
        for (int j = 0; j < 2; j++) {
          const long at = place + (long)k * of_y.c + (long)i * of_y.h + (long)j * of_y.w;
          if (h1 + i < of_y.height && w1 + j < of_y.width) STORE_C(y + y_offset, at, FINISH(SCALED(t[j], k, 0), k, 0, at));
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
