// Quotients, rests and powers for expressions of generated kernels: of floats, or (INTEGER_REAL) of whole numbers, which are computed
// in their common type, int or long, or ulong beside u64 (UNSIGNED_REAL), and wrap around. Processors may end a program at a division
// by zero, and at the least number by -1: neither divides here. A quotient by zero is 0, and so is its rest, as NumPy has it.

#ifdef INTEGER_REAL
#define COMMON(f, a, b) f(1 ? (a) : (b), 1 ? (b) : (a))
#define WHOLE_NUMBERS(T, U)                                                                    \
  static __attribute__((overloadable, always_inline)) T whole_quotient(T a, T b) {             \
    const T quotient = a / (b == 0 || b == -1 ? 1 : b);                                        \
    return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : quotient;                                    \
  }                                                                                            \
  static __attribute__((overloadable, always_inline)) T whole_rest(T a, T b) {                 \
    return a % (b == 0 || b == -1 ? 1 : b);                                                    \
  }                                                                                            \
  /* Of a negative exponent what is left of 1 / a^-b without its fraction. */                  \
  static __attribute__((overloadable, always_inline)) T whole_power(T a, T b) {                \
    U power = 1, factor = (U)a;                                                                \
    for (T rest = b; rest > 0; rest >>= 1) {                                                   \
      if (rest & 1) power *= factor;                                                           \
      factor *= factor;                                                                        \
    }                                                                                          \
    return b >= 0 ? (T)power : a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;                    \
  }
WHOLE_NUMBERS(int, uint)
WHOLE_NUMBERS(long, ulong)
#ifdef UNSIGNED_REAL
static __attribute__((overloadable, always_inline)) ulong whole_quotient(ulong a, ulong b) {
  const ulong quotient = a / (b == 0 ? 1 : b);
  return b == 0 ? 0 : quotient;
}
static __attribute__((overloadable, always_inline)) ulong whole_rest(ulong a, ulong b) {
  return a % (b == 0 ? 1 : b);
}
static __attribute__((overloadable, always_inline)) ulong whole_power(ulong a, ulong b) {
  ulong power = 1;
  for (ulong rest = b; rest > 0; rest >>= 1) {
    if (rest & 1) power *= a;
    a *= a;
  }
  return power;
}
#endif
#define trunc_quotient(a, b) COMMON(whole_quotient, a, b)
#define trunc_rest(a, b) COMMON(whole_rest, a, b)
#define power_of(a, b) COMMON(whole_power, a, b)
// `rest` is a's beyond trunc_quotient. Signs are compared by their bits: a driver may misjudge an int that was made a long beside a
// constant.
#define floor_quotient(a, b, rest) (trunc_quotient(a, b) - IS_BEYOND(b, rest))
#define floor_rest(b, rest) ((rest) + (IS_BEYOND(b, rest) ? (b) : 0))
#ifdef UNSIGNED_REAL
#define IS_BEYOND(b, rest) 0
#else
#define IS_BEYOND(b, rest) ((rest) != 0 && ((rest) ^ (b)) < 0)
#endif

// In 64 bits. All bits are shifted out by 64 places and more, and by less than none.
static __attribute__((always_inline)) long shifted_left(long a, long places) {
  return (ulong)places > 63 ? 0 : (long)((ulong)a << (places & 63));
}
#ifdef UNSIGNED_REAL
static __attribute__((always_inline)) ulong shifted_right(ulong a, long places) {
  return (ulong)places > 63 ? 0 : a >> (places & 63);
}
#else
static __attribute__((always_inline)) long shifted_right(long a, long places) {
  return a >> ((ulong)places > 63 ? 63 : (places & 63));
}
#endif
#else
#ifndef REAL
#define REAL float
#endif
#define trunc_quotient(a, b) trunc((REAL)(a) / (REAL)(b))
#define trunc_rest(a, b) fmod((REAL)(a), (REAL)(b))
#define power_of(a, b) pow((REAL)(a), (REAL)(b))
// `rest` is fmod's. What a has beyond it is a multiple of b, but for rounding.
static __attribute__((always_inline)) REAL floor_quotient(REAL a, REAL b, REAL rest) {
  const REAL exact = a / b, floored = rint((a - rest) / b) - (rest != 0 && (rest < 0) != (b < 0));
  return b == 0 ? exact : floored == 0 ? copysign((REAL)0, exact) : floored;
}
#define floor_rest(b, rest) ((rest) != 0 && ((rest) < 0) != ((b) < 0) ? (rest) + (b) : (rest))
#endif
