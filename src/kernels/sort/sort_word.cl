// What sorting kernels sort: words of a key and an index, all different, in ascending order. The key is the element's
// bits as an unsigned number that orders as PyTorch does: NaNs equal and above all else, -0 equal to 0. The index
// makes sorting stable. Elements are moved as bits, so that no dtype needs arithmetic of its own.

#include "sort/sort_axis.cl"

#ifndef RAW  // an element's bits
#define RAW uint
#endif
#ifndef RAW_BITS
#define RAW_BITS 32
#endif
#ifndef KIND  // 0: unsigned, 1: signed, 2: floating
#define KIND 2
#endif
#ifndef INFINITE  // the bits of infinity
#define INFINITE 0x7f800000u
#endif
#ifndef WORD_BITS  // 32: 16 of key and index each; 64: 32 each; 128: 64 of key, 32 of index
#define WORD_BITS 64
#endif
#ifndef KEYS_ALONE  // words are elements, without an index: where only values are wanted and sorting is stable by itself
#define KEYS_ALONE 0
#endif
#ifndef INDEX
#define INDEX long
#endif
#ifndef HAS_Y
#define HAS_Y 1
#endif
#ifndef HAS_INDICES
#define HAS_INDICES 1
#endif

#if RAW_BITS == 64
typedef ulong Key;
#else
typedef uint Key;
#endif
#define SIGN ((Key)1 << (RAW_BITS - 1))
#define ALL ((Key)(SIGN | (SIGN - 1)))

// `flip` is 0, or -1 where the order is descending.
static Key key_of(RAW bits, int flip) {
  Key key = bits;
#if KIND == 1
  key ^= SIGN;
#elif KIND == 2
  key = key == SIGN ? 0 : key;
  key = (key & ~SIGN) > INFINITE ? ALL : (key & SIGN) ? ~key & ALL : key | SIGN;
#endif
  return key ^ ((Key)flip & ALL);
}

// The element of a key; that of zeros and NaNs, whose bits differ, is read once more, at x.
static RAW element_of(Key key, __global const RAW* x, int flip) {
  key ^= (Key)flip & ALL;
#if KIND == 1
  key ^= SIGN;
#elif KIND == 2
  if (key == SIGN || key == ALL) return *x;
  key = (key & SIGN) ? key ^ SIGN : ~key & ALL;
#endif
  return (RAW)key;
}

#if KEYS_ALONE
typedef RAW Word;
#define KEY_OF(w) key_of(w, flip)
#elif WORD_BITS == 128
typedef struct {
  ulong key;
  uint index;
} Word;
#define LESS(a, b) (((a).key < (b).key) | (((a).key == (b).key) & ((a).index < (b).index)))
#define KEY_OF(w) ((w).key)
#define INDEX_OF(w) ((w).index)
static Word word_of(Key key, uint index) {
  Word w;
  w.key = key;
  w.index = index;
  return w;
}
static Word last_word(void) { return word_of(ALL, ~0u); }
#else
#if WORD_BITS == 64
typedef ulong Word;
#else
typedef uint Word;
#endif
#define HALF (WORD_BITS / 2)
#define LESS(a, b) ((a) < (b))
#define KEY_OF(w) ((Key)((w) >> HALF))
#define INDEX_OF(w) ((uint)(w) & (uint)(((Word)1 << HALF) - 1))
static Word word_of(Key key, uint index) { return (Word)key << HALF | index; }
static Word last_word(void) { return ~(Word)0; }
#endif

#if KEYS_ALONE
#define WORD_OF(element, place) (element)
#else
#define WORD_OF(element, place) word_of(key_of(element, flip), (uint)(place))
#endif

// Words in memory are counted in ulongs, as the host does, whatever their size.
#define WORDS_IN(constant, t) ((__global constant Word*)(t + t##_o))

// Writes the result at `place` of a row: x_row, y_row and i_row are the row's offsets.
#if KEYS_ALONE
#define STORE_WORD(w, place) y[y_row + (place) * y_s.axis] = (w);
#else
#define STORE_WORD(w, place)                                                                                   \
  {                                                                                                            \
    if (HAS_Y) y[y_row + (place) * y_s.axis] = element_of(KEY_OF(w), x + x_row + (long)INDEX_OF(w) * x_s.axis, flip); \
    if (HAS_INDICES) i[i_row + (place) * i_s.axis] = (INDEX)INDEX_OF(w);                                       \
  }
#endif
