// What a work-item of Winograd's transforms has at a time: a channel, or with PAIRS 1 two neighbouring ones of f32 that lie
// on 8-byte boundaries, in x as in transformed tiles.
#include "gemm/gemm_types.cl"
#ifndef PAIRS
#define PAIRS 0
#endif
#if PAIRS
#define LANES 2
typedef float2 Lanes;
#define LOAD_LANES(x, at) WIDE_LOAD(Lanes, (x) + (at))
#else
#define LANES 1
typedef REAL Lanes;
#define LOAD_LANES(x, at) LOAD_AB(x, at)
#endif
