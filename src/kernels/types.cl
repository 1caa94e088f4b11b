// Elements in memory and the types they are computed in: f32, f16, bf16 as float; f64 as double; bool and the
// integers below 64 bits as int; i64 as long. LOAD_t and STORE_t move one element, VLOAD_t and VSTORE_t V
// that lie at a multiple of their size. Storage types: f16 is half, bf16 ushort, bool uchar.

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define LOAD_f32(p, i) ((p)[i])
#define LOAD_f16(p, i) vload_half((i), (p))
#define LOAD_bf16(p, i) as_float((uint)(p)[i] << 16)
#define LOAD_f64(p, i) ((p)[i])
#define LOAD_i8(p, i) ((int)(p)[i])
#define LOAD_u8(p, i) ((int)(p)[i])
#define LOAD_i16(p, i) ((int)(p)[i])
#define LOAD_i32(p, i) ((p)[i])
#define LOAD_i64(p, i) ((p)[i])
#define LOAD_bool(p, i) ((int)(p)[i])

// Round to nearest even; a NaN stays one.
ushort bf16_bits(float v) {
  const uint bits = as_uint(v);
  return (ushort)((v != v ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#define STORE_f32(p, i, v) ((p)[i] = (v))
#define STORE_f16(p, i, v) vstore_half_rte((v), (i), (p))
#define STORE_bf16(p, i, v) ((p)[i] = bf16_bits(v))
#define STORE_f64(p, i, v) ((p)[i] = (v))
#define STORE_i8(p, i, v) ((p)[i] = (char)(v))
#define STORE_u8(p, i, v) ((p)[i] = (uchar)(v))
#define STORE_i16(p, i, v) ((p)[i] = (short)(v))
#define STORE_i32(p, i, v) ((p)[i] = (v))
#define STORE_i64(p, i, v) ((p)[i] = (v))
#define STORE_bool(p, i, v) ((p)[i] = (uchar)((v) != 0))

// V elements, 4 or 8, between memory and a private array d.
#if defined(V) && V == 8
#define VECTOR_OF(T) T##8
#define CONVERT_VECTOR(T) convert_##T##8
#define SPREAD(F, v, d)                                                            \
  ((d)[0] = F((v).s0), (d)[1] = F((v).s1), (d)[2] = F((v).s2), (d)[3] = F((v).s3), \
   (d)[4] = F((v).s4), (d)[5] = F((v).s5), (d)[6] = F((v).s6), (d)[7] = F((v).s7))
#define GATHER(T, F, d) \
  ((T)(F((d)[0]), F((d)[1]), F((d)[2]), F((d)[3]), F((d)[4]), F((d)[5]), F((d)[6]), F((d)[7])))
#define VLOAD_HALVES(p) vloada_half8(0, p)
#define VSTORE_HALVES(v, p) vstorea_half8_rte(v, 0, p)
#define AS_FLOATS(v) as_float8(v)
#else
#define VECTOR_OF(T) T##4
#define CONVERT_VECTOR(T) convert_##T##4
#define SPREAD(F, v, d) ((d)[0] = F((v).s0), (d)[1] = F((v).s1), (d)[2] = F((v).s2), (d)[3] = F((v).s3))
#define GATHER(T, F, d) ((T)(F((d)[0]), F((d)[1]), F((d)[2]), F((d)[3])))
#define VLOAD_HALVES(p) vloada_half4(0, p)
#define VSTORE_HALVES(v, p) vstorea_half4_rte(v, 0, p)
#define AS_FLOATS(v) as_float4(v)
#endif

#define SAME(v) (v)
#define VLOAD_AS(T, p, i, d)                                                 \
  {                                                                          \
    const VECTOR_OF(T) vector_ = *(__global const VECTOR_OF(T)*)((p) + (i)); \
    SPREAD(SAME, vector_, d);                                                \
  }
#define VLOAD_f32(p, i, d) VLOAD_AS(float, p, i, d)
#define VLOAD_bf16(p, i, d)                                                          \
  {                                                                                  \
    const VECTOR_OF(ushort) bits_ = *(__global const VECTOR_OF(ushort)*)((p) + (i)); \
    const VECTOR_OF(float) vector_ = AS_FLOATS(CONVERT_VECTOR(uint)(bits_) << 16);   \
    SPREAD(SAME, vector_, d);                                                        \
  }
#define VLOAD_f64(p, i, d) VLOAD_AS(double, p, i, d)
#define VLOAD_i8(p, i, d) VLOAD_AS(char, p, i, d)
#define VLOAD_u8(p, i, d) VLOAD_AS(uchar, p, i, d)
#define VLOAD_i16(p, i, d) VLOAD_AS(short, p, i, d)
#define VLOAD_i32(p, i, d) VLOAD_AS(int, p, i, d)
#define VLOAD_i64(p, i, d) VLOAD_AS(long, p, i, d)
#define VLOAD_bool(p, i, d) VLOAD_AS(uchar, p, i, d)

#define IS_NOT_0(v) ((v) != 0)
#define VSTORE_AS(T, F, p, i, d) (*(__global VECTOR_OF(T)*)((p) + (i)) = GATHER(VECTOR_OF(T), F, d))
#define VSTORE_f32(p, i, d) VSTORE_AS(float, (float), p, i, d)
#define VSTORE_bf16(p, i, d) VSTORE_AS(ushort, bf16_bits, p, i, d)
#define VSTORE_f64(p, i, d) VSTORE_AS(double, (double), p, i, d)
#define VSTORE_i8(p, i, d) VSTORE_AS(char, (char), p, i, d)
#define VSTORE_u8(p, i, d) VSTORE_AS(uchar, (uchar), p, i, d)
#define VSTORE_i16(p, i, d) VSTORE_AS(short, (short), p, i, d)
#define VSTORE_i32(p, i, d) VSTORE_AS(int, (int), p, i, d)
#define VSTORE_i64(p, i, d) VSTORE_AS(long, (long), p, i, d)
#define VSTORE_bool(p, i, d) VSTORE_AS(uchar, IS_NOT_0, p, i, d)

#ifdef __NV_CL_C_VERSION
// This compiler moves halves one by one; as words they go together.
static float half_value(ushort bits) {
  float v;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
static ushort half_bits(float v) {
  ushort bits;
  __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
#define VLOAD_f16(p, i, d)                                                           \
  {                                                                                  \
    const VECTOR_OF(ushort) bits_ = *(__global const VECTOR_OF(ushort)*)((p) + (i)); \
    SPREAD(half_value, bits_, d);                                                    \
  }
#define VSTORE_f16(p, i, d) VSTORE_AS(ushort, half_bits, p, i, d)
#else
#define VLOAD_f16(p, i, d)                                    \
  {                                                           \
    const VECTOR_OF(float) vector_ = VLOAD_HALVES((p) + (i)); \
    SPREAD(SAME, vector_, d);                                 \
  }
#define VSTORE_f16(p, i, d) VSTORE_HALVES(GATHER(VECTOR_OF(float), (float), d), (p) + (i))
#endif

// A loop whose rounds do not depend on each other: outputs that are inputs are so at equal indices.
// Some stay scalar, and nobody needs to be warned of that.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define INDEPENDENT_ROUNDS _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_ROUNDS
#endif
