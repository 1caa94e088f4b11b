// Where a tensor's rows along an axis lie. For OpenCL C, behind lib/int64.h, and for C++ through ops/sort/sort_impl.hpp.
typedef struct {
  Int64 rows[7];  // steps along the dimensions besides the axis
  Int64 axis;     // and along the row
} AxisSteps;

typedef struct {
  int sizes[7];  // of the dimensions besides the axis
} AxisDims;
