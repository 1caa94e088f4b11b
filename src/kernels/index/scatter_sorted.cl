// table[indices] = dense where elements are sorted by their place in the table first: `scatter_keys` makes pairs
// (place, where in dense) of family w; once these are sorted, `scatter_chunks` folds runs of one place, for each of
// the columns that are family p. A work-item folds `rows` neighbours; what belongs to a run that goes on in the
// next chunk is a part, and `scatter_combine` folds parts in order. See indexing.cl and fold.cl.

#define SKIPPED(v) ((v) == skip)
#include "index/indexing.cl"
#include "lib/fold.cl"

// A place is a multiple of `unit` elements; `outside`: none.
__kernel void scatter_keys(__global uint* keys, long keys_o, __global uint* values, long values_o NEST, long skip,
                           OFFSET count, OFFSET unit, uint outside) {
  const OFFSET i = (OFFSET)get_global_id(0);
  if (i >= count) return;
  FIND_W(i)
  (keys + keys_o)[i] = ok ? (uint)(at / unit) : outside;
  (values + values_o)[i] = (uint)place.dense;
}

#define SORTED                                                                                                 \
  __global const uint *restrict keys, long keys_o, __global const uint *restrict values, long values_o,         \
      __global const S *restrict dense, long dense_o, __global T *restrict table, long table_o,                 \
      __global ACC *restrict parts, long parts_o NEST, int count, OFFSET columns, int rows, int chunks, OFFSET unit, \
      uint outside

// What a run comes to, into the table.
static void finish(__global T* restrict table, OFFSET at, ACC sum, int count) {
#if MEAN
#if INCLUDE_SELF
  sum = divided_by(LOAD(table, at) + sum, (ACC)(count + 1));
#else
  sum = divided_by(sum, (ACC)count);
#endif
#elif INCLUDE_SELF
  sum = FOLD(LOAD(table, at), sum);
#endif
  STORE(table, at, sum);
}

// parts: [2, chunks, columns]: of the run that came from the chunk before, and of that which goes on.
__kernel void scatter_chunks(SORTED) {
  const OFFSET column = (OFFSET)get_global_id(0);
  const int chunk = (int)get_global_id(1), begin = chunk * rows, end = min(begin + rows, count);
  if (column >= columns || begin >= count) return;
  keys += keys_o;
  values += values_o;
  dense += dense_o;
  table += table_o;
  parts += parts_o;
  struct Place place = {0, 0, {0}};
  LOCATE_P(column)
  uint key = keys[begin];
  bool from_before = begin > 0 && keys[begin - 1] == key;
  ACC sum = 0;
  int start = begin;
  for (int first = begin; first < end; first += 4) {
    uint next[4];
    ACC v[4];
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const int i = min(first + u, end - 1);
      next[u] = keys[i];
      v[u] = LOAD_DENSE(dense, (long)values[i] + place.dense);
    }
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const int i = first + u;
      if (i < end) {
        if (next[u] != key) {
          if (from_before)
            parts[(long)chunk * columns + column] = sum;
          else if (key != outside)
            finish(table, (OFFSET)key * unit + place.table, sum, i - start);
          from_before = false;
          key = next[u];
          start = i;
        }
        sum = i == start ? v[u] : FOLD(sum, v[u]);
      }
    }
  }
  if (from_before)
    parts[(long)chunk * columns + column] = sum;
  else if (end < count && keys[end] == key)
    parts[(long)(chunks + chunk) * columns + column] = sum;
  else if (key != outside)
    finish(table, (OFFSET)key * unit + place.table, sum, end - start);
}

// The run that starts in a chunk and ends in another.
__kernel void scatter_combine(SORTED) {
  const OFFSET column = (OFFSET)get_global_id(0);
  const int chunk = (int)get_global_id(1), begin = chunk * rows, end = begin + rows;
  if (column >= columns || end >= count) return;
  keys += keys_o;
  table += table_o;
  parts += parts_o;
  const uint key = keys[end];
  if (keys[end - 1] != key || key == outside || (begin > 0 && keys[begin - 1] == key)) return;
  struct Place place = {0, 0, {0}};
  LOCATE_P(column)
  int first = end, last = chunk + 1;
  while (first > begin && keys[first - 1] == key) first--;
  ACC sum = parts[(long)(chunks + chunk) * columns + column];
  for (;; last++) {
    sum = FOLD(sum, parts[(long)last * columns + column]);
    const int after = (last + 1) * rows;
    if (after >= count || keys[after] != key) break;
  }
  int behind = min((last + 1) * rows, count);
  while (keys[behind - 1] != key) behind--;
  finish(table, (OFFSET)key * unit + place.table, sum, behind - first);
}
