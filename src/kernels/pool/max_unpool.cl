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
#include "lib/int64.h"
#include "pool/max_unpool.h"

#if WIDE
typedef long index_t;
#else
typedef int index_t;
#endif

#define TENSOR(T, t) __global T *t, long t##_o, UnpoolSteps t##_steps
#define PLANE(t, image, channel) (t + t##_o + (image) * t##_steps.n + (channel) * t##_steps.c)
// The place of flat index i in a plane with rows of W elements, H to a slice.
#if UNIT
#define AT(t, i, H, W) ((index_t)(i))
#elif FLAT
#define AT(t, i, H, W) ((index_t)(i) * (index_t)t##_steps.w)
#else
#define AT(t, i, H, W)                                                                                     \
  ((index_t)((i) / (W) / (H)) * (index_t)t##_steps.d + (index_t)((i) / (W) % (H)) * (index_t)t##_steps.h + \
   (index_t)((i) % (W)) * (index_t)t##_steps.w)
#endif
#define INSIDE(index) ((index) >= 0 && (index) < (INDICES)sizes.q)

// Element e of the part: i in the plane of (n, c) behind its first image.
#define FIND_ELEMENT                                                         \
  const int e = (int)get_global_id(0);                                       \
  if (e >= part.count) return;                                               \
  const int rest = divided(e, part.inner), behind = e - rest * part.inner.d; \
  const int n = divided(rest, part.outer), beside = rest - n * part.outer.d; \
  const int i = LAST ? beside : behind, c = LAST ? behind : beside;

__kernel void max_unpool_clear(__global int* owner, long owner_o, int count) {
  const int e = (int)get_global_id(0);
  if (e < count) owner[owner_o + e] = 0;
}

// The owner of a place in y is 1 + the last element of x's plane that goes there; 0: there is none.
__kernel void max_unpool_claim(TENSOR(const INDICES, indices), __global int* owner, long owner_o, UnpoolSizes sizes,
                               UnpoolPart part) {
  FIND_ELEMENT
  const INDICES index = PLANE(indices, part.first + n, c)[AT(indices, i, sizes.xh, sizes.xw)];
  if (!INSIDE(index)) return;
  const long to = LAST ? ((long)n * sizes.q + index) * sizes.channels + c : ((long)n * sizes.channels + c) * sizes.q + index;
  atomic_max(owner + owner_o + to, i + 1);
}

// Leaves `owner` clear for the next images.
__kernel void max_unpool_write(TENSOR(const WORD, x), TENSOR(WORD, y), __global int* owner, long owner_o, UnpoolSizes sizes,
                               UnpoolPart part) {
  FIND_ELEMENT
  const int from = owner[owner_o + e] - 1;
  WORD value = 0;
  if (from >= 0) {
    value = PLANE(x, part.first + n, c)[AT(x, from, sizes.xh, sizes.xw)];
    owner[owner_o + e] = 0;
  }
  PLANE(y, part.first + n, c)[AT(y, i, sizes.yh, sizes.yw)] = value;
}

__kernel void max_unpool_backward(TENSOR(const WORD, y), TENSOR(const INDICES, indices), TENSOR(WORD, x), UnpoolSizes sizes,
                                  UnpoolPart part) {
  FIND_ELEMENT
  const INDICES index = PLANE(indices, part.first + n, c)[AT(indices, i, sizes.xh, sizes.xw)];
  WORD value = 0;
  if (INSIDE(index)) value = PLANE(y, part.first + n, c)[AT(y, index, sizes.yh, sizes.yw)];
  PLANE(x, part.first + n, c)[AT(x, i, sizes.xh, sizes.xw)] = value;
}

// A CPU's work-item has `channels` of an image; n is the item's of dimension 1.
#define MY_CHANNELS const int begin = (int)get_global_id(0) * channels, end = min(begin + channels, sizes.channels);
#if LAST
#define FOR_ELEMENTS(i, size, c) for (int i = 0; i < size; i++) for (int c = begin; c < end; c++)
#define ELEMENT(t, c, i, H, W) t##_q[AT(t, i, H, W) + c]
#else
#define FOR_ELEMENTS(i, size, c) for (int c = begin; c < end; c++) for (int i = 0; i < size; i++)
#define ELEMENT(t, channel, i, H, W) t##_q[(index_t)(channel) * (index_t)t##_steps.c + AT(t, i, H, W)]
#endif
#define IMAGE(T, t) __global T* t##_q = PLANE(t, get_global_id(1), 0);

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void max_unpool_cpu(
    TENSOR(const WORD, x), TENSOR(const INDICES, indices), TENSOR(WORD, y), UnpoolSizes sizes, int channels) {
  MY_CHANNELS
  IMAGE(const WORD, x)
  IMAGE(const INDICES, indices)
  IMAGE(WORD, y)
  FOR_ELEMENTS(i, sizes.q, c) ELEMENT(y, c, i, sizes.yh, sizes.yw) = 0;
  FOR_ELEMENTS(i, sizes.p, c) {
    const INDICES index = ELEMENT(indices, c, i, sizes.xh, sizes.xw);
    if (INSIDE(index)) ELEMENT(y, c, index, sizes.yh, sizes.yw) = ELEMENT(x, c, i, sizes.xh, sizes.xw);
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void max_unpool_backward_cpu(
    TENSOR(const WORD, y), TENSOR(const INDICES, indices), TENSOR(WORD, x), UnpoolSizes sizes, int channels) {
  MY_CHANNELS
  IMAGE(const WORD, y)
  IMAGE(const INDICES, indices)
  IMAGE(WORD, x)
  FOR_ELEMENTS(i, sizes.p, c) {
    const INDICES index = ELEMENT(indices, c, i, sizes.xh, sizes.xw);
    const WORD value = INSIDE(index) ? ELEMENT(y, c, index, sizes.yh, sizes.yw) : 0;
    ELEMENT(x, c, i, sizes.xh, sizes.xw) = value;
  }
}
