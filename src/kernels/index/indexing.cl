// What kernels that read or write by index have in common. A nest of loops goes over a `dense` tensor (what is
// gathered, or scattered); along some dimensions the `table` moves as well, along others only by the numbers
// that K index tensors hold. Dimensions are two families, p0, p1, ... and w0, w1, ..., each outermost first;
// what each is for says the kernel. No kernel of its own: the one here is an example of their use.
#include "lib/divisor.cl"
#include "lib/join.cl"

#ifndef P_RANK
#define P_RANK 1
#define W_RANK 0
#define K 1
#define INDEX int
#endif
#ifndef WIDE  // offsets need 64 bits
#define WIDE 0
#endif

#define P_0(F)
#define P_1(F) F(p0)
#define P_2(F) P_1(F) F(p1)
#define P_3(F) P_2(F) F(p2)
#define P_4(F) P_3(F) F(p3)
#define P_5(F) P_4(F) F(p4)
#define P_6(F) P_5(F) F(p5)
#define P_7(F) P_6(F) F(p6)
#define P_8(F) P_7(F) F(p7)
#define W_0(F)
#define W_1(F) F(w0)
#define W_2(F) W_1(F) F(w1)
#define W_3(F) W_2(F) F(w2)
#define W_4(F) W_3(F) F(w3)
#define W_5(F) W_4(F) F(w4)
#define W_6(F) W_5(F) F(w5)
#define W_7(F) W_6(F) F(w6)
#define W_8(F) W_7(F) F(w7)
// The same from the innermost outwards; the outermost is FIRST's.
#define P_BACK_0(F, FIRST)
#define P_BACK_1(F, FIRST) FIRST(p0)
#define P_BACK_2(F, FIRST) F(p1) FIRST(p0)
#define P_BACK_3(F, FIRST) F(p2) P_BACK_2(F, FIRST)
#define P_BACK_4(F, FIRST) F(p3) P_BACK_3(F, FIRST)
#define P_BACK_5(F, FIRST) F(p4) P_BACK_4(F, FIRST)
#define P_BACK_6(F, FIRST) F(p5) P_BACK_5(F, FIRST)
#define P_BACK_7(F, FIRST) F(p6) P_BACK_6(F, FIRST)
#define P_BACK_8(F, FIRST) F(p7) P_BACK_7(F, FIRST)
#define W_BACK_0(F, FIRST)
#define W_BACK_1(F, FIRST) FIRST(w0)
#define W_BACK_2(F, FIRST) F(w1) FIRST(w0)
#define W_BACK_3(F, FIRST) F(w2) W_BACK_2(F, FIRST)
#define W_BACK_4(F, FIRST) F(w3) W_BACK_3(F, FIRST)
#define W_BACK_5(F, FIRST) F(w4) W_BACK_4(F, FIRST)
#define W_BACK_6(F, FIRST) F(w5) W_BACK_5(F, FIRST)
#define W_BACK_7(F, FIRST) F(w6) W_BACK_6(F, FIRST)
#define W_BACK_8(F, FIRST) F(w7) W_BACK_7(F, FIRST)
#define K_0(F, a)
#define K_1(F, a) F(0, a)
#define K_2(F, a) K_1(F, a) F(1, a)
#define K_3(F, a) K_2(F, a) F(2, a)
#define K_4(F, a) K_3(F, a) F(3, a)
#define K_5(F, a) K_4(F, a) F(4, a)
#define K_6(F, a) K_5(F, a) F(5, a)
#define K_7(F, a) K_6(F, a) F(6, a)
#define K_8(F, a) K_7(F, a) F(7, a)

#define EACH_P(F) JOIN(P_, P_RANK)(F)
#define EACH_W(F) JOIN(W_, W_RANK)(F)
#define EACH_INDEX(F, a) JOIN(K_, K)(F, a)

#if WIDE
#define OFFSET long
#define SIZE(d) long n_##d
#define SPLIT(d) const long q_ = rest / n_##d, c_ = rest - q_ * n_##d;
#else
#define OFFSET int
#define SIZE(d) DIVISOR(n_##d)
#define SPLIT(d) const int q_ = QUOTIENT(rest, n_##d), c_ = rest - q_ * n_##d;
#endif

// Parameters: of a dimension its size, the strides of table and dense and of each index; of an index its
// memory, the table's size along its axis, and the table's stride there.
#define INDEX_STRIDE(k, d) , OFFSET i##k##_##d
#define DIMENSION(d) , SIZE(d), OFFSET t_##d, OFFSET s_##d EACH_INDEX(INDEX_STRIDE, d)
#define INDEX_TENSOR(k, d) , __global const INDEX *restrict i##k, long i##k##_o, long i##k##_size, OFFSET i##k##_step
#define NEST EACH_INDEX(INDEX_TENSOR, 0) EACH_P(DIMENSION) EACH_W(DIMENSION)

// A place: offsets in the table, in the dense tensor, and in each index.
struct Place {
  OFFSET table, dense, index[K + 1];  // K may be 0
};
#define MOVE_INDEX(k, d) place.index[k] += c_ * i##k##_##d;
#define MOVE(d)               \
  place.table += c_ * t_##d;  \
  place.dense += c_ * s_##d;  \
  EACH_INDEX(MOVE_INDEX, d)
#define STEP(d)  \
  {              \
    SPLIT(d)     \
    rest = q_;   \
    MOVE(d)      \
  }
#define LAST_STEP(d)       \
  {                        \
    const OFFSET c_ = rest; \
    MOVE(d)                \
  }
// Moves `place` to the element `flat` of a family of dimensions.
#define LOCATE_P(flat)                              \
  {                                                 \
    OFFSET rest = (flat);                           \
    JOIN(P_BACK_, P_RANK)(STEP, LAST_STEP)          \
  }
#define LOCATE_W(flat)                              \
  {                                                 \
    OFFSET rest = (flat);                           \
    JOIN(W_BACK_, W_RANK)(STEP, LAST_STEP)          \
  }

// Adds to `at` what the indices say, which lie `step` elements from where `place` is; `ok` becomes false if one
// is outside. A negative one counts from the end. (A driver may misjudge a long that was an int beside a constant.)
#define FOLLOW_INDEX(k, more)                             \
  {                                                       \
    const INDEX given_ = (i##k + i##k##_o)[place.index[k] + more(k)]; \
    const long v_ = (long)given_ + (given_ < 0 ? i##k##_size : 0);    \
    ok &= (ulong)v_ < (ulong)i##k##_size && !SKIPPED(v_); \
    at += (OFFSET)v_ * i##k##_step;                       \
  }
#define NO_MORE(k) 0
// Number `w` of family w: its `place`, `at` which element of the table it is by the indices, and whether that is `ok`.
#define FIND_W(w)                   \
  struct Place place = {0, 0, {0}}; \
  LOCATE_W(w)                       \
  OFFSET at = place.table;          \
  bool ok = true;                   \
  EACH_INDEX(FOLLOW_INDEX, NO_MORE)
#ifndef SKIPPED  // indices that count as outside
#define SKIPPED(v) 0
#endif
