// Choosing elements by a mask, for GPUs: packs the chosen elements of x, spreads packed ones, or writes the coordinates of
// the chosen. What is chosen say the bits and counts of compact_bits.cl, by the same tiles; neighbours move neighbours.

#include "index/compact_tile.cl"

#ifndef MODE
#define MODE 0
#define ELEMENT uint  // of x and packed, or a coordinate
#define TOTAL int
#endif
#define PACK 0
#define SPREAD_PACKED 1
#define COORDINATES 2

#if MODE == COORDINATES
#define COLUMNS (P_RANK > 0 ? P_RANK : 1)
// Of a dimension its size, and the elements of a step along it.
#define COORDINATE(d) , SIZE(d), SIZE(inner_##d)
#define OPERANDS , long column_step EACH_P(COORDINATE)
#else
#define OPERANDS , __global ELEMENT *restrict x, long x_o NEST
#endif
#if WIDE
#define DIVIDER long
#define SET_DIVIDER(name, of) name = n_##of;
#define OVER(n, by) ((n) / (by))
#define TIMES(n, by) ((n) * (by))
#else
#define DIVIDER struct Divisor
#define SET_DIVIDER(name, of)    \
  {                              \
    name.d = n_##of;             \
    name.magic = n_##of##_magic; \
    name.shift = n_##of##_shift; \
  }
#define OVER(n, by) divided(n, by)
#define TIMES(n, by) ((n) * (by).d)
#endif

// Of a work-item's u-th element of the tile: its place among the packed ones, -1 if it is not chosen or does not fit.
#define PLACE_OF(u, name)                                                                  \
  const uint2 name##_word = words[(item >> 5) + (u) * (GROUP / 32)];                       \
  const int name##_p = place + (int)(name##_word.s1 + popcount(name##_word.s0 & (bit - 1))), \
            name = (name##_word.s0 & bit) && name##_p < room ? name##_p : -1;

// packed: `room` elements, or rows of coordinates; what does not fit is dropped. tiles: of a group.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void compact_move(
    __global const uint* restrict bits, long bits_o, __global const int* restrict counts, long counts_o, OFFSET count,
    int tiles, __global TOTAL* total, long total_o, __global ELEMENT* restrict packed, long packed_o, int room,
    long packed_step OPERANDS) {
  __local uint2 words[GROUP];   // bits, and how many chosen ones of the tile are in front of them
  __local int2 sums[2][GROUP];  // of work-items up to each: chosen ones of the tile, and of groups in front of this
#if MODE == COORDINATES
  __local ushort list[TILE];    // where the tile's chosen ones are
#endif
  const int item = (int)get_local_id(0), group = (int)get_group_id(0);
  const uint bit = 1u << (item & 31);
  bits += bits_o;
  counts += counts_o;
  packed += packed_o;
#if MODE == COORDINATES
  // A work-item writes one column, of every so many rows.
  const int lanes = GROUP / COLUMNS * COLUMNS, column = item % COLUMNS;
  packed += column * column_step;
#if P_RANK > 1
  DIVIDER size, inner;
  int d = 0;
#define SET_COLUMN(p)             \
  if (d++ == column) {            \
    SET_DIVIDER(size, p)          \
    SET_DIVIDER(inner, inner_##p) \
  }
  EACH_P(SET_COLUMN)
#endif
#else
  x += x_o;
#endif
  int earlier = 0, place = 0;
#pragma unroll 4
  for (int i = item; i < group; i += GROUP) earlier += counts[i];
  for (int t = 0; t < tiles; t++) {
    const OFFSET begin = ((OFFSET)group * tiles + t) * TILE;
    if (begin >= count) break;
    const uint mine = bits[(begin >> 5) + item];
    int2 sum = (int2)((int)popcount(mine), earlier);
    int now = 0;
    sums[0][item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < GROUP; step *= 2) {
      if (item >= step) sum += sums[now][item - step];
      now = 1 - now;
      sums[now][item] = sum;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    const int2 all = sums[now][GROUP - 1];
    words[item] = (uint2)(mine, (uint)sum.s0 - popcount(mine));
    place += all.s1;
    earlier = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#if MODE == COORDINATES
#pragma unroll 8
    for (int u = 0; u < 32; u++) {
      PLACE_OF(u, p)
      if (p >= 0) list[p - place] = (ushort)(u * GROUP + item);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int rows = min(all.s0, room - place);
    for (int r = item / COLUMNS; item < lanes && r < rows; r += lanes / COLUMNS) {
      OFFSET c = begin + list[r];
#if P_RANK > 1
      c = OVER(c, inner);
      c -= TIMES(OVER(c, size), size);
#endif
      packed[(long)(place + r) * packed_step] = (ELEMENT)c;
    }
#else
    for (int first = 0; first < 32; first += UNROLL) {
      const OFFSET here = begin + first * GROUP + item;
      int places[UNROLL];
      ELEMENT v[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        PLACE_OF(first + u, p)
        places[u] = p;
      }
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
#if MODE == PACK
        LOCATE(places[u] >= 0 ? here + u * GROUP : begin)  // no branch between loads
        v[u] = x[at];
#else
        v[u] = places[u] >= 0 ? packed[(long)places[u] * packed_step] : (ELEMENT)0;
#endif
      }
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
#if MODE == PACK
        if (places[u] >= 0) packed[(long)places[u] * packed_step] = v[u];
#else
        if (here + u * GROUP < count) {
          LOCATE(here + u * GROUP)
          x[at] = v[u];
        }
#endif
      }
    }
#endif
    place += all.s0;
  }
  if (item == 0 && group == (int)get_num_groups(0) - 1) total[total_o] = (TOTAL)place;
}
