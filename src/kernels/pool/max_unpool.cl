// Max unpooling and its gradient, for GPUs and CPUs. Elements are moved as words of their size.
//
// P and Q: elements of a plane of x and of y. With LAST the channels of all tensors are neighbours, and loops and work-items go
// along them; otherwise along planes. FLAT: in no tensor's plane are there gaps but between all neighbours, so that a flat index
// times a stride is a place.

#ifndef WORD
#define WORD uint
#define INDICES int
#define FLAT 1
#define UNIT 1
#define LAST 0
#define WIDE 0
#endif
#include "lib/divisor.cl"

#if WIDE
typedef long index_t;
#else
typedef int index_t;
#endif

// Strides along N, C, D, H and W.
#define TENSOR(T, t) __global T *t, long t##_o, long t##_n, long t##_c, long t##_d, long t##_h, long t##_w
#define SIZES int C, int P, int XH, int XW, int Q, int YH, int YW
#define PLANE(t, n, c) (t + t##_o + (n) * t##_n + (c) * t##_c)
// The place of flat index i in a plane with rows of W elements, H to a slice.
#if UNIT
#define AT(t, i, H, W) ((index_t)(i))
#elif FLAT
#define AT(t, i, H, W) ((index_t)(i) * (index_t)t##_w)
#else
#define AT(t, i, H, W) \
  ((index_t)((i) / (W) / (H)) * (index_t)t##_d + (index_t)((i) / (W) % (H)) * (index_t)t##_h + (index_t)((i) % (W)) * (index_t)t##_w)
#endif
#define INSIDE(index) ((index) >= 0 && (index) < (INDICES)Q)

// Element e of the planes of `first` and the images behind it: i in the plane of (n, c).
#define FIND_ELEMENT                                                     \
  const int e = (int)get_global_id(0);                                   \
  if (e >= count) return;                                                \
  const int rest = QUOTIENT(e, inner), behind = e - rest * inner;        \
  const int n = QUOTIENT(rest, outer), beside = rest - n * outer;        \
  const int i = LAST ? beside : behind, c = LAST ? behind : beside;

__kernel void max_unpool_clear(__global int* owner, long owner_o, int count) {
  const int e = (int)get_global_id(0);
  if (e < count) owner[owner_o + e] = 0;
}

// The owner of a place in y is 1 + the last element of x's plane that goes there; 0: there is none.
__kernel void max_unpool_claim(TENSOR(const INDICES, indices), __global int* owner, long owner_o, SIZES, long first, int count,
                               DIVISOR(inner), DIVISOR(outer)) {
  FIND_ELEMENT
  const INDICES index = PLANE(indices, first + n, c)[AT(indices, i, XH, XW)];
  if (!INSIDE(index)) return;
  const long to = LAST ? ((long)n * Q + index) * C + c : ((long)n * C + c) * Q + index;
  atomic_max(owner + owner_o + to, i + 1);
}

// Leaves `owner` clear for the next images.
__kernel void max_unpool_write(TENSOR(const WORD, x), TENSOR(WORD, y), __global int* owner, long owner_o, SIZES, long first,
                               int count, DIVISOR(inner), DIVISOR(outer)) {
  FIND_ELEMENT
  const int from = owner[owner_o + e] - 1;
  WORD value = 0;
  if (from >= 0) {
    value = PLANE(x, first + n, c)[AT(x, from, XH, XW)];
    owner[owner_o + e] = 0;
  }
  PLANE(y, first + n, c)[AT(y, i, YH, YW)] = value;
}

__kernel void max_unpool_backward(TENSOR(const WORD, y), TENSOR(const INDICES, indices), TENSOR(WORD, x), SIZES, long first,
                                  int count, DIVISOR(inner), DIVISOR(outer)) {
  FIND_ELEMENT
  const INDICES index = PLANE(indices, first + n, c)[AT(indices, i, XH, XW)];
  WORD value = 0;
  if (INSIDE(index)) value = PLANE(y, first + n, c)[AT(y, index, YH, YW)];
  PLANE(x, first + n, c)[AT(x, i, XH, XW)] = value;
}

// A CPU's work-item has `channels` of an image; n is the item's of dimension 1.
#define MY_CHANNELS const int begin = (int)get_global_id(0) * channels, end = min(begin + channels, C);
#if LAST
#define FOR_ELEMENTS(i, size, c) for (int i = 0; i < size; i++) for (int c = begin; c < end; c++)
#define ELEMENT(t, c, i, H, W) t##_q[AT(t, i, H, W) + c]
#else
#define FOR_ELEMENTS(i, size, c) for (int c = begin; c < end; c++) for (int i = 0; i < size; i++)
#define ELEMENT(t, c, i, H, W) t##_q[(index_t)(c) * (index_t)t##_c + AT(t, i, H, W)]
#endif
#define IMAGE(T, t) __global T* t##_q = PLANE(t, get_global_id(1), 0);

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void max_unpool_cpu(TENSOR(const WORD, x), TENSOR(const INDICES, indices),
                                                                            TENSOR(WORD, y), SIZES, int channels) {
  MY_CHANNELS
  IMAGE(const WORD, x)
  IMAGE(const INDICES, indices)
  IMAGE(WORD, y)
  FOR_ELEMENTS(i, Q, c) ELEMENT(y, c, i, YH, YW) = 0;
  FOR_ELEMENTS(i, P, c) {
    const INDICES index = ELEMENT(indices, c, i, XH, XW);
    if (INSIDE(index)) ELEMENT(y, c, index, YH, YW) = ELEMENT(x, c, i, XH, XW);
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void max_unpool_backward_cpu(TENSOR(const WORD, y),
                                                                                     TENSOR(const INDICES, indices),
                                                                                     TENSOR(WORD, x), SIZES, int channels) {
  MY_CHANNELS
  IMAGE(const WORD, y)
  IMAGE(const INDICES, indices)
  IMAGE(WORD, x)
  FOR_ELEMENTS(i, P, c) {
    const INDICES index = ELEMENT(indices, c, i, XH, XW);
    const WORD value = INSIDE(index) ? ELEMENT(y, c, index, YH, YW) : 0;
    ELEMENT(x, c, i, XH, XW) = value;
  }
}
