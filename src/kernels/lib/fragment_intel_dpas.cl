// Fragments of dpas, 8 x FORM by FORM lanes. FORM, the sub-group's width: 8 (Arc A), 16 (Data Center Max, Battlemage). Layouts
// after the extension cl_intel_subgroup_matrix_multiply_accumulate, revision 1.1. Elements: f16, bf16, i8.
#include "lib/fragment_types.cl"

#ifndef FORM
#define FORM 16
#endif

#define FRAG_M 8
#define FRAG_N FORM
#define FRAG_K (8 * FRAG_PER_WORD)
#define FRAG_LANES FORM
#define FRAG_C_ELEMENTS 8
#define FRAG_B_WORDS 8
// A lane has a part of each row of A: of 8 lanes a word, of 16 half of one.
#if FORM == 8
#define FRAG_A_WORDS 8
FRAG_WORDS(frag_a, 8)
#else
#define FRAG_A_WORDS 4
typedef union {
  short8 v;
  short s[8];
  uint w[4];
} frag_a;
#endif
FRAG_WORDS(frag_b, 8)
FRAG_SUMS(frag_c, 8)

static void fragment_load_a(frag_a* a, __local const uint* tile, int pitch, int lane) {
  UNROLL
  for (int i = 0; i < 8; i++)
#if FORM == 8
    a->w[i] = tile[i * pitch + lane];
#else
    a->s[i] = ((__local const short*)(tile + i * pitch))[lane];
#endif
}
static void fragment_load_b(frag_b* b, __local const uint* tile, int pitch, int lane) {
  fragment_copy(b->w, tile + lane * pitch, 8);
}
static int fragment_row(int i, int lane) {
  return i;
}
static int fragment_column(int i, int lane) {
  return lane;
}

#if EMULATE
#define A_AT(m, k) ((k) / (FRAG_K / FORM) * (8 * FRAG_K / FORM) + (m) * (FRAG_K / FORM) + (k) % (FRAG_K / FORM))
#define B_AT(k, n) ((n) * FRAG_K + (k))
#define C_AT(m, n) ((n)*8 + (m))
#else
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#endif
#define FRAGMENT_ATTRIBUTES __attribute__((intel_reqd_sub_group_size(FORM)))
#if FORM == 8
#define FRAG_A_PACKED int8
#else
#define FRAG_A_PACKED short8
#endif
// The compiler knows these where it lists the extension; off line it may not list it and know them all the same.
#ifndef cl_intel_subgroup_matrix_multiply_accumulate
float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(FRAG_A_PACKED a, int8 b, float8 c);
float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(FRAG_A_PACKED a, int8 b, float8 c);
int8 __attribute__((overloadable)) intel_sub_group_i8_i8_matrix_mad_k32(FRAG_A_PACKED a, int8 b, int8 c);
#endif
static int fragment_lane(void) {
  return (int)get_sub_group_local_id();
}
static int fragment_sub_group(void) {
  return (int)get_sub_group_id();
}
static void fragment_multiply_add(const frag_a* a, const frag_b* b, frag_c* c, __local uint* exchange) {
  const FRAG_A_PACKED packed = FRAG_JOIN(as_, FRAG_A_PACKED)(a->v);
#if FRAG_TYPE == FRAG_F16
  c->v = intel_sub_group_f16_f16_matrix_mad_k16(packed, as_int8(b->v), c->v);
#elif FRAG_TYPE == FRAG_BF16
  c->v = intel_sub_group_bf16_bf16_matrix_mad_k16(packed, as_int8(b->v), c->v);
#else
  c->v = intel_sub_group_i8_i8_matrix_mad_k32(packed, as_int8(b->v), c->v);
#endif
}
#endif
