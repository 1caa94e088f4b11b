// Division by numbers that are known before: a divisor comes with its reciprocal, n / d = (2 n * magic) >> (32 + shift), for
// n < 2^31. The host makes it (divisor.hpp), or SET_DIVISOR, or divisor_of().
#define DIVISOR(d) int d, uint d##_magic, uint d##_shift
#define DIVIDED(d) d, d##_magic, d##_shift
#define QUOTIENT(n, d) ((int)(mul_hi((uint)(n) << 1, d##_magic) >> d##_shift))

struct Divisor {
  int d;
  uint magic, shift;
};
static struct Divisor divisor_of(int d) {
  struct Divisor result;
  const int least = max(1, d);
  result.d = d;
  result.shift = least > 1 ? 32 - clz((uint)least - 1) : 0;
  result.magic = (uint)(((1ul << (31 + result.shift)) + least - 1) / least);
  return result;
}
#define SET_DIVISOR(name, value)                            \
  {                                                         \
    const struct Divisor made_ = divisor_of(max(1, value)); \
    name = made_.d;                                         \
    name##_magic = made_.magic;                             \
    name##_shift = made_.shift;                             \
  }
static int divided(int n, struct Divisor by) {
  return (int)(mul_hi((uint)n << 1, by.magic) >> by.shift);
}
