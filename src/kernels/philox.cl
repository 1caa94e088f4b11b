// Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (SC 2011): four random words
// from a counter of four words and a key of two. Integer arithmetic alone, so every device gives the same
// words.
// WORDS 1, or 8 for eight counters at once in vectors.

#ifndef WORDS
#define WORDS 1
#endif
#if WORDS == 8
typedef uint8 word;
#define WIDE_PRODUCT(c, m) (convert_ulong8(c) * (ulong8)(m))
#define HIGH(p) convert_uint8((p) >> 32)
#define LOW(p) convert_uint8(p)
typedef ulong8 product;
#else
typedef uint word;
#define WIDE_PRODUCT(c, m) ((ulong)(c) * (m))
#define HIGH(p) (uint)((p) >> 32)
#define LOW(p) (uint)(p)
typedef ulong product;
#endif

typedef struct {
  word s0, s1, s2, s3;
} words;

words philox(words c, uint2 key) {
  uint k0 = key.s0, k1 = key.s1;
  for (int round = 0; round < 10; round++) {
    const product p0 = WIDE_PRODUCT(c.s0, 0xD2511F53ul), p1 = WIDE_PRODUCT(c.s2, 0xCD9E8D57ul);
    c.s0 = HIGH(p1) ^ c.s1 ^ k0;
    c.s1 = LOW(p1);
    c.s2 = HIGH(p0) ^ c.s3 ^ k1;
    c.s3 = LOW(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Words 4 block .. 4 block + 3 of a stream of `seed`, of which there are 2^32; the lanes hold neighbouring blocks.
words philox_stream(ulong block, ulong seed, uint stream) {
#if WORDS == 8
  const product b = block + (product)(0, 1, 2, 3, 4, 5, 6, 7);
#else
  const product b = block;
#endif
  const words counter = {LOW(b), HIGH(b), stream, 0};
  return philox(counter, (uint2)((uint)seed, (uint)(seed >> 32)));
}
