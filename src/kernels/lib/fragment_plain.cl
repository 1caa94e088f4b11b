// A matrix instruction in plain OpenCL C. The lanes lay their registers into local memory as they are; each then computes
// some elements of C, finding A, B and C where the vendor's file says that the hardware finds them; and each takes its
// registers of C back. These places, A_AT, B_AT and C_AT, are written down apart from the loads and from
// fragment_row and fragment_column, from the other side: (row, column) -> lane and register. So a load or a store with a wrong
// lane gives wrong numbers, as it would on the hardware. Sums are chains of multiply-adds, which the hardware's need not be.
// A_AT(m, k), B_AT(k, n): lane * (elements of a lane) + element. C_AT(m, n) in the same way.
#include "lib/fragment_types.cl"

// As if included alone: one lane that holds a matrix of one word.
#ifndef FRAG_LANES
#define FRAG_M 1
#define FRAG_N 1
#define FRAG_K FRAG_PER_WORD
#define FRAG_LANES 1
#define FRAG_A_WORDS 1
#define FRAG_B_WORDS 1
#define FRAG_C_ELEMENTS 1
FRAG_WORDS(frag_a, 1)
FRAG_WORDS(frag_b, 1)
typedef union {
  FRAG_SUM e[1];
} frag_c;
#define A_AT(m, k) (k)
#define B_AT(k, n) (k)
#define C_AT(m, n) 0
static int fragment_lane(void) {
  return 0;
}
#endif

#define FRAG_A_EXCHANGE (FRAG_LANES * FRAG_A_WORDS)
#define FRAG_B_EXCHANGE (FRAG_LANES * FRAG_B_WORDS)
#define FRAG_EXCHANGE (FRAG_A_EXCHANGE + FRAG_B_EXCHANGE + FRAG_LANES * FRAG_C_ELEMENTS)

static FRAG_SUM fragment_value(__local const uint* words, int i) {
#if FRAG_TYPE == FRAG_F16
  return vload_half(i, (__local const half*)words);
#elif FRAG_TYPE == FRAG_BF16
  return as_float((uint)((__local const ushort*)words)[i] << 16);
#elif FRAG_TYPE == FRAG_TF32
  return as_float(words[i] & 0xffffe000u);
#elif FRAG_TYPE == FRAG_F32
  return as_float(words[i]);
#else
  return ((__local const char*)words)[i];
#endif
}

static void fragment_multiply_add(const frag_a* a, const frag_b* b, frag_c* c, __local uint* exchange) {
  const int lane = fragment_lane();
  __local uint *of_a = exchange, *of_b = exchange + FRAG_A_EXCHANGE;
  __local FRAG_SUM* of_c = (__local FRAG_SUM*)(exchange + FRAG_A_EXCHANGE + FRAG_B_EXCHANGE);
  UNROLL
  for (int i = 0; i < FRAG_A_WORDS; i++) of_a[lane * FRAG_A_WORDS + i] = a->w[i];
  UNROLL
  for (int i = 0; i < FRAG_B_WORDS; i++) of_b[lane * FRAG_B_WORDS + i] = b->w[i];
  UNROLL
  for (int i = 0; i < FRAG_C_ELEMENTS; i++) of_c[lane * FRAG_C_ELEMENTS + i] = c->e[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL
  for (int i = 0; i < FRAG_C_ELEMENTS; i++) {
    const int at = lane * FRAG_C_ELEMENTS + i, m = at / FRAG_N, n = at % FRAG_N;
    FRAG_SUM sum = of_c[C_AT(m, n)];
    UNROLL
    for (int k = 0; k < FRAG_K; k++) {
      const FRAG_SUM x = fragment_value(of_a, A_AT(m, k)), y = fragment_value(of_b, B_AT(k, n));
#if FRAG_TYPE == FRAG_I8 || defined(SLOW_FMA)
      sum += x * y;
#else
      sum = fma(x, y, sum);
#endif
    }
    of_c[C_AT(m, n)] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  UNROLL
  for (int i = 0; i < FRAG_C_ELEMENTS; i++) c->e[i] = of_c[lane * FRAG_C_ELEMENTS + i];
  barrier(CLK_LOCAL_MEM_FENCE);
}
