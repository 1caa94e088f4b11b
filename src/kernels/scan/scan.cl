// Scans on a GPU. The generator (scan.cpp) fills the slots; as it stands the file is the cumulative sum of contiguous rows.
// A work-item takes V elements of a row after the other. LX > 1: LX lanes share a row and find by local memory what lies
// before theirs; a group has LY rows. LX 1: an item has a row, and neighbouring items neighbouring ones. Rows in parts, the
// second grid dimension, go in three launches: PHASE 1 puts the parts' totals into the workspace, scan_totals makes of
// them what lies before each part, PHASE 2 starts with that. PHASE 0: all at once.

//$ HEAD
#define V 4
#define VECTOR 1
#define LX 32
#define LY 8
#define PHASE 0
#define INDEX uint
#define REAL float
#define X_AT(p) (p)
#define Y_AT(p) (p)
#define KIND 0
#define EXCLUSIVE 0
#define REVERSE 0
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
//$ END
#include "lib/types.cl"
#define real REAL
#include "scan/scan_state.cl"

// The place of the element that a scan meets as number t.
#if REVERSE
#define PLACE(t) (n - 1 - (t))
#else
#define PLACE(t) (t)
#endif
#if KIND == RECURRENCE || KIND == SEGMENTS
#define ELEMENT(v) state_of(X[v], G[v], PLACE(t + v))
#else
#define ELEMENT(v) state_of(X[v], 0, PLACE(t + v))
#endif

#define RESULT(s) (s).a
// `carry` is what comes before; of sums of floats with what rounding has left out, so that many steps err no more than few.
#if KIND == SUM && !defined(INTEGER_REAL)
#include "lib/add_part.cl"
#define CARRY_ON(more) ADD_PART(carry.a, left_out, (more).a)
#else
#define CARRY_ON(more) carry = then(carry, more);
#endif
// The lanes' elements may be added up in any order: they meet after the last.
#define TOTAL_AT_END (PHASE == 1 && LX > 1 && (KIND == SUM || KIND == PRODUCT))

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void scan(
    //$ PARAMETERS
    __global const float* x_p, long x_o, __global float* y_p, long y_o, INDEX n0, INDEX x_t0, INDEX y_t0, INDEX x_u,
    INDEX y_u,
    //$ END
    __global uchar* ws_p, long ws_o, INDEX kept, INDEX n, INDEX part) {
  const int item = (int)get_local_id(0);
  const INDEX k = (INDEX)get_group_id(0) * LY + item / LX;
  // What the first launch read last may still be in the cache.
  const INDEX place = PHASE == 2 ? (INDEX)(get_num_groups(1) - 1 - get_group_id(1)) : (INDEX)get_group_id(1);
  const INDEX begin = place * part, end = min(begin + part, n);
  if (k < kept) {
    //$ BASE
    x_p += x_o + k * x_t0;
    y_p += y_o + k * y_t0;
    //$ END
  }
  struct State carry = identity();
  real left_out = 0;
#if PHASE == 2
  if (k < kept) carry = STATE_AT((ulong)place * kept + k);
#endif
#if LX > 1
  const int lane = item % LX;
  __local struct State L[LX * LY];
#else
  const int lane = 0;
#endif
  for (INDEX first = begin; first < end; first += LX * V) {
    const INDEX t = first + lane * V;
    const int count = k < kept && t < end ? (int)min((INDEX)V, end - t) : 0;
    real X[V];
#if KIND == RECURRENCE || KIND == SEGMENTS
    real G[V];
#endif
#if VECTOR
    if (count == V) {
      const INDEX at = REVERSE ? n - t - V : t;
      real T[V];
      //$ VECTOR_LOAD
      VLOAD_f32(x_p, at, T);
      for (int v = 0; v < V; v++) X[v] = T[REVERSE ? V - 1 - v : v];
      //$ END
    } else
#endif
    {
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (v < count) {
          const INDEX p = PLACE(t + v);
          //$ LOAD
          X[v] = LOAD_f32(x_p, X_AT(p));
          //$ END
        }
      }
    }
    struct State own = identity();
#pragma unroll
    for (int v = 0; v < V; v++)
      if (v < count) own = then(own, ELEMENT(v));
#if TOTAL_AT_END
    CARRY_ON(own)
#else
    struct State state = carry;
#if LX > 1
    L[item] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int step = 1; step < LX; step *= 2) {
      if (lane >= step) own = then(L[item - step], own);
      barrier(CLK_LOCAL_MEM_FENCE);
      L[item] = own;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane > 0) state = then(state, L[item - 1]);
    CARRY_ON(L[item - lane + LX - 1])
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    CARRY_ON(own)
#endif
#endif
#if PHASE != 1
    struct State Y[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
      if (v < count) {
        Y[v] = state;
        state = then(state, ELEMENT(v));
        if (!EXCLUSIVE) Y[v] = state;
      }
    }
#if VECTOR
    if (count == V) {
      const INDEX at = REVERSE ? n - t - V : t;
      real T[V];
      //$ VECTOR_STORE
      for (int v = 0; v < V; v++) T[REVERSE ? V - 1 - v : v] = Y[v].a;
      VSTORE_f32(y_p, at, T);
      //$ END
    } else
#endif
    {
#pragma unroll
      for (int v = 0; v < V; v++) {
        if (v < count) {
          const INDEX p = PLACE(t + v);
          //$ STORE
          STORE_f32(y_p, Y_AT(p), Y[v].a);
          //$ END
        }
      }
    }
#endif
  }
#if TOTAL_AT_END
  L[item] = carry;
  for (int half_ = LX / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_) L[item] = carry = then(carry, L[item + half_]);
  }
#endif
#if PHASE == 1
  if (k < kept && lane == 0) STATE_AT((ulong)place * kept + k) = carry;
#endif
}
