// Permutations and samples from discrete distributions, see sampling.hpp. All but the logarithm of the race is
// integer arithmetic, and that is random_math.cl's.

#define WORDS 1
#include "lib/types.cl"
#include "random/philox.cl"
#include "random/random_math.cl"

#ifndef W_DTYPE  // weights
#define W_DTYPE f32
#define W_T float
#endif
#ifndef Y_DTYPE  // indices
#define Y_DTYPE i64
#define Y_T long
#endif
#ifndef LOCAL  // work-items of a group that has a row: a power of two
#define LOCAL 256
#endif

#define LOAD_WEIGHT(p, i) ((float)JOIN(LOAD_, W_DTYPE)(p, i))
#define STORE_INDEX(p, i, v) JOIN(STORE_, Y_DTYPE)(p, i, (Y_T)(v))

// Word `at` of a stream of `seed`.
static uint random_word(ulong at, ulong seed, uint stream) {
  const words w = philox_stream(at / 4, seed, stream);
  const uint pair = at & 2 ? w.s2 : w.s0, next = at & 2 ? w.s3 : w.s1;
  return at & 1 ? next : pair;
}
static ulong random_64(ulong at, ulong seed) {
  return (ulong)random_word(at, seed, 0) << 32 | random_word(at, seed, 1);
}

__kernel void rank_keys(__global ulong* keys, long keys_o, int n, ulong seed, ulong offset) {
  const int i = (int)get_global_id(0);
  if (i < n) keys[keys_o + i] = random_64(offset + (ulong)i, seed);
}

// The place of i is how many keys are smaller.
__kernel void permute_by_rank(__global const ulong* keys, long keys_o, int n, __global Y_T* y, long y_o, long step) {
  const int i = (int)get_global_id(0);
  if (i >= n) return;
  keys += keys_o;
  const ulong key = keys[i];
  int rank = 0;
  for (int j = 0; j < n; j++) rank += (keys[j] < key) | ((keys[j] == key) & (j < i));
  STORE_INDEX(y, y_o + rank * step, i);
}

// A number of 32 bits from another: a bijection whose result's bits depend on all bits (the finalizer of MurmurHash3).
static uint mixed(uint x) {
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

// Two rounds of a Feistel network whose halves have `left` and `right` bits.
#define ROUNDS(a, b)                               \
  l ^= mixed(r + (a)) & (uint)((1ul << left) - 1); \
  r ^= mixed(l + (b)) & (uint)((1ul << right) - 1);

__kernel void permute_by_key(__global Y_T* y, long y_o, long step, uint n, int left, int right, ulong seed,
                             ulong offset) {
  const uint2 key = (uint2)((uint)seed, (uint)(seed >> 32));
  const words c0 = {(uint)offset, (uint)(offset >> 32), 2, 0}, c1 = {(uint)offset, (uint)(offset >> 32), 2, 1},
              c2 = {(uint)offset, (uint)(offset >> 32), 2, 2};
  const words k0 = philox(c0, key), k1 = philox(c1, key), k2 = philox(c2, key);
  for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
    uint x = (uint)i;
    do {
      uint l = x >> right, r = x & (uint)((1ul << right) - 1);
      ROUNDS(k0.s0, k0.s1)
      ROUNDS(k0.s2, k0.s3)
      ROUNDS(k1.s0, k1.s1)
      ROUNDS(k1.s2, k1.s3)
      ROUNDS(k2.s0, k2.s1)
      ROUNDS(k2.s2, k2.s3)
      x = l << right | r;
    } while (x >= n);
    STORE_INDEX(y, y_o + (long)i * step, x);
  }
}

// A weight as a whole number of 24 bits times 2^(exponent - 150); 0 if it may not be drawn.
static uint weight_parts(float weight, int* exponent) {
  const uint bits = as_uint(weight);
  *exponent = 1;
  if (bits >= 0x7f800000u) return 0;
  if (bits < 0x800000u) return bits;
  *exponent = (int)(bits >> 23);
  return (bits & 0x7fffffu) | 0x800000u;
}

// A group has a row: its weights as integers of at most `bits` bits, in proportion, and their running sums.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void running_sums(
    __global const W_T* w, long w_o, long row_step, long step, int columns, int bits, __global ulong* sums, long sums_o) {
  const int lane = (int)get_local_id(0);
  w += w_o + (long)get_group_id(0) * row_step;
  sums += sums_o + (long)get_group_id(0) * columns;
  int most = 0;
  for (int c = lane; c < columns; c += LOCAL) {
    int exponent;
    if (weight_parts(LOAD_WEIGHT(w, c * step), &exponent) != 0) most = max(most, exponent);
  }
#if LOCAL > 1
  __local int largest[LOCAL];
  __local ulong part[LOCAL];
  largest[lane] = most;
  for (int s = LOCAL / 2; s > 0; s /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < s) largest[lane] = max(largest[lane], largest[lane + s]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  most = largest[0];
#endif
  ulong before = 0;
  for (int first = 0; first < columns; first += LOCAL) {
    const int c = first + lane;
    ulong sum = 0;
    if (c < columns) {
      int exponent;
      const ulong whole = weight_parts(LOAD_WEIGHT(w, c * step), &exponent);
      const int shift = bits - 24 - (most - exponent);
      sum = shift >= 0 ? whole << shift : shift > -24 ? whole >> -shift : 0;
    }
#if LOCAL > 1
    part[lane] = sum;
    for (int s = 1; s < LOCAL; s *= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      const ulong left = lane >= s ? part[lane - s] : 0;
      barrier(CLK_LOCAL_MEM_FENCE);
      sum += left;
      part[lane] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong all = part[LOCAL - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    const ulong all = sum;
#endif
    if (c < columns) sums[c] = before + sum;
    before += all;
  }
}

// The first column whose running sum passes a random share of the whole.
__kernel void draw_by_sums(__global const ulong* sums, long sums_o, int columns, __global Y_T* y, long y_o,
                           long row_step, long step, int samples, long count, ulong seed, ulong offset) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long row = i / samples;
  sums += sums_o + row * columns;
  const ulong target = mul_hi(random_64(offset + (ulong)i, seed), sums[columns - 1]);
  int low = 0, high = columns - 1;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (sums[middle] > target)
      high = middle;
    else
      low = middle + 1;
  }
  STORE_INDEX(y, y_o + row * row_step + (i - row * samples) * step, sums[columns - 1] == 0 ? -1 : low);
}

// What orders weight / e without overflow: exponents added, and the product of two numbers in [1, 2).
static uint race_key(float weight, uint w) {
  int exponent;
  uint whole = weight_parts(weight, &exponent);
  if (whole == 0) return 0;
  const int up = (int)clz(whole) - 8;
  whole <<= up;
  const uint inverse = as_uint(reciprocal(negative_log(w)));
  const float product = as_float((whole & 0x7fffffu) | 0x3f800000u) * as_float((inverse & 0x7fffffu) | 0x3f800000u);
  const int power = exponent - up + (int)(inverse >> 23) - 90;  // 8 to 330
  return ((uint)power << 23) + (as_uint(product) - 0x3f800000u);
}

// Keys of rows of `width` places, of which `columns` exist; equal ones keep the columns' order. 0: not to be drawn.
__kernel void race_keys(__global const W_T* w, long w_o, long row_step, long step, int columns, long width, long count,
                        __global ulong* keys, long keys_o, ulong seed, ulong offset) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long row = i / width, c = i - row * width;
  uint key = 0;
  if (c < columns)
    key = race_key(LOAD_WEIGHT(w, w_o + row * row_step + c * step),
                   random_word(offset + (ulong)(row * columns + c), seed, 0));
  keys[keys_o + i] = key == 0 ? 0 : (ulong)key << 32 | ~(uint)c;
}

// Of all work-items' values the largest, for each of them. PoCL makes wrong code of functions with barriers that it does not
// inline.
static __attribute__((always_inline)) ulong group_largest(ulong value, __local ulong* best, int lane) {
  best[lane] = value;
  for (int k = LOCAL / 2; k > 0; k /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < k) best[lane] = max(best[lane], best[lane + k]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const ulong largest = best[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}

// A group has a row: the largest key, then the largest below it, and so on. A work-item knows the largest of its columns,
// every LOCAL-th. When that is taken, all look together for the next one of those columns.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void pick_largest(
    __global const ulong* keys, long keys_o, int width, __global Y_T* y, long y_o, long row_step, long step,
    int samples) {
  __local ulong best[LOCAL];
  const int lane = (int)get_local_id(0);
  keys += keys_o + (long)get_group_id(0) * width;
  y += y_o + (long)get_group_id(0) * row_step;
  ulong mine = 0;
  for (int c = lane; c < width; c += LOCAL) mine = max(mine, keys[c]);
  for (int s = 0; s < samples; s++) {
    const ulong taken = group_largest(mine, best, lane);
    if (lane == 0) STORE_INDEX(y, s * step, taken == 0 ? -1L : (long)(uint)~(uint)taken);
    if (taken == 0 || s + 1 == samples) continue;
    const int owner = (int)(~(uint)taken % LOCAL);
    ulong next = 0;
    for (int c = owner + lane * LOCAL; c < width; c += LOCAL * LOCAL) {
      const ulong key = keys[c];
      next = key < taken ? max(next, key) : next;
    }
    next = group_largest(next, best, lane);
    if (lane == owner) mine = next;
  }
}

// One step of Batcher's bitonic sort of rows of a power of two, the largest first.
__kernel void sort_step(__global ulong* keys, long keys_o, long pairs, long run, long distance, long width) {
  const long pair = get_global_id(0);
  if (pair >= pairs) return;
  const long i = pair / distance * 2 * distance + pair % distance, j = i + distance;
  keys += keys_o;
  const ulong a = keys[i], b = keys[j];
  const int falling = ((i & (width - 1)) & run) == 0;
  if (falling ? a < b : a > b) keys[i] = b, keys[j] = a;
}

__kernel void take_sorted(__global const ulong* keys, long keys_o, long width, __global Y_T* y, long y_o, long row_step,
                          long step, int samples, long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long row = i / samples, s = i - row * samples;
  const ulong key = keys[keys_o + row * width + s];
  STORE_INDEX(y, y_o + row * row_step + s * step, key == 0 ? -1L : (long)(uint)~(uint)key);
}
