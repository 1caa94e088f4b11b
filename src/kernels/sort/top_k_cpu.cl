// The first k of rows in order, on a CPU: a work-item goes through a piece of a row and keeps words below a limit in a
// buffer; when that is full, its k smallest stay, and the largest of them is the new limit. Of random rows few words come
// below the limit later on. Pieces of one row are brought together by a second run, whose words are theirs.

#include "sort/sort_words_cpu.cl"

#ifndef FROM_WORDS
#define FROM_WORDS 0
#endif
#ifndef TO_WORDS
#define TO_WORDS 0
#endif
#ifndef SORTED
#define SORTED 1
#endif

// Puts the k smallest of a[0, n) in front: Hoare's selection, with the middle of three as the pivot.
static void select_first(__global Word* a, int n, int k) {
  int low = 0, high = n - 1;
  while (high - low > 16) {
    const int middle = low + (high - low) / 2;
    const Word p = a[low], q = a[middle], r = a[high];
    const Word pivot = LESS(p, q) ? (LESS(q, r) ? q : LESS(p, r) ? r : p) : (LESS(p, r) ? p : LESS(q, r) ? r : q);
    int up = low, down = high;
    while (up <= down) {
      while (LESS(a[up], pivot)) up++;
      while (LESS(pivot, a[down])) down--;
      if (up > down) break;
      const Word w = a[up];
      a[up++] = a[down];
      a[down--] = w;
    }
    if (k - 1 <= down)
      high = down;
    else if (k - 1 >= up)
      low = up;
    else
      return;
  }
  insertion_sort(a + low, high - low + 1);
}

// The k smallest of a[0, n) stay, in their order. Returns the largest of them. b has room for n words.
static Word keep_first(__global Word* a, __global Word* b, int n, int k) {
  for (int e = 0; e < n; e++) b[e] = a[e];
  select_first(b, n, k);
  Word limit = b[0];
  for (int e = 1; e < k; e++) {
    const Word w = b[e];
    limit = LESS(limit, w) ? w : limit;
  }
  int count = 0;
  for (int e = 0; e < n; e++) {
    const Word w = a[e];
    a[count] = w;
    count += !LESS(limit, w);
  }
  return limit;
}

#if FROM_WORDS
#define WORD_AT(e) source[e]
#else
#define WORD_AT(e) word_of(key_of(x[x_row + (e) * x_s.axis], flip), (uint)(e))
#endif

// Work-group (piece, row); the last piece of a row takes the rest. `space` has room for 2 * room words of each, where room
// is at least k + 16; `words` for k of each, in the order of their indices.
__kernel void top_k(ROW_TENSOR(const RAW, x), ROW_TENSOR(RAW, y), ROW_TENSOR(INDEX, i), ROW_SIZES, int flip, int n, int k, int piece,
                    __global ulong* space, long space_o, int room, __global ulong* words, long words_o) {
  const int row = (int)get_global_id(1), part = (int)get_global_id(0), parts = (int)get_global_size(0);
  const long x_row = ROW_OFFSET(x, row), at = (long)row * parts + part;
  __global Word* kept = WORDS_IN(, space) + at * 2 * room;
  __global const Word* source = WORDS_IN(const, words) + (long)row * n;
  __global const RAW* from = x + x_row;
  const int begin = part * piece, end = part == parts - 1 ? n : begin + piece;
  Word limit = last_word();
  int count = 0;
  for (int e = begin; e < end; e += 16) {
    const int here = min(16, end - e);
    if (count + 16 > room) {
      limit = keep_first(kept, kept + room, count, k);
      count = k;
    }
    int any = FROM_WORDS || x_s.axis != 1 || here < 16;
#if !FROM_WORDS
    if (!any)
      for (int m = 0; m < 16; m++) any |= key_of(from[e + m], flip) <= KEY_OF(limit);
#endif
    if (any)
      for (int m = 0; m < here; m++) {
        const Word w = WORD_AT(e + m);
        kept[count] = w;
        count += LESS(w, limit);
      }
  }
  if (count > k) keep_first(kept, kept + room, count, k);
#if TO_WORDS
  for (int e = 0; e < k; e++) (WORDS_IN(, words) + at * k)[e] = kept[e];
#else
  const long y_row = HAS_Y ? ROW_OFFSET(y, row) : 0, i_row = HAS_INDICES ? ROW_OFFSET(i, row) : 0;
  __global const Word* sorted = SORTED ? sort_words(kept, kept + room, k) : kept;
  for (int e = 0; e < k; e++) {
    const Word w = sorted[e];
    STORE_WORD(w, e)
  }
#endif
}
