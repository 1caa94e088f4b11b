// Fragments of mma.sync, 16 x 8 by 32 lanes, k 8 words deep: m16n8k16 for f16 and bf16, m16n8k8 for tf32, m16n8k32 for i8.
// Layouts after the PTX ISA, "Matrix fragments for mma"; in words they are one. tf32 operands are truncated by the hardware.
#include "lib/fragment_types.cl"

#define FRAG_M 16
#define FRAG_N 8
#define FRAG_K (8 * FRAG_PER_WORD)
#define FRAG_LANES 32
#define FRAG_A_WORDS 4
#define FRAG_B_WORDS 2
#define FRAG_C_ELEMENTS 4
FRAG_WORDS(frag_a, 4)
FRAG_WORDS(frag_b, 2)
FRAG_SUMS(frag_c, 4)

static void fragment_load_a(frag_a* a, __local const uint* tile, int pitch, int lane) {
  __local const uint* at = tile + lane / 4 * pitch + lane % 4;
  a->w[0] = at[0];
  a->w[1] = at[8 * pitch];
  a->w[2] = at[4];
  a->w[3] = at[8 * pitch + 4];
}
static void fragment_load_b(frag_b* b, __local const uint* tile, int pitch, int lane) {
  __local const uint* at = tile + lane / 4 * pitch + lane % 4;
  b->w[0] = at[0];
  b->w[1] = at[4];
}
static int fragment_row(int i, int lane) {
  return i / 2 * 8 + lane / 4;
}
static int fragment_column(int i, int lane) {
  return lane % 4 * 2 + i % 2;
}

#if EMULATE
// Of the word k / FRAG_PER_WORD, the low two bits are the lane's place among four, the third is the register's.
#define FRAG_WORD(k) ((k) / FRAG_PER_WORD)
#define A_AT(m, k)                                                                                             \
  ((((m) % 8 * 4 + FRAG_WORD(k) % 4) * 4 + FRAG_WORD(k) / 4 * 2 + (m) / 8) * FRAG_PER_WORD + (k) % FRAG_PER_WORD)
#define B_AT(k, n) ((((n)*4 + FRAG_WORD(k) % 4) * 2 + FRAG_WORD(k) / 4) * FRAG_PER_WORD + (k) % FRAG_PER_WORD)
#define C_AT(m, n) (((m) % 8 * 4 + (n) / 2) * 4 + (m) / 8 * 2 + (n) % 2)
#else
#if FRAG_TYPE == FRAG_F16
#define FRAG_MMA "m16n8k16.row.col.f32.f16.f16.f32"
#elif FRAG_TYPE == FRAG_BF16
#define FRAG_MMA "m16n8k16.row.col.f32.bf16.bf16.f32"
#elif FRAG_TYPE == FRAG_TF32
#define FRAG_MMA "m16n8k8.row.col.f32.tf32.tf32.f32"
#else
#define FRAG_MMA "m16n8k32.row.col.s32.s8.s8.s32"
#endif
#if FRAG_TYPE == FRAG_I8
#define FRAG_REGISTER "+r"
#else
#define FRAG_REGISTER "+f"
#endif
static void fragment_multiply_add(const frag_a* a, const frag_b* b, frag_c* c, __local uint* exchange) {
  __asm__ volatile("mma.sync.aligned." FRAG_MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : FRAG_REGISTER(c->e[0]), FRAG_REGISTER(c->e[1]), FRAG_REGISTER(c->e[2]), FRAG_REGISTER(c->e[3])
                   : "r"(a->w[0]), "r"(a->w[1]), "r"(a->w[2]), "r"(a->w[3]), "r"(b->w[0]), "r"(b->w[1]));
}
#endif
