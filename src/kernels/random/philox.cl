// Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (SC 2011): four random words
// from a counter of four words and a key of two. Integer arithmetic alone, so every device gives the same
// words.
// WORDS 1, or 8 for eight counters at once in vectors, which multiply 64 bits at a time; compilers make one
// instruction of both halves of a single product.

#ifndef WORDS
#define WORDS 1
#endif
#if WORDS == 8
typedef uint8 word;
typedef ulong8 product;
#define LOW(p) convert_uint8(p)
#define HIGH(p) convert_uint8((p) >> 32)
#define MULTIPLY(c, m, high, low)                      \
  const product high##low = convert_ulong8(c) * (ulong8)(m);   \
  const word high = HIGH(high##low), low = LOW(high##low);
#else
typedef uint word;
typedef ulong product;
#define LOW(p) (uint)(p)
#define HIGH(p) (uint)((p) >> 32)
#define MULTIPLY(c, m, high, low) const word high = mul_hi(c, m), low = (c) * (m);
#endif

typedef struct {
  word s0, s1, s2, s3;
} words;

static words philox(words c, uint2 key) {
  uint k0 = key.s0, k1 = key.s1;
  for (int round = 0; round < 10; round++) {
    MULTIPLY(c.s0, 0xD2511F53u, high0, low0)
    MULTIPLY(c.s2, 0xCD9E8D57u, high1, low1)
    c.s0 = high1 ^ c.s1 ^ k0;
    c.s1 = low1;
    c.s2 = high0 ^ c.s3 ^ k1;
    c.s3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Words 4 block .. 4 block + 3 of a stream of `seed`, of which there are 2^32; the lanes hold neighbouring blocks.
static words philox_stream(ulong block, ulong seed, uint stream) {
#if WORDS == 8
  const product b = block + (product)(0, 1, 2, 3, 4, 5, 6, 7);
#else
  const product b = block;
#endif
  const words counter = {LOW(b), HIGH(b), stream, 0};
  return philox(counter, (uint2)((uint)seed, (uint)(seed >> 32)));
}
