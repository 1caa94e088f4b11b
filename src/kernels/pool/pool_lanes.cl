// Vectors of L elements for pooling on CPUs: in REAL, and their places in LANE, which is as wide.

#include "lib/half_lanes.cl"
#include "pool/pool_common.cl"

#ifndef L  // 4, 8 or 16
#define L 8
#endif
#ifndef UNIT  // the axis of the lanes has stride 1 in all tensors
#define UNIT 0
#endif

typedef JOIN(REAL, L) Reals;
typedef JOIN(LANE, L) Places;
#define TO(type) JOIN(convert_, JOIN(type, L))
#define AS(type) JOIN(as_, JOIN(type, L))

#define LOAD_L_f32(p) JOIN(vload, L)(0, p)
#define LOAD_L_f64(p) JOIN(vload, L)(0, p)
#define LOAD_L_f16(p) JOIN(half_floats, L)(JOIN(vload, L)(0, (__global const ushort*)(p)))
#define LOAD_L_bf16(p) AS(float)(TO(uint)(JOIN(vload, L)(0, p)) << 16)
#define STORE_L_f32(p, v) JOIN(vstore, L)(v, 0, p)
#define STORE_L_f64(p, v) JOIN(vstore, L)(v, 0, p)
#define STORE_L_f16(p, v) JOIN(vstore, L)(JOIN(half_words, L)(v), 0, (__global ushort*)(p))
#define STORE_L_bf16(p, v) JOIN(vstore, L)(bf16_lanes(AS(uint)(v)), 0, p)
#define LOAD_L(p) JOIN(LOAD_L_, DTYPE)(p)
#define STORE_L(p, v) JOIN(STORE_L_, DTYPE)(p, v)

// bf16_bits of types.cl.
JOIN(ushort, L) bf16_lanes(JOIN(uint, L) bits) {
  const JOIN(uint, L) rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return TO(ushort)(select(rounded, bits | 0x400000u, (bits & 0x7fffffffu) > 0x7f800000u) >> 16);
}

#define IOTA_4 0, 1, 2, 3
#define IOTA_8 IOTA_4, 4, 5, 6, 7
#define IOTA_16 IOTA_8, 8, 9, 10, 11, 12, 13, 14, 15
#define IOTA ((Places)(JOIN(IOTA_, L)))

// Elements `step` apart.
static Reals load_by(__global const T* p, INDEX step) {
  REAL v[L];
  for (int k = 0; k < L; k++) v[k] = LOAD(p, k * step);
  return JOIN(vload, L)(0, v);
}
static void store_by(__global T* p, INDEX step, Reals lanes) {
  REAL v[L];
  JOIN(vstore, L)(lanes, 0, v);
  for (int k = 0; k < L; k++) STORE(p, k * step, v[k]);
}
static Places load_places_by(__global const PLACE_TYPE* p, INDEX step) {
  LANE v[L];
  for (int k = 0; k < L; k++) v[k] = (LANE)p[k * step];
  return JOIN(vload, L)(0, v);
}
static void store_places_by(__global PLACE_TYPE* p, INDEX step, Places lanes) {
  LANE v[L];
  JOIN(vstore, L)(lanes, 0, v);
  for (int k = 0; k < L; k++) p[k * step] = (PLACE_TYPE)v[k];
}

// Neighbours along the lanes' axis, `step` its stride.
#if UNIT
#define NEAR(p, step) LOAD_L(p)
#define NEAR_PLACES(p, step) TO(LANE)(JOIN(vload, L)(0, p))
#define PUT(p, step, v) STORE_L(p, v)
#define PUT_PLACES(p, step, v) JOIN(vstore, L)(TO(PLACE_TYPE)(v), 0, p)
#else
#define NEAR(p, step) load_by(p, step)
#define NEAR_PLACES(p, step) load_places_by(p, step)
#define PUT(p, step, v) store_by(p, step, v)
#define PUT_PLACES(p, step, v) store_places_by(p, step, v)
#endif

// TAKE of pool_common.cl.
#if MODE == 0
#define TAKE_LANES(value, place, result, where)                                             \
  {                                                                                         \
    const Reals v_ = (value);                                                               \
    const Places better_ = v_ > result | v_ != v_;                                          \
    result = select(result, v_, better_);                                                   \
    if (INDICES) where = select(where, place, better_);                                     \
  }
#else
#define TAKE_LANES(value, place, result, where) TAKE_LANES_SUM(value, result)
#if MODE == 1
#define TAKE_LANES_SUM(value, result) result += (value);
#else
#define TAKE_LANES_SUM(value, result) \
  {                                   \
    const Reals v_ = (value);         \
    result += POWER(v_, norm);        \
  }
#endif
#endif
