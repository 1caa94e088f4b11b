// How random_tiles.cl goes through memory. For OpenCL C, behind lib/int64.h and lib/divisor.h, and for C++ through
// ops/random/random_tiles.cpp.
typedef struct {
  Int64 lane_step;         // words from a lane to the next; elements of a run have neighbouring words
  Int64 x_run, y_run;      // elements of x and y from one of a run to the next
  Int64 step[6], x[6], y[6];  // of the other dimensions, the innermost first: words, elements of x and of y
  Divisor size[6];
  Divisor lane_words, chunks;  // words of the lanes, chunks of a run
  int count;                   // work-items
  int lanes, run;              // elements
  int unused;                  // see check-kernels
} RandomTilesNest;
