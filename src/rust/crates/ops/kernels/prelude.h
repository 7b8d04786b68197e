// Types, NA rules, loads and stores: included first by every kernel.
//
// The headers of this folder are compiled twice, by NVRTC for CUDA and by the C++ compiler for the cpu device
// (build.rs), so that both devices compute the same values. They use C++14 without the standard library and without
// exceptions, and no fused multiply-add that the source does not ask for (`--fmad=false`, `-ffp-contract=off`).
#pragma once

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define VG_DEVICE 1
#ifdef VG_CALLS  // if code size matters more: the compiler decides what to inline
#define VG_FN static __device__
#else
#define VG_FN static __device__ __forceinline__
#endif
// For long functions that are called in many places, but seldom where time matters
#define VG_CALL static __device__ __noinline__
#define VG_TABLE static __device__ const
#else
#include <math.h>
#include <string.h>
#define VG_FN static inline __attribute__((always_inline, unused))
#define VG_CALL static inline __attribute__((unused))
#define VG_TABLE static const
#endif

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct c64 { f32 re, im; };
struct c128 { f64 re, im; };

// ---- bits ---------------------------------------------------------------------------------
#ifdef VG_DEVICE
VG_FN u64 bits_of(f64 x) { return (u64)__double_as_longlong(x); }
VG_FN u32 bits_of(f32 x) { return (u32)__float_as_int(x); }
VG_FN f64 f64_of_bits(u64 b) { return __longlong_as_double((i64)b); }
VG_FN f32 f32_of_bits(u32 b) { return __int_as_float((i32)b); }
#else
VG_FN u64 bits_of(f64 x) { u64 b; memcpy(&b, &x, 8); return b; }
VG_FN u32 bits_of(f32 x) { u32 b; memcpy(&b, &x, 4); return b; }
VG_FN f64 f64_of_bits(u64 b) { f64 x; memcpy(&x, &b, 8); return x; }
VG_FN f32 f32_of_bits(u32 b) { f32 x; memcpy(&x, &b, 4); return x; }
#endif

// ---- missing values -------------------------------------------------------------------------
// R's NA_integer_ is INT_MIN and NA_real_ a NaN whose low word is 1954. float32 and narrower have
// NaN only. int64 uses the smallest value, as bit64 does.
#define NA_I32 ((i32)0x80000000)
#define NA_I64 ((i64)0x8000000000000000ull)
#define NA_BOOL8 ((u8)2)
#define NA_I8 ((i8)-128)
#define NA_I16 ((i16)-32768)

VG_FN f64 na_f64() { return f64_of_bits(0x7FF80000000007A2ull); }
VG_FN f64 nan_f64() { return f64_of_bits(0x7FF8000000000000ull); }
VG_FN f32 nan_f32() { return f32_of_bits(0x7FC00000u); }
VG_FN i32 na_of(i32) { return NA_I32; }
VG_FN i64 na_of(i64) { return NA_I64; }
VG_FN f32 na_of(f32) { return nan_f32(); }
VG_FN f64 na_of(f64) { return na_f64(); }
VG_FN c64 na_of(c64) { c64 z = {nan_f32(), nan_f32()}; return z; }
VG_FN c128 na_of(c128) { c128 z = {na_f64(), na_f64()}; return z; }

VG_FN bool is_nan(f64 x) { return x != x; }
VG_FN bool is_nan(f32 x) { return x != x; }
// Whether x is NA_real_ itself, not any NaN. Tested by integer operations, for which the GPU has spare units;
// infinity's low half is 0, so it does not match.
VG_FN bool is_na_payload(f64 x) {
  const u64 bits = bits_of(x);
  return (u32)bits == 1954u && ((u32)(bits >> 32) & 0x7FF00000u) == 0x7FF00000u;
}

// is.na(): NA of the type, or any NaN
VG_FN bool is_na(i32 x) { return x == NA_I32; }
VG_FN bool is_na(i64 x) { return x == NA_I64; }
VG_FN bool is_na(f32 x) { return x != x; }
VG_FN bool is_na(f64 x) { return x != x; }
VG_FN bool is_na(c64 x) { return x.re != x.re || x.im != x.im; }
VG_FN bool is_na(c128 x) { return x.re != x.re || x.im != x.im; }

// y, or x if x is NaN, so that NA stays NA whatever a libm does with payloads.
template <class T> VG_FN T kept(T y, T x) { return x != x ? x : y; }
// The same; also notes in w that y is NaN although x is not (R's "NaNs produced").
template <class T> VG_FN T checked(T y, T x, u32& w) { w |= (u32)((y != y) & (x == x)); return kept(y, x); }

// ---- half precision -------------------------------------------------------------------------
#ifdef VG_DEVICE
VG_FN f32 f32_of_f16(u16 h) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h)); return r; }
VG_FN u16 f16_of_f32(f32 x) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
#else
VG_FN f32 f32_of_f16(u16 h) {
  u32 sign = (u32)(h & 0x8000u) << 16, rest = h & 0x7FFFu;
  if (rest >= 0x7C00u) return f32_of_bits(sign | 0x7F800000u | ((rest & 0x3FFu) << 13));
  // 2^-24 is the unit of a subnormal half, and scaling by it is exact
  if (rest < 0x400u) { f32 m = (f32)rest * 5.9604644775390625e-8f; return f32_of_bits(bits_of(m) | sign); }
  return f32_of_bits(sign | ((rest + 0x1C000u) << 13));
}
VG_FN u16 f16_of_f32(f32 x) {
  u32 b = bits_of(x), sign = (b >> 16) & 0x8000u, rest = b & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) return (u16)(sign | 0x7FFFu);
  if (rest >= 0x477FF000u) return (u16)(sign | 0x7C00u);
  if (rest < 0x38800000u) {  // subnormal half: let the float adder round to nearest even
    f32 m = f32_of_bits(rest) + 0.5f;
    return (u16)(sign | (bits_of(m) - 0x3F000000u));
  }
  u32 odd = (rest >> 13) & 1u;
  return (u16)(sign | ((rest + 0xC8000FFFu + odd) >> 13));
}
#endif
VG_FN f32 f32_of_bf16(u16 h) { return f32_of_bits((u32)h << 16); }
VG_FN u16 bf16_of_f32(f32 x) {
  u32 b = bits_of(x);
  if ((b & 0x7FFFFFFFu) > 0x7F800000u) return (u16)((b >> 16) | 0x40u);
  return (u16)((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}
// Double to half must round once, not twice: round to float with the lost bits ored into the last one (round to odd).
VG_FN f32 f32_to_odd(f64 x) {
  f32 r = (f32)x;
  if (x != x || (f64)r == x) return r;
  u32 b = bits_of(r);
  bool too_big = x < 0 ? (f64)r < x : (f64)r > x;
  if (too_big) b -= 1;
  return f32_of_bits(b | 1u);
}

// ---- loads: a stored element to its register class, and stores back -----------------------------
VG_FN i32 load_bool8(const u8* p, i64 i) { u8 x = p[i]; return x == NA_BOOL8 ? NA_I32 : (i32)x; }
VG_FN i32 load_int8(const i8* p, i64 i) { i8 x = p[i]; return x == NA_I8 ? NA_I32 : (i32)x; }
VG_FN i32 load_uint8(const u8* p, i64 i) { return (i32)p[i]; }
VG_FN i32 load_int16(const i16* p, i64 i) { i16 x = p[i]; return x == NA_I16 ? NA_I32 : (i32)x; }
VG_FN i32 load_int32(const i32* p, i64 i) { return p[i]; }
VG_FN i64 load_int64(const i64* p, i64 i) { return p[i]; }
VG_FN f32 load_float16(const u16* p, i64 i) { return f32_of_f16(p[i]); }
VG_FN f32 load_bfloat16(const u16* p, i64 i) { return f32_of_bf16(p[i]); }
VG_FN f32 load_float32(const f32* p, i64 i) { return p[i]; }
VG_FN f64 load_float64(const f64* p, i64 i) { return p[i]; }
VG_FN c64 load_complex64(const c64* p, i64 i) { return p[i]; }
VG_FN c128 load_complex128(const c128* p, i64 i) { return p[i]; }

// The element at position `at` of m > 0 elements; NA outside. Then element 0 is loaded instead, so that the code has no
// branch.
#define PICK(dtype, stored, value, na)                                         \
  VG_FN value pick_##dtype(const stored* p, i64 m, i64 at) {                   \
    const bool inside = (u64)at < (u64)m;                                      \
    const value x = load_##dtype(p, inside ? at : 0);                          \
    return inside ? x : na;                                                    \
  }
PICK(bool8, u8, i32, NA_I32)
PICK(int8, i8, i32, NA_I32)
PICK(uint8, u8, i32, 0)  // uint8 has no NA
PICK(int16, i16, i32, NA_I32)
PICK(int32, i32, i32, NA_I32)
PICK(int64, i64, i64, NA_I64)
PICK(float16, u16, f32, nan_f32())
PICK(bfloat16, u16, f32, nan_f32())
PICK(float32, f32, f32, nan_f32())
PICK(float64, f64, f64, na_f64())
PICK(complex64, c64, c64, na_of(x))
PICK(complex128, c128, c128, na_of(x))
#undef PICK

// The casts (cast.h) have replaced values that do not fit by NA.
VG_FN void store_bool8(u8* p, i64 i, i32 x) { p[i] = x == NA_I32 ? NA_BOOL8 : (u8)(x != 0); }
VG_FN void store_int8(i8* p, i64 i, i32 x) { p[i] = (x < -127 || x > 127) ? NA_I8 : (i8)x; }
VG_FN void store_uint8(u8* p, i64 i, i32 x) { p[i] = (x < 0 || x > 255) ? (u8)0 : (u8)x; }
VG_FN void store_int16(i16* p, i64 i, i32 x) { p[i] = (x < -32767 || x > 32767) ? NA_I16 : (i16)x; }
VG_FN void store_int32(i32* p, i64 i, i32 x) { p[i] = x; }
VG_FN void store_int64(i64* p, i64 i, i64 x) { p[i] = x; }
VG_FN void store_float16(u16* p, i64 i, f32 x) { p[i] = f16_of_f32(x); }
VG_FN void store_bfloat16(u16* p, i64 i, f32 x) { p[i] = bf16_of_f32(x); }
VG_FN void store_float32(f32* p, i64 i, f32 x) { p[i] = x; }
VG_FN void store_float64(f64* p, i64 i, f64 x) { p[i] = x; }
VG_FN void store_complex64(c64* p, i64 i, c64 x) { p[i] = x; }
VG_FN void store_complex128(c128* p, i64 i, c128 x) { p[i] = x; }
