// Functions that most processors have an instruction for, as the compiler's own where it is clang: it knows what they do, so it
// computes both sides of a condition and selects. The driver's are calls to it, which keep a loop scalar where one stands under a
// condition (docs/benchmarks.md, "Functions in expressions": up to 15 times as fast with these), and of which one that is given a
// choice may end the compiler (FAILS_ON_CALLS_OF_CHOICES).
#if defined(__clang__) && !defined(LACKS_INTRINSICS)
#if __has_builtin(__builtin_fmaf)
// They are macros already with some compilers.
#undef fma
#undef fabs
#undef trunc
#undef floor
#undef ceil
#undef rint
#undef round
#undef sqrt
#undef fmin
#undef fmax

#define INTRINSIC static __attribute__((always_inline, overloadable))
#ifdef cl_khr_fp64
#define INTRINSIC_OF_DOUBLE(name, parameters, arguments) \
  double INTRINSIC intrinsic_##name parameters {         \
    return __builtin_##name arguments;                   \
  }
#else
#define INTRINSIC_OF_DOUBLE(name, parameters, arguments)
#endif
#define INTRINSIC_1(name)                   \
  float INTRINSIC intrinsic_##name(float x) { \
    return __builtin_##name##f(x);            \
  }                                         \
  INTRINSIC_OF_DOUBLE(name, (double x), (x))
#define INTRINSIC_2(name)                            \
  float INTRINSIC intrinsic_##name(float x, float y) { \
    return __builtin_##name##f(x, y);                  \
  }                                                  \
  INTRINSIC_OF_DOUBLE(name, (double x, double y), (x, y))

INTRINSIC float intrinsic_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
INTRINSIC_OF_DOUBLE(fma, (double a, double b, double c), (a, b, c))
INTRINSIC_1(fabs)
INTRINSIC_1(trunc)
INTRINSIC_1(floor)
INTRINSIC_1(ceil)
INTRINSIC_1(rint)
INTRINSIC_1(round)
INTRINSIC_1(sqrt)
INTRINSIC_2(fmin)
INTRINSIC_2(fmax)
#define fma intrinsic_fma
#define fabs intrinsic_fabs
#define trunc intrinsic_trunc
#define floor intrinsic_floor
#define ceil intrinsic_ceil
#define rint intrinsic_rint
#define round intrinsic_round
#define sqrt intrinsic_sqrt
#define fmin intrinsic_fmin
#define fmax intrinsic_fmax
#endif
#endif
