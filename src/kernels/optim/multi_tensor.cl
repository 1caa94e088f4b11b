// One expression over many tensors in one launch: optimizers' steps, gradients' scaling and norms, any other. The program fills the
// slots (src/ops/optim/multi_tensor_source.cpp); as it stands the file is the kernel of x0 = s0 * x0 over up to two tensors. A list has
// one tensor for each place; where they lie is in a table, an argument by value. A work-group takes `chunk` elements of one
// place. On CPUs (LOCAL 1) elements go in a plain loop.

//$ HEAD
#define V 4
#define LOCAL 256
#define ROUNDS 2
#define REAL float
#define LISTS 1
#define PLACES 2
#define BUFFERS 2
#define PLACE_SCALARS 0
//$ END
#include "lib/types.cl"
#include "lib/arguments.cl"
#ifdef CPU
#include "lib/math_cpu_quick.cl"
#endif
#include "lib/activation.cl"
#include "lib/arithmetic.cl"
#include "lib/special.cl"
#define real REAL

// What a group knows of all elements: into one of `parts` for each group, in a fixed order.
#if LOCAL == 1
#define LANES 16
#define JOIN_LANES(combine)             \
  for (int l = 1; l < LANES; l++) {     \
    const real part = sums[l];          \
    combine;                            \
  }                                     \
  parts[get_group_id(0)] = sum;
#else
#define LANES V
#define JOIN_LANES(combine)                                     \
  for (int l = 1; l < LANES; l++) {                             \
    const real part = sums[l];                                  \
    combine;                                                    \
  }                                                             \
  __local real shared_sums[LOCAL];                              \
  const int lane = (int)get_local_id(0);                        \
  shared_sums[lane] = sum;                                      \
  for (int step = LOCAL / 2; step > 0; step /= 2) {             \
    barrier(CLK_LOCAL_MEM_FENCE);                               \
    if (lane < step) {                                          \
      const real part = shared_sums[lane + step];               \
      sum = shared_sums[lane];                                  \
      combine;                                                  \
      shared_sums[lane] = sum;                                  \
    }                                                           \
  }                                                             \
  if (lane == 0) parts[get_group_id(0)] = shared_sums[0];
#endif

// The tensor of a list at a place starts `low` bytes behind 2^32 * high[b] of buffer b. Arrays of arrays have another size for
// some drivers.
typedef struct {
#if PLACE_SCALARS
  real scalar[PLACE_SCALARS * PLACES];
#endif
  int first[PLACES + 1];  // group of each place, and the number of groups
  uint high[BUFFERS];
  uint low[LISTS * PLACES];
  ushort rest[PLACES];  // elements of the place's last group
  uchar buffer[LISTS * PLACES];
#if PADDING
  uchar padding[PADDING];  // to whole words: some drivers count what is behind the last member, some do not
#endif
} Table;

// The list's tensor at the place; the name of its type's pointer, and the buffer's start.
#define FIRST(list, T, start) \
  ((__global T*)((start) + ((ulong)table.high[table.buffer[(list) * PLACES + place]] << 32) + table.low[(list) * PLACES + place]))
// Whether V elements at a multiple of V may be moved at once.
#define IS_ALIGNED(list, T) (table.low[(list) * PLACES + place] % (V * sizeof(T)) == 0)

// `multiplier` is *factor / *scale, of those that there are. With `skips` nothing happens where *flag is not 0.
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void multi_tensor(
    //$ PARAMETERS
    __global char* buffer_0, __global char* buffer_1, real s0,
    //$ END
    Table STRUCT_ARGUMENT(table), int places, int chunk, __global const float* factor, long factor_o, int has_factor,
    __global const float* scale, long scale_o, int has_scale, __global float* flag, long flag_o, int skips,
    __global real* parts, long parts_o) {
  BRING_CONSTANTS_IN
  COPY_STRUCT(Table, table)
  if (skips && flag[flag_o] != 0) return;
  real multiplier = has_factor ? factor[factor_o] : 1;
  if (has_scale) multiplier /= scale[scale_o];
  flag += flag_o;
  parts += parts_o;
  const int group = (int)get_group_id(0);
  int place = 0;
  for (int end = places; end - place > 1;) {
    const int middle = (place + end) / 2;
    if (group >= table.first[middle])
      place = middle;
    else
      end = middle;
  }
  const long begin = (long)(group - table.first[place]) * chunk;
  const int count = group + 1 == table.first[place + 1] ? table.rest[place] : chunk;
  //$ CHOOSE
  __global char* start_0 = buffer_0;
  if (table.buffer[place] == 1) start_0 = buffer_1;
  __global float* list0_p = FIRST(0, float, start_0) + begin;
  const int aligned = IS_ALIGNED(0, float);
  //$ END
  int bad = 0;
  real sums[LANES];
  for (int l = 0; l < LANES; l++) sums[l] = 0;
#if LOCAL == 1
  //$ CPU
  INDEPENDENT_ROUNDS
  for (int i = 0; i < count; i++) {
    real x0 = LOAD_f32(list0_p, i);
    x0 = s0 * x0;
    STORE_f32(list0_p, i, x0);
  }
  //$ END
#else
  // All rounds' loads come before the first store: the compiler cannot know that they may.
  const int whole = aligned ? count / V * V : 0, step = LOCAL * V;
  for (int i = (int)get_local_id(0) * V; i < whole; i += ROUNDS * step) {
    //$ VALUES
    real X0[ROUNDS][V];
    //$ END
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
      const int at = i + r * step < whole ? i + r * step : i;
      //$ LOAD
      VLOAD_f32(list0_p, at, X0[r]);
      //$ END
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
      const int at = i + r * step;
      if (at >= whole) break;
#pragma unroll
      for (int e = 0; e < V; e++) {
        //$ BODY
        real x0 = X0[r][e];
        x0 = s0 * x0;
        X0[r][e] = x0;
        //$ END
      }
      //$ STORE
      VSTORE_f32(list0_p, at, X0[r]);
      //$ END
    }
  }
  const int e = 0;
  for (int i = whole + (int)get_local_id(0); i < count; i += LOCAL) {
    //$ REST
    real x0 = LOAD_f32(list0_p, i);
    x0 = s0 * x0;
    STORE_f32(list0_p, i, x0);
    //$ END
  }
#endif
  //$ FINISH
  real sum = sums[0];
  JOIN_LANES(sum += part)
  if (bad) *flag = 1;
  //$ END
}
