// What triangular_solve.cl takes by value, which C++ includes too: sizes, and strides in elements of matrices in batches of
// up to six dimensions.
typedef struct {
  Int64 row, column, batch[6];
} TriangularStrides;

typedef struct {
  Int64 sizes[6];  // of the batch's dimensions, the last one is the fastest
  TriangularStrides a, b, x;
  int n, m;  // rows, right sides
} TriangularProblem;
