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
typedef PASTE(REAL, 4) Run4;
typedef PASTE(REAL, 8) Run8;
typedef PASTE(REAL, VW) VEC;
#undef REAL
#define REAL VEC

// The vector at p, which may lie between a vector's boundaries. (vload16() and vstore16() come out of PoCL as four
// accesses each.)
typedef VEC LooseVec __attribute__((aligned(sizeof(Scalar))));
typedef Run4 LooseRun4 __attribute__((aligned(sizeof(Scalar))));
typedef Run8 LooseRun8 __attribute__((aligned(sizeof(Scalar))));
#define VEC_AT(space, p) (*(space LooseVec*)(p))

// A_DIRECT, B_DIRECT: the operand is not packed at all, but read where it lies: the k of a row of A side by side, the
// columns of one k of B. Pitches are from one row of A, and from one k of B, to the next.
#ifndef A_DIRECT
#define A_DIRECT 0
#endif
#ifndef B_DIRECT
#define B_DIRECT 0
#endif
// A_PACKED, B_PACKED: kernels of their own pack the operand, into a workspace. Else each work-group packs what it needs,
// into local memory.
#ifndef A_PACKED
#define A_PACKED 1
#endif
#ifndef B_PACKED
#define B_PACKED 0
#endif
#if A_PACKED || A_DIRECT
#define A_SPACE __global
#else
#define A_SPACE __local
#endif
#if B_PACKED || B_DIRECT
#define B_SPACE __global
#else
#define B_SPACE __local
#endif

// A_BY_ROWS: a panel of A holds its rows one behind the other, KC apart, so that rows are copied as they are; broadcasts
// do not mind. Else the MR elements of one k lie side by side.
#ifndef A_BY_ROWS
#define A_BY_ROWS 0
#endif
#if A_DIRECT
#define A_ROW_STEP a_pitch
#define A_K_STEP 1
#elif A_BY_ROWS
#define A_ROW_STEP KC
#define A_K_STEP 1
#else
#define A_ROW_STEP 1
#define A_K_STEP MR
#endif

// FETCH(p): a cache line that will be written soon is fetched. FETCHES: the device may have an instruction for it. OpenCL's own
// prefetch() does nothing in PoCL, where clang's builtin does; SPIR-V has prefetch() alone: a translator
// to it may end at the builtin.
#ifndef FETCHES
#define FETCHES 0
#endif
#if FETCHES && (defined(__SPIR__) || defined(__SPIR32__) || defined(__SPIR64__))
#define FETCH(p) prefetch(p, 1)
#elif FETCHES && defined(__has_builtin)
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

// Runs as long as they are many become their transpose.
static void transpose4(Run4* r) {
  const Run4 a = (Run4)(r[0].s0, r[1].s0, r[0].s1, r[1].s1), b = (Run4)(r[0].s2, r[1].s2, r[0].s3, r[1].s3);
  const Run4 c = (Run4)(r[2].s0, r[3].s0, r[2].s1, r[3].s1), d = (Run4)(r[2].s2, r[3].s2, r[2].s3, r[3].s3);
  r[0] = (Run4)(a.lo, c.lo);
  r[1] = (Run4)(a.hi, c.hi);
  r[2] = (Run4)(b.lo, d.lo);
  r[3] = (Run4)(b.hi, d.hi);
}

// By the instructions that shuffle within each half of 8 numbers, until the halves are put together.
#define LOWER(x, y) ((Run8)(x.s0, y.s0, x.s1, y.s1, x.s4, y.s4, x.s5, y.s5))
#define UPPER(x, y) ((Run8)(x.s2, y.s2, x.s3, y.s3, x.s6, y.s6, x.s7, y.s7))
#define LOWER_PAIRS(x, y) ((Run8)(x.s01, y.s01, x.s45, y.s45))
#define UPPER_PAIRS(x, y) ((Run8)(x.s23, y.s23, x.s67, y.s67))
static void transpose8(Run8* r) {
  Run8 c[8];  // columns 0 to 3 of rows 0 to 3 and of 4 to 7, in the lower halves; columns 4 to 7 in the upper ones
  for (int i = 0; i < 8; i += 4) {
    const Run8 a = LOWER(r[i], r[i + 1]), b = UPPER(r[i], r[i + 1]);
    const Run8 d = LOWER(r[i + 2], r[i + 3]), e = UPPER(r[i + 2], r[i + 3]);
    c[i] = LOWER_PAIRS(a, d);
    c[i + 1] = UPPER_PAIRS(a, d);
    c[i + 2] = LOWER_PAIRS(b, e);
    c[i + 3] = UPPER_PAIRS(b, e);
  }
  for (int i = 0; i < 4; i++) {
    r[i] = (Run8)(c[i].lo, c[i + 4].lo);
    r[i + 4] = (Run8)(c[i].hi, c[i + 4].hi);
  }
}
