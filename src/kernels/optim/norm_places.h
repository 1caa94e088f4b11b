// Which parts belong to which tensor of a list, for finish_norms of gradients.cl and for C++ through ops/optim/tensor_norms.cpp.
// The smallest devices have room for this among a kernel's arguments.
#define NORM_PLACES 96
typedef struct {
  int first[NORM_PLACES + 1];  // part of each place, and the end of the last one's
  int tensor[NORM_PLACES];     // of the list: where the norm goes
} NormPlaces;
