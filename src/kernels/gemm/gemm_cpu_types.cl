// Elements of every dtype as vectors of Scalars, between gemm_cpu_runs.cl and gemm_types.cl: runs, elements side by side in
// memory, become them and come of them.

#include "gemm/gemm_cpu_runs.cl"
#include "gemm/gemm_types.cl"
#include "lib/half_lanes.cl"

// N elements, 4 or 8, become a vector; or VW of them.
#define RUN_f32(N, p) (*(__global const PASTE(LooseRun, N)*)(p))
#define RUN_f16(N, p) PASTE(half_floats, N)(PASTE(vload, N)(0, (__global const ushort*)(p)))
#define RUN_bf16(N, p) PASTE(as_float, N)(PASTE(convert_uint, N)(PASTE(vload, N)(0, p)) << 16)
#define RUN_f64(N, p) (*(__global const PASTE(LooseRun, N)*)(p))
#define RUN_i8(N, p) PASTE(convert_int, N)(PASTE(vload, N)(0, p))
#define LOAD_RUN(N, p) JOIN2(RUN_, AB_TYPE)(N, p)
#define WIDE_f32(p) VEC_AT(__global const, p)
#define WIDE_f16(p) RUN_f16(VW, p)
#define WIDE_bf16(p) PASTE(as_float, VW)(PASTE(convert_uint, VW)(PASTE(vload, VW)(0, p)) << 16)
#define WIDE_f64(p) VEC_AT(__global const, p)
#define WIDE_i8(p) PASTE(convert_int, VW)(PASTE(vload, VW)(0, p))
#define WIDE_i32(p) VEC_AT(__global const, p)
#define LOAD_WIDE(type, p) JOIN2(WIDE_, type)(p)

// Puts N runs, `ld` apart, into columns of a panel, whose lines are `line` numbers long: transposed, N lines at a time.
#define PUT_RUNS(N, space, to, line, from, ld, count)                                                 \
  {                                                                                                   \
    int k_ = 0;                                                                                       \
    for (; k_ + N <= count; k_ += N) {                                                                \
      PASTE(Run, N) r_[N];                                                                            \
      for (int i_ = 0; i_ < N; i_++) r_[i_] = LOAD_RUN(N, (from) + i_ * (ld) + k_);                   \
      PASTE(transpose, N)(r_);                                                                        \
      for (int i_ = 0; i_ < N; i_++) *(space PASTE(LooseRun, N)*)((to) + (k_ + i_) * (line)) = r_[i_]; \
    }                                                                                                 \
    for (; k_ < count; k_++)                                                                          \
      for (int i_ = 0; i_ < N; i_++) (to)[k_ * (line) + i_] = LOAD_AB(from, i_ * (ld) + k_);          \
  }

// And VW of them back.
#define STORE_WIDE_f32(p, v) VEC_AT(__global, p) = v
#define STORE_WIDE_f16(p, v) PASTE(vstore, VW)(PASTE(half_words, VW)(v), 0, (__global ushort*)(p))
#define STORE_WIDE_bf16(p, v) PASTE(vstore, VW)(wide_bf16_bits(v), 0, p)
#define STORE_WIDE_f64(p, v) VEC_AT(__global, p) = v
#define STORE_WIDE_i32(p, v) VEC_AT(__global, p) = v
#define STORE_WIDE(type, p, v) JOIN2(STORE_WIDE_, type)(p, v)

// bf16_bits() of each.
static PASTE(ushort, VW) wide_bf16_bits(PASTE(float, VW) v) {
  const PASTE(uint, VW) bits = PASTE(as_uint, VW)(v);
  return PASTE(convert_ushort, VW)(select(bits + 0x7fffu + ((bits >> 16) & 1u), bits | 0x400000u, isnan(v)) >> 16);
}

static VEC read_ab(__global const AB_STORAGE* p, int count) {
  if (count >= VW) return LOAD_WIDE(AB_TYPE, p);
  Scalar values[VW];
  for (int i = 0; i < VW; i++) values[i] = i < count ? LOAD_AB(p, i) : 0;
  return VEC_AT(__private const, values);
}

static VEC read_c(__global const C_STORAGE* p, int count) {
  if (count >= VW) return LOAD_WIDE(C_TYPE, p);
  Scalar values[VW];
  for (int i = 0; i < VW; i++) values[i] = i < count ? LOAD_C(p, i) : 0;
  return VEC_AT(__private const, values);
}

static void write_c(__global C_STORAGE* p, VEC v, int count) {
  if (count >= VW) {
    STORE_WIDE(C_TYPE, p, v);
    return;
  }
  Scalar values[VW];
  VEC_AT(__private, values) = v;
  for (int i = 0; i < count; i++) STORE_C(p, i, values[i]);
}

static VEC keep_c(__global C_STORAGE* p, VEC v, int count) {
  write_c(p, v, count);
  return v;
}

// Vectors masked by comparisons of their elements' numbers, which are integers as wide as a Scalar. (By bits: select() is
// not always made a masking.)
#define SCALAR_f32 float
#define SCALAR_f16 float
#define SCALAR_bf16 float
#define SCALAR_f64 double
#define LANE_f32 int
#define LANE_f16 int
#define LANE_bf16 int
#define LANE_f64 long
#define LANES_4(T) ((PASTE(T, 4))(0, 1, 2, 3))
#define LANES_8(T) ((PASTE(T, 8))(0, 1, 2, 3, 4, 5, 6, 7))
#define LANES_16(T) ((PASTE(T, 16))(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define LANES(N) PASTE(LANES_, N)(JOIN2(LANE_, AB_TYPE))
#define AS_VECTOR(N, T) PASTE(PASTE(as_, T), N)
#define MASKED(N, v, mask) AS_VECTOR(N, JOIN2(SCALAR_, AB_TYPE))(AS_VECTOR(N, JOIN2(LANE_, AB_TYPE))(v) & (mask))
