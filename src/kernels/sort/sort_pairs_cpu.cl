// One pass of a stable radix sort of (key, value) pairs of 32 bits each, on a CPU: each work-group of one item
// walks a chunk of elements. See sort_pairs.cl.

#ifndef POSITIONS  // values are the numbers 0, 1, ...
#define POSITIONS 0
#endif
#define DIGIT(key) (((key) >> shift) & 255u)

// counts: [blocks, 256].
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void sort_count(__global const uint* keys, long keys_o,
                                                                        __global uint* counts, long counts_o,
                                                                        uint count, uint shift, uint chunk,
                                                                        uint blocks) {
  const uint block = (uint)get_group_id(0), begin = block * chunk, end = min(begin + chunk, count);
  uint bins[256];
  keys += keys_o;
  for (int d = 0; d < 256; d++) bins[d] = 0;
  for (uint i = begin; i < end; i++) bins[DIGIT(keys[i])]++;
  for (int d = 0; d < 256; d++) (counts + counts_o)[block * 256 + d] = bins[d];
}

// One item alone: counts become places.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void sort_scan(__global uint* counts, long counts_o,
                                                                       uint blocks) {
  uint sum = 0;
  counts += counts_o;
  for (int d = 0; d < 256; d++)
    for (uint block = 0; block < blocks; block++) {
      const uint here = counts[block * 256 + d];
      counts[block * 256 + d] = sum;
      sum += here;
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void sort_move(
    __global const uint* keys, long keys_o, __global const uint* values, long values_o, __global uint* keys_out,
    long keys_out_o, __global uint* values_out, long values_out_o, __global const uint* counts, long counts_o,
    uint count, uint shift, uint chunk, uint blocks) {
  const uint block = (uint)get_group_id(0), begin = block * chunk, end = min(begin + chunk, count);
  uint place[256];
  keys += keys_o;
  values += values_o;
  keys_out += keys_out_o;
  values_out += values_out_o;
  for (int d = 0; d < 256; d++) place[d] = (counts + counts_o)[block * 256 + d];
  for (uint i = begin; i < end; i++) {
    const uint key = keys[i], to = place[DIGIT(key)]++;
    keys_out[to] = key;
    values_out[to] = POSITIONS ? i : values[i];
  }
}
