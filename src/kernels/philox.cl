// Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (SC 2011): four random words from a
// counter of four words and a key of two. Integer arithmetic alone, so every device gives the same words.

uint4 philox(uint4 counter, uint2 key) {
  uint c0 = counter.s0, c1 = counter.s1, c2 = counter.s2, c3 = counter.s3, k0 = key.s0, k1 = key.s1;
  for (int round = 0; round < 10; round++) {
    const ulong p0 = 0xD2511F53ul * c0, p1 = 0xCD9E8D57ul * c2;
    c0 = (uint)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint)p1;
    c2 = (uint)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (uint4)(c0, c1, c2, c3);
}

// Words 4 block .. 4 block + 3 of the stream of `seed`.
uint4 philox_words(ulong block, ulong seed) {
  return philox((uint4)((uint)block, (uint)(block >> 32), 0u, 0u), (uint2)((uint)seed, (uint)(seed >> 32)));
}
