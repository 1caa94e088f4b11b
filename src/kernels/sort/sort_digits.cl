// What sorts of a tile of elements by four bits in local memory share: sums over a group, and the places of digits.

#ifndef GROUP
#define GROUP 256
#endif

// PoCL makes wrong code of functions with barriers that it does not inline.
#define INLINED static __attribute__((always_inline))

// The sum of `value` over the work-items before this one; `total` becomes that of all. All of them call it. The sums go
// from one half of `sums`, of 2 * GROUP elements, to the other.
INLINED uint sum_before(uint value, __local uint* sums, uint* total) {
  const int item = (int)get_local_id(0);
  uint sum = value;
  int now = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  sums[item] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < GROUP; step *= 2) {
    sum += item >= step ? sums[now * GROUP + item - step] : 0;
    now = 1 - now;
    sums[now * GROUP + item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  *total = sums[now * GROUP + GROUP - 1];
  return sum - value;
}

// How often each work-item has each of 16 digits, [digit][item]. Work-items that add up 16 neighbours each take them as
// whole vectors: one by one they would meet in few banks.
typedef union {
  ushort of[16 * GROUP];
  uint4 vectors[2 * GROUP];
} Ranks;

// Counts become the sums over all counts before. Barriers before it and after it are the caller's.
INLINED void place_digits(__local Ranks* ranks, __local uint* sums) {
  __local uint4* mine = ranks->vectors + 2 * (int)get_local_id(0);
  ushort places[16];
  vstore8(as_ushort8(mine[0]), 0, places);
  vstore8(as_ushort8(mine[1]), 1, places);
  uint sum = 0, total;
#pragma unroll
  for (int m = 0; m < 16; m++) sum += places[m];
  sum = sum_before(sum, sums, &total);
#pragma unroll
  for (int m = 0; m < 16; m++) {
    const uint next = sum + places[m];
    places[m] = (ushort)sum;
    sum = next;
  }
  mine[0] = as_uint4(vload8(0, places));
  mine[1] = as_uint4(vload8(1, places));
}
