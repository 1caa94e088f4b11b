// Fragments of v_wmma, 16 x 16 x 16 by 32 lanes. FORM 11: RDNA3; 12: RDNA4. Layouts after the "RDNA3" and "RDNA4 Instruction Set
// Architecture", the chapters on WMMA, and the article "How to accelerate AI applications on RDNA 3 using WMMA". Elements: f16,
// bf16, i8.
#include "lib/fragment_types.cl"

#ifndef FORM
#ifdef __GFX12__
#define FORM 12
#else
#define FORM 11
#endif
#endif

#define FRAG_M 16
#define FRAG_N 16
#define FRAG_K 16
#define FRAG_LANES 32
#define FRAG_C_ELEMENTS 8
// Form 11: a lane has a whole row of A, a column of B, and lane l + 16 has the same as lane l. Form 12: half of one.
#if FORM == 11 && FRAG_TYPE != FRAG_I8
#define FRAG_A_WORDS 8
#elif FORM == 11 || FRAG_TYPE != FRAG_I8
#define FRAG_A_WORDS 4
#else
#define FRAG_A_WORDS 2
#endif
#define FRAG_B_WORDS FRAG_A_WORDS
FRAG_WORDS(frag_a, FRAG_A_WORDS)
FRAG_SUMS(frag_c, FRAG_C_ELEMENTS)
typedef frag_a frag_b;

static void fragment_load_a(frag_a* a, __local const uint* tile, int pitch, int lane) {
  fragment_copy(a->w, tile + lane % 16 * pitch + (FORM == 11 ? 0 : lane / 16 * FRAG_A_WORDS), FRAG_A_WORDS);
}
static void fragment_load_b(frag_b* b, __local const uint* tile, int pitch, int lane) {
  fragment_load_a(b, tile, pitch, lane);
}
static int fragment_row(int i, int lane) {
  return FORM == 11 ? 2 * i + lane / 16 : lane / 16 * 8 + i;
}
static int fragment_column(int i, int lane) {
  return lane % 16;
}

#if EMULATE && FORM == 11
// Both copies must be right: even k are read from the one, odd ones from the other.
#define A_AT(m, k) (((k) % 2 * 16 + (m)) * 16 + (k))
#define B_AT(k, n) (((k) / 2 % 2 * 16 + (n)) * 16 + (k))
#define C_AT(m, n) (((m) % 2 * 16 + (n)) * 8 + (m) / 2)
#elif EMULATE
#define A_AT(m, k) (((k) / 8 * 16 + (m)) * 8 + (k) % 8)
#define B_AT(k, n) (((k) / 8 * 16 + (n)) * 8 + (k) % 8)
#define C_AT(m, n) (((m) / 8 * 16 + (n)) * 8 + (m) % 8)
#else
#if FRAG_TYPE == FRAG_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
static void fragment_multiply_add(const frag_a* a, const frag_b* b, frag_c* c, __local uint* exchange) {
#if FORM == 11 && FRAG_TYPE == FRAG_F16
  c->v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16(a->v), as_half16(b->v), c->v);
#elif FORM == 11 && FRAG_TYPE == FRAG_BF16
  c->v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16(a->v), as_short16(b->v), c->v);
#elif FORM == 11
  c->v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, as_int4(a->v), true, as_int4(b->v), c->v, false);
#elif FRAG_TYPE == FRAG_F16
  c->v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(as_half8(a->v), as_half8(b->v), c->v);
#elif FRAG_TYPE == FRAG_BF16
  c->v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(as_short8(a->v), as_short8(b->v), c->v);
#else
  c->v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, as_int2(a->v), true, as_int2(b->v), c->v, false);
#endif
}
#endif
