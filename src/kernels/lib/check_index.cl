// Finds the first element of an index tensor that is out of range, in row-major order. One work-group walks the
// whole tensor: the search runs only where a user asked for it, and its answer must not depend on timing.
#include "lib/int64.h"
#include "lib/check_index.h"

#ifndef INDEX
#define INDEX int
#define GROUP 64
#endif

// record: the site, the element's number and its value. The first bad element of the stream stays; site 0: none yet.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void check_index(__global const INDEX* restrict index,
                                                                             long index_o, __global long* restrict record,
                                                                             IndexSearch search) {
  __local long first[GROUP];
  __local int found_before[1];  // one item reads the record, as one writes it
  const int item = (int)get_local_id(0);
  index += index_o;
  if (item == 0) found_before[0] = record[0] != 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  long found = LONG_MAX;
  if (!found_before[0])
    for (long i = item; i < search.count && found == LONG_MAX; i += GROUP) {
      long rest = i, at = 0;
      for (int d = 7; d >= 0; d--) {
        const long size = search.size[d];
        if (size == 1) continue;
        at += rest % size * search.stride[d];
        rest /= size;
      }
      const long v = (long)index[at];
      const bool right = (v >= search.least && v < search.end) || (search.skips != 0 && v == search.skip);
      if (!right) found = i;
    }
  first[item] = found;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item != 0) return;
  for (int k = 1; k < GROUP; k++) found = min(found, first[k]);
  if (found == LONG_MAX) return;
  long rest = found, at = 0;
  for (int d = 7; d >= 0; d--) {
    at += rest % search.size[d] * search.stride[d];
    rest /= search.size[d];
  }
  record[0] = search.site;
  record[1] = found;
  record[2] = (long)index[at];
}
