// Tiny kernels that show whether a device really does what it or its vendor claims. Each is compiled alone,
// by defining its macro, and writes small integers that the host knows.

#ifndef LOCAL_BYTES
#define LOCAL_BYTES 1024
#endif

#ifdef PROBE_PLAIN
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0);
  y[i] = 3 * i + 1;
}
#endif

#ifdef PROBE_LIMITS
// As many steps of one work-item as STEPS and memory say together, so that no compiler counts them.
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0), steps = STEPS - y[i];
  uint v = 1;
  if (i == 0)
    for (int s = 0; s < steps; s++) {
      v = v * 5u + 3u;
      v ^= v >> 9;
    }
  y[i] = i == 0 ? v == LAST : 3 * i + 1;
}
#endif

#ifdef PROBE_FP16
// Asked for although the driver may not list it: some know it all the same.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0);
  const half a = (half)i;
  y[i] = (int)(a * (half)3 + (half)1);
}
#endif

#ifdef PROBE_FP64
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0);
  // 2^40 + i does not fit a float's 24 bits: a double that is a float in disguise gives another answer.
  const double a = 1099511627776.0 + (double)i;
  y[i] = (int)((a - 1099511627776.0) * 3.0 + 1.0);
}
#endif

#ifdef PROBE_BF16
// Of two numbers half way between two of 8 bits, i + 1/2, in one word: the even one, above the even one.
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0);
  const float even = (float)(256 + 2 * i + 1), odd = (float)(256 + 2 * i + 3);
  uint word;
  __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(odd), "f"(even));
  const uint below = as_uint((float)(256 + (2 * i + 2) / 4 * 4)) >> 16;
  const uint above = as_uint((float)(256 + (2 * i + 4) / 4 * 4)) >> 16;
  y[i] = word == (below | above << 16) ? 3 * i + 1 : -1;
}
#endif

#ifdef PROBE_LOCAL
// Every work-item fills its share of a static array; its mirror image reads it after the barrier.
__kernel void probe(__global int* y) {
  __local int big[LOCAL_BYTES / 4];
  const int i = (int)get_local_id(0), n = (int)get_local_size(0), count = LOCAL_BYTES / 4;
  for (int j = i; j < count; j += n) big[j] = j ^ 0x55;
  barrier(CLK_LOCAL_MEM_FENCE);
  int good = 1;
  for (int j = i; j < count; j += n) good &= big[count - 1 - j] == ((count - 1 - j) ^ 0x55);
  y[i] = good ? 3 * i + 1 : -1;
}
#endif

#ifdef PROBE_SUB_GROUP
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#endif
// y[0] is the width; the others hold the lane number that the neighbour sent.
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0);
  const int width = (int)get_max_sub_group_size(), lane = (int)get_sub_group_local_id();
#ifdef cl_intel_subgroups
  const int other = intel_sub_group_shuffle_xor(lane, 1u);
#else
  const int other = sub_group_shuffle_xor(lane, 1u);
#endif
  y[i] = i == 0 ? width : other == (lane ^ 1) ? 3 * i + 1 : -1;
}
#endif

#ifdef PROBE_NV_SHUFFLE
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0), lane = i & 31;
  int other;
  __asm__ volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, 0xffffffff;" : "=r"(other) : "r"(lane));
  y[i] = i == 0 ? 32 : other == (lane ^ 1) ? 3 * i + 1 : -1;
}
#endif

#ifdef PROBE_NV_MMA
// 16x8x8 by tf32: A[row][k] = row, B[k][column] = column + 1, so C[row][column] = 8 row (column + 1).
__kernel void probe(__global int* y) {
  const int i = (int)get_global_id(0), lane = i & 31, row = lane / 4;
  const float lo = (float)row, hi = (float)(row + 8), b = (float)(lane / 4 + 1);
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  __asm__ volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(as_int(lo)), "r"(as_int(hi)), "r"(as_int(lo)), "r"(as_int(hi)), "r"(as_int(b)), "r"(as_int(b)));
  const int column = 2 * (lane % 4);
  const int good = (int)c0 == 8 * row * (column + 1) && (int)c1 == 8 * row * (column + 2) &&
                   (int)c2 == 8 * (row + 8) * (column + 1) && (int)c3 == 8 * (row + 8) * (column + 2);
  y[i] = good ? 3 * i + 1 : -1;
}
#endif

#ifdef PROBE_NV_WGMMA
#include "lib/ptx.cl"
// 64x8x8 by tf32, B brought by a bulk copy through a map made here: A[row][k] = row, B[column][k] = column + 1, so
// C[row][column] = 8 row (column + 1). The map and B lie in y behind the results.
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void probe(__global int* y) {
  __local float b[8 * 32] __attribute__((aligned(1024)));
  __local ulong bar, map_room[16] __attribute__((aligned(128)));
  const int i = (int)get_global_id(0), lane = i & 31, row = i / 32 * 16 + lane / 4;
  __global float* from = (__global float*)(y + 256);
  __global ulong* tensor_map = (__global ulong*)(y + 128);
  from[i] = (float)(i / 32 + 1);
  from[i + 128] = (float)(i / 32 + 5);
  if (i < 16) map_room[i] = 0;
  barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
  if (i < 32) {
    if (i == 0) MAKE_MAP(SHARED(map_room), from, 7, 32, 8, 1, 128, 1024, 32, 8)
    warp_sync();
    publish_map(tensor_map, SHARED(map_room));
  }
  if (i == 0) {
    mbarrier_init(SHARED(&bar), 1);
    fence_async();
    acquire_map(tensor_map);
    mbarrier_expect(SHARED(&bar), 1024);
    bulk_copy(SHARED(b), tensor_map, 0, 0, 0, SHARED(&bar));
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  mbarrier_wait(SHARED(&bar), 0);
  const uint lo = as_uint((float)row), hi = as_uint((float)(row + 8));
  float c[4] = {0, 0, 0, 0};
  __asm__ volatile(
      "//@wgmma.fence.sync.aligned;\n"
      "//@wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, {%4, %5, %4, %5}, %6, 1, 1, 1;\n"
      "//@wgmma.commit_group.sync.aligned;\n"
      "//@wgmma.wait_group.sync.aligned 0;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(lo), "r"(hi), "l"(wgmma_descriptor(SHARED(b), 16, 1024))
      : "memory");
  const int column = 2 * (lane % 4);
  const int good = (int)c[0] == 8 * row * (column + 1) && (int)c[1] == 8 * row * (column + 2) &&
                   (int)c[2] == 8 * (row + 8) * (column + 1) && (int)c[3] == 8 * (row + 8) * (column + 2);
  if (i < 64) y[i] = good ? 3 * i + 1 : -1;
}
#endif

#ifdef PROBE_FRAGMENT
// A product by one sub-group, every element of it checked: that the instruction is there, and that lanes hold what the
// fragment's file says. EMULATE, FRAGMENT, FRAG_TYPE and FORM choose.
#include "lib/fragment.cl"
#define PROBE_A(m, k) ((3 * (m) + 5 * (k) + (m) * (k)) % 7 - 3)
#define PROBE_B(k, n) ((2 * (k) + 3 * (n) + (k) * (n)) % 5 - 2)
#define PROBE_WORDS (FRAG_K / FRAG_PER_WORD)
#define PROBE_PITCH ((PROBE_WORDS + 3) / 4 * 4)
static void probe_put(__local uint* row, int k, int v) {
#if FRAG_TYPE == FRAG_F16
  vstore_half((float)v, k, (__local half*)row);
#elif FRAG_TYPE == FRAG_BF16
  ((__local ushort*)row)[k] = (ushort)(as_uint((float)v) >> 16);
#elif FRAG_TYPE == FRAG_I8
  ((__local char*)row)[k] = (char)v;
#else
  row[k] = as_uint((float)v);
#endif
}
__kernel FRAGMENT_ATTRIBUTES __attribute__((reqd_work_group_size(FRAG_LANES, 1, 1))) void probe(__global int* y) {
  __local uint4 a_tile[FRAG_M * PROBE_PITCH / 4], b_tile[FRAG_N * PROBE_PITCH / 4];
  __local uint exchange[FRAG_EXCHANGE];
  __local uint *a = (__local uint*)a_tile, *b = (__local uint*)b_tile;
  __local int bad;
  const int item = (int)get_local_id(0), lane = fragment_lane();
  if (item == 0) bad = 0;
  for (int i = item; i < FRAG_M * FRAG_K; i += FRAG_LANES)
    probe_put(a + i / FRAG_K * PROBE_PITCH, i % FRAG_K, PROBE_A(i / FRAG_K, i % FRAG_K));
  for (int i = item; i < FRAG_N * FRAG_K; i += FRAG_LANES)
    probe_put(b + i / FRAG_K * PROBE_PITCH, i % FRAG_K, PROBE_B(i % FRAG_K, i / FRAG_K));
  barrier(CLK_LOCAL_MEM_FENCE);
  frag_a part_a;
  frag_b part_b;
  frag_c c;
  fragment_load_a(&part_a, a, PROBE_PITCH, lane);
  fragment_load_b(&part_b, b, PROBE_PITCH, lane);
  fragment_zero(&c);
  // Twice: what is added to counts too.
  for (int i = 0; i < 2; i++) fragment_multiply_add(&part_a, &part_b, &c, exchange);
  UNROLL
  for (int i = 0; i < FRAG_C_ELEMENTS; i++) {
    int sum = 0;
    for (int k = 0; k < FRAG_K; k++) sum += PROBE_A(fragment_row(i, lane), k) * PROBE_B(k, fragment_column(i, lane));
    if ((int)c.e[i] != 2 * sum) bad = 1;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = item; i < 64; i += FRAG_LANES) y[i] = bad ? -1 : 3 * i + 1;
}
#endif
