// What Hopper adds to OpenCL C, as inline PTX: barriers that count bytes, bulk tensor copies and the maps that
// describe their tensors, warp-group matrix descriptors. Names are PTX's. Shared addresses are 32-bit: SHARED(p).
// Instructions that need sm_90a stand behind "//@", a comment until device_ptx.hpp uncovers them.

#define SHARED(p) ((uint)(size_t)(p))

static void mbarrier_init(uint bar, int count) {
  __asm__ volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(bar), "r"(count) : "memory");
}
static void mbarrier_arrive(uint bar) {
  __asm__ volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(bar) : "memory");
}
static void mbarrier_expect(uint bar, int bytes) {
  __asm__ volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(bar), "r"(bytes) : "memory");
}
static void mbarrier_wait(uint bar, uint parity) {
  uint done = 0;
  while (!done)
    __asm__ volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
}
// Two floats as one word, the first in the lower half.
static uint pack_f16(float lo, float hi) {
  uint two;
  __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(hi), "f"(lo));
  return two;
}
static uint pack_bf16(float lo, float hi) {
  uint two;
  __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(hi), "f"(lo));
  return two;
}
static float2 unpack_f16(uint two) {
  float lo, hi;
  __asm__("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(lo), "=f"(hi) : "r"(two));
  return (float2)(lo, hi);
}
static float2 unpack_bf16(uint two) {
  return (float2)(as_float(two << 16), as_float(two & 0xffff0000u));
}
// Brings the lanes of a warp together again.
static void warp_sync(void) {
  __asm__ volatile("bar.warp.sync 0xffffffff;" : : : "memory");
}
// Whether v is not 0 in any lane.
static uint warp_any(uint v) {
  uint any;
  __asm__ volatile(
      "{.reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q;}"
      : "=r"(any)
      : "r"(v));
  return any;
}
// In which lanes v is not 0, a bit for each.
static uint warp_ballot(uint v) {
  uint lanes;
  __asm__ volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff;}" : "=r"(lanes) : "r"(v));
  return lanes;
}
// What lane number `lane` has.
static uint shuffle(uint v, int lane) {
  uint got;
  __asm__ volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(got) : "r"(v), "r"(lane));
  return got;
}
// What the first lane has. Where all have the same, the compiler knows it by this; what it takes for different from lane to lane
// it keeps out of uniform registers, and so everything that is done after a branch on it.
static uint first_lanes(uint v) {
  uint got;
  __asm__ volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xffffffff;" : "=r"(got) : "r"(v));
  return got;
}
// What the lane has whose number differs in the bits of `lanes`.
static uint shuffle_xor(uint v, int lanes) {
  uint got;
  __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(got) : "r"(v), "r"(lanes));
  return got;
}
// At barrier 1, by `items` work-items (a literal): whether v is not 0 in any of them.
#define SYNC_ANY(any, v, items)                                                                             \
  __asm__ volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, 1, %2, p; selp.u32 %0, 1, 0, q;}" \
                   : "=r"(any)                                                                              \
                   : "r"(v), "n"(items)                                                                     \
                   : "memory")
// The same: in how many of them.
#define SYNC_COUNT(count, v, items)                                                        \
  __asm__ volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; bar.red.popc.u32 %0, 1, %2, p;}" \
                   : "=r"(count)                                                           \
                   : "r"(v), "n"(items)                                                    \
                   : "memory")
static void fence_async(void) {
  __asm__ volatile("fence.proxy.async;" : : : "memory");
}
// Of shared memory only: that of all memory takes a fifth of a kernel's time that fences each stage.
static void fence_async_shared(void) {
  __asm__ volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// Before the first use of a map that another work-item of the group made, behind a barrier.
static void acquire_map(__global const ulong* map) {
  __asm__ volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map) : "memory");
}
// Copies the box whose first element is (x, y, z) of the tensor behind `map` to `to`, and counts its bytes on `bar`.
static void bulk_copy(uint to, __global const ulong* map, int x, int y, int z, uint bar) {
  __asm__ volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
      :
      : "r"(to), "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar)
      : "memory");
}
// `rows` rows of `step` steps of k of a matrix that is contiguous along k, or of one that is not `step` lines of them, in boxes of
// `step` rows, 128 bytes.
#define COPY_ROWS(to, map, unit_k, rows, step, k, row, z, bar)                      \
  if (unit_k) {                                                                     \
    bulk_copy(to, map, k, row, z, bar);                                             \
  } else {                                                                          \
    for (int i_ = 0; i_ < (rows) / (step); i_++)                                    \
      bulk_copy((to) + i_ * (step)*128, map, (row) + i_ * (step), k, z, bar);       \
  }

// Makes, in shared memory at `map`, 16 words of zeros until now, the map of a tensor [z][y][x] with contiguous x and the
// other strides in bytes (multiples of 16), copied in boxes of box_x (128 bytes) * box_y elements with the 128-byte
// swizzle; elements outside are 0. `type` is the PTX element type: 6 f16, 7 f32, 10 bf16, 11 tf32.
#define MAP_FIELD(field) "//@tensormap.replace.tile." field ".shared::cta.b1024."
#define MAP_SET32(field, index, value) \
  __asm__ volatile(MAP_FIELD(field) "b32 [%0], " index "%1;" : : "r"(map_), "r"(value) : "memory")
#define MAP_SET64(field, index, value) \
  __asm__ volatile(MAP_FIELD(field) "b64 [%0], " index "%1;" : : "r"(map_), "l"(value) : "memory")
#define MAP_FIX32(field, value) \
  __asm__ volatile(MAP_FIELD(field) "b32 [%0], " value ";" : : "r"(map_) : "memory")
#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define MAKE_MAP(map, data, type, size_x, size_y, size_z, stride_y, stride_z, box_x, box_y) \
  MAKE_BOX_MAP(map, data, type, size_x, size_y, size_z, stride_y, stride_z, box_x, box_y, 1)
// The same with boxes of box_x * box_y * box_z.
#define MAKE_BOX_MAP(map, data, type, size_x, size_y, size_z, stride_y, stride_z, box_x, box_y, box_z) \
  {                                                                                         \
    const uint map_ = map;                                                                  \
    MAP_SET64("global_address", "", data);                                                  \
    MAP_SET32("rank", "", 2);                                                               \
    MAP_SET32("box_dim", "0, ", box_x);                                                     \
    MAP_SET32("box_dim", "1, ", box_y);                                                     \
    MAP_SET32("box_dim", "2, ", box_z);                                                       \
    MAP_SET32("global_dim", "0, ", size_x);                                                 \
    MAP_SET32("global_dim", "1, ", size_y);                                                 \
    MAP_SET32("global_dim", "2, ", size_z);                                                 \
    MAP_SET64("global_stride", "0, ", (ulong)(stride_y));                                   \
    MAP_SET64("global_stride", "1, ", (ulong)(stride_z));                                   \
    MAP_SET32("element_stride", "0, ", 1);                                                  \
    MAP_SET32("element_stride", "1, ", 1);                                                  \
    MAP_SET32("element_stride", "2, ", 1);                                                  \
    MAP_FIX32("elemtype", STRING(type));                                                    \
    MAP_FIX32("interleave_layout", "0");                                                    \
    MAP_FIX32("swizzle_mode", "3");                                                         \
    MAP_FIX32("fill_mode", "0");                                                            \
  }
// By all lanes of a warp: moves a map from shared memory to where copies can use it, a multiple of 128 bytes.
static void publish_map(__global ulong* to, uint map) {
  __asm__ volatile(
      "//@tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
      :
      : "l"(to), "r"(map)
      : "memory");
}

// The descriptor of an operand in shared memory with the 128-byte swizzle. `leading` and `stride` are in bytes: K-major
// operands need stride = 1024 (8 rows); M- or N-major ones leading = from one 64 elements to the next, stride = from
// 8 steps of k to the next.
static ulong wgmma_descriptor(uint at, uint leading, uint stride) {
  return (ulong)((at & 0x3ffff) >> 4) | (ulong)(leading >> 4) << 16 | (ulong)(stride >> 4) << 32 | (ulong)1 << 62;
}
