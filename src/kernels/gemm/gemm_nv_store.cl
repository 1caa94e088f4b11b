// How sums lie in the registers of a warp after its matrix instructions, and from there to C, for kernels whose epilogue
// this is. Four neighbouring lanes hold, of two rows that are 8 apart, 8 columns each: lane q of them columns 2 q and the
// next, sums[4 j] and [4 j + 1] of the first row, [4 j + 2] and [4 j + 3] of the other, for the columns from 8 j on.

// C_PAIRS: N, ldc and the batch stride are even, C starts at a multiple of 2 elements. C_WIDE: of 8.
#ifndef C_PAIRS
#define C_PAIRS 1
#endif
#ifndef C_WIDE
#define C_WIDE 0
#endif
// 1: the sums are those of C': what is called m and n here are C's columns and rows.
#ifndef C_TRANSPOSED
#define C_TRANSPOSED 0
#endif

#include "gemm/gemm_types.cl"
#include "lib/ptx.cl"

#define EPILOGUE_ARGUMENTS                                                                             \
  alpha, beta, bias, bias_offset, scale, scale_offset, residual, residual_offset, preactivation, \
      preactivation_offset

#define REAL2 JOIN2(REAL, 2)
// Column n of row m, which is c[at]. `plain`: see put_sums.
#define STORE_ONE(at, m, n, v)                                                         \
  {                                                                                    \
    REAL v_ = SCALED(v, m, n);                                                         \
    if (!plain && beta != 0) v_ = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, at), v_);   \
    STORE_C(c, at, FINISH(v_, m, n, at));                                              \
  }

#if C_PAIRS && C_BYTES == 2
// Lane q of four gets element q of each: v[l] is then what lane l had as v[q].
static void transpose_quad(uint v[4], int q) {
#pragma unroll
  for (int s = 1; s < 4; s *= 2)
#pragma unroll
    for (int l = 0; l < 4; l++) {
      if (l & s) continue;
      const uint x = v[l], y = v[l | s];
      const uint got = shuffle_xor(q & s ? x : y, s);
      v[l] = q & s ? got : x;
      v[l | s] = q & s ? y : got;
    }
}
#endif

#if C_PAIRS && RESIDUAL
// A lane's pairs of a row's residual, loaded so many before they are needed: left to themselves compilers load one after the
// other, each behind the store of the pair before.
#define AHEAD 8
#if C_BYTES == 2
#define PAIR uint
#define REALS_OF(pair) JOIN2(unpack_, C_TYPE)(pair)
#else
#define PAIR REAL2
#define REALS_OF(pair) (pair)
#endif
#define LOAD_PAIRS(pairs, first)                                                     \
  {                                                                                  \
    _Pragma("unroll") for (int l_ = 0; l_ < AHEAD; l_++) {                           \
      const int n_ = first_n + 8 * ((first) + l_) + 2 * quad;                        \
      (pairs)[l_] = 0;                                                               \
      if ((first) + l_ < count / 4 && (plain || (m < M && n_ < N)))                  \
        (pairs)[l_] = *(__global const PAIR*)(residual + residual_offset + at + n_); \
    }                                                                                \
  }
#define START_PAIRS()      \
  PAIR pairs[2][AHEAD];    \
  LOAD_PAIRS(pairs[0], 0)
#define FOLLOW_PAIRS(j) \
  if ((j) % AHEAD == 0) LOAD_PAIRS(pairs[((j) / AHEAD + 1) % 2], (j) + AHEAD)
#define RESIDUAL_OF(j) REALS_OF(pairs[(j) / AHEAD % 2][(j) % AHEAD])
#else
#define START_PAIRS()
#define FOLLOW_PAIRS(j)
#define RESIDUAL_OF(j) (REAL2)(0, 0)
#endif

// `count` sums, a multiple of 16, of rows first_m and first_m + 8, and columns first_n to first_n + count * 2 - 1. The rows
// begin at c[row_at[0]] and c[row_at[1]]; C_TRANSPOSED, their elements are `step` apart. `plain`, a literal: all lie within
// M x N, and beta is 0.
INLINE void put_sums(const int plain, const REAL* sums, int count, int first_m, int first_n, int quad, int M, int N,
                     __global C_STORAGE* restrict c, const long* row_at, long step, EPILOGUE_PARAMETERS) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int m = first_m + 8 * i;
    const long at = row_at[i];
#if C_PAIRS && C_BYTES == 2
    // Four lanes exchange what they have of 32 columns, so that each stores 8 neighbours.
    START_PAIRS()
#pragma unroll
    for (int j = 0; j < count / 4; j += 4) {
      FOLLOW_PAIRS(j)
      uint two[4];
#pragma unroll
      for (int l = 0; l < 4; l++) {
        const int n = first_n + 8 * (j + l) + 2 * quad;
        two[l] = 0;
        if (!plain && (m >= M || n >= N)) continue;
        float v0 = SCALED(sums[4 * (j + l) + 2 * i], m, n), v1 = SCALED(sums[4 * (j + l) + 2 * i + 1], m, n + 1);
        if (!plain && beta != 0) {
          v0 = fma(beta, LOAD_C(c, at + n), v0);
          v1 = fma(beta, LOAD_C(c, at + n + 1), v1);
        }
        const REAL2 other = RESIDUAL_OF(j + l);
        two[l] = JOIN2(pack_, C_TYPE)(FINISH_WITH(v0, m, n, at + n, other.s0),
                                      FINISH_WITH(v1, m, n + 1, at + n + 1, other.s1));
      }
      transpose_quad(two, quad);
      const int n = first_n + 8 * (j + quad);
      if (plain || (m < M && n < N)) {
        __global uint* to = (__global uint*)(c + at + n);
        if (C_WIDE && (plain || n + 8 <= N)) {
          *(__global uint4*)to = (uint4)(two[0], two[1], two[2], two[3]);
        } else {
#pragma unroll
          for (int l = 0; l < 4; l++)
            if (plain || n + 2 * l < N) to[l] = two[l];
        }
      }
    }
#else
    if (!plain && m >= M) continue;
#if C_TRANSPOSED
    long across = at + (first_n + 2 * quad) * step;
#elif C_PAIRS
    START_PAIRS()
#endif
#pragma unroll
    for (int j = 0; j < count / 4; j++) {
      const int n = first_n + 8 * j + 2 * quad;
#if C_TRANSPOSED
      if (plain || n < N) STORE_ONE(across, n, m, sums[4 * j + 2 * i])
      if (plain || n + 1 < N) STORE_ONE(across + step, n + 1, m, sums[4 * j + 2 * i + 1])
      across += 8 * step;
#elif C_PAIRS
      FOLLOW_PAIRS(j)
      if (plain || n < N) {
        __global REAL2* to = (__global REAL2*)(c + at + n);
        REAL v0 = SCALED(sums[4 * j + 2 * i], m, n), v1 = SCALED(sums[4 * j + 2 * i + 1], m, n + 1);
        if (!plain && beta != 0) {
          const REAL2 before = *to;
          v0 = MULTIPLY_ADD((REAL)beta, before.s0, v0);
          v1 = MULTIPLY_ADD((REAL)beta, before.s1, v1);
        }
        const REAL2 other = RESIDUAL_OF(j);
        *to = (REAL2)(FINISH_WITH(v0, m, n, at + n, other.s0), FINISH_WITH(v1, m, n + 1, at + n + 1, other.s1));
      }
#else
      if (plain || n < N) STORE_ONE(at + n, m, n, sums[4 * j + 2 * i])
      if (plain || n + 1 < N) STORE_ONE(at + n + 1, m, n + 1, sums[4 * j + 2 * i + 1])
#endif
    }
#endif
  }
}
// The same; `whole`: the group's tile lies within M x N. To look at each element takes two warps a scheduler, all that run
// beside each other, as long as 400 steps of k take the matrix units. (INLINE, or compilers make one call of the two again.)
INLINE void store_sums(int whole, const REAL* sums, int count, int first_m, int first_n, int quad, int M, int N,
                       __global C_STORAGE* restrict c, const long* row_at, long step, EPILOGUE_PARAMETERS) {
  if (whole && beta == 0)
    put_sums(1, sums, count, first_m, first_n, quad, M, N, c, row_at, step, EPILOGUE_ARGUMENTS);
  else
    put_sums(0, sums, count, first_m, first_n, quad, M, N, c, row_at, step, EPILOGUE_ARGUMENTS);
}
// The same, few instructions instead of fast ones, of sums in local memory: `room` is the place of the warp's first row and of
// column first_n, its rows are `pitch` apart.
INLINE void store_room(__local const float* room, int pitch, int count, int first_m, int first_n, int lane, int M, int N,
                       __global C_STORAGE* restrict c, const long* row_at, long step, EPILOGUE_PARAMETERS) {
  const int plain = 0;
#pragma unroll 4
  for (int i = 0; i < count; i++) {
    const int below = i / 2 % 2, column = i / 4 * 8 + lane % 4 * 2 + i % 2, m = first_m + 8 * below, n = first_n + column;
    if (m >= M || n >= N) continue;
    const REAL sum = room[(lane / 4 + 8 * below) * pitch + column];
    const long start = below ? row_at[1] : row_at[0];
#if C_TRANSPOSED
    STORE_ONE(start + n * step, n, m, sum)
#else
    STORE_ONE(start + n, m, n, sum)
#endif
  }
}
// Where rows m and m + 8 of a matrix begin that starts at `at`.
#if C_TRANSPOSED
#define ROWS_AT(at, m, ldc) {(at) + (m), (at) + (m) + 8}
#else
#define ROWS_AT(at, m, ldc) {(at) + (long)(m) * (ldc), (at) + ((long)(m) + 8) * (ldc)}
#endif

// What two lanes noted of magnitudes (gemm_split.cl), as both know it then.
static uint2 joined(uint2 range, int lanes) {
  return (uint2)(min(range.s0, shuffle_xor(range.s0, lanes)), max(range.s1, shuffle_xor(range.s1, lanes)));
}

// The tile of TILE_M x TILE_N that a group computes. They are taken in bands of BAND rows of tiles, column by column, so
// that groups which run together share operands.
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef BAND
#define BAND 16
#endif
struct Tile {
  int m, n, z;
};
static struct Tile tile_at(int index, int tiles_m, int tiles_n) {
  struct Tile t;
  const int plane = tiles_m * tiles_n, within = index % plane;
  const int first = within / (BAND * tiles_n) * BAND, height = min(BAND, tiles_m - first);
  const int rest = within - first * tiles_n;
  t.z = index / plane;
  t.m = (first + rest % height) * TILE_M;
  t.n = rest / height * TILE_N;
  return t;
}
