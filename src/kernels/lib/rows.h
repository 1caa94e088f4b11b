// Where a tensor's rows along an axis lie. For OpenCL C, behind lib/int64.h, and for C++ through ops/lib/rows.hpp.
typedef struct {
  Int64 axis;     // along the row
  Int64 kept[4];  // along the kept dimensions, the innermost first; 0 where the tensor broadcasts
} RowStrides;

typedef struct {
  Int64 size[4];  // of the kept dimensions
} RowKept;
