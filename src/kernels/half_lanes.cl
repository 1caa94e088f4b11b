// Vectors of 4, 8 and 16 halves, by integer instructions: on CPUs vload_half and vstore_half of several suppose addresses that
// are multiples of their size (PoCL 3.1 ends in a segmentation fault otherwise), or go element by element.

// half_floats: of their bits. half_words: rounded to nearest even; a NaN stays one.
#define HALF_LANES(N)                                                                                      \
  float##N half_floats##N(ushort##N bits) {                                                                \
    const uint##N size = convert_uint##N(bits) & 0x7fffu;                                                  \
    const uint##N value = as_uint##N(as_float##N(size << 13) * 0x1p112f);                                  \
    const uint##N sign = (convert_uint##N(bits) & 0x8000u) << 16;                                          \
    return as_float##N(select(value | 0x7f800000u, value, size < 0x7c00u) | sign);                         \
  }                                                                                                        \
  ushort##N half_words##N(float##N v) {                                                                    \
    const uint##N size = as_uint##N(v) & 0x7fffffffu, sign = (as_uint##N(v) >> 16) & 0x8000u;              \
    const uint##N normal = (size + 0xc8000fffu + ((size >> 13) & 1u)) >> 13;                               \
    const uint##N denormal = as_uint##N(as_float##N(size) + 0.5f) - 0x3f000000u;                           \
    const uint##N large = select((uint##N)(0x7c00u), (uint##N)(0x7e00u), size > 0x7f800000u);              \
    const uint##N small = select(normal, denormal, size < 0x38800000u);                                    \
    return convert_ushort##N(select(small, large, size >= 0x47800000u) | sign);                            \
  }
HALF_LANES(4)
HALF_LANES(8)
HALF_LANES(16)
