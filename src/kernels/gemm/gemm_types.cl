// The element types of GEMM: AB_TYPE of A and B, C_TYPE of C and the bias, each of f32 f16 bf16 f64 i8 i32; sums are of
// type REAL (float; double for f64; int for i8, with INTEGER_REAL). And the epilogue on them.
#include "lib/types.cl"

#ifndef AB_TYPE
#define AB_TYPE f32
#endif
#ifndef C_TYPE
#define C_TYPE f32
#endif
#ifndef C_BYTES
#define C_BYTES 4
#endif

#define STORAGE_f32 float
#define STORAGE_f16 half
#define STORAGE_bf16 ushort
#define STORAGE_f64 double
#define STORAGE_i8 char
#define STORAGE_i32 int

#define JOIN2_(a, b) a##b
#define JOIN2(a, b) JOIN2_(a, b)
#define AB_STORAGE JOIN2(STORAGE_, AB_TYPE)
#define C_STORAGE JOIN2(STORAGE_, C_TYPE)
#define LOAD_AB(p, i) JOIN2(LOAD_, AB_TYPE)(p, i)
#define LOAD_C(p, i) JOIN2(LOAD_, C_TYPE)(p, i)
#define STORE_C(p, i, v) JOIN2(STORE_, C_TYPE)(p, i, v)
#define VLOAD_AB(p, i, d) JOIN2(VLOAD_, AB_TYPE)(p, i, d)
#define VLOAD_C(p, i, d) JOIN2(VLOAD_, C_TYPE)(p, i, d)
#define VSTORE_C(p, i, d) JOIN2(VSTORE_, C_TYPE)(p, i, d)

#define FACTOR_f32 float
#define FACTOR_f16 float
#define FACTOR_bf16 float
#define FACTOR_f64 double
#define FACTOR_i8 float
#define FACTOR_i32 float
#define EPILOGUE_FACTOR JOIN2(FACTOR_, C_TYPE)
#define EPILOGUE_STORAGE C_STORAGE
#define LOAD_EPILOGUE(p, i) ((REAL)LOAD_C(p, i))
#define STORE_EPILOGUE(p, i, v) STORE_C(p, i, v)
#include "lib/epilogue.cl"

#if defined(INTEGER_REAL) || defined(SLOW_FMA)
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#else
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#endif

// For functions on private arrays, which become registers only where the call is gone. Compilers for CPUs, left to
// themselves, keep large ones: 2 GFLOP/s instead of 40.
#define INLINE static inline __attribute__((always_inline))
