// The square tile of the result that a block computes if inputs are read transposed (codegen/tiled.rs). CUDA only.
#pragma once
#include "prelude.h"

// Extents and tile counts of the result's first axis (across) and of the axis that the transposed inputs are read along
// (along), and the product of the extents between them.
struct Tiles {
  u32 across, along, tiles_across, tiles_along, between;
  u32 mirrored;  // whether the inputs read transposed are also read in the result's order
};

// The coordinates of tile `b`. If mirrored, a tile and its mirror image follow one another, since each reads what the
// other does, and the second one finds it in the L2 cache: tiles whose greater coordinate is `s` have the numbers s^2
// to (s + 1)^2 - 1.
VG_FN void square(const Tiles& q, u32 b, u32& across, u32& along) {
  const u32 least = min(q.tiles_across, q.tiles_along);
  if (!q.mirrored) {
    across = b % q.tiles_across;
    along = b / q.tiles_across;
  } else if (b < least * least) {
    u32 s = (u32)sqrtf((float)b);
    if (s * s > b) s--;
    if ((s + 1u) * (s + 1u) <= b) s++;
    const u32 k = b - s * s;
    across = k & 1u ? k >> 1 : s;
    along = k & 1u ? s : k >> 1;
  } else {  // outside of the largest square of tiles
    across = q.tiles_across == least ? b % least : b / least;
    along = q.tiles_across == least ? b / least : b % least;
  }
}
