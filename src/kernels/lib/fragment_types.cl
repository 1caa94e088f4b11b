// What all fragments are made of: words of 32 bits that hold neighbours along k, and sums. fragment.cl has the interface.
// FRAGMENT   whose matrix instruction: NV_MMA, AMD_WMMA, AMD_MFMA, INTEL_DPAS.
// FRAG_TYPE  the elements of A and B: FRAG_F16, FRAG_BF16, FRAG_TF32, FRAG_F32, FRAG_I8; sums are int for FRAG_I8, else float.
// EMULATE    1: the instruction alone is replaced by fragment_plain.cl, so that any device runs the rest.
// FORM       which of a vendor's layouts; its file says what there is.

#define NV_MMA 1
#define AMD_WMMA 2
#define AMD_MFMA 3
#define INTEL_DPAS 4

#define FRAG_F16 1
#define FRAG_BF16 2
#define FRAG_TF32 3
#define FRAG_F32 4
#define FRAG_I8 5

#ifndef FRAG_TYPE
#define FRAG_TYPE FRAG_F16
#endif
#ifndef EMULATE
#define EMULATE 1
#endif

// Loops over registers, which cannot be indexed. Emulated ones are in memory, and compilers are slow at barriers in long code.
#if EMULATE
#define UNROLL _Pragma("nounroll")
#else
#define UNROLL _Pragma("unroll")
#endif

// Elements in a word.
#if FRAG_TYPE == FRAG_I8
#define FRAG_PER_WORD 4
#elif FRAG_TYPE == FRAG_F16 || FRAG_TYPE == FRAG_BF16
#define FRAG_PER_WORD 2
#else
#define FRAG_PER_WORD 1
#endif
#if FRAG_TYPE == FRAG_I8
#define FRAG_SUM int
#else
#define FRAG_SUM float
#endif

#define FRAG_JOIN_(a, b) a##b
#define FRAG_JOIN(a, b) FRAG_JOIN_(a, b)
typedef uint uint1;
// A type of so many words, or sums: as a vector for the instruction, as an array for the rest.
#define FRAG_WORDS(name, count) \
  typedef union {               \
    FRAG_JOIN(uint, count) v;   \
    uint w[count];              \
  } name;
#define FRAG_SUMS(name, count)   \
  typedef union {                \
    FRAG_JOIN(FRAG_SUM, count) v; \
    FRAG_SUM e[count];           \
  } name;

// `count` words, 1, 2, 4 or 8, that lie at a multiple of so many, but of 4 for 8.
static void fragment_copy(uint* to, __local const uint* from, int count) {
  if (count == 1) to[0] = from[0];
  if (count == 2) vstore2(*(__local const uint2*)from, 0, to);
  if (count == 4 || count == 8) vstore4(*(__local const uint4*)from, 0, to);
  if (count == 8) vstore4(*(__local const uint4*)(from + 4), 0, to + 4);
}

#if FRAG_TYPE == FRAG_TF32
// Rounded to the nearest, as the hardware does not; a NaN stays one.
static uint tf32_bits(uint v) {
  return (v & 0x7fffffffu) > 0x7f800000u ? v | 0x400000u : (v + 0x1000u) & 0xffffe000u;
}
#endif
