// Tiles of operands of gemm_fragment.cl: sizes and types, how a work-group's loads of a tile are shared, and how what was loaded
// goes into local memory, in parts if need be.

#ifndef TM
#define TM 64
#endif
#ifndef TN
#define TN 64
#endif
#ifndef TK
#define TK 32
#endif
#ifndef SM
#define SM 32
#endif
#ifndef SN
#define SN 32
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
// Vectors are of 16 bytes.
#include "lib/access.cl"
#include "gemm/gemm_layout.cl"
#include "gemm/gemm_types.cl"
#include "lib/fragment.cl"
// Six products of what may be flushed to 0, not three.
#define LEAST_PRODUCT 0x1p-98f
#include "gemm/gemm_split.cl"

#define FRAGS_M (SM / FRAG_M)
#define FRAGS_N (SN / FRAG_N)
#define SUBS_N (TN / SN)
#define SUBS (TM / SM * SUBS_N)
#define ITEMS (SUBS * FRAG_LANES)
#define SUMS (FRAGS_M * FRAGS_N * FRAG_C_ELEMENTS)
// Words of a tile's row, 4 more than it needs: then rows that are read together lie in different banks.
#define WORDS (TK / FRAG_PER_WORD)
#define PITCH (WORDS + 4)

// An element in global memory and a part of one in local memory, as bits; and how many make a wide load.
#if FRAG_PER_WORD == 1
#define PART uint
#elif FRAG_PER_WORD == 2
#define PART ushort
#else
#define PART uchar
#endif
#if SPLIT > 1 || FRAG_PER_WORD == 1
#define ELEMENT uint
#define WIDE 4
#elif FRAG_PER_WORD == 2
#define ELEMENT ushort
#define WIDE 8
#else
#define ELEMENT uchar
#define WIDE 16
#endif
#define ELEMENTS FRAG_JOIN(ELEMENT, WIDE)
#define PART_VECTOR FRAG_JOIN(PART, WIDE)
#define A_WIDE (A_VECTOR ? WIDE : 1)
#define B_WIDE (B_VECTOR ? WIDE : 1)
#define A_LOADS ((TM * TK / A_WIDE + ITEMS - 1) / ITEMS)
#define B_LOADS ((TN * TK / B_WIDE + ITEMS - 1) / ITEMS)

// Load `at` of a tile of `rows` rows begins at this row and step.
#define LOAD_ROW(at) (unit_k ? (at) / (TK / wide) : (at) % (rows / wide) * wide)
#define LOAD_STEP(at) (unit_k ? (at) % (TK / wide) * wide : (at) / (rows / wide))

// The next part of what is left of an f32.
#if SPLIT == 3
static PART next_part(uint* rest) {
  const ushort part = bf16_bits(as_float(*rest));
  *rest = as_uint(as_float(*rest) - as_float((uint)part << 16));
  return part;
}
#elif FRAG_TYPE == FRAG_TF32
static PART next_part(uint* rest) {
  const uint part = tf32_bits(*rest);
  *rest = as_uint(as_float(*rest) - as_float(part));
  return part;
}
#else
static PART next_part(ELEMENT* rest) {
  return *rest;
}
#endif

// Puts what `fetch` got into a tile of local memory, parts behind each other; notes magnitudes in `range`.
static void put(__local uint* tile, ELEMENT* from, int loads, int wide, int unit_k, int rows, int item, uint2* range) {
  UNROLL
  for (int i = 0; i < loads; i++) {
    const int at = item + i * ITEMS;
    if (rows * TK / wide % ITEMS != 0 && at >= rows * TK / wide) continue;
    __local PART* to = (__local PART*)tile + LOAD_ROW(at) * (PITCH * FRAG_PER_WORD) + LOAD_STEP(at);
#if SPLIT > 1
    UNROLL
    for (int j = 0; j < wide; j++) {
      const uint magnitude = from[i * wide + j] & 0x7fffffffu;
      *range = (uint2)(min(range->s0, magnitude - 1), max(range->s1, magnitude));
    }
#endif
    UNROLL
    for (int s = 0; s < SPLIT; s++, to += rows * PITCH * FRAG_PER_WORD) {
      PART part[WIDE];
      UNROLL
      for (int j = 0; j < wide; j++) part[j] = next_part(from + i * wide + j);
      if (unit_k && wide == WIDE) {
        *(__local PART_VECTOR*)to = FRAG_JOIN(vload, WIDE)(0, part);
      } else {
        UNROLL
        for (int j = 0; j < wide; j++) to[unit_k ? j : j * (PITCH * FRAG_PER_WORD)] = part[j];
      }
    }
  }
}
