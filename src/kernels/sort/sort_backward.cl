// The gradient of sort and top-k: elements of dy go where the indices say. No two of a row go to one place.

#include "lib/types.cl"
#include "sort/sort_axis.cl"

#ifndef DY_DTYPE
#define DY_DTYPE f32
#define DY_T float
#endif
#ifndef DX_DTYPE
#define DX_DTYPE f32
#define DX_T float
#endif
#ifndef INDEX
#define INDEX long
#endif

// A work-item takes `block` rows and, from its column on, every `columns`-th element.
__kernel void sort_backward(ROW_TENSOR(const DY_T, dy), ROW_TENSOR(const INDEX, i), ROW_TENSOR(DX_T, dx), ROW_SIZES,
                            int rows, int k, int n, int block, int columns) {
  const int begin = (int)get_global_id(1) * block, end = begin + min(block, rows - begin);
  for (int row = begin; row < end; row++) {
    const long dy_row = ROW_OFFSET(dy, row), i_row = ROW_OFFSET(i, row), dx_row = ROW_OFFSET(dx, row);
    for (int e = (int)get_global_id(0); e < k; e += columns) {
      const long place = (long)i[i_row + e * i_s.axis];
      if (place >= 0 && place < n)
        JOIN(STORE_, DX_DTYPE)(dx, dx_row + place * dx_s.axis, JOIN(LOAD_, DY_DTYPE)(dy, dy_row + e * dy_s.axis));
    }
  }
}
