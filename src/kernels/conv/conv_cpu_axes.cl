// What convolution on CPUs is told; there are always three spatial axes.

// 0: the first axis has size 1 everywhere, and what is done for it is left out.
#ifndef DEPTH
#define DEPTH 0
#endif

#include "lib/int64.h"
#include "conv/conv_axes.h"
#include "conv/conv_cpu.h"
