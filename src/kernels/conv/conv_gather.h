// What a launch of conv_gather.cl is about. For OpenCL C, behind lib/divisor.h and conv_phase.h, and for C++ through
// ops/conv/conv_gather.hpp.
typedef struct {
  int g;  // from group to group
  int n, c, d, h, w;
} GatherStrides;

typedef struct {
  Divisor d, h, w;
} GatherDivisors;

typedef struct {
  int images;
  Divisor channels;  // the source's in a group
  PhaseAxes axes;
  GatherDivisors count, window;  // by the axes' target and taps
  GatherStrides s, t, w;         // of w, n is from one of the target's channels to the next, c of the source's
} GatherShape;
