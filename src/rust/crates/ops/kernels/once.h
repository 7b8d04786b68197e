// C's math functions as calls, for kernels with many operations: a logarithm of a hundred instructions would otherwise
// be inlined fifty times. CUDA only; the bits are the same.
#pragma once
#include "prelude.h"

#ifdef VG_DEVICE
#define VG_ONCE1(f)                                                      \
  static __device__ __noinline__ f64 once_##f(f64 x) { return f(x); }    \
  static __device__ __noinline__ f32 once_##f(f32 x) { return f(x); }
#define VG_ONCE2(f)                                                             \
  static __device__ __noinline__ f64 once_##f(f64 x, f64 y) { return f(x, y); } \
  static __device__ __noinline__ f32 once_##f(f32 x, f32 y) { return f(x, y); }
VG_ONCE1(exp) VG_ONCE1(expm1) VG_ONCE1(log) VG_ONCE1(log2) VG_ONCE1(log10) VG_ONCE1(log1p)
VG_ONCE1(sin) VG_ONCE1(cos) VG_ONCE1(tan) VG_ONCE1(asin) VG_ONCE1(acos) VG_ONCE1(atan)
VG_ONCE1(sinh) VG_ONCE1(cosh) VG_ONCE1(tanh) VG_ONCE1(asinh) VG_ONCE1(acosh) VG_ONCE1(atanh)
VG_ONCE2(pow) VG_ONCE2(atan2) VG_ONCE2(fmod) VG_ONCE2(hypot)
#define exp once_exp
#define expm1 once_expm1
#define log once_log
#define log2 once_log2
#define log10 once_log10
#define log1p once_log1p
#define sin once_sin
#define cos once_cos
#define tan once_tan
#define asin once_asin
#define acos once_acos
#define atan once_atan
#define sinh once_sinh
#define cosh once_cosh
#define tanh once_tanh
#define asinh once_asinh
#define acosh once_acosh
#define atanh once_atanh
#define pow once_pow
#define atan2 once_atan2
#define fmod once_fmod
#define hypot once_hypot
#endif
