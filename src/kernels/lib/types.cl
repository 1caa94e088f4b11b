// Elements in memory and the types they are computed in: f32, f16, bf16 as float; f64 as double; bool and the
// integers below 64 bits as int, but u32 as long; i64 as long, u64 as ulong. LOAD_t and STORE_t move one element, VLOAD_t and VSTORE_t V
// that lie at a multiple of their size. Storage types: f16 is half, bf16 ushort, bool uchar.

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#include "lib/access.cl"
#include "lib/half.cl"
#include "lib/join.cl"
#include "lib/nv_convert.cl"

#define LOAD_f32(p, i) ((p)[i])
#define LOAD_f16(p, i) HALF_LOAD(p, i)
#define LOAD_bf16(p, i) as_float((uint)(p)[i] << 16)
#define LOAD_f64(p, i) ((p)[i])
#define LOAD_i8(p, i) ((int)(p)[i])
#define LOAD_u8(p, i) ((int)(p)[i])
#define LOAD_i16(p, i) ((int)(p)[i])
#define LOAD_i32(p, i) ((p)[i])
#define LOAD_i64(p, i) ((p)[i])
#define LOAD_u16(p, i) ((int)(p)[i])
#define LOAD_u32(p, i) ((long)(p)[i])
#define LOAD_u64(p, i) ((p)[i])
#define LOAD_bool(p, i) ((int)(p)[i])

// Halves on CPUs, by integer instructions: compilers there make calls of vload_half and vstore_half, or compare and negate the halves
// themselves, which takes calls again.
#ifdef CPU
HALF_CONVERSIONS(, __attribute__((always_inline)))
#define HALF_ACCESS(SPACE)                                                                \
  static __attribute__((always_inline, overloadable)) float half_load(SPACE const half* p) {     \
    return half_floats(*(SPACE const ushort*)p);                                          \
  }                                                                                       \
  static __attribute__((always_inline, overloadable)) void half_store(SPACE half* p, float v) {  \
    *(SPACE ushort*)p = half_words(v);                                                    \
  }
HALF_ACCESS(__global)
HALF_ACCESS(__local)
HALF_ACCESS(__private)
#define HALF_LOAD(p, i) half_load((p) + (i))
#define HALF_STORE(p, i, v) half_store((p) + (i), v)
#else
#define HALF_LOAD(p, i) vload_half((i), (p))
#define HALF_STORE(p, i, v) vstore_half_rte((float)(v), (i), (p))
#endif

// A program's constants lie in a page of memory that the system brings in when it is first read. Masked instructions whose masks
// are empty, as of what would be done to a NaN, do not bring it in, and take a hundred times as long as long as it is not there.
#ifdef CPU
__constant uint brought_in = 1;
#define BRING_CONSTANTS_IN (void)*(volatile __constant const uint*)&brought_in;
#else
#define BRING_CONSTANTS_IN
#endif

// Round to nearest even; a NaN stays one. Two are a word, the first one its lower half.
#ifndef BF16_INSTRUCTION
static uint bf16_rounded(float v) {
  const uint bits = as_uint(v);
  return v != v ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
}
static ushort bf16_bits(float v) {
  return (ushort)(bf16_rounded(v) >> 16);
}
static uint bf16_word(float first, float second) {
  return (bf16_rounded(first) >> 16) | (bf16_rounded(second) & 0xffff0000u);
}
#endif

#define STORE_f32(p, i, v) ((p)[i] = (v))
#define STORE_f16(p, i, v) HALF_STORE(p, i, v)
#define STORE_bf16(p, i, v) ((p)[i] = bf16_bits(v))
#define STORE_f64(p, i, v) ((p)[i] = (v))
#define STORE_i8(p, i, v) ((p)[i] = (char)(v))
#define STORE_u8(p, i, v) ((p)[i] = (uchar)(v))
#define STORE_i16(p, i, v) ((p)[i] = (short)(v))
#define STORE_i32(p, i, v) ((p)[i] = (v))
#define STORE_i64(p, i, v) ((p)[i] = (v))
#define STORE_u16(p, i, v) ((p)[i] = (ushort)(v))
#define STORE_u32(p, i, v) ((p)[i] = (uint)(v))
#define STORE_u64(p, i, v) ((p)[i] = (v))
#define STORE_bool(p, i, v) ((p)[i] = (uchar)((v) != 0))

// V elements, 4 or 8, between memory and a private array d, 16 bytes at a time, or less: tensors that count as aligned are known to lie
// at multiples of 16 bytes. Elements of 16 bits go as words of two.
#if defined(V) && V == 8
#define VECTOR_OF(T) T##8
#define WORD_VECTOR uint4
#define SPREAD(F, v, d)                                                            \
  ((d)[0] = F((v).s0), (d)[1] = F((v).s1), (d)[2] = F((v).s2), (d)[3] = F((v).s3), \
   (d)[4] = F((v).s4), (d)[5] = F((v).s5), (d)[6] = F((v).s6), (d)[7] = F((v).s7))
#define GATHER(T, F, d) \
  ((T)(F((d)[0]), F((d)[1]), F((d)[2]), F((d)[3]), F((d)[4]), F((d)[5]), F((d)[6]), F((d)[7])))
#define SPREAD_WORDS(FIRST, SECOND, w, d)                                                            \
  ((d)[0] = FIRST((w).s0), (d)[1] = SECOND((w).s0), (d)[2] = FIRST((w).s1), (d)[3] = SECOND((w).s1), \
   (d)[4] = FIRST((w).s2), (d)[5] = SECOND((w).s2), (d)[6] = FIRST((w).s3), (d)[7] = SECOND((w).s3))
#define GATHER_WORDS(F, d) \
  ((uint4)(F((d)[0], (d)[1]), F((d)[2], (d)[3]), F((d)[4], (d)[5]), F((d)[6], (d)[7])))
#define VLOAD_HALVES(p) WIDE_LOAD_HALVES(8, p)
#define VSTORE_HALVES(v, p) WIDE_STORE_HALVES(8, p, v)
#define VLOAD_32(T, p, i, d) {LOAD_FOUR(T, p, i, d, 0) LOAD_FOUR(T, p, i, d, 4)}
#define VLOAD_64(T, p, i, d) {LOAD_TWO(T, p, i, d, 0) LOAD_TWO(T, p, i, d, 2) LOAD_TWO(T, p, i, d, 4) LOAD_TWO(T, p, i, d, 6)}
#define VSTORE_32(T, p, i, d) (STORE_FOUR(T, p, i, d, 0), STORE_FOUR(T, p, i, d, 4))
#define VSTORE_64(T, p, i, d) \
  (STORE_TWO(T, p, i, d, 0), STORE_TWO(T, p, i, d, 2), STORE_TWO(T, p, i, d, 4), STORE_TWO(T, p, i, d, 6))
#else
#define VECTOR_OF(T) T##4
#define WORD_VECTOR uint2
#define SPREAD(F, v, d) ((d)[0] = F((v).s0), (d)[1] = F((v).s1), (d)[2] = F((v).s2), (d)[3] = F((v).s3))
#define GATHER(T, F, d) ((T)(F((d)[0]), F((d)[1]), F((d)[2]), F((d)[3])))
#define SPREAD_WORDS(FIRST, SECOND, w, d) \
  ((d)[0] = FIRST((w).s0), (d)[1] = SECOND((w).s0), (d)[2] = FIRST((w).s1), (d)[3] = SECOND((w).s1))
#define GATHER_WORDS(F, d) ((uint2)(F((d)[0], (d)[1]), F((d)[2], (d)[3])))
#define VLOAD_HALVES(p) WIDE_LOAD_HALVES(4, p)
#define VSTORE_HALVES(v, p) WIDE_STORE_HALVES(4, p, v)
#define VLOAD_32(T, p, i, d) {LOAD_FOUR(T, p, i, d, 0)}
#define VLOAD_64(T, p, i, d) {LOAD_TWO(T, p, i, d, 0) LOAD_TWO(T, p, i, d, 2)}
#define VSTORE_32(T, p, i, d) STORE_FOUR(T, p, i, d, 0)
#define VSTORE_64(T, p, i, d) (STORE_TWO(T, p, i, d, 0), STORE_TWO(T, p, i, d, 2))
#endif

#define LOAD_FOUR(T, p, i, d, k)                               \
  {                                                            \
    const T##4 four_ = WIDE_LOAD(T##4, (p) + (i) + (k));       \
    (d)[k] = four_.s0, (d)[k + 1] = four_.s1;                  \
    (d)[k + 2] = four_.s2, (d)[k + 3] = four_.s3;              \
  }
#define LOAD_TWO(T, p, i, d, k)                                \
  {                                                            \
    const T##2 two_ = WIDE_LOAD(T##2, (p) + (i) + (k));        \
    (d)[k] = two_.s0, (d)[k + 1] = two_.s1;                    \
  }
#define STORE_FOUR(T, p, i, d, k) \
  WIDE_STORE(T##4, (p) + (i) + (k), (T##4)((T)(d)[k], (T)(d)[k + 1], (T)(d)[k + 2], (T)(d)[k + 3]))
#define STORE_TWO(T, p, i, d, k) WIDE_STORE(T##2, (p) + (i) + (k), (T##2)((T)(d)[k], (T)(d)[k + 1]))

#define SAME(v) (v)
#define VLOAD_AS(T, p, i, d)                                            \
  {                                                                     \
    const VECTOR_OF(T) vector_ = WIDE_LOAD(VECTOR_OF(T), (p) + (i));    \
    SPREAD(SAME, vector_, d);                                           \
  }
#define VLOAD_f32(p, i, d) VLOAD_32(float, p, i, d)
#define VLOAD_WORDS(FIRST, SECOND, p, i, d)                            \
  {                                                                    \
    const WORD_VECTOR words_ = WIDE_LOAD(WORD_VECTOR, (p) + (i));      \
    SPREAD_WORDS(FIRST, SECOND, words_, d);                            \
  }
#define BF16_FIRST(w) as_float((w) << 16)
#define BF16_SECOND(w) as_float((w)&0xffff0000u)
#define VLOAD_bf16(p, i, d) VLOAD_WORDS(BF16_FIRST, BF16_SECOND, p, i, d)
#define VLOAD_f64(p, i, d) VLOAD_64(double, p, i, d)
#define VLOAD_i8(p, i, d) VLOAD_AS(char, p, i, d)
#define VLOAD_u8(p, i, d) VLOAD_AS(uchar, p, i, d)
#define VLOAD_i16(p, i, d) VLOAD_AS(short, p, i, d)
#define VLOAD_i32(p, i, d) VLOAD_32(int, p, i, d)
#define VLOAD_i64(p, i, d) VLOAD_64(long, p, i, d)
#define VLOAD_u16(p, i, d) VLOAD_AS(ushort, p, i, d)
#define VLOAD_u32(p, i, d) VLOAD_32(uint, p, i, d)
#define VLOAD_u64(p, i, d) VLOAD_64(ulong, p, i, d)
#define VLOAD_bool(p, i, d) VLOAD_AS(uchar, p, i, d)

#define IS_NOT_0(v) ((v) != 0)
#define VSTORE_AS(T, F, p, i, d) WIDE_STORE(VECTOR_OF(T), (p) + (i), GATHER(VECTOR_OF(T), F, d))
#define VSTORE_f32(p, i, d) VSTORE_32(float, p, i, d)
#define VSTORE_bf16(p, i, d) WIDE_STORE(WORD_VECTOR, (p) + (i), GATHER_WORDS(bf16_word, d))
#define VSTORE_f64(p, i, d) VSTORE_64(double, p, i, d)
#define VSTORE_i8(p, i, d) VSTORE_AS(char, (char), p, i, d)
#define VSTORE_u8(p, i, d) VSTORE_AS(uchar, (uchar), p, i, d)
#define VSTORE_i16(p, i, d) VSTORE_AS(short, (short), p, i, d)
#define VSTORE_i32(p, i, d) VSTORE_32(int, p, i, d)
#define VSTORE_i64(p, i, d) VSTORE_64(long, p, i, d)
#define VSTORE_u16(p, i, d) VSTORE_AS(ushort, (ushort), p, i, d)
#define VSTORE_u32(p, i, d) VSTORE_32(uint, p, i, d)
#define VSTORE_u64(p, i, d) VSTORE_64(ulong, p, i, d)
#define VSTORE_bool(p, i, d) VSTORE_AS(uchar, IS_NOT_0, p, i, d)

#ifdef HALF_FIRST
#define VLOAD_f16(p, i, d) VLOAD_WORDS(HALF_FIRST, HALF_SECOND, p, i, d)
#define VSTORE_f16(p, i, d) WIDE_STORE(WORD_VECTOR, (p) + (i), GATHER_WORDS(half_word, d))
#else
#define VLOAD_f16(p, i, d)                                    \
  {                                                           \
    const VECTOR_OF(float) vector_ = VLOAD_HALVES((p) + (i)); \
    SPREAD(SAME, vector_, d);                                 \
  }
#define VSTORE_f16(p, i, d) VSTORE_HALVES(GATHER(VECTOR_OF(float), (float), d), (p) + (i))
#endif

// A loop whose rounds do not depend on each other: outputs that are inputs are so at equal indices.
// Some stay scalar, and nobody needs to be warned of that. CALLS_AND_CHOICES: the rounds may call one of the driver's functions with
// a choice, which a vectorised loop of a FAILS_ON_CALLS_OF_CHOICES compiler does not survive.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define SCALAR_ROUNDS _Pragma("clang loop vectorize(disable)")
#if defined(CALLS_AND_CHOICES) && defined(FAILS_ON_CALLS_OF_CHOICES)
#define INDEPENDENT_ROUNDS SCALAR_ROUNDS
#else
#define INDEPENDENT_ROUNDS _Pragma("clang loop vectorize(assume_safety)")
#endif
#else
#define INDEPENDENT_ROUNDS
#define SCALAR_ROUNDS
#endif
