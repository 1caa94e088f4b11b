// What a scan carries from element to element: a sum, a product, an extreme and its place, or (RECURRENCE) the map
// h -> a h + b, with which the gradient of a cumulative product goes from its end to its start. SEGMENTS: a sum that
// starts anew behind each element that ends a run, of which x is 0: the gradient of cumulative extremes.
#ifndef KIND
#define INDEX uint
#define real float
#define KIND 0
#define EXCLUSIVE 0
#define REVERSE 0
#define PHASE 0
#endif
#ifndef TOTALS_GROUP
#define TOTALS_GROUP 64
#define TOTALS_LANES 64
#endif
#define SUM 0
#define PRODUCT 1
#define MAXIMUM 2
#define MINIMUM 3
#define RECURRENCE 4
#define SEGMENTS 5
#define NO_PLACE ((INDEX)-1)

struct State {
  real a;
#if KIND == MAXIMUM || KIND == MINIMUM
  INDEX b;
#elif KIND == RECURRENCE || KIND == SEGMENTS
  real b;
#endif
};

// In the workspace, [part][row].
#define STATE_AT(i) (((__global struct State*)(ws_p + ws_o))[i])

static struct State identity(void) {
  struct State s;
#if KIND == SUM
  s.a = 0;
#elif KIND == PRODUCT
  s.a = 1;
#elif KIND == MAXIMUM
  s.a = REAL_LOWEST, s.b = NO_PLACE;
#elif KIND == MINIMUM
  s.a = REAL_HIGHEST, s.b = NO_PLACE;
#else
  s.a = 1, s.b = 0;
#endif
  return s;
}

// Of the element at `place`; g is the gradient there. Compilers make no vectors of loops with structs by value.
static void set_state(struct State* s, real x, real g, INDEX place) {
  s->a = x;
#if KIND == MAXIMUM || KIND == MINIMUM
  s->b = place;
#elif KIND == RECURRENCE
  s->b = x * g;
#elif KIND == SEGMENTS
  s->b = x != 0 ? g : 0;
#endif
}

// `first` becomes what it and then `second` come to.
static void follow(struct State* first, const struct State* second) {
#if KIND == SUM
  first->a += second->a;
#elif KIND == PRODUCT
  first->a *= second->a;
#elif KIND == RECURRENCE
  first->b = second->a * first->b + second->b;
  first->a *= second->a;
#elif KIND == SEGMENTS
  first->b = second->a != 0 ? first->b + second->b : second->b;
  first->a *= second->a;
#else
#if KIND == MAXIMUM
  const int later = second->b != NO_PLACE && (second->a != second->a || second->a >= first->a);
#else
  const int later = second->b != NO_PLACE && (second->a != second->a || second->a <= first->a);
#endif
  first->a = later ? second->a : first->a;
  first->b = later ? second->b : first->b;
#endif
}

// The same by value.
static struct State state_of(real x, real g, INDEX place) {
  struct State s;
  set_state(&s, x, g, place);
  return s;
}
static struct State then(struct State first, struct State second) {
  follow(&first, &second);
  return first;
}

#if PHASE == 1
// The totals of a row's parts become what lies before each. TOTALS_LANES work-items share a row, neighbouring parts each.
__kernel __attribute__((reqd_work_group_size(TOTALS_GROUP, 1, 1))) void scan_totals(__global uchar* ws_p, long ws_o,
                                                                                    INDEX kept, INDEX parts) {
  const int item = (int)get_local_id(0), lane = item % TOTALS_LANES;
  const INDEX k = (INDEX)(get_global_id(0) / TOTALS_LANES);
  const INDEX share = (parts + TOTALS_LANES - 1) / TOTALS_LANES, begin = lane * share;
  const INDEX end = k < kept ? min(begin + share, parts) : 0;
  struct State state = identity();
#if TOTALS_LANES > 1
  __local struct State L[TOTALS_GROUP];
  for (INDEX p = begin; p < end; p++) state = then(state, STATE_AT((ulong)p * kept + k));
  L[item] = state;
  barrier(CLK_LOCAL_MEM_FENCE);
  state = identity();
  for (int j = item - lane; j < item; j++) state = then(state, L[j]);
#endif
  for (INDEX p = begin; p < end; p++) {
    const struct State total = STATE_AT((ulong)p * kept + k);
    STATE_AT((ulong)p * kept + k) = state;
    state = then(state, total);
  }
}
#endif
