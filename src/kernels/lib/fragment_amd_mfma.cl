// Fragments of v_mfma, 16 x 16 by 64 lanes, k four lots of lanes deep. FORM 90: CDNA2; 94: CDNA3, where i8 goes twice as deep.
// Layouts after the "CDNA3 Instruction Set Architecture", the chapter on matrix arithmetic, and the "Matrix Instruction
// Calculator" of the same makers. Elements: f16, bf16, i8, and f32, which this hardware multiplies as it is.
#include "lib/fragment_types.cl"

#ifndef FORM
#ifdef __gfx90a__
#define FORM 90
#else
#define FORM 94
#endif
#endif

#define FRAG_M 16
#define FRAG_N 16
#define FRAG_LANES 64
#define FRAG_C_ELEMENTS 4
#if FRAG_TYPE == FRAG_F32 || (FRAG_TYPE == FRAG_I8 && FORM == 90)
#define FRAG_A_WORDS 1
#else
#define FRAG_A_WORDS 2
#endif
#define FRAG_B_WORDS FRAG_A_WORDS
#define FRAG_K (4 * FRAG_A_WORDS * FRAG_PER_WORD)
FRAG_WORDS(frag_a, FRAG_A_WORDS)
FRAG_SUMS(frag_c, FRAG_C_ELEMENTS)
typedef frag_a frag_b;

static void fragment_load_a(frag_a* a, __local const uint* tile, int pitch, int lane) {
  fragment_copy(a->w, tile + lane % 16 * pitch + lane / 16 * FRAG_A_WORDS, FRAG_A_WORDS);
}
static void fragment_load_b(frag_b* b, __local const uint* tile, int pitch, int lane) {
  fragment_load_a(b, tile, pitch, lane);
}
static int fragment_row(int i, int lane) {
  return lane / 16 * 4 + i;
}
static int fragment_column(int i, int lane) {
  return lane % 16;
}

#if EMULATE
#define A_AT(m, k) (((k) / (FRAG_K / 4) * 16 + (m)) * (FRAG_K / 4) + (k) % (FRAG_K / 4))
#define B_AT(k, n) (((k) / (FRAG_K / 4) * 16 + (n)) * (FRAG_K / 4) + (k) % (FRAG_K / 4))
#define C_AT(m, n) (((m) / 4 * 16 + (n)) * 4 + (m) % 4)
#else
#if FRAG_TYPE == FRAG_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
static void fragment_multiply_add(const frag_a* a, const frag_b* b, frag_c* c, __local uint* exchange) {
#if FRAG_TYPE == FRAG_F16
  c->v = __builtin_amdgcn_mfma_f32_16x16x16f16(as_half4(a->v), as_half4(b->v), c->v, 0, 0, 0);
#elif FRAG_TYPE == FRAG_BF16
  c->v = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(as_short4(a->v), as_short4(b->v), c->v, 0, 0, 0);
#elif FRAG_TYPE == FRAG_F32
  c->v = __builtin_amdgcn_mfma_f32_16x16x4f32(as_float(a->v), as_float(b->v), c->v, 0, 0, 0);
#elif FORM == 90
  c->v = __builtin_amdgcn_mfma_i32_16x16x16i8(as_int(a->v), as_int(b->v), c->v, 0, 0, 0);
#else
  c->v = __builtin_amdgcn_mfma_i32_16x16x32_i8(as_long(a->v), as_long(b->v), c->v, 0, 0, 0);
#endif
}
#endif
