// Tiles of a tensor [N, C, H, W], for Winograd's transforms, and where the transformed ones lie: a matrix [tile][channel]
// for each point, `plane` elements apart. Tiles are STEP_H x STEP_W pixels apart and SIZE_H x SIZE_W large; a transformed
// one has POINTS_H x POINTS_W numbers. A launch has `rows` rows of tiles from `first_row` on, images one below the other;
// the first has tile 0. A filter is an image of one tile.
#ifndef SIZE_H
#define SIZE_H 4
#endif
#ifndef SIZE_W
#define SIZE_W 4
#endif
#ifndef STEP_H
#define STEP_H 2
#endif
#ifndef STEP_W
#define STEP_W 2
#endif
#ifndef POINTS_H
#define POINTS_H 4
#endif
#ifndef POINTS_W
#define POINTS_W 4
#endif

#include "lib/int64.h"
#include "conv/conv_winograd.h"
