// Tiles of GEMM operands on their way into local memory by asynchronous copies (cp.async), 16 bytes at a time, for
// gemm_nv_mma.cl: which piece of a tile a work-item copies, where it lies there, and what the edges of a matrix leave.

// As in gemm_nv_mma.cl.
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 4
#endif
#ifndef STEP_BYTES
#define STEP_BYTES 128
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef ITEMS
#define ITEMS 256
#endif
#define STEP (STEP_BYTES / ELEMENT_BYTES)  // of k
#define PIECE (16 / ELEMENT_BYTES)         // elements in 16 bytes

static void start_copy(uint to, __global const void* from) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}
static void store_words(uint to, const uint v[4]) {
  __asm__ volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};"
                   :
                   : "r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                   : "memory");
}
static void commit_copies(void) {
  __asm__ volatile("cp.async.commit_group;" : : : "memory");
}
// All but the last STAGES - 2 groups of copies have arrived.
static void wait_copies(void) {
  __asm__ volatile("cp.async.wait_group %0;" : : "n"(STAGES - 2) : "memory");
}
static void wait_all_copies(void) {
  __asm__ volatile("cp.async.wait_all;" : : : "memory");
}

// Where 16 bytes lie in a tile, so that those which are read together lie in different banks. K contiguous: piece i of row r.
// Else: piece i of step k.
#define UNIT_K_PLACE(r, i) ((r)*STEP_BYTES + (((i) ^ ((r)*STEP_BYTES / 128 & (STEP_BYTES / 16 - 1))) * 16))
#if ELEMENT_BYTES == 4
#define ACROSS_K_PLACE(tile, k, i) ((k)*(tile)*ELEMENT_BYTES + (((i) ^ ((k)&3) << 1) * 16))
#else
#define ACROSS_K_PLACE(tile, k, i) ((k)*(tile)*ELEMENT_BYTES + (((i) ^ ((k)&7)) * 16))
#endif

// A work-item's share of an operand's tile: pieces of 16 bytes, `pieces` of them in a run, the same one of several runs.
struct Share {
  __global const uchar* at;        // the first piece of the next step
  long run_bytes, step_bytes;      // from one of its runs to the next, and from step to step
  int along, across;               // elements left along the first run from there on, and runs left
};
#define PIECES(unit_k, tile) ((unit_k) ? STEP_BYTES / 16 : (tile) / PIECE)
#define RUNS_AT_ONCE(unit_k, tile) (ITEMS / PIECES(unit_k, tile))

static struct Share share_of(__global const uchar* x, int unit_k, int tile, int first, int rows, long pitch, int K, int item) {
  const int pieces = PIECES(unit_k, tile), run = item / pieces, start = item % pieces * PIECE;
  const int along = (unit_k ? 0 : first) + start, across = (unit_k ? first : 0) + run;
  struct Share s;
  s.at = x + (across * pitch + along) * ELEMENT_BYTES;
  s.run_bytes = RUNS_AT_ONCE(unit_k, tile) * pitch * ELEMENT_BYTES;
  s.step_bytes = (unit_k ? 1 : pitch) * STEP * ELEMENT_BYTES;
  s.along = (unit_k ? K : rows) - along;
  s.across = (unit_k ? rows : K) - across;
  return s;
}

#if ELEMENT_BYTES == 4
#define ELEMENT uint
#elif ELEMENT_BYTES == 2
#define ELEMENT ushort
#else
#define ELEMENT uchar
#endif
// What the edge leaves of a piece, zeros behind it. (cp.async can fill up with zeros too, but with few bytes to copy its
// results differed from run to run, on an H200.)
static void copy_rest(uint to, __global const uchar* from, int count) {
  uint words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < PIECE; i++)
    if (i < count) words[i * ELEMENT_BYTES / 4] |= (uint)((__global const ELEMENT*)from)[i] << i * ELEMENT_BYTES % 4 * 8;
  store_words(to, words);
}

// Starts the copies of the next step from what lies `apart` bytes behind the operand. Its tile lies inside if `whole`.
static void copy_step(const struct Share* s, long apart, uint to, int unit_k, int tile, int item, int whole) {
  const int pieces = PIECES(unit_k, tile), at_once = RUNS_AT_ONCE(unit_k, tile), run = item / pieces, piece = item % pieces;
#define PLACE(r) (to + (unit_k ? UNIT_K_PLACE(r, piece) : ACROSS_K_PLACE(tile, r, piece)))
  __global const uchar* from = s->at + apart;
  if (whole) {
#pragma unroll
    for (int i = 0; i < tile * STEP_BYTES / 16 / ITEMS; i++) {
      start_copy(PLACE(run + i * at_once), from);
      from += s->run_bytes;
    }
  } else {
    for (int i = 0; i < tile * STEP_BYTES / 16 / ITEMS; i++) {
      const int left = i * at_once < s->across ? s->along : 0;
      if (left >= PIECE)
        start_copy(PLACE(run + i * at_once), from);
      else
        copy_rest(PLACE(run + i * at_once), from, left);
      from += s->run_bytes;
    }
  }
}
static void advance(struct Share* s, int unit_k) {
  s->at += s->step_bytes;
  if (unit_k)
    s->along -= STEP;
  else
    s->across -= STEP;
}
