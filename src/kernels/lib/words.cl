// Words of up to 16 bytes, of which each holds some elements of SIZE bytes. A private one is an array of four uints, of which a
// shorter one fills a part of the first: elements go from word to word by shifts, in registers, whatever a compiler makes of
// unions.
#include "lib/access.cl"

#ifndef SIZE
#define SIZE 2
#endif

static void read_word(uint* word, __global const void* from, int bytes) {
  if (bytes == 16) {
    const uint4 four = WIDE_LOAD(uint4, from);
    word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
  } else if (bytes == 8) {
    const uint2 two = WIDE_LOAD(uint2, from);
    word[0] = two.x, word[1] = two.y;
  } else if (bytes == 4) {
    word[0] = WIDE_LOAD(uint, from);
  } else {
    word[0] = bytes == 2 ? WIDE_LOAD(ushort, from) : WIDE_LOAD(uchar, from);
  }
}
static void write_word(__global void* to, const uint* word, int bytes) {
  if (bytes == 16)
    WIDE_STORE(uint4, to, (uint4)(word[0], word[1], word[2], word[3]));
  else if (bytes == 8)
    WIDE_STORE(uint2, to, (uint2)(word[0], word[1]));
  else if (bytes == 4)
    WIDE_STORE(uint, to, word[0]);
  else if (bytes == 2)
    WIDE_STORE(ushort, to, (ushort)word[0]);
  else
    WIDE_STORE(uchar, to, (uchar)word[0]);
}
// Element i of `to` = element k of `from`; `to` was 0 there.
static void move_element(uint* to, int i, const uint* from, int k) {
  if (SIZE == 8) {
    to[2 * i] = from[2 * k];
    to[2 * i + 1] = from[2 * k + 1];
  } else if (SIZE == 4) {
    to[i] = from[k];
  } else {
    const uint one = (from[k * SIZE / 4] >> (k * SIZE % 4 * 8)) & (SIZE == 2 ? 0xffff : 0xff);
    to[i * SIZE / 4] |= one << (i * SIZE % 4 * 8);
  }
}
