// What conv_phase.cl is told of an axis. For OpenCL C and, through ops/conv/conv_phases.hpp, for C++.
typedef struct {
  int target, source;  // sizes
  int taps, stride;
  int phases;  // min(stride, target), forward 1
  int step;    // stride / gcd(stride, dilation)
  int pad, dilation;
} PhaseAxis;

typedef struct {
  PhaseAxis d, h, w;
} PhaseAxes;
