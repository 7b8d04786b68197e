// Random numbers as functions of a key and an index: Philox4x32-10 of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel
// random numbers: as easy as 1, 2, 3" (SC 2011), with its constants.
//
// Both devices give the same bits (portable.h). Nothing branches, so that the C++ compiler vectorises.
#pragma once
#include "portable.h"

struct philox_block { u32 x0, x1, x2, x3; };

// From 64-bit factors CUDA's compiler makes a product with extra additions of the zero high words: a fifth of a block's
// instructions.
#ifdef VG_DEVICE
VG_FN u64 wide_product(u32 a, u32 b) {
  u64 p;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(p) : "r"(a), "r"(b));
  return p;
}
#else
VG_FN u64 wide_product(u32 a, u32 b) { return (u64)a * b; }
#endif

VG_FN philox_block philox4x32(philox_block c, u32 k0, u32 k1) {
  for (int round = 0; round < 10; round++) {
    u64 p = wide_product(0xD2511F53u, c.x0), q = wide_product(0xCD9E8D57u, c.x2);
    philox_block next = {(u32)(q >> 32) ^ c.x1 ^ k0, (u32)q, (u32)(p >> 32) ^ c.x3 ^ k1, (u32)p};
    c = next;
    k0 += 0x9E3779B9u;  // the golden ratio
    k1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return c;
}

// A block holds two 64-bit words for float64, or four 32-bit ones for float32.
VG_FN u64 word64(const philox_block& c, u32 k) { return k ? (u64)c.x3 << 32 | c.x2 : (u64)c.x1 << 32 | c.x0; }
VG_FN u32 word32(const philox_block& c, u32 k) { return k & 2u ? (k & 1u ? c.x3 : c.x2) : (k & 1u ? c.x1 : c.x0); }

// ---- uniform: odd multiples of 2^-53 (2^-24), so never 0 nor 1, and u as likely as 1 - u -----------------
// The bits form a number in 1 ... 2, minus the odd number just below 1; the difference is exact.
VG_FN f64 uniform_of(u64 word) { return f64_of_bits(0x3FF0000000000000ull | word >> 12) - 0.99999999999999988898; }
VG_FN f32 uniform_of(u32 word) { return f32_of_bits(0x3F800000u | word >> 9) - 0.999999940395355224609f; }

// -2 log(x), within 2 ulp: -2 log(1 + f) is -2f + f^2 (1 + f q(f)).
VG_FN f32 own_minus_two_log(f32 x) {
  u32 b = bits_of(x);
  i32 k = (i32)(b - 0x3F3504F3u) >> 23;  // sqrt(1/2)
  f32 f = f32_of_bits(b - ((u32)k << 23)) - 1.0f;
  f32 q = -0.66667819f + f * (0.500026762f + f * (-0.399261624f + f * (0.331552029f + f * (-0.298292428f +
          f * (0.285346508f + f * -0.174012497f)))));
  return (f32)k * -1.38629436f + (f * f * (1.0f + f * q) - 2.0f * f);
}

// ---- normal: Box and Muller (1958) ----------------------------------------------------------------------
// Elements 2j and 2j + 1 are the cosine and the sine of one angle times one radius. The angle is pi/2 (q + t): q from
// two bits, and t, an odd multiple of 2^-52 (2^-23) in (-1/2, 1/2), from the others. q - 1 turns the cosine into the
// sine.
VG_FN f64 turned_cosine(u64 word, u32 back) {
  u32 q = (u32)(word >> 62) - back;
  f64 t = f64_of_bits(0x3FF0000000000001ull | (word << 2) >> 12) - 1.5;
  u64 y = (q & 1u) ? bits_of(quarter_sine(t)) : bits_of(quarter_cosine(t));
  return f64_of_bits(y ^ (u64)((q + 1u) & 2u) << 62);
}
VG_FN f32 turned_cosine(u32 word, u32 back) {
  u32 q = (word >> 30) - back;
  f32 t = f32_of_bits(0x3F800001u | (word << 2) >> 9) - 1.5f;
  u32 y = (q & 1u) ? bits_of(quarter_sine(t)) : bits_of(quarter_cosine(t));
  return f32_of_bits(y ^ ((q + 1u) & 2u) << 30);
}
// Uses all 32 bits, for values in 2^-33 ... 1 - 2^-24, so that tails end at 6.7 and not at 5.7. The factor is the
// number just below 2^-32, so that the value stays below 1.
VG_FN f32 unit_of(u32 word) { return (f32)word * 2.32830629776081821e-10f + 1.1641532182693481e-10f; }
VG_FN f64 radius_of(u64 word) { return root_of_normal(-2.0 * own_log(uniform_of(word))); }
VG_FN f32 radius_of(u32 word) { return root_of_normal(own_minus_two_log(unit_of(word))); }


// ---- elements of a block --------------------------------------------------------------------------------
VG_FN f64 uniform64(const philox_block& c, u32 k) { return uniform_of(word64(c, k)); }
VG_FN f32 uniform32(const philox_block& c, u32 k) { return uniform_of(word32(c, k)); }
VG_FN f64 normal64(const philox_block& c, u32 k) { return radius_of(word64(c, 0)) * turned_cosine(word64(c, 1), k); }
VG_FN f32 normal32(const philox_block& c, u32 k) {
  return radius_of(word32(c, k & 2u)) * turned_cosine(word32(c, k | 1u), k & 1u);
}
VG_FN f64 exponential64(const philox_block& c, u32 k) { return -own_log(uniform_of(word64(c, k))); }
VG_FN f32 exponential32(const philox_block& c, u32 k) { return 0.5f * own_minus_two_log(unit_of(word32(c, k))); }

// A stream: element i of a key, where a block serves 2^LOG elements. On the GPU also packs of V elements from i on (a
// multiple of V): their elements share blocks, and common parts (a radius, an angle) are computed once.
#define VG_STREAM_ELEMENT(name, T, LOG, of)                             \
  VG_FN T name(i64 key, i64 i) {                                        \
    u64 b = (u64)i >> LOG;                                              \
    philox_block c = {(u32)b, (u32)(b >> 32), 0u, 0u};                  \
    return of(philox4x32(c, (u32)(u64)key, (u32)((u64)key >> 32)), (u32)i & ((1u << LOG) - 1u)); \
  }
#ifdef VG_DEVICE
#define VG_STREAM(name, T, LOG, of)                                     \
  VG_STREAM_ELEMENT(name, T, LOG, of)                                   \
  template <int V> VG_FN void name##_pack(i64 key, i64 i, T* z) {       \
    constexpr int own = 1 << LOG, blocks = V / own;                     \
    _Pragma("unroll") for (int j = 0; j < blocks; j++) {                \
      u64 b = ((u64)i >> LOG) + j;                                      \
      philox_block c = {(u32)b, (u32)(b >> 32), 0u, 0u};                \
      c = philox4x32(c, (u32)(u64)key, (u32)((u64)key >> 32));          \
      _Pragma("unroll") for (int k = 0; k < own; k++) z[j * own + k] = of(c, k); \
    }                                                                   \
    _Pragma("unroll") for (int k = blocks * own; k < V; k++) z[k] = name(key, i + k); \
  }
#else
#define VG_STREAM VG_STREAM_ELEMENT
#endif
VG_STREAM(runif_f64, f64, 1, uniform64)
VG_STREAM(runif_f32, f32, 2, uniform32)
VG_STREAM(rnorm_f64, f64, 1, normal64)
VG_STREAM(rnorm_f32, f32, 2, normal32)
VG_STREAM(rexp_f64, f64, 1, exponential64)
VG_STREAM(rexp_f32, f32, 2, exponential32)
