// Scans on a CPU. The generator (scan.cpp) fills the slots; as it stands the file is the cumulative sum of contiguous rows.
// A work-group of one item goes along the axis with LANES neighbours of the innermost other dimension side by side, or
// one row after the other. IN_PIECES: a piece of a row comes to arrays and goes from them in loops of their own, as elements by
// themselves are slow to convert. Phases as in scan.cl. Of sums of floats `carry` has what came since the last multiple of BLOCK, and
// `base` what came before: so many roundings and not as many as elements are in a result.

//$ HEAD
#define LANES 1
#define IN_PIECES 1
#define PHASE 0
#define INDEX uint
#define OFFSET int
#define REAL float
#define KIND 0
#define EXCLUSIVE 0
#define REVERSE 0
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
//$ END
#include "lib/types.cl"
#define real REAL
#include "scan/scan_state.cl"
#define PIECE 256
#define BLOCK 128
#if KIND == SUM && !defined(INTEGER_REAL)
#define BLOCKED 1
#include "lib/add_part.cl"
#define RAISE_BASE                               \
  for (int l = 0; l < LANES; l++) {              \
    ADD_PART(base[l], low[l], carry[l].a)        \
    carry[l].a = 0;                              \
  }
#define RESULT(s) (base[l] + (s).a)
#else
#define BLOCKED 0
#define RAISE_BASE
#define RESULT(s) (s).a
#endif

#if KIND == RECURRENCE || KIND == SEGMENTS
#define GRADIENT g
#else
#define GRADIENT 0
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void scan(
    //$ PARAMETERS
    __global const float* x_p, long x_o, __global float* y_p, long y_o, INDEX n0, INDEX x_t0, INDEX y_t0, INDEX x_u,
    INDEX y_u,
    //$ END
    __global uchar* ws_p, long ws_o, INDEX kept, INDEX n, INDEX part, INDEX chunk, INDEX blocks) {
  BRING_CONSTANTS_IN
  const INDEX begin = (INDEX)get_group_id(1) * part, end = min(begin + part, n);
  const INDEX first_block = (INDEX)get_group_id(0) * chunk, last_block = min(first_block + chunk, blocks);
  for (INDEX block = first_block; block < last_block; block++) {
    //$ BASE
    const INDEX k = block;
    const int lanes = LANES;
    __global const float* x_b = x_p + x_o + k * x_t0;
    __global float* y_b = y_p + y_o + k * y_t0;
    //$ END
    struct State carry[LANES];
    for (int l = 0; l < LANES; l++) carry[l] = identity();
#if PHASE == 2
    for (int l = 0; l < lanes; l++) carry[l] = STATE_AT((ulong)get_group_id(1) * kept + k + l);
#endif
#if BLOCKED
    real base[LANES], low[LANES];
    for (int l = 0; l < LANES; l++) base[l] = low[l] = 0;
#endif
#if IN_PIECES
    for (INDEX t = begin; t < end; t += PIECE) {
      RAISE_BASE
      const int count = (int)min(end - t, (INDEX)PIECE);
      const OFFSET first = (OFFSET)(REVERSE ? n - 1 - t : t);
      //$ ARRAYS
      real X[PIECE], Y[PIECE];
      //$ END
      INDEPENDENT_ROUNDS
      for (int j = 0; j < count; j++) {
        const OFFSET p = REVERSE ? first - j : first + j;
        //$ READ
        X[j] = LOAD_f32(x_b, p * (OFFSET)x_u);
        //$ END
      }
      for (int j = 0; j < count; j++) {
        const int l = 0;
        const INDEX p = (INDEX)(REVERSE ? first - j : first + j);
        //$ STEP
        const real x = X[j];
        struct State before = carry[l], after = before, own;
        set_state(&own, x, GRADIENT, p);
        follow(&after, &own);
        carry[l] = after;
        Y[j] = (EXCLUSIVE ? RESULT(before) : RESULT(after));
        //$ END
      }
      INDEPENDENT_ROUNDS
      for (int j = 0; j < count; j++) {
        const OFFSET p = REVERSE ? first - j : first + j;
        //$ WRITE
        STORE_f32(y_b, p * (OFFSET)y_u, Y[j]);
        //$ END
      }
    }
#else
    for (INDEX t = begin; t < end; t++) {
      if (BLOCKED && (t - begin) % BLOCK == 0) {
        RAISE_BASE
      }
      const INDEX p = REVERSE ? n - 1 - t : t;
      const int last = t + 1 == n;
      //$ POSITION
      __global const float* x_q = x_b + p * x_u;
      __global float* y_q = y_b + p * y_u;
      //$ END
      if (lanes == LANES) {
        INDEPENDENT_ROUNDS
        for (int l = 0; l < LANES; l++) {
          //$ BODY
          const real x = LOAD_f32(x_q, l);
          struct State before = carry[l], after = before, own;
          set_state(&own, x, GRADIENT, p);
          follow(&after, &own);
          carry[l] = after;
          STORE_f32(y_q, l, (EXCLUSIVE ? RESULT(before) : RESULT(after)));
          //$ END
        }
      } else {
        for (int l = 0; l < lanes; l++) {
          //$ BODY
          const real x = LOAD_f32(x_q, l);
          struct State before = carry[l], after = before, own;
          set_state(&own, x, GRADIENT, p);
          follow(&after, &own);
          carry[l] = after;
          STORE_f32(y_q, l, (EXCLUSIVE ? RESULT(before) : RESULT(after)));
          //$ END
        }
      }
    }
#endif
#if PHASE == 1
    RAISE_BASE
#if BLOCKED
    for (int l = 0; l < lanes; l++) carry[l].a = base[l];
#endif
    for (int l = 0; l < lanes; l++) STATE_AT((ulong)get_group_id(1) * kept + k + l) = carry[l];
#endif
  }
}
