// The negative log-likelihood loss' own steps: picking each row's term, and the gradient. The sums over rows
// are generated reductions.

#include "types.cl"

#ifndef DTYPE  // of log_p and its gradient
#define DTYPE f32
#define T float
#endif
#ifndef LOSS_DTYPE
#define LOSS_DTYPE f32
#define LOSS_T float
#endif
#ifndef TARGET
#define TARGET int
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

// picked[b] = -log_p[b, target[b]] and picked[rows + b] = 1, or 0 and 0 where the target is no class.
// A work-item takes `block` rows.
__kernel void nll_pick(__global const T* log_p, long log_p_o, long step_b, long step_c,
                       __global const TARGET* target, long target_o, long target_step, __global float* picked,
                       long picked_o, long rows, long classes, int block) {
  const long begin = (long)get_global_id(0) * block, end = min(begin + block, rows);
  picked += picked_o;
  for (long b = begin; b < end; b++) {
    const long t = (long)target[target_o + b * target_step];
    const int valid = t >= 0 && t < classes;
    picked[b] = valid ? -JOIN(LOAD_, DTYPE)(log_p + log_p_o, b * step_b + t * step_c) : 0.0f;
    picked[rows + b] = valid ? 1.0f : 0.0f;
  }
}

// d[b, c] = -dloss / count where c is the row's target, else 0. A work-item takes `block` rows and, from its
// column on, every `columns`-th class.
__kernel void nll_gradient(__global const LOSS_T* dloss, long dloss_o, __global const float* count,
                           long count_o, __global const TARGET* target, long target_o, long target_step,
                           __global T* d, long d_o, long step_b, long step_c, long rows, long classes,
                           int block, int columns) {
  const long column = (long)get_global_id(0);
  const long begin = (long)get_global_id(1) * block, end = min(begin + block, rows);
  const float slope = -JOIN(LOAD_, LOSS_DTYPE)(dloss, dloss_o) / count[count_o];
  d += d_o;
  for (long b = begin; b < end; b++) {
    const long t = (long)target[target_o + b * target_step];
    for (long c = column; c < classes; c += columns)
      JOIN(STORE_, DTYPE)(d, b * step_b + c * step_c, c == t ? slope : 0.0f);
  }
}
