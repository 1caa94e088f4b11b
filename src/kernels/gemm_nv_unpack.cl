// Stages that bulk copies brought, with the 128-byte swizzle, in order for multiply-adds (gemm_nv_again.cl): to[k][row], for 32
// steps of k.

#ifndef MULTIPLIERS
#define MULTIPLIERS 256
#define TILE_ROWS 128
#define TILE_COLUMNS 128
#endif
#include "gemm_types.cl"
#include "gemm_split.cl"

#define AGAIN_A_PITCH (TILE_ROWS + 4)
#define AGAIN_B_PITCH (TILE_COLUMNS + 4)

INLINE void put_four(__local float* to, int pitch, float4 v) {
  to[0] = v.s0, to[pitch] = v.s1, to[2 * pitch] = v.s2, to[3 * pitch] = v.s3;
}
static float4 numbers(float4 v) {
  return (float4)(again_number(v.s0), again_number(v.s1), again_number(v.s2), again_number(v.s3));
}
// Rows of 32 steps of k.
INLINE void unpack_rows(__local float* to, int pitch, int rows, __local const float* at, int item) {
  for (int i = item; i < rows * 8; i += MULTIPLIERS) {
    const int row = i % rows, four = i / rows;
    put_four(to + 4 * four * pitch + row, pitch, *(__local const float4*)(at + row * 32 + ((four ^ row) & 7) * 4));
  }
}
// The same of two parts.
INLINE void unpack_two(__local float* to, int pitch, int rows, __local const float* at, __local const float* low, int item) {
  for (int i = item; i < rows * 8; i += MULTIPLIERS) {
    const int row = i % rows, four = i / rows, place = row * 32 + ((four ^ row) & 7) * 4;
    put_four(to + 4 * four * pitch + row, pitch, *(__local const float4*)(at + place) + *(__local const float4*)(low + place));
  }
}
// Boxes of 32 rows, a line of each for each step of k.
INLINE void unpack_boxes(__local float* to, int pitch, int rows, __local const float* at, int item) {
  for (int i = item; i < rows * 8; i += MULTIPLIERS) {
    const int four = i % 8, k = i / 8 % 32, box = i / 256;
    *(__local float4*)(to + k * pitch + box * 32 + four * 4) =
        *(__local const float4*)(at + box * 1024 + k * 32 + ((four ^ k) & 7) * 4);
  }
}
