// Conversions of 16-bit floats by PTX, round to nearest even: of bf16 where the device has the instruction, of halves where the
// compiler makes PTX: it moves them one by one. types.cl has what others make of OpenCL C. A word is two, the first its lower half.

#ifdef BF16_INSTRUCTION
static ushort bf16_bits(float v) {
  ushort bits;
  __asm__("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
static uint bf16_word(float first, float second) {
  uint word;
  __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}
#endif

#ifdef __NV_CL_C_VERSION
static float half_value(ushort bits) {
  float v;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
static uint half_word(float first, float second) {
  ushort low, high;
  __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(first));
  __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(second));
  return (uint)low | (uint)high << 16;
}
#define HALF_FIRST(w) half_value((ushort)(w))
#define HALF_SECOND(w) half_value((ushort)((w) >> 16))
#endif
