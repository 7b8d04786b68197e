// Loops of routines on the cpu device (engine, backend/cpu/routine) that are not in the operation table. A lane is an
// element that a routine works on; `home` has the lanes' element indices. Loops whose result may be one of their
// operands say so by `ivdep`.
#pragma once
#include "routine.h"

#define VG_LANES extern "C" VG_CLONES

// The number of TRUE elements, and the number of NA elements
VG_LANES void vg_lanes_count(const i32* __restrict x, i32 n, i32* __restrict found) {
  i32 yes = 0, na = 0;
  for (i32 k = 0; k < n; k++) {
    const i32 missing = x[k] == NA_I32;
    na += missing;
    yes += (x[k] != 0) & !missing;
  }
  found[0] = yes;
  found[1] = na;
}

#define VG_EACH(c)                                                                                                     \
  VG_LANES void vg_lanes_choose_##c(c* o, const i32* test, const c* yes, const c* no, i32 n) {                         \
    _Pragma("GCC ivdep") for (i32 k = 0; k < n; k++) o[k] = choose_by(test[k], yes[k], no[k]);                         \
  }                                                                                                                    \
  extern "C" void vg_lanes_get_##c(c* __restrict o, const c* __restrict array, const i64* __restrict at,               \
                                   const i32* __restrict home, i64 length, i64 width, i32 n) {                         \
    for (i32 k = 0; k < n; k++) {                                                                                      \
      const bool inside = (u64)at[k] < (u64)length;                                                                    \
      const c x = array[(inside ? at[k] : 0) * width + home[k]];                                                       \
      o[k] = inside ? x : na_of(x);                                                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  extern "C" void vg_lanes_set_##c(c* __restrict array, const i64* __restrict at, const c* __restrict value,           \
                                   const i32* __restrict home, i64 length, i64 width, i32 n) {                         \
    for (i32 k = 0; k < n; k++)                                                                                        \
      if ((u64)at[k] < (u64)length) array[at[k] * width + home[k]] = value[k];                                         \
  }
VG_EACH(i32) VG_EACH(i64) VG_EACH(f32) VG_EACH(f64) VG_EACH(c64) VG_EACH(c128)
#undef VG_EACH

// `fails` says whether a subscript beyond the extent is a failure. Returns whether any lane fails.
#define VG_EACH(c)                                                                                                     \
  VG_LANES i32 vg_lanes_position_##c(i64* __restrict o, const c* __restrict x, const i64* __restrict extent, i32 fails, \
                                     i32 n) {                                                                          \
    i32 failed = 0;                                                                                                    \
    for (i32 k = 0; k < n; k++) {                                                                                      \
      const i64 at = position(x[k], extent[k]);                                                                        \
      o[k] = (at == AT_HIGH) & !fails ? AT_NONE : at;                                                                  \
      failed |= o[k] < AT_NONE;                                                                                        \
    }                                                                                                                  \
    return failed;                                                                                                     \
  }
VG_EACH(i32) VG_EACH(i64) VG_EACH(f32) VG_EACH(f64)
#undef VG_EACH

VG_LANES void vg_lanes_offset(i64* __restrict o, const i64* __restrict at, const i64* __restrict stride, i32 first,
    i32 n) {
  if (first) for (i32 k = 0; k < n; k++) o[k] = add_offset(0, at[k], stride[k]);
  else for (i32 k = 0; k < n; k++) o[k] = add_offset(o[k], at[k], stride[k]);
}

VG_LANES void vg_lanes_step_i32(i32* o, const i32* from, const i32* counter, const i32* step, i32 n) {
  _Pragma("GCC ivdep") for (i32 k = 0; k < n; k++) o[k] = stepped(from[k], counter[k], step[k]);
}
VG_LANES void vg_lanes_step_f64(f64* o, const f64* from, const i32* counter, const f64* step, i32 n) {
  _Pragma("GCC ivdep") for (i32 k = 0; k < n; k++) o[k] = stepped(from[k], counter[k], step[k]);
}

#define VG_EACH(name)                                                                                                  \
  VG_LANES void vg_lanes_##name(f64* __restrict o, i64 key, i64 i, const i32* __restrict home, i32* __restrict count,  \
                                i32 n) {                                                                               \
    for (i32 k = 0; k < n; k++) o[k] = name##_number(key, i + home[k], count[k]);                                      \
    for (i32 k = 0; k < n; k++) count[k] = (i32)((u32)count[k] + 1u);                                                  \
  }
VG_EACH(uniform) VG_EACH(normal) VG_EACH(exponential)
#undef VG_EACH
