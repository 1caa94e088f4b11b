// The built-in functions that matrix kernels use, for clang's amdgcn target, which alone has no library of them. Called
// from outside, as declared only, each would cost the registers that calls do.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define BUILTIN __attribute__((overloadable, always_inline))
size_t BUILTIN get_local_id(uint d) { return d == 0 ? __builtin_amdgcn_workitem_id_x() : 0; }
size_t BUILTIN get_group_id(uint d) {
  return d == 0 ? __builtin_amdgcn_workgroup_id_x() : d == 1 ? __builtin_amdgcn_workgroup_id_y() : __builtin_amdgcn_workgroup_id_z();
}
void BUILTIN barrier(cl_mem_fence_flags flags) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
int BUILTIN min(int a, int b) { return a < b ? a : b; }
uint BUILTIN min(uint a, uint b) { return a < b ? a : b; }
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
float BUILTIN vload_half(size_t i, const __global half* p) { return (float)p[i]; }
void BUILTIN vstore_half_rte(float v, size_t i, __global half* p) { p[i] = (half)v; }
