// Device functions that generated routines call (codegen/routine). CUDA only.
#pragma once
#include "routine.h"

// ---- arrays of one element (thread) -----------------------------------------------------------------------------
template <int N, class T> VG_FN void fill_missing(T (&a)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) a[k] = na_of(T());
}
template <int N, class T> VG_FN T get(const T (&a)[N], i64 at) { return (u64)at < (u64)N ? a[at] : na_of(T()); }
template <int N, class T> VG_FN void set(T (&a)[N], i64 at, T value) {
  if ((u64)at < (u64)N) a[at] = value;
}

// ---- failures -------------------------------------------------------------------------------------------------
// The failure of an element: `code` is the failure's number plus 1, or 0 if the element has not failed. For a subscript
// also its value, and the extent.
struct Failed { u32 code; f64 subscript; i64 extent; };

// Records the failure of the lowest failing element of a launch. Each of five words has the element's index in its high
// bits and a part of the record in its low bits, all complemented, so the largest word is the lowest element's,
// whatever the order of threads. `Failed::read` (compile/src/failed.rs) decodes it.
VG_FN void note_failed(const Failed& failed, i64 i, u32* flags, int at, u32* any) {
  if (failed.code == 0u || flags == nullptr) return;
  u64* record = (u64*)(flags + at);
  const u64 x = bits_of(failed.subscript), n = (u64)failed.extent;
  const u64 parts[5] = {(u64)(failed.code - 1u) | n << 8, n >> 16, x, x >> 24, x >> 48};
#pragma unroll
  for (int k = 0; k < 5; k++) {
    const u64 word = ~((u64)i << 24 | (parts[k] & 0xFFFFFFull));
    if (k == 0 && *(volatile u64*)record >= word) return;
    atomicMax(record + k, word);
  }
  *(volatile u32*)any = 1u;
}

// ---- integers -------------------------------------------------------------------------------------------------
// a + K for a constant K. NA and the operands that overflow form one range of bit patterns, since the ends meet at NA.
template <i32 K> VG_FN i32 int_plus(i32 a, u32& w) {
  constexpr u32 first = K < 0 ? 0x80000000u : 0x80000000u - (u32)K, count = K < 0 ? 0u - (u32)K : (u32)K;
  if ((u32)a - first <= count) {
    w |= (u32)(a != NA_I32);
    return NA_I32;
  }
  return (i32)((u32)a + (u32)K);
}

// ---- numbered draws in sequence ----------------------------------------------------------------------------------
// A block serves two draws: the thread keeps the second one's bits in `spare`. The bits are those of routine.h.
VG_FN u64 next_word(i64 key, i64 i, i32& d, u32 purpose, u64& spare) {
  u64 word = spare;
  if ((d & 1) == 0) {
    const philox_block c = numbers_of(key, i, d, purpose);
    word = word64(c, 0);
    spare = word64(c, 1);
  }
  d++;
  return word;
}
VG_FN f64 next_uniform(i64 key, i64 i, i32& d, u64& spare) {
  return uniform_of(next_word(key, i, d, FOR_UNIFORMS, spare));
}
VG_FN f64 next_exponential(i64 key, i64 i, i32& d, u64& spare) {
  return -own_log(uniform_of(next_word(key, i, d, FOR_EXPONENTIALS, spare)));
}
// Both numbers of a block, as `normal64` gives them. One takes the sine, the other the cosine, selected without a
// branch, so that lanes do not diverge.
VG_FN void normal_pair(const philox_block& c, f64& first, f64& second) {
  const u64 word = word64(c, 1);
  const u32 q = (u32)(word >> 62);
  const f64 t = f64_of_bits(0x3FF0000000000001ull | (word << 2) >> 12) - 1.5, radius = radius_of(word64(c, 0));
  const u64 sine = bits_of(quarter_sine(t)), cosine = bits_of(quarter_cosine(t));
  const bool odd = (q & 1u) != 0;
  first = radius * f64_of_bits((odd ? sine : cosine) ^ (u64)((q + 1u) & 2u) << 62);
  second = radius * f64_of_bits((odd ? cosine : sine) ^ (u64)(q & 2u) << 62);
}
VG_FN f64 next_normal(i64 key, i64 i, i32& d, f64& spare) {
  f64 z = spare;
  if ((d & 1) == 0) {
    normal_pair(numbers_of(key, i, d, FOR_NORMALS), z, spare);
  }
  d++;
  return z;
}
