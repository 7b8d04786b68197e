// Helpers of routines (compiled R functions) that are not in the operation table: positions, loop variables, numbered
// draws. Both devices give the same bits.
#pragma once
#include "draws.h"

// ---- positions --------------------------------------------------------------------------------------------
// R's subscript x as a position from 0 below an extent, or one of these codes: NA, below 1, beyond the extent.
// Fractions are truncated.
#define AT_NONE (-1ll)
#define AT_LOW (-2ll)
#define AT_HIGH (-3ll)
VG_FN i64 position(i32 x, i64 extent) {
  return x == NA_I32 ? AT_NONE : x < 1 ? AT_LOW : (i64)x > extent ? AT_HIGH : (i64)x - 1;
}
VG_FN i64 position(i64 x, i64 extent) { return x == NA_I64 ? AT_NONE : x < 1 ? AT_LOW : x > extent ? AT_HIGH : x - 1; }
VG_FN i64 position(f64 x, i64 extent) {
  if (x != x) return AT_NONE;
  return x < 1 ? AT_LOW : x >= (f64)extent + 1.0 ? AT_HIGH : (i64)x - 1;
}
VG_FN i64 position(f32 x, i64 extent) { return position((f64)x, extent); }

// Adds one axis to the offset of an element (0 at first): AT_NONE if the position on any axis is AT_NONE
VG_FN i64 add_offset(i64 offset, i64 at, i64 stride) {
  return (offset < 0) | (at < 0) ? AT_NONE : offset + at * stride;
}

// ---- a loop's variable --------------------------------------------------------------------------------------
VG_FN i32 stepped(i32 from, i32 counter, i32 step) { return (i32)((u32)from + (u32)counter * (u32)step); }
VG_FN f64 stepped(f64 from, i32 counter, f64 step) { return from + (f64)counter * step; }

// ---- numbered draws -----------------------------------------------------------------------------------------
// Draw d of element i under a call's key. Each kind of draw has blocks of its own purpose; a block serves two draws.
#define FOR_UNIFORMS 8u
#define FOR_NORMALS 9u
#define FOR_EXPONENTIALS 10u
#define FOR_KEYS 11u

VG_FN philox_block numbers_of(i64 key, i64 i, i32 d, u32 purpose) { return block_of(key, i, (u32)d >> 1, purpose); }
VG_FN f64 uniform_number(i64 key, i64 i, i32 d) { return uniform64(numbers_of(key, i, d, FOR_UNIFORMS), (u32)d & 1u); }
VG_FN f64 normal_number(i64 key, i64 i, i32 d) { return normal64(numbers_of(key, i, d, FOR_NORMALS), (u32)d & 1u); }
VG_FN f64 exponential_number(i64 key, i64 i, i32 d) {
  return exponential64(numbers_of(key, i, d, FOR_EXPONENTIALS), (u32)d & 1u);
}

// The key of draw d of a distribution with parameters: the row uses it, with the element's index.
VG_FN i64 key_of_number(i64 key, i32 d) {
  philox_block c = {(u32)d, 0u, 0u, FOR_KEYS};
  return (i64)word64(philox4x32(c, (u32)(u64)key, (u32)((u64)key >> 32)), 0u);
}
