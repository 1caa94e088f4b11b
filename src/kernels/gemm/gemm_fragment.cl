// GEMM by matrix instructions, whosever they are: C = activation(alpha * A B + beta * C + bias) over the fragments of
// fragment.cl. A work-group computes a tile of TM x TN of C, a sub-group SM x SN of it. A and B go through local memory, TK
// steps of k at a time, with two buffers and one barrier a step, k contiguous in either; what lies outside is 0 there.
// SPLIT 1: elements as they are. SPLIT 2 or 3: f32 as a sum of so many parts of FRAG_TYPE (two of FRAG_TF32, 2 * 11 bits
//   and their signs; three of FRAG_BF16, 3 * 8) and the three or six products that count, the smallest first. Their sums go
//   into f32 registers after every TK steps, since matrix hardware may truncate. A tile with a sum that parts cannot hold
//   (gemm_split.cl) is computed again by multiply-adds (gemm_fragment_again.cl).
// Launch: ceil(N / TN) x ceil(M / TM) x (the batch) groups of ITEMS work-items.
//
// Slots. A file that wants other operands or another result defines all of these and includes this file: convolution does.
//   PARAMETERS         kernel parameters, after (M, N, K); EPILOGUE_PARAMETERS come last.
//   SETUP              statements at the start; they may change M, N and K.
//   M_TILE, N_TILE     the numbers of the group's tile.
//   FETCH_SETUP        statements (declarations too) behind them; the tile begins at m0 and n0.
//   FETCH(step)        statements that load a work-item's share of that step into next_a and next_b, as `fetch` does. They
//                      are asked for one step after the other; behind FETCH_SETUP from the first on, once more.
//   STORE_SUM(m, n, v) statements that store the sum v, before alpha, bias and activation, for m < M, n < N.

#include "gemm/gemm_fragment_tile.cl"
#if SPLIT > 1
#include "gemm/gemm_fragment_again.cl"
#endif

#ifndef PARAMETERS
// A work-item's loads of a tile of x that begins at row0 and k0. With constants for what comes before `item`.
static void fetch(ELEMENT* to, int loads, int wide, int unit_k, int rows, int item, __global const ELEMENT* x, long pitch,
                  int row0, int row_end, int k0, int K) {
  UNROLL
  for (int i = 0; i < loads; i++) {
    const int at = item + i * ITEMS, row = row0 + LOAD_ROW(at), k = k0 + LOAD_STEP(at);
    const bool inside = row < row_end && k < K && at < rows * TK / wide;
    __global const ELEMENT* from = x + (unit_k ? row * pitch + k : k * pitch + row);
    if (wide == 1) {
      to[i] = inside ? *from : 0;
    } else {
      ELEMENTS v = 0;
      if (inside) v = WIDE_LOAD(ELEMENTS, from);
      FRAG_JOIN(vstore, WIDE)(v, i, to);
    }
  }
}

#define PARAMETERS                                                                                              \
  __global const ELEMENT *restrict a, long a_offset, long lda, long a_batch, __global const ELEMENT *restrict b, \
      long b_offset, long ldb, long b_batch, __global C_STORAGE *restrict c, long c_offset, long ldc, long c_batch
#define SETUP                           \
  const long z = (long)get_group_id(2); \
  a += a_offset + z * a_batch;          \
  b += b_offset + z * b_batch;
#define M_TILE ((int)get_group_id(1))
#define N_TILE ((int)get_group_id(0))
#define FETCH_SETUP
#define FETCH(step)                                                                \
  fetch(next_a, A_LOADS, A_WIDE, A_UNIT_K, TM, item, a, lda, m0, M, (step)*TK, K); \
  fetch(next_b, B_LOADS, B_WIDE, B_UNIT_K, TN, item, b, ldb, n0, N, (step)*TK, K);
#define STORE_SUM(m, n, v)                                                                       \
  {                                                                                              \
    const long at = z * c_batch + (long)(m)*ldc + (n);                                           \
    REAL sum = SCALED(v, m, n);                                                                  \
    if (beta != 0) sum = MULTIPLY_ADD((REAL)beta, (REAL)LOAD_C(c, c_offset + at), sum);          \
    STORE_C(c, c_offset + at, FINISH(sum, m, n, at));                                            \
  }
#endif

// Product p takes these parts of A and B; two bits for each.
#if SPLIT == 3
#define PRODUCTS 6  // 2 0, 0 2, 1 1, 1 0, 0 1, 0 0
#define PART_OF_A(p) (0x052 >> 2 * (p)&3)
#define PART_OF_B(p) (0x118 >> 2 * (p)&3)
#elif SPLIT == 2
#define PRODUCTS 3  // 1 0, 0 1, 0 0
#define PART_OF_A(p) (0x1 >> 2 * (p)&3)
#define PART_OF_B(p) (0x4 >> 2 * (p)&3)
#else
#define PRODUCTS 1
#define PART_OF_A(p) 0
#define PART_OF_B(p) 0
#endif

// c += A B over TK steps; tile_a and tile_b are the rows of this sub-group.
static void multiply(frag_c* c, __local const uint* tile_a, __local const uint* tile_b, int lane, __local uint* exchange) {
  UNROLL
  for (int k = 0; k < WORDS; k += FRAG_K / FRAG_PER_WORD) {
    frag_a a[FRAGS_M][SPLIT];
    UNROLL
    for (int i = 0; i < FRAGS_M; i++) {
      UNROLL
      for (int s = 0; s < SPLIT; s++)
        fragment_load_a(&a[i][s], tile_a + (s * TM + i * FRAG_M) * PITCH + k, PITCH, lane);
    }
    UNROLL
    for (int j = 0; j < FRAGS_N; j++) {
      frag_b b[SPLIT];
      UNROLL
      for (int s = 0; s < SPLIT; s++) fragment_load_b(&b[s], tile_b + (s * TN + j * FRAG_N) * PITCH + k, PITCH, lane);
      UNROLL
      for (int p = 0; p < PRODUCTS; p++) {
        UNROLL
        for (int i = 0; i < FRAGS_M; i++)
          fragment_multiply_add(&a[i][PART_OF_A(p)], &b[PART_OF_B(p)], &c[i * FRAGS_N + j], exchange);
      }
    }
  }
}

// The ranges of A and B, of all work-items; `notes` has room for one of each.
static uint4 both_ranges(uint4 x, uint4 y) {
  return (uint4)(min(x.s0, y.s0), max(x.s1, y.s1), min(x.s2, y.s2), max(x.s3, y.s3));
}
static uint4 joined(__local uint4* notes, int item, uint4 ranges) {
  const int firsts = min(ITEMS, 16);
  notes[item] = ranges;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < firsts) {
    for (int i = item + firsts; i < ITEMS; i += firsts) ranges = both_ranges(ranges, notes[i]);
    notes[item] = ranges;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < firsts; i++) ranges = both_ranges(ranges, notes[i]);
  return ranges;
}

// Where element i of a sub-group's sums lies.
#define SUM_M(i) (sub_m + (i) / FRAG_C_ELEMENTS / FRAGS_N * FRAG_M + fragment_row((i) % FRAG_C_ELEMENTS, lane))
#define SUM_N(i) (sub_n + (i) / FRAG_C_ELEMENTS % FRAGS_N * FRAG_N + fragment_column((i) % FRAG_C_ELEMENTS, lane))

__kernel FRAGMENT_ATTRIBUTES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_fragment(
    int M, int N, int K, PARAMETERS, EPILOGUE_PARAMETERS) {
  __local uint4 tiles[2][SPLIT * (TM + TN) * PITCH / 4];
  __local uint exchanges[SUBS * FRAG_EXCHANGE];
#if SPLIT > 1
  __local int again;
#endif
  const int item = (int)get_local_id(0), lane = fragment_lane(), sub = fragment_sub_group();
  SETUP
  const int n0 = N_TILE * TN, m0 = M_TILE * TM;
  const int sub_m = m0 + sub / SUBS_N * SM, sub_n = n0 + sub % SUBS_N * SN;
  const int from_a = sub / SUBS_N * SM * PITCH, from_b = (SPLIT * TM + sub % SUBS_N * SN) * PITCH;
  const int steps = (K + TK - 1) / TK;
  __local uint* exchange = exchanges + sub * FRAG_EXCHANGE;
  FETCH_SETUP

  ELEMENT next_a[A_LOADS * A_WIDE], next_b[B_LOADS * B_WIDE];
  uint2 a_range = (uint2)(UINT_MAX, 0), b_range = a_range;
  frag_c parts[FRAGS_M * FRAGS_N];
  UNROLL
  for (int i = 0; i < FRAGS_M * FRAGS_N; i++) fragment_zero(&parts[i]);
#if SPLIT > 1
  float sums[SUMS];
  UNROLL
  for (int i = 0; i < SUMS; i++) sums[i] = 0;
#else
#define SUM(i) parts[(i) / FRAG_C_ELEMENTS].e[(i) % FRAG_C_ELEMENTS]
#endif

#define PUT(step)                                                                                \
  {                                                                                              \
    __local uint* tile_ = (__local uint*)tiles[(step)&1];                                        \
    put(tile_, next_a, A_LOADS, A_WIDE, A_UNIT_K, TM, item, &a_range);                           \
    put(tile_ + SPLIT * TM * PITCH, next_b, B_LOADS, B_WIDE, B_UNIT_K, TN, item, &b_range);      \
  }
  FETCH(0)
  PUT(0)
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 0; s < steps; s++) {
    __local const uint* tile = (__local const uint*)tiles[s & 1];
    if (s + 1 < steps) {
      FETCH(s + 1)
    }
    multiply(parts, tile + from_a, tile + from_b, lane, exchange);
#if SPLIT > 1
    UNROLL
    for (int i = 0; i < SUMS; i++) sums[i] += parts[i / FRAG_C_ELEMENTS].e[i % FRAG_C_ELEMENTS];
    UNROLL
    for (int i = 0; i < FRAGS_M * FRAGS_N; i++) fragment_zero(&parts[i]);
#endif
    if (s + 1 < steps) PUT(s + 1)
    barrier(CLK_LOCAL_MEM_FENCE);
  }

#if SPLIT > 1
#define SUM(i) sums[i]
  const uint4 ranges = joined(tiles[0], item, (uint4)(a_range, b_range));
  const float least = least_exact(ranges.lo, ranges.hi, K);
  int doubtful = 0;
  UNROLL
  for (int i = 0; i < SUMS; i++) doubtful |= SUM_M(i) < M && SUM_N(i) < N && !is_within(sums[i], least);
  if (any_of_group(doubtful, &again, item)) {
    FETCH_SETUP
    __local float* whole_a = (__local float*)tiles;
    __local float* whole_b = whole_a + TK * WHOLE_PITCH(TM);
    float acc[SUMS];
    UNROLL
    for (int i = 0; i < SUMS; i++) acc[i] = 0;
    for (int s = 0; s < steps; s++) {
      FETCH(s)
      put_whole(whole_a, next_a, A_LOADS, A_WIDE, A_UNIT_K, TM, item);
      put_whole(whole_b, next_b, B_LOADS, B_WIDE, B_UNIT_K, TN, item);
      barrier(CLK_LOCAL_MEM_FENCE);
      multiply_whole(acc, whole_a, whole_b, item);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    give_whole((__local float*)tiles, acc, item);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL
    for (int i = 0; i < SUMS; i++) sums[i] = ((__local float*)tiles)[(SUM_M(i) - m0) * WHOLE_PITCH(TN) + SUM_N(i) - n0];
  }
#endif

  UNROLL
  for (int i = 0; i < SUMS; i++) {
    const int m = SUM_M(i), n = SUM_N(i);
    if (m >= M || n >= N) continue;
    STORE_SUM(m, n, SUM(i))
  }
}
