// Wide accesses to global memory: of words and vectors, which OpenCL wants at multiples of their sizes. All go through these
// macros; scripts/check-kernels refuses others. x86 takes others mostly without a word; GPUs end the
// kernel, or read elsewhere. So where programs are made for checks (CHECK_ACCESS, by DLPRIM_CHECK_ACCESS=1) a misaligned load gives, and
// a misaligned store writes, elements whose bits are all set: NaN in every float, -1 or a large number in integers. It writes them to
// the aligned place before, and prints a line.
#ifdef CHECK_ACCESS
__constant ulong4 poison_bits[2] = {(ulong4)(~0ul), (ulong4)(~0ul)};
static bool is_aligned_access(size_t address, size_t bytes) {
  const int beyond = (int)(address % bytes);
  if (beyond != 0) printf("misaligned access: %d bytes, %d beyond a multiple\n", (int)bytes, beyond);
  return beyond == 0;
}
#define POISON(T) (*(__constant const T*)poison_bits)
#define IS_ALIGNED_TO(T, p) is_aligned_access((size_t)(p), sizeof(T))
#define ALIGNED_BEFORE(T, U, p) ((__global U*)((size_t)(p) / sizeof(T) * sizeof(T)))
#define WIDE_LOAD(T, p) (IS_ALIGNED_TO(T, p) ? *ALIGNED_BEFORE(T, const T, p) : POISON(T))
#define WIDE_STORE(T, p, v) (*ALIGNED_BEFORE(T, T, p) = IS_ALIGNED_TO(T, p) ? (v) : POISON(T))
#define WIDE_LOAD_HALVES(N, p) \
  (IS_ALIGNED_TO(ushort##N, p) ? vloada_half##N(0, ALIGNED_BEFORE(ushort##N, const half, p)) : POISON(float##N))
#define WIDE_STORE_HALVES(N, p, v)                                                    \
  vstorea_half##N##_rte(IS_ALIGNED_TO(ushort##N, p) ? (v) : POISON(float##N), 0,      \
                        ALIGNED_BEFORE(ushort##N, half, p))
#else
#define WIDE_LOAD(T, p) (*(__global const T*)(p))
#define WIDE_STORE(T, p, v) (*(__global T*)(p) = (v))
#define WIDE_LOAD_HALVES(N, p) vloada_half##N(0, p)
#define WIDE_STORE_HALVES(N, p, v) vstorea_half##N##_rte(v, 0, p)
#endif
