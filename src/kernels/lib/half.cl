// Halves by integer instructions, single ones or vectors of N: half_floats of their bits, and half_words, rounded to nearest even; a
// NaN stays one. types.cl and half_lanes.cl say what for.
#define HALF_CONVERSIONS(N, ATTRIBUTES)                                                                    \
  static ATTRIBUTES float##N half_floats##N(ushort##N bits) {                                                     \
    const uint##N size = convert_uint##N(bits) & 0x7fffu;                                                  \
    const uint##N value = as_uint##N(as_float##N(size << 13) * 0x1p112f);                                  \
    const uint##N sign = (convert_uint##N(bits) & 0x8000u) << 16;                                          \
    return as_float##N((size < 0x7c00u ? value : value | 0x7f800000u) | sign);                             \
  }                                                                                                        \
  static ATTRIBUTES ushort##N half_words##N(float##N v) {                                                         \
    const uint##N size = as_uint##N(v) & 0x7fffffffu, sign = (as_uint##N(v) >> 16) & 0x8000u;              \
    const uint##N normal = (size + 0xc8000fffu + ((size >> 13) & 1u)) >> 13;                               \
    const uint##N denormal = as_uint##N(as_float##N(size) + 0.5f) - 0x3f000000u;                           \
    const uint##N large = size > 0x7f800000u ? (uint##N)(0x7e00u) : (uint##N)(0x7c00u);                    \
    const uint##N small = size < 0x38800000u ? denormal : normal;                                          \
    return convert_ushort##N((size >= 0x47800000u ? large : small) | sign);                                \
  }
