// Few sums of a warp that parts cannot hold, computed again at once, for gemm_nv_wgmma.cl. With this much text behind a branch the
// assembler keeps what all lanes share in uniform registers in the loop before it; without, products took 1.04 times as long.

#include "gemm/gemm_nv_again.cl"

#define AGAIN_FEW 4
// Products that a lane of its has on the way.
#define AGAIN_AHEAD 8

// The sums of a warp that are not within `least` are computed again if they are few, and the result is 0. Else it is 1, and their
// strip is noted. `row`: the warp's first of the tile; `column`: the tile's first that it has.
INLINE uint again_few(float* sums, float least, __local struct Noted* noted, int tile, const struct Again* from, int K, int row,
                       int column, int lane) {
  uint bad[(SUMS + 31) / 32] = {0};
  int count = 0;
#pragma unroll
  for (int i = 0; i < SUMS; i++)
    if (!is_within(sums[i], least) &&
        again_inside(from, row + lane / 4 + i / 2 % 2 * 8, column + i / 4 * 8 + lane % 4 * 2 + i % 2))
      bad[i / 32] |= 1u << i % 32;
#pragma unroll
  for (int i = 0; i < (SUMS + 31) / 32; i++) count += (int)popcount(bad[i]);
  for (int lanes = 1; lanes < 32; lanes *= 2) count += (int)shuffle_xor((uint)count, lanes);
  const uint later = first_lanes(count > AGAIN_FEW && tile < NOTED_TILES);
  if (later && lane == 0) {
    atomic_or(&noted->of_tile[tile], 1 << row / 16);
    atomic_inc(&noted->strips);
  }
  for (uint left = later ? 0 : first_lanes((uint)count); left != 0; left--) {
    int next = SUMS;
#pragma unroll
    for (int i = (SUMS + 31) / 32 - 1; i >= 0; i--)
      if (bad[i] != 0) next = 32 * i + 31 - (int)clz(bad[i] & -bad[i]);
    const uint lanes_left = warp_ballot(next < SUMS);
    const int owner = 31 - (int)clz(lanes_left & -lanes_left), which = (int)shuffle((uint)next, owner);
    const int m = row + owner / 4 + which / 2 % 2 * 8, n = column + which / 4 * 8 + owner % 4 * 2 + which % 2;
    float again = 0;
    for (int k = 0; k < K; k += 32 * AGAIN_AHEAD) {
      float a[AGAIN_AHEAD], b[AGAIN_AHEAD];
#pragma unroll
      for (int i = 0; i < AGAIN_AHEAD; i++) {
        const struct AgainStep step = again_step(from, k + 32 * i);
        a[i] = again_a(from, &step, m, lane), b[i] = again_b(from, &step, n, lane);
      }
#pragma unroll
      for (int i = 0; i < AGAIN_AHEAD; i++)
        if (AGAIN_ADDS(a[i], b[i])) again = fma(a[i], b[i], again);
    }
    for (int lanes = 1; lanes < 32; lanes *= 2) again += as_float(shuffle_xor(as_uint(again), lanes));
    const int own = lane == owner;
#pragma unroll
    for (int i = 0; i < (SUMS + 31) / 32; i++) bad[i] &= own && which / 32 == i ? ~(1u << which % 32) : ~0u;
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = own && i == which ? again : sums[i];
  }
  return later;
}
