// How the operands of GEMM lie. A_UNIT_K: A's elements are side by side along k, not along m. B_UNIT_K the same of B, which
// else is side by side along n. A_VECTOR, B_VECTOR, C_VECTOR: runs can be read, or written, several elements at a time, as
// many as the kernel says; element 0, the stride between runs and the size along a run are then multiples of them.
#ifndef A_UNIT_K
#define A_UNIT_K 1
#endif
#ifndef B_UNIT_K
#define B_UNIT_K 0
#endif
#ifndef A_VECTOR
#define A_VECTOR 0
#endif
#ifndef B_VECTOR
#define B_VECTOR 0
#endif
#ifndef C_VECTOR
#define C_VECTOR 0
#endif
