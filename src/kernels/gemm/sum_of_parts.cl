// What K in parts ends with.
#include "gemm/gemm_types.cl"

// The parts' sums of an element, `apart` elements from one to the next, added in their order.
static REAL sum_of_parts(__global const REAL* partial, int parts, long apart) {
  REAL sum = 0;
  int part = 0;
  for (; part + 4 <= parts; part += 4) {
    const REAL p0 = partial[part * apart], p1 = partial[(part + 1) * apart], p2 = partial[(part + 2) * apart],
               p3 = partial[(part + 3) * apart];
    sum = (((sum + p0) + p1) + p2) + p3;
  }
  for (; part < parts; part++) sum += partial[part * apart];
  return sum;
}
