// What losses of class indices share: a row's target, whether it counts, and its weight.

#ifndef T_DTYPE  // of targets: an integer, or floating where they are probabilities
#define T_DTYPE i32
#define T_T int
#endif
#ifndef W_DTYPE  // of the classes' weights
#define W_DTYPE f32
#define W_T float
#endif
#ifndef L_DTYPE  // of the loss, or backward of its gradient
#define L_DTYPE f32
#define L_T float
#endif
#ifndef WEIGHTED  // classes have weights
#define WEIGHTED 0
#endif
#ifndef MEAN  // forward: rows' weights are wanted; backward: there is their sum
#define MEAN 0
#endif

// Of the row whose target lies at t[i]: `c`, and what it counts, 0 if it is not to.
#define CLASS_OF(t, i, w)                                           \
  const long c = (long)LOAD(T_DTYPE, t, i);                         \
  const bool counts = c >= 0 && c < size && c != ignore;            \
  const real row_weight = !counts ? 0 : WEIGHTED ? LOAD(W_DTYPE, w, (INDEX)c * (INDEX)w##_s.axis) : 1;

// Cross-entropy alone.
#ifndef PROB  // targets are probabilities
#define PROB 0
#endif
#ifndef SMOOTH  // of each class' target, `smoothing` is shared by all classes
#define SMOOTH 0
#endif
// Every class has a part in a row's target, not only one.
#define SPREAD_OUT (PROB || SMOOTH)
// The part of a class of weight w in that, p its probability; of class indices without the target's own.
#define PART(w, p) ((w) * (PROB ? (p) * (1 - smoothing) + smoothing / (real)size : smoothing / (real)size))
