// Numbers along the spatial axes, for convolution on CPUs: there are always three of each.

// 0: the first axis has size 1 everywhere, and what is done for it is left out.
#ifndef DEPTH
#define DEPTH 0
#endif

#define AXES(x) int x##_d, int x##_h, int x##_w
#define LONG_AXES(x) long x##_d, long x##_h, long x##_w
#define OF_AXES(x) x##_d, x##_h, x##_w
