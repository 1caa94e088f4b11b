// One warp-group feeds the others and gives them its registers. (As one of them it would hold all up at each tile.) What its
// kernel begins with, before WARP_GROUPS others multiply: registers of a work-item at first, while it feeds, and while it
// multiplies; 65536 in all.
#ifndef WARP_GROUPS
#define WARP_GROUPS 2
#endif
#define ITEMS (128 * WARP_GROUPS + 128)
#if WARP_GROUPS == 2
#define START_REGISTERS __asm__ volatile("//@entry .maxnreg 168");
#define GIVE_REGISTERS __asm__ volatile("//@setmaxnreg.dec.sync.aligned.u32 40;");
#define TAKE_REGISTERS __asm__ volatile("//@setmaxnreg.inc.sync.aligned.u32 232;");
#else
#define START_REGISTERS __asm__ volatile("//@entry .maxnreg 128");
#define GIVE_REGISTERS __asm__ volatile("//@setmaxnreg.dec.sync.aligned.u32 32;");
#define TAKE_REGISTERS __asm__ volatile("//@setmaxnreg.inc.sync.aligned.u32 160;");
#endif
