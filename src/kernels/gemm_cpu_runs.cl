// What gemm_cpu_loop.cl and the files that define its slots share: tile sizes, vectors of VW numbers, where packed panels
// lie, and runs, elements side by side in memory, which are moved by vectors.

#ifndef VW
#define VW 8
#endif
#ifndef NV
#define NV 2
#endif
#ifndef MR
#define MR 6
#endif
#ifndef KC
#define KC 256
#endif
#ifndef NC
#define NC 128
#endif
#ifndef MC
#define MC 120
#endif
#define NR (VW * NV)

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

// What is computed with: Scalar is the REAL that was asked for, VEC a vector of VW of them, which the epilogue has as
// its REAL.
#ifndef REAL
#define REAL float
#endif
typedef REAL Scalar;
typedef PASTE(REAL, 4) Four;
typedef PASTE(REAL, VW) VEC;
#undef REAL
#define REAL VEC

// The vector at p, which may lie between a vector's boundaries. (vload16() and vstore16() come out of PoCL as four
// accesses each.)
typedef VEC LooseVec __attribute__((aligned(sizeof(Scalar))));
#define VEC_AT(space, p) (*(space LooseVec*)(p))
#define IVEC PASTE(int, VW)
#define AS_VEC PASTE(as_float, VW)
#define AS_IVEC PASTE(as_int, VW)
#if VW == 16
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define LANES ((int8)(0, 1, 2, 3, 4, 5, 6, 7))
#endif

// A_PACKED, B_PACKED: kernels of their own pack the operand, into a workspace. Else each work-group packs what it needs,
// into local memory.
#ifndef A_PACKED
#define A_PACKED 1
#endif
#ifndef B_PACKED
#define B_PACKED 0
#endif
#if A_PACKED
#define A_SPACE __global
#else
#define A_SPACE __local
#endif
#if B_PACKED
#define B_SPACE __global
#else
#define B_SPACE __local
#endif

// A_BY_ROWS: a panel of A holds its rows one behind the other, KC apart, so that rows are copied as they are; broadcasts
// do not mind. Else the MR elements of one k lie side by side.
#ifndef A_BY_ROWS
#define A_BY_ROWS 0
#endif
#if A_BY_ROWS
#define A_ROW_STEP KC
#define A_K_STEP 1
#else
#define A_ROW_STEP 1
#define A_K_STEP MR
#endif

// FETCH(p): a cache line that will be written soon is fetched. FETCHES: the device may have an instruction for it, and its
// compiler clang's builtin. (OpenCL's own prefetch() does nothing in PoCL.)
#ifndef FETCHES
#define FETCHES 0
#endif
#if FETCHES && defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#define FETCH(p) __builtin_prefetch((const void*)(size_t)(p), 1)
#endif
#endif
#ifndef FETCH
#define FETCH(p)
#endif

static VEC load_run(__global const Scalar* p, int count) {
  if (count >= VW) return VEC_AT(__global const, p);
  Scalar values[VW];
  for (int i = 0; i < VW; i++) values[i] = i < count ? p[i] : 0;
  return VEC_AT(__private const, values);
}

static void store_run(__global Scalar* p, VEC v, int count) {
  if (count >= VW) {
    VEC_AT(__global, p) = v;
    return;
  }
  Scalar values[VW];
  VEC_AT(__private, values) = v;
  for (int i = 0; i < count; i++) p[i] = values[i];
}

static VEC keep_run(__global Scalar* p, VEC v, int count) {
  store_run(p, v, count);
  return v;
}

// Four runs of four become their transpose.
static void transpose4(Four* r) {
  const Four a = (Four)(r[0].s0, r[1].s0, r[0].s1, r[1].s1), b = (Four)(r[0].s2, r[1].s2, r[0].s3, r[1].s3);
  const Four c = (Four)(r[2].s0, r[3].s0, r[2].s1, r[3].s1), d = (Four)(r[2].s2, r[3].s2, r[2].s3, r[3].s3);
  r[0] = (Four)(a.lo, c.lo);
  r[1] = (Four)(a.hi, c.hi);
  r[2] = (Four)(b.lo, d.lo);
  r[3] = (Four)(b.hi, d.hi);
}
