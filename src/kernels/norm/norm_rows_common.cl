// What the kernels of row normalisation share: their dtypes and forms. A row's neighbours lie side by side.

#include "lib/types.cl"

#ifndef X_DTYPE
#define X_DTYPE f32
#define X_TYPE float
#define Y_DTYPE f32  // forward: of y; backward: of dy
#define Y_TYPE float
#define W_DTYPE f32  // of weight and bias
#define W_TYPE float
#define DX_DTYPE f32
#define DX_TYPE float
#endif
#ifndef REAL  // of arithmetic and statistics
#define REAL float
#endif
#ifndef CENTER  // 0: the mean is taken as 0
#define CENTER 1
#endif
#ifndef WEIGHT
#define WEIGHT 1
#endif
#ifndef BIAS
#define BIAS 1
#endif

// Backward: which gradients are wanted.
#ifndef DX
#define DX 1
#endif
#ifndef DWEIGHT
#define DWEIGHT 1
#endif
#ifndef DBIAS
#define DBIAS 1
#endif

