// Elements in memory and the types they are computed in: f32, f16, bf16 as float; f64 as double; bool and the
// integers below 64 bits as int; i64 as long. LOAD_t and STORE_t move one element, VLOAD_t and VSTORE_t four
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

// Four elements between memory and a private array d.
#define VLOAD_AS(T, p, i, d)                                \
  {                                                         \
    const T four_ = *(__global const T*)((p) + (i));        \
    (d)[0] = four_.s0, (d)[1] = four_.s1;                   \
    (d)[2] = four_.s2, (d)[3] = four_.s3;                   \
  }
#define VLOAD_f32(p, i, d) VLOAD_AS(float4, p, i, d)
#define VLOAD_f16(p, i, d)                                  \
  {                                                         \
    const float4 four_ = vloada_half4(0, (p) + (i));        \
    (d)[0] = four_.s0, (d)[1] = four_.s1;                   \
    (d)[2] = four_.s2, (d)[3] = four_.s3;                   \
  }
#define VLOAD_bf16(p, i, d)                                                                   \
  {                                                                                           \
    const ushort4 four_ = *(__global const ushort4*)((p) + (i));                              \
    (d)[0] = as_float((uint)four_.s0 << 16), (d)[1] = as_float((uint)four_.s1 << 16);         \
    (d)[2] = as_float((uint)four_.s2 << 16), (d)[3] = as_float((uint)four_.s3 << 16);         \
  }
#define VLOAD_f64(p, i, d) VLOAD_AS(double4, p, i, d)
#define VLOAD_i8(p, i, d) VLOAD_AS(char4, p, i, d)
#define VLOAD_u8(p, i, d) VLOAD_AS(uchar4, p, i, d)
#define VLOAD_i16(p, i, d) VLOAD_AS(short4, p, i, d)
#define VLOAD_i32(p, i, d) VLOAD_AS(int4, p, i, d)
#define VLOAD_i64(p, i, d) VLOAD_AS(long4, p, i, d)
#define VLOAD_bool(p, i, d) VLOAD_AS(uchar4, p, i, d)

#define VSTORE_AS(T, E, p, i, d) \
  (*(__global T*)((p) + (i)) = (T)((E)(d)[0], (E)(d)[1], (E)(d)[2], (E)(d)[3]))
#define VSTORE_f32(p, i, d) VSTORE_AS(float4, float, p, i, d)
#define VSTORE_f16(p, i, d) vstorea_half4_rte((float4)((d)[0], (d)[1], (d)[2], (d)[3]), 0, (p) + (i))
#define VSTORE_bf16(p, i, d)     \
  (*(__global ushort4*)((p) + (i)) = \
       (ushort4)(bf16_bits((d)[0]), bf16_bits((d)[1]), bf16_bits((d)[2]), bf16_bits((d)[3])))
#define VSTORE_f64(p, i, d) VSTORE_AS(double4, double, p, i, d)
#define VSTORE_i8(p, i, d) VSTORE_AS(char4, char, p, i, d)
#define VSTORE_u8(p, i, d) VSTORE_AS(uchar4, uchar, p, i, d)
#define VSTORE_i16(p, i, d) VSTORE_AS(short4, short, p, i, d)
#define VSTORE_i32(p, i, d) VSTORE_AS(int4, int, p, i, d)
#define VSTORE_i64(p, i, d) VSTORE_AS(long4, long, p, i, d)
#define VSTORE_bool(p, i, d) \
  (*(__global uchar4*)((p) + (i)) = (uchar4)((d)[0] != 0, (d)[1] != 0, (d)[2] != 0, (d)[3] != 0))

// A loop whose rounds do not depend on each other: outputs that are inputs are so at equal indices.
// Some stay scalar, and nobody needs to be warned of that.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define INDEPENDENT_ROUNDS _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_ROUNDS
#endif
