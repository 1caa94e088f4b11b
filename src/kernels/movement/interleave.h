// Where planes and their packed elements lie. For OpenCL C, behind lib/int64.h and lib/divisor.h, and for C++ through
// ops/movement/interleave.cpp.
typedef struct {
  Int64 place_step;              // from place to place of a plane
  Int64 inner_step, outer_step;  // from plane to plane, along the one or two dimensions that they lie along
  Int64 planes[6], packed[6];    // steps along the other dimensions, the innermost first
  Divisor size[6];
  Divisor row;  // parts of a row
  int count;    // parts
} InterleaveNest;
