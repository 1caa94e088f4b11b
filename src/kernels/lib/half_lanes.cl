// Vectors of 4, 8 and 16 halves. On CPUs vload_half and vstore_half of several suppose addresses that are multiples of their size
// (PoCL 3.1 ends in a segmentation fault otherwise), or go element by element.

#include "lib/half.cl"

HALF_CONVERSIONS(4, )
HALF_CONVERSIONS(8, )
HALF_CONVERSIONS(16, )
