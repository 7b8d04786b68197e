// The square tile of the result that a block computes where inputs are read transposed (codegen/tiled.rs). CUDA only.
#pragma once
#include "prelude.h"

// Extents and squares of the result's first axis and of the one that the transposed inputs are read along, and the axes
// between.
struct Tiles {
  u32 across, along, tiles_across, tiles_along, between;
  u32 mirrored;  // whether what is read transposed is read in the result's order too
};

// Square `b`, counted along both axes. Mirrored: a square and its mirror image one after the other, since each reads
// what the other does, and the second finds it in the second-level cache. Then those whose greater count is `s` are
// number s^2 to (s + 1)^2 - 1.
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
  } else {  // beyond the largest square of squares
    across = q.tiles_across == least ? b % least : b / least;
    along = q.tiles_across == least ? b / least : b % least;
  }
}
