// Division by numbers that are known when a kernel is started, without dividing: a divisor comes with its reciprocal.

// n / d = (2 n * magic) >> (32 + shift), for 0 <= n < 2^31.
#define DIVISOR(d) int d, uint d##_magic, uint d##_shift
#define DIVIDED(d) d, d##_magic, d##_shift
#define QUOTIENT(n, d) ((int)(mul_hi((uint)(n) << 1, d##_magic) >> d##_shift))
