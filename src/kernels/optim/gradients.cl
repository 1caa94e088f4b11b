// The ends of what multi_tensor.cl does to gradients: norms from their parts, and the loss's scale.

#ifndef LOCAL  // work-items: a power of two
#define LOCAL 256
#endif
#ifndef REAL
#define REAL float
#endif
#ifndef LARGEST  // parts are largest values, not sums
#define LARGEST 0
#endif
#ifndef ROOT  // the norm is the root of the sum
#define ROOT 0
#endif
#ifndef Y_DTYPE  // of finish_norms
#define Y_DTYPE f32
#define Y_T float
#endif
#include "lib/types.cl"
#include "lib/add_part.cl"
#include "lib/arguments.cl"
#include "optim/norm_places.h"

static REAL joined(REAL sum, REAL part) {
#if LARGEST
  return part > sum || part != part ? part : sum;
#else
  return sum + part;
#endif
}
static void add_part(REAL* sum, REAL* low, REAL part) {
#if LARGEST
  *sum = joined(*sum, part);
#else
  ADD_PART(*sum, *low, part)
#endif
}

// Of the group's parts, first to end; its first work-item has it.
static REAL norm_of_parts(__global const REAL* parts, int first, int end, __local REAL* sums) {
  const int lane = (int)get_local_id(0);
  REAL sum = 0, low = 0;
  for (int i = first + lane; i < end; i += LOCAL) add_part(&sum, &low, parts[i]);
  sums[lane] = sum;
  for (int step = LOCAL / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) sums[lane] = joined(sums[lane], sums[lane + step]);
  }
  if (lane != 0) return 0;
#if ROOT
  return sqrt(sums[0]);
#else
  return sums[0];
#endif
}

// One group.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void finish_norm(
    __global const REAL* parts, long parts_o, int count, __global float* norm, long norm_o, __global float* factor,
    long factor_o, int has_factor, float most) {
  __local REAL sums[LOCAL];
  const float value = (float)norm_of_parts(parts + parts_o, 0, count, sums);
  if (get_local_id(0) != 0) return;
  norm[norm_o] = value;
  if (!has_factor) return;
  const float ratio = most / (value + 1e-6f);
  factor[factor_o] = ratio > 1 ? 1 : ratio;
}

// A group for each place.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void finish_norms(__global const REAL* parts, long parts_o,
                                                                              NormPlaces STRUCT_ARGUMENT(places), __global Y_T* y, long y_o,
                                                                              long y_step) {
  COPY_STRUCT(NormPlaces, places)
  __local REAL sums[LOCAL];
  const int place = (int)get_group_id(0);
  const REAL value = norm_of_parts(parts + parts_o, places.first[place], places.first[place + 1], sums);
  if (get_local_id(0) == 0) JOIN(STORE_, Y_DTYPE)(y + y_o, places.tensor[place] * y_step, value);
}

__kernel void update_scale(__global float* scale, long scale_o, __global int* good_steps, long good_steps_o,
                           __global const float* found_inf, long found_inf_o, float growth, float backoff,
                           int interval) {
  scale += scale_o;
  good_steps += good_steps_o;
  if (found_inf[found_inf_o] != 0) {
    *scale *= backoff;
    *good_steps = 0;
    return;
  }
  const int steps = *good_steps + 1;
  if (steps >= interval && isfinite(*scale * growth)) *scale *= growth;
  *good_steps = steps >= interval ? 0 : steps;
}
