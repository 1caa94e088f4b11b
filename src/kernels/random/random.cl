// Random numbers into row-major memory: element i is made of word `offset` + i of the seed's stream, see
// philox.cl. A work-item takes BLOCKS blocks of four words, WORDS at a time: neighbouring ones on CPUs, where WORDS is 8;
// on GPUs neighbouring work-items take neighbouring blocks. Some words at either end may belong to no element. With
// DROPOUT the words decide which elements of x go to y.

#include "random/random_values.cl"
#ifndef BLOCKS
#define BLOCKS 4
#define LOCAL 256  // work-items a group
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void random_fill(
    SOURCE __global T* y, long y_o, long count, ulong seed, ulong offset, DRAW_PARAMETERS, int aligned) {
  const ulong first = offset / 4 + (ulong)get_group_id(0) * (LOCAL * BLOCKS) + get_local_id(0) * (WORDS == 1 ? 1 : BLOCKS);
  const long e = (long)(4 * first - offset);  // the first word's element; -3 to -1: none
  const int left = (int)min(count - e, (long)4 * BLOCKS * LOCAL);
  y += y_o;
#ifdef DROPOUT
  x += x_o;
#endif
  for (int k = 0; k < (WORDS == 1 ? LOCAL : 1) * BLOCKS; k += WORDS == 1 ? LOCAL : WORDS) {
    if (4 * k >= left) return;
    const ulong block = first + (uint)k;
    VALUE ordered[4 * WORDS];
    block_values(block, seed, a, b, top, threshold, low, ordered);
    const long at = e + 4 * k;
#if WORDS == 1
    if (aligned && 4 * k + 4 <= left) {
#ifdef DROPOUT
      float xs[4];
      JOIN(VLOAD_, X_DTYPE)(x, at, xs);
      for (int i = 0; i < 4; i++) ordered[i] = ELEMENT(ordered[i], xs[i]);
#endif
      JOIN(VSTORE_, DTYPE)(y, at, ordered);
      continue;
    }
#endif
    const int begin = at < 0 ? (int)-at : 0, end = min(4 * WORDS, left - 4 * k);
    if (begin == 0 && end == 4 * WORDS) {
      for (int i = 0; i < 4 * WORDS; i++)
        JOIN(STORE_, DTYPE)(y, at + i, ELEMENT(ordered[i], JOIN(LOAD_, X_DTYPE)(x, at + i)));
    } else {
      for (int i = begin; i < end; i++)
        JOIN(STORE_, DTYPE)(y, at + i, ELEMENT(ordered[i], JOIN(LOAD_, X_DTYPE)(x, at + i)));
    }
  }
}
