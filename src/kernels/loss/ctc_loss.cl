// Connectionist temporal classification: the likelihood of a sequence of labels, blanks between them, summed over its alignments.
// A label sequence of U is a chain of 2 U + 1 states, blanks at the even ones. alpha[t][s], beta[t][s]: the logarithms of what
// paths that are in state s at time t give up to, and from, then on; both with time t's own factor.
// A work-group of LANES has a sequence, and backward, for gradients, one time of it. A CPU has one lane. With STATES, not less than
// the states there are, the states of the time before lie in local memory.

#ifndef LANES
#define LANES 64
#endif
#ifndef STATES
#define STATES 128
#endif
#include "lib/types.cl"
#include "lib/int64.h"
#include "loss/ctc_loss.h"
#if LANES == 1
#include "lib/math_cpu.cl"
#endif

#ifndef A_DTYPE  // of the log-probabilities; T: of the labels; N: of input lengths, U: of the labels' lengths; L: of the loss; D: dx
#define A_DTYPE f32
#define A_T float
#define T_DTYPE i32
#define T_T int
#define N_DTYPE i32
#define N_T int
#define U_DTYPE i32
#define U_T int
#define L_DTYPE f32
#define L_T float
#define D_DTYPE f32
#define D_T float
#endif
#ifndef REAL
#define REAL float
#endif
#define real REAL
#define LOAD(dtype, p, i) JOIN(LOAD_, dtype)(p, i)
#define STORE(dtype, p, i, v) JOIN(STORE_, dtype)(p, i, v)

#if LANES == 1
#define SYNC
#define SYNC_GLOBAL
#else
#define SYNC barrier(CLK_LOCAL_MEM_FENCE | (STATES ? 0 : CLK_GLOBAL_MEM_FENCE));
#define SYNC_GLOBAL barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
#endif

// x: [T, N, C], labels: [N, S], lengths: [N]; alpha, beta: [N, T, 2 S + 1].
#define SEQUENCES                                                                                                      \
  __global const A_T *x, long x_o, __global const T_T *labels, long labels_o, __global const N_T *times, long times_o, \
      __global const U_T *sizes, long sizes_o, CtcShape shape
// Sequence n; lengths that are none count as the nearest that is one.
#define SEQUENCE(n_)                                                                            \
  const Int64 labels_s = shape.labels_s, x_t = shape.x.t, x_c = shape.x.c, blank = shape.blank; \
  const int most_times = shape.t, classes = shape.c, most_labels = shape.s;                     \
  const long n = n_;                                                                            \
  const int lane = LANES == 1 ? 0 : (int)get_local_id(0);                                       \
  const long end_ = (long)LOAD(N_DTYPE, times + times_o, n * shape.times_n);                    \
  const long size_ = (long)LOAD(U_DTYPE, sizes + sizes_o, n * shape.sizes_n);                   \
  const int end = (int)clamp(end_, 0l, (long)most_times);                                       \
  const int size = (int)clamp(size_, 0l, (long)most_labels);                                    \
  const int states = 2 * size + 1, pitch = 2 * most_labels + 1;                                 \
  x += x_o + n * shape.x.n;                                                                     \
  labels += labels_o + n * shape.labels_n;
#define LABEL(s) ((s)&1 ? (long)labels[((s) >> 1) * labels_s] : blank)
// The logarithm of a state's class' probability; of a label that is no class, of 0.
#define X_AT(time, label) \
  ((ulong)(label) < (ulong)classes ? LOAD(A_DTYPE, x, (time) * x_t + (label) * x_c) : -INFINITY)

// e^v of v up to 0, as a term of a sum of 1 and more: below -80 it is as good as what it is at -80, and takes no denormal numbers.
// Without calls, so that a loop over it becomes vector instructions.
#define INTO_ONE(v) exp((v) < -80 ? -80 : (v))
static __attribute__((always_inline)) real log_add(real a, real b, real c) {
  const real larger = a > b ? a : b, most = larger > c ? larger : c;
  const real sum = INTO_ONE(a - most) + INTO_ONE(b - most) + INTO_ONE(c - most);
  return most == -INFINITY ? most : most + log(sum);
}
static real loss_of(__global const real* alpha, int end, int states, int pitch) {
  if (end == 0) return states == 1 ? 0 : INFINITY;
  __global const real* last = alpha + (long)(end - 1) * pitch;
  return -log_add(last[states - 1], states > 1 ? last[states - 2] : -INFINITY, -INFINITY);
}

#if LANES == 1 && STATES
// A CPU's chain of up to STATES states, in loops that become vector instructions: their number is rounded up to whole ones, and
// what lies behind the end has no class, and reaches nothing before it. `at`: of a state's class in x, -1 without one; `jumps`:
// whether paths may come from the state but one. The first step takes its ones from a state in front of the chain.
#define CHAIN
#define FRONT 2
#define WHOLE(states) (((states) + 15) & ~15)
// STATE(s): the state that is element s; beta's chain is the other way round.
#define START_CHAIN(STATE)                                                                                     \
  __local long at[STATES];                                                                                     \
  __local int jumps[STATES];                                                                                   \
  __local real emitted[STATES], rows[2][STATES + FRONT];                                                       \
  for (int s = 0; s < WHOLE(states); s++) {                                                                    \
    const long c = s < states ? LABEL(STATE(s)) : -1;                                                          \
    at[s] = (ulong)c < (ulong)classes ? c * x_c : -1;                                                              \
    jumps[s] = (s & 1) && s < states && (s < 2 || c != LABEL(STATE(s - 2)));                                   \
  }                                                                                                            \
  for (int s = 0; s < 2 * (STATES + FRONT); s++) rows[s / (STATES + FRONT)][s % (STATES + FRONT)] = -INFINITY; \
  rows[0][FRONT - 1] = 0;
#define STEP_CHAIN(round, time, row, STATE)                                                \
  {                                                                                        \
    __local real* before = rows[(round)&1] + FRONT;                                        \
    __local real* now = rows[((round) + 1) & 1] + FRONT;                                   \
    for (int s = 0; s < WHOLE(states); s++)                                                \
      emitted[s] = at[s] < 0 ? -INFINITY : (real)LOAD(A_DTYPE, x, (time) * x_t + at[s]);   \
    INDEPENDENT_ROUNDS                                                                     \
    for (int s = 0; s < WHOLE(states); s++) {                                              \
      const real far = before[s - 2];                                                      \
      now[s] = log_add(before[s], before[s - 1], jumps[s] ? far : -INFINITY) + emitted[s]; \
    }                                                                                      \
    for (int s = 0; s < states; s++) (row)[STATE(s)] = now[s];                             \
    before[-1] = -INFINITY;                                                                \
  }
#define AS_IT_IS(s) (s)
#define TURNED(s) (states - 1 - (s))
#endif

#if STATES
#define BEFORE(s) before[(s)]
#define BUFFERS __local real buffers[2][STATES];
#define STEP(round)                       \
  __local real* now = buffers[(round)&1]; \
  __local const real* before = buffers[((round) + 1) & 1];
#define SET_NOW(s, v) now[s] = v;
#else
#define BEFORE(s) row[(s) + back]
#define BUFFERS
#define STEP(round)
#define SET_NOW(s, v)
#endif

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void ctc_alpha(
    SEQUENCES, __global real* alpha, long alpha_o, __global L_T* loss, long loss_o, long loss_n) {
  SEQUENCE((long)get_group_id(0))
  alpha += alpha_o + n * most_times * pitch;
#ifdef CHAIN
  START_CHAIN(AS_IT_IS)
  for (int t = 0; t < end; t++) STEP_CHAIN(t, t, alpha + (long)t * pitch, AS_IT_IS)
#else
  BUFFERS
  for (int t = 0; t < end; t++) {
    STEP(t)
    __global real* row = alpha + (long)t * pitch;
    const long back = -pitch;
    for (int s = lane; s < states; s += LANES) {
      const long c = LABEL(s);
      real v = s < 2 ? 0 : -INFINITY;
      if (t > 0) {
        const bool skips = s > 1 && c != LABEL(s - 2) && (s & 1);
        v = log_add(BEFORE(s), s > 0 ? BEFORE(s - 1) : -INFINITY, skips ? BEFORE(s - 2) : -INFINITY);
      }
      v += X_AT(t, c);
      SET_NOW(s, v)
      row[s] = v;
    }
    SYNC
  }
#endif
  SYNC_GLOBAL
  if (lane > 0) return;
  const real value = loss_of(alpha, end, states, pitch);
  const real scaled = shape.divides ? value / max(1, size) : value;
  STORE(L_DTYPE, loss + loss_o, n * loss_n, shape.zeroes && value == INFINITY ? 0 : scaled);
}

// Also links: of each label the place of the next equal one, plus 1; negative where it is not the first of its kind.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void ctc_beta(
    SEQUENCES, __global real* beta, long beta_o, __global int* links, long links_o) {
  SEQUENCE((long)get_group_id(0))
  beta += beta_o + n * most_times * pitch;
  links += links_o + n * most_labels;
  for (int i = lane; i < size; i += LANES) {
    int next = i + 1, earlier = i - 1;
    while (next < size && labels[next * labels_s] != labels[i * labels_s]) next++;
    while (earlier >= 0 && labels[earlier * labels_s] != labels[i * labels_s]) earlier--;
    const int link = next < size ? next + 1 : most_labels + 1;  // S + 1: there is none
    links[i] = earlier >= 0 ? -link : link;
  }
#ifdef CHAIN
  START_CHAIN(TURNED)
  for (int t = end - 1; t >= 0; t--) STEP_CHAIN(end - 1 - t, t, beta + (long)t * pitch, TURNED)
#else
  BUFFERS
  for (int t = end - 1; t >= 0; t--) {
    STEP(t)
    __global real* row = beta + (long)t * pitch;
    const long back = pitch;
    for (int s = lane; s < states; s += LANES) {
      const long c = LABEL(s);
      real v = s > states - 3 ? 0 : -INFINITY;
      if (t < end - 1) {
        const bool skips = s + 2 < states && c != LABEL(s + 2) && (s & 1);
        v = log_add(BEFORE(s), s + 1 < states ? BEFORE(s + 1) : -INFINITY, skips ? BEFORE(s + 2) : -INFINITY);
      }
      v += X_AT(t, c);
      SET_NOW(s, v)
      row[s] = v;
    }
    SYNC
  }
#endif
}

// One more term of a sum of exp, held as its largest term and the sum below it.
#define ADD_TERM(value, most, sum)                                                \
  {                                                                               \
    const real v_ = (value), higher_ = max(v_, most);                             \
    if (higher_ > -INFINITY) sum = sum * exp(most - higher_) + exp(v_ - higher_); \
    most = higher_;                                                               \
  }

// dx = dloss (exp(x) - exp(log of the sum over the class' states of alpha beta, less x, plus the loss)): with the gradient of a
// log-softmax behind it, that of the loss.
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void ctc_gradient(
    SEQUENCES, __global const real* alpha, long alpha_o, __global const real* beta, long beta_o,
    __global const int* links, long links_o, __global const L_T* dloss, long dloss_o, long dloss_n, __global D_T* d,
    long d_o, CtcSteps d_steps) {
#ifdef CHAIN
  __local real shares[STATES];
#else
  __local real most_of[LANES], sum_of[LANES];
#endif
  SEQUENCE((long)get_group_id(0) / shape.t)
  const int t = (int)((long)get_group_id(0) - n * shape.t);
  d += d_o + n * d_steps.n + t * d_steps.t;
  const long sequence = n * most_times * pitch, row = sequence + (long)t * pitch;
  const real value = loss_of(alpha + alpha_o + sequence, end, states, pitch);
  const bool none = t >= end || (shape.zeroes && value == INFINITY);
  real slope = LOAD(L_DTYPE, dloss + dloss_o, n * dloss_n);
  if (shape.divides) slope = slope / max(1, size) / shape.n;
  INDEPENDENT_ROUNDS
  for (int c = lane; c < classes; c += LANES)
    STORE(D_DTYPE, d, c * d_steps.c, none ? 0 : exp(LOAD(A_DTYPE, x, t * x_t + c * x_c)) * slope);
  if (none) return;
  alpha += alpha_o + row;
  beta += beta_o + row;
  links += links_o + n * most_labels;
#ifdef CHAIN
  // Every state's share of all paths, at most 1: none needs to be held against the largest.
  for (int s = 0; s < states; s++) shares[s] = X_AT(t, LABEL(s));
  INDEPENDENT_ROUNDS
  for (int s = 0; s < states; s++) {
    const real v = alpha[s] + beta[s] + value - shares[s], share = exp(v < -80 ? -80 : v);
    shares[s] = v < -80 ? 0 : share;
  }
  for (int i = -1; i < size; i++) {
    const long c = i < 0 ? blank : (long)labels[i * labels_s];
    if (i >= 0 && (links[i] < 0 || (ulong)c >= (ulong)classes || c == blank)) continue;
    real sum = 0;
    if (i < 0)
      for (int s = 0; s < states; s += 2) sum += shares[s];
    else
      for (int j = i; j < size; j = abs(links[j]) - 1) sum += shares[2 * j + 1];
    STORE(D_DTYPE, d, c * d_steps.c, (exp(LOAD(A_DTYPE, x, t * x_t + c * x_c)) - sum) * slope);
  }
#else
  real most = -INFINITY, sum = 0;
  for (int s = 2 * lane; s < states; s += 2 * LANES) ADD_TERM(alpha[s] + beta[s], most, sum)
  most_of[lane] = most;
  sum_of[lane] = sum;
  SYNC_GLOBAL
  if (lane == 0) {
    for (int j = 1; j < LANES; j++) {
      const real higher = max(most, most_of[j]);
      if (higher > -INFINITY) sum = sum * exp(most - higher) + sum_of[j] * exp(most_of[j] - higher);
      most = higher;
    }
  }
  // Of each class that the labels have, the first of them; and of blanks lane 0, in a round of its own.
  for (int i = lane == 0 ? -1 : lane; i < size; i = i < 0 ? 0 : i + LANES) {
    const long c = i < 0 ? blank : (long)labels[i * labels_s];
    if (i >= 0) {
      if (links[i] < 0 || (ulong)c >= (ulong)classes || c == blank) continue;
      most = -INFINITY;
      sum = 0;
      for (int j = i; j < size; j = abs(links[j]) - 1) ADD_TERM(alpha[2 * j + 1] + beta[2 * j + 1], most, sum)
    }
    const real v = LOAD(A_DTYPE, x, t * x_t + c * x_c);
    STORE(D_DTYPE, d, c * d_steps.c, (exp(v) - exp(most + log(sum) + value - v)) * slope);
  }
#endif
}
