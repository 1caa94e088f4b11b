// Tile sizes of gemm_cpu.cl, its vectors of VW floats, and runs: floats side by side in memory, moved by
// vectors. Apart from gemm_cpu.cl, so that files which define its slots can use them before they include it.

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
#define VEC PASTE(float, VW)
#define VLOAD PASTE(vload, VW)
#define VSTORE PASTE(vstore, VW)
#define IVEC PASTE(int, VW)
#define AS_VEC PASTE(as_float, VW)
#define AS_IVEC PASTE(as_int, VW)
#if VW == 16
#define LANES ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define LANES ((int8)(0, 1, 2, 3, 4, 5, 6, 7))
#endif

static VEC load_run(__global const float* p, int count) {
  if (count >= VW) return VLOAD(0, p);
  float values[VW];
  for (int i = 0; i < VW; i++) values[i] = i < count ? p[i] : 0;
  return VLOAD(0, values);
}

static void store_run(__global float* p, VEC v, int count) {
  if (count >= VW) {
    VSTORE(v, 0, p);
    return;
  }
  float values[VW];
  VSTORE(v, 0, values);
  for (int i = 0; i < count; i++) p[i] = values[i];
}

static VEC keep_run(__global float* p, VEC v, int count) {
  store_run(p, v, count);
  return v;
}

// NR elements of a panel from a run of `count` in memory.
static void put_run(__local float* panel, __global const float* p, int count) {
  for (int j = 0; j < NV; j++) VSTORE(load_run(p + j * VW, count - j * VW), j, panel);
}

// Four runs of four become their transpose.
static void transpose4(float4* r) {
  const float4 a = (float4)(r[0].s0, r[1].s0, r[0].s1, r[1].s1),
               b = (float4)(r[0].s2, r[1].s2, r[0].s3, r[1].s3);
  const float4 c = (float4)(r[2].s0, r[3].s0, r[2].s1, r[3].s1),
               d = (float4)(r[2].s2, r[3].s2, r[2].s3, r[3].s3);
  r[0] = (float4)(a.lo, c.lo);
  r[1] = (float4)(a.hi, c.hi);
  r[2] = (float4)(b.lo, d.lo);
  r[3] = (float4)(b.hi, d.hi);
}
