// A sample of the products that a tile sums: whether hardly a sum will be one that parts can hold, so that they need not be tried.

#include "gemm/gemm_split.cl"

// Any number below n.
static int any_below(uint* state, int n) {
  uint v = *state += 0x9e3779b9u;
  v = (v ^ v >> 16) * 0x7feb352du;
  v = (v ^ v >> 15) * 0x846ca68bu;
  return (int)mul_hi(v ^ v >> 16, (uint)n);
}
// Zeros say nothing: they may be what fills a tile up.
static int is_sample(float a, float b) {
  return a != 0 && b != 0;
}
static int is_infinite_sample(float a, float b) {
  return is_sample(a, b) && !isfinite(a * b);
}
static int is_tiny_sample(float a, float b) {
  return is_sample(a, b) && isfinite(a * b) && fmin(fabs(a), fabs(b)) < TINY;
}
// With one product of 16 that is not finite hardly a sum is; sums of products nearly all of which have a tiny factor are tiny.
static int is_hard_sample(int samples, int infinite, int tiny) {
  return samples >= 64 && (16 * infinite >= samples || 8 * tiny >= 7 * samples);
}
