// The built-in functions that matrix kernels use, for clang's targets amdgcn and nvptx, which alone have no library of them. Called
// from outside, as declared only, each would cost the registers that calls do.
#define BUILTIN __attribute__((overloadable, always_inline))
#ifdef __NVPTX__
float BUILTIN vload_half(size_t i, const __global half* p) {
  float v;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(((const __global ushort*)p)[i]));
  return v;
}
void BUILTIN vstore_half_rte(float v, size_t i, __global half* p) {
  ushort bits;
  __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  ((__global ushort*)p)[i] = bits;
}
float BUILTIN native_recip(float a) {
  float v;
  __asm__("rcp.approx.f32 %0, %1;" : "=f"(v) : "f"(a));
  return v;
}
#define LOCAL_ID __nvvm_read_ptx_sreg_tid_x()
#define GROUP_ID(axis) __nvvm_read_ptx_sreg_ctaid_##axis()
#define GROUPS(axis) __nvvm_read_ptx_sreg_nctaid_##axis()
void BUILTIN barrier(cl_mem_fence_flags flags) { __asm__ volatile("bar.sync 0;" : : : "memory"); }
#else
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
float BUILTIN vload_half(size_t i, const __global half* p) { return (float)p[i]; }
void BUILTIN vstore_half_rte(float v, size_t i, __global half* p) { p[i] = (half)v; }
float BUILTIN native_recip(float a) { return __builtin_amdgcn_rcpf(a); }
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()
#define GROUP_ID(axis) __builtin_amdgcn_workgroup_id_##axis()
#define GROUPS(axis) (__builtin_amdgcn_grid_size_##axis() / __builtin_amdgcn_workgroup_size_##axis())
void BUILTIN barrier(cl_mem_fence_flags flags) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#endif
size_t BUILTIN get_local_id(uint d) { return d == 0 ? LOCAL_ID : 0; }
size_t BUILTIN get_group_id(uint d) { return d == 0 ? GROUP_ID(x) : d == 1 ? GROUP_ID(y) : GROUP_ID(z); }
size_t BUILTIN get_num_groups(uint d) { return d == 0 ? GROUPS(x) : d == 1 ? GROUPS(y) : GROUPS(z); }
uint BUILTIN mul_hi(uint a, uint b) { return (uint)((ulong)a * b >> 32); }
uint BUILTIN clz(uint a) { return a == 0 ? 32 : __builtin_clz(a); }
int BUILTIN max(int a, int b) { return a > b ? a : b; }
int BUILTIN min(int a, int b) { return a < b ? a : b; }
uint BUILTIN min(uint a, uint b) { return a < b ? a : b; }
long BUILTIN min(long a, long b) { return a < b ? a : b; }
uint BUILTIN max(uint a, uint b) { return a > b ? a : b; }
float BUILTIN max(float a, float b) { return __builtin_fmaxf(a, b); }
float BUILTIN fabs(float a) { return __builtin_fabsf(a); }
float BUILTIN fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#define MOVES(T, N, ...)                                                                      \
  T##N BUILTIN vload##N(size_t i, const T* p) { p += N * i; return (T##N)(__VA_ARGS__); }      \
  void BUILTIN vstore##N(T##N v, size_t i, T* p) { for (int j = 0; j < N; j++) p[N * i + j] = v[j]; }
MOVES(uint, 2, p[0], p[1])
MOVES(uint, 4, p[0], p[1], p[2], p[3])
MOVES(ushort, 4, p[0], p[1], p[2], p[3])
MOVES(ushort, 8, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7])
MOVES(uchar, 16, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15])
uint BUILTIN popcount(uint a) { return __builtin_popcount(a); }
int BUILTIN isnan(float a) { return a != a; }
int BUILTIN isfinite(float a) { return __builtin_fabsf(a) < INFINITY; }
float BUILTIN fmin(float a, float b) { return __builtin_fminf(a, b); }
float BUILTIN fmax(float a, float b) { return __builtin_fmaxf(a, b); }

#ifdef __NVPTX__
#define ATOMIC(op, p, v)                                                                                                   \
  int old;                                                                                                                \
  __asm__ volatile("atom.shared." op " %0, [%1], %2;" : "=r"(old) : "r"((uint)(size_t)(p)), "r"(v) : "memory");       \
  return old;
float BUILTIN exp(float a) { return __nvvm_ex2_approx_f(1.442695f * a); }
int BUILTIN atomic_inc(volatile __local int* p) { ATOMIC("add.u32", p, 1) }
int BUILTIN atomic_or(volatile __local int* p, int v) { ATOMIC("or.b32", p, v) }
int BUILTIN atomic_min(volatile __local int* p, int v) { ATOMIC("min.s32", p, v) }
uint BUILTIN atomic_max(volatile __local uint* p, uint v) { ATOMIC("max.u32", p, v) }
#endif
