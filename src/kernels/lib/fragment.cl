// Matrix hardware behind one interface. A fragment is the share of a small matrix that a lane of a sub-group holds in
// registers: together, FRAG_LANES lanes hold A (FRAG_M x FRAG_K), B (FRAG_K x FRAG_N) or C (FRAG_M x FRAG_N). The macros that
// choose are in fragment_types.cl. Each vendor's file defines
//   FRAG_M FRAG_N FRAG_K FRAG_LANES
//   FRAG_A_WORDS FRAG_B_WORDS FRAG_C_ELEMENTS   what a lane holds
//   frag_a frag_b frag_c
//   fragment_load_a(&a, tile, pitch, lane)   A from local memory: row m at tile + m * pitch, k contiguous from there; in words
//   fragment_load_b(&b, tile, pitch, lane)   the same of B, whose column n is at tile + n * pitch
//   fragment_row(i, lane) fragment_column(i, lane)   where element i of a lane's part of C lies
//   fragment_multiply_add(&a, &b, &c, exchange)   c += a b, by all lanes of the sub-group together
//   FRAGMENT_ATTRIBUTES   of the kernel
// `tile` and `pitch` are multiples of 4 words. `exchange` is local memory of the sub-group, FRAG_EXCHANGE words, in which
// emulated lanes show each other their registers; hardware leaves it alone. Emulated, the instruction is a barrier: all
// work-items of the group must come to it.
#include "lib/fragment_types.cl"

#ifndef FRAGMENT
#define FRAGMENT AMD_WMMA
#endif

#if FRAGMENT == NV_MMA
#include "lib/fragment_nv_mma.cl"
#elif FRAGMENT == AMD_WMMA
#include "lib/fragment_amd_wmma.cl"
#elif FRAGMENT == AMD_MFMA
#include "lib/fragment_amd_mfma.cl"
#elif FRAGMENT == INTEL_DPAS
#include "lib/fragment_intel_dpas.cl"
#endif

// Where the compiler chooses which work-items form a sub-group, the file of the instruction asks it.
#if EMULATE || FRAGMENT != INTEL_DPAS
static int fragment_lane(void) {
  return (int)get_local_id(0) % FRAG_LANES;
}
static int fragment_sub_group(void) {
  return (int)get_local_id(0) / FRAG_LANES;
}
#endif

#if EMULATE
#include "lib/fragment_plain.cl"
#endif

#ifndef FRAG_EXCHANGE
#define FRAG_EXCHANGE 4
#endif
#ifndef FRAGMENT_ATTRIBUTES
#define FRAGMENT_ATTRIBUTES
#endif

static void fragment_zero(frag_c* c) {
  UNROLL
  for (int i = 0; i < FRAG_C_ELEMENTS; i++) c->e[i] = 0;
}
