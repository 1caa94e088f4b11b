// Convolution by matrix instructions, whosever they are, as implicit GEMM: slots of gemm_fragment.cl. Operands are gathered
// straight from x, w and dy (conv_gather.cl), by 16 bytes where they lie so.
//
// SOURCE_ROWS: the source's rows are C's rows, so that columns, which neighbouring lanes store, are channels; else its columns.
// A and B are the source and the other operand, as that says. A_UNIT_K, B_UNIT_K: neighbouring work-items load neighbours along
// k; A_VECTOR, B_VECTOR: 16 bytes of them at once. In gathered operands that means: along k, taps or pixels that are neighbours
// in number lie side by side; across, rows do.
// Launch: tiles of the source's rows x tiles of channels x groups. Where there are phases, so many times the tiles of the largest
// one; backward filter, groups * parts of k of `part` steps each.

#ifndef SOURCE_ROWS
#define SOURCE_ROWS 0
#endif
// Backward filter: 1: sums of parts go to `partial`, one dw after the other, its elements in the order of the taps.
#ifndef PARTS
#define PARTS 0
#endif

// Channels of all groups have factors and biases of their own.
#define OF_CHANNEL(x, channel) LOAD_EPILOGUE(x, x##_offset + (long)group * CHANNELS + (channel))
#define ROW_SCALE(n) OF_CHANNEL(scale, n)
#define ROW_BIAS(n) OF_CHANNEL(bias, n)
#define COLUMN_SCALE(m) OF_CHANNEL(scale, m)
#define COLUMN_BIAS(m) OF_CHANNEL(bias, m)
#include "conv/conv_gather.cl"
#include "gemm/gemm_fragment_tile.cl"

// Of a work-item: rows that it loads, and places along k at each step. Loads are numbered as in gemm_fragment_tile.cl.
#define ROWS_OF(loads, wide, unit_k, rows) ((unit_k) ? (loads) : (rows) / (wide) > ITEMS ? (rows) / (wide) / ITEMS : 1)
#define A_ROWS ROWS_OF(A_LOADS, A_WIDE, A_UNIT_K, TM)
#define B_ROWS ROWS_OF(B_LOADS, B_WIDE, B_UNIT_K, TN)
// A walk's stride.
#define K_BY(loads, rows) (TK * (rows) / (loads))

static void rows_of(struct Place* places, int count, int source, int wide, int unit_k, int rows, int item, int row0,
                    int row_end, const struct Shape* shape) {
  UNROLL
  for (int i = 0; i < count; i++) {
    const int at = item + i * ITEMS;
    // Rows beyond the last one are computed, but not stored.
    places[i] = row_place(source, min(row0 + LOAD_ROW(at), row_end - (unit_k ? 1 : wide)), shape);
  }
}

// A work-item's loads of the next TK steps.
static void gather(ELEMENT* to, int loads, int count, int source, int wide, const struct Place* rows, struct Walk* walk, int K,
                   __global const ELEMENT* x, const struct Shape* shape) {
  UNROLL
  for (int step = 0; step < loads / count; step++) {
    const struct Place along = place_of(&walk->at, source ? K_OF_SOURCE(shape) : K_OF_OTHER(shape));
    UNROLL
    for (int i = 0; i < count; i++) {
      const bool inside = walk->k < K && (!source || meet(&rows[i], &along, shape));
      __global const ELEMENT* from = x + (rows[i].at + along.at);
      if (wide == 1) {
        to[step * count + i] = inside ? *from : 0;
      } else {
        ELEMENTS v = 0;
        if (inside) v = WIDE_LOAD(ELEMENTS, from);
        FRAG_JOIN(vstore, WIDE)(v, step * count + i, to);
      }
    }
    walk_on(walk, shape);
  }
}

#define TENSOR(type, name) __global type *restrict name, long name##_offset
#if DIRECTION == 2
#if PARTS
#define RESULT TENSOR(float, partial)
#else
#define RESULT TENSOR(C_STORAGE, w)
#endif
#define PARAMETERS TENSOR(const ELEMENT, source), TENSOR(const ELEMENT, other), RESULT, int part, GatherShape conv
#define SETUP                                                                                                 \
  const int k_parts = max(1, (K + part - 1) / part), group = (int)get_group_id(2) / k_parts;                  \
  const int number = (int)get_group_id(2) % k_parts, k_begin = number * part, k_end = min(K, k_begin + part); \
  const struct Shape shape = shape_of(0, conv);                                                               \
  K = k_end - k_begin;                                                                                        \
  OPERANDS_SETUP
#define PIXEL_TILE ((int)get_group_id(0))
#else
#define PARAMETERS TENSOR(const ELEMENT, source), TENSOR(const ELEMENT, other), TENSOR(C_STORAGE, target), GatherShape conv
#if STRIDED
#define PHASES (conv.axes.d.phases * conv.axes.h.phases * conv.axes.w.phases)
#define PIXEL_TILE ((int)get_group_id(0) / PHASES)
#define PHASE_SETUP                                                         \
  const struct Shape shape = shape_of((int)get_group_id(0) % PHASES, conv); \
  K = shape.taps;                                                           \
  PIXELS = shape.pixels;                                                    \
  if (PIXEL_TILE * (SOURCE_ROWS ? TM : TN) >= PIXELS) return;
#else
#define PIXEL_TILE ((int)get_group_id(0))
#define PHASE_SETUP const struct Shape shape = shape_of(0, conv);
#endif
#define SETUP                                          \
  const int group = (int)get_group_id(2), k_begin = 0; \
  PHASE_SETUP                                          \
  const int k_end = K;                                 \
  target += target_offset;                             \
  const long target_at = (long)group * conv.t.g;       \
  OPERANDS_SETUP
#endif
#define OPERANDS_SETUP                              \
  source += source_offset + (long)group * conv.s.g; \
  other += other_offset + (long)group * OTHER_GROUP;

// The result's sizes, and what is whose.
#if SOURCE_ROWS
#define PIXELS M
#define CHANNELS N
#define M_TILE PIXEL_TILE
#define N_TILE ((int)get_group_id(1))
#define OF_A source
#define OF_B other
#else
#define PIXELS N
#define CHANNELS M
#define M_TILE ((int)get_group_id(1))
#define N_TILE PIXEL_TILE
#define OF_A other
#define OF_B source
#endif

#define FETCH_SETUP                                                                                                  \
  struct Place a_rows[A_ROWS], b_rows[B_ROWS];                                                                       \
  rows_of(a_rows, A_ROWS, SOURCE_ROWS, A_WIDE, A_UNIT_K, TM, item, m0, M, &shape);                                   \
  rows_of(b_rows, B_ROWS, !SOURCE_ROWS, B_WIDE, B_UNIT_K, TN, item, n0, N, &shape);                                  \
  struct Walk a_walk = walk_from(k_begin + FIRST_STEP(A_WIDE, A_UNIT_K, TM), K_BY(A_LOADS, A_ROWS), &shape);         \
  struct Walk b_walk = walk_from(k_begin + FIRST_STEP(B_WIDE, B_UNIT_K, TN), K_BY(B_LOADS, B_ROWS), &shape);
#define FIRST_STEP(wide, unit_k, rows) ((unit_k) ? item % (TK / (wide)) * (wide) : item / ((rows) / (wide)))
#define FETCH(step)                                                                                         \
  gather(next_a, A_LOADS, A_ROWS, SOURCE_ROWS, A_WIDE, a_rows, &a_walk, k_end, OF_A, &shape);               \
  gather(next_b, B_LOADS, B_ROWS, !SOURCE_ROWS, B_WIDE, b_rows, &b_walk, k_end, OF_B, &shape);

// Of a result, the number of its row of the source and of its channel.
#define PIXEL_OF(m, n) (SOURCE_ROWS ? (m) : (n))
#define CHANNEL_OF(m, n) (SOURCE_ROWS ? (n) : (m))

#if DIRECTION != 2
#define STORE_SUM(m, n, v)                                                                                     \
  {                                                                                                            \
    const long at = target_at + place_in_result(PIXEL_OF(m, n), &shape) + (long)(CHANNEL_OF(m, n) * conv.t.c); \
    STORE_C(target, at, FINISH(SCALED(v, m, n), m, n, at));                                                    \
  }
#elif PARTS
#define STORE_SUM(m, n, v)                                                                                         \
  partial[partial_offset + ((long)number * ((int)get_num_groups(2) / k_parts) + group) * M * N + (long)(m)*N + (n)] = v;
#else
#define STORE_SUM(row, column, v) \
  STORE_C(w, w_offset + (long)group * conv.w.g + (place_in_result(column, &shape) + (uint)(row)*conv.w.n), v);
#endif

#include "gemm/gemm_fragment.cl"
