// Logarithm, exponential and related functions with the same bits on both devices, for random numbers. Only integer
// operations and + - * / and sqrt are used, each rounded as IEEE 754 says. No result depends on a fused multiply-add,
// which many processors lack. Except at the ends of the range there are no branches, so that the C++ compiler
// vectorises.
//
// The coefficients are minimax (Remez), computed with 60 digits.
#pragma once
#include "prelude.h"

// log(2) in two parts: one with 32 trailing zeros, whose multiples by small whole numbers are exact, and the rest
#define VG_LOG2_HIGH 6.93147180369123816490e-01
#define VG_LOG2_LOW 1.90821492927058770002e-10

// A whole number as a double, without the GPU's slow conversion: 2^52 + 2^31 + k, minus the first two.
VG_FN f64 f64_of_int(i32 k) { return f64_of_bits(0x4330000000000000ull | (u32)k ^ 0x80000000u) - 4503601774854144.0; }

// 1/c and log(c), for c = 1 + j/64 (below j = 26) or half of that
struct alignas(16) log_entry { f64 inverse, log; };
VG_TABLE log_entry LOGARITHMS[64] = {
  {1.0, 0.0}, {0.9846153846153847, 0.015504186535965254},
  {0.9696969696969697, 0.030771658666753687}, {0.9552238805970149, 0.0458095360312942},
  {0.9411764705882353, 0.06062462181643484}, {0.927536231884058, 0.07522342123758753},
  {0.9142857142857143, 0.08961215868968714}, {0.9014084507042254, 0.10379679368164356},
  {0.8888888888888888, 0.11778303565638346}, {0.8767123287671232, 0.13157635778871926},
  {0.8648648648648649, 0.1451820098444979}, {0.8533333333333334, 0.15860503017663857},
  {0.8421052631578947, 0.17185025692665923}, {0.8311688311688312, 0.184922338494012},
  {0.8205128205128205, 0.19782574332991987}, {0.810126582278481, 0.21056476910734964},
  {0.8, 0.22314355131420976}, {0.7901234567901234, 0.2355660713127669},
  {0.7804878048780488, 0.24783616390458127}, {0.7710843373493976, 0.25995752443692605},
  {0.7619047619047619, 0.27193371548364176}, {0.7529411764705882, 0.2837681731306446},
  {0.7441860465116279, 0.2954642128938359}, {0.735632183908046, 0.3070250352949119},
  {0.7272727272727273, 0.3184537311185346}, {0.7191011235955056, 0.329753286372468},
  {1.4222222222222223, -0.3522205935893521}, {1.4065934065934067, -0.34117075740276714},
  {1.391304347826087, -0.33024168687057687}, {1.3763440860215055, -0.3194307707663612},
  {1.3617021276595744, -0.3087354816496133}, {1.3473684210526315, -0.29815337231907635},
  {1.3333333333333333, -0.2876820724517809}, {1.3195876288659794, -0.27731928541623435},
  {1.3061224489795917, -0.26706278524904525}, {1.292929292929293, -0.2569104137850272},
  {1.28, -0.24686007793152578}, {1.2673267326732673, -0.2369097470783577},
  {1.2549019607843137, -0.22705745063534608}, {1.2427184466019416, -0.2173012756899814},
  {1.2307692307692308, -0.2076393647782445}, {1.2190476190476192, -0.1980699137620938},
  {1.2075471698113207, -0.18859116980755003}, {1.1962616822429906, -0.179201429457711},
  {1.1851851851851851, -0.16989903679539747}, {1.1743119266055047, -0.16068238169047347},
  {1.1636363636363636, -0.15154989812720093}, {1.1531531531531531, -0.14250006260728304},
  {1.1428571428571428, -0.13353139262452263}, {1.1327433628318584, -0.1246424452072766},
  {1.1228070175438596, -0.1158318155251217}, {1.1130434782608696, -0.1070981355563671},
  {1.103448275862069, -0.09844007281325252}, {1.0940170940170941, -0.08985632912186105},
  {1.0847457627118644, -0.0813456394539524}, {1.0756302521008403, -0.07290677080808779},
  {1.0666666666666667, -0.06453852113757118}, {1.0578512396694215, -0.05623971832287608},
  {1.0491803278688525, -0.048009219186360606}, {1.0406504065040652, -0.039845908547199674},
  {1.032258064516129, -0.0317486983145803}, {1.024, -0.023716526617316044},
  {1.0158730158730158, -0.015748356968139168}, {1.0078740157480315, -0.007843177461025893},
};

// The GPU loads an entry at once. On the cpu device, indexing plain numbers is vectorised as a gather; indexing structs
// would not be vectorised.
#ifdef VG_DEVICE
VG_FN log_entry logarithm_of(u32 k) { return LOGARITHMS[k]; }
#else
VG_FN log_entry logarithm_of(u32 k) {
  const f64* numbers = &LOGARITHMS[0].inverse;
  log_entry e = {numbers[2 * k], numbers[2 * k + 1]};
  return e;
}
#endif

// log(x) of a positive normal number, within 2 ulp, and within one next to 1. x = 2^k m with m in 0.699 ... 1.398, and
// m = c (1 + f) with c the nearest number of the table (P. T. P. Tang, "Table-driven implementation of the logarithm
// function in IEEE floating-point arithmetic", ACM TOMS 16, 1990); m - c is exact, and |f| < 2^-7.
VG_FN f64 own_log(f64 x) {
  u64 b = bits_of(x);
  u32 high = (u32)(b >> 32);
  i32 k = (i32)(high - 0x3FE66000u) >> 20;  // the middle between the largest c and half of the next
  high -= (u32)k << 20;
  u32 middle = (high + 0x2000u) & 0xFFFFC000u;
  log_entry e = logarithm_of((middle >> 14) & 63u);
  f64 n = f64_of_int(k), f = (f64_of_bits((u64)high << 32 | (u32)b) - f64_of_bits((u64)middle << 32)) * e.inverse;
  f64 r = -0.500000000000003 + f * (0.33333333333334125 + f * (-0.24999999959692382 + f * (0.1999999993722825 +
          f * (-0.16667998856374575 + f * 0.14287208701607607))));
  return (n * VG_LOG2_HIGH + e.log) + (f + (f * f * r + n * VG_LOG2_LOW));
}

// log(1 + x) for x > -1, within 4 ulp: the rounding error of 1 + x is corrected (W. Kahan)
VG_FN f64 own_log1p(f64 x) {
  f64 y = 1.0 + x;
  return y == 1.0 ? x : own_log(y) * (x / (y - 1.0));
}

// exp(x), within 1 ulp if that is a normal number; 0 and Inf beyond the range
VG_FN f64 own_exp(f64 x) {
  if (x > 709.79) return f64_of_bits(0x7FF0000000000000ull);
  if (!(x > -745.2)) return x != x ? x : 0.0;
  // the addition rounds to a whole number
  f64 n = x * 1.4426950408889634 + 6755399441055744.0;
  i32 k = (i32)(u32)bits_of(n);
  n -= 6755399441055744.0;
  f64 r = (x - n * VG_LOG2_HIGH) - n * VG_LOG2_LOW;
  f64 q = 0.5000000000000013 + r * (0.166666666666667 + r * (0.04166666666651437 + r * (0.008333333333306988 +
          r * (0.0013888888947319639 + r * (0.00019841269917882649 + r * (2.4801489602427206e-05 +
          r * (2.755721583302119e-06 + r * (2.76314096421955e-07 + r * 2.511801511497759e-08))))))));
  f64 y = 1.0 + (r + r * r * q);
  // 2^k in two factors, since it may be out of range although the result is not
  i32 half = k >> 1;
  return y * f64_of_bits((u64)(1023 + half) << 52) * f64_of_bits((u64)(1023 + (k - half)) << 52);
}

// sqrt(x) of normal numbers, rounded as IEEE says. On the GPU it takes the steps of CUDA's sqrt (a reciprocal root to
// 20 bits, refined, and the remainder), without its branch for the ends of the range, which would keep the compiler
// from interleaving several elements.
#ifdef VG_DEVICE
VG_FN f64 root_of_normal(f64 x) {
  f64 r;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  f64 e = fma(x, -(r * r), 1.0);
  r = fma(fma(e, 0.375, 0.5), r * e, r);
  f64 y = x * r;
  return fma(fma(-y, y, x), 0.5 * r, y);
}
VG_FN f32 root_of_normal(f32 x) {
  f32 r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  f32 y = x * r;
  return fmaf(fmaf(-y, y, x), 0.5f * r, y);
}
#else
VG_FN f64 root_of_normal(f64 x) { return sqrt(x); }
VG_FN f32 root_of_normal(f32 x) { return sqrt(x); }
#endif

// ---- sine and cosine of t quarter turns, |t| <= 1/2 -----------------------------------------------------
VG_FN f64 quarter_sine(f64 t) {
  f64 w = t * t;
  return t * (1.5707963267948966 + w * (-0.6459640975062443 + w * (0.07969262624603957 + w * (-0.004681754132282451 +
         w * (0.000160441150291911 + w * (-3.598641755396527e-06 + w * 5.6337211415502544e-08))))));
}
VG_FN f64 quarter_cosine(f64 t) {
  f64 w = t * t;
  return 1.0 + w * (-1.233700550136157 + w * (0.2536695079000529 + w * (-0.020863480737573138 +
         w * (0.0009192599677540222 + w * (-2.5200192400206477e-05 + w * 4.656003586999147e-07)))));
}
VG_FN f32 quarter_sine(f32 t) {
  f32 w = t * t;
  return t * (1.57079637f + w * (-0.64596349f + w * (0.079680033f + w * -0.00460165786f)));
}
VG_FN f32 quarter_cosine(f32 t) {
  f32 w = t * t;
  return 1.0f + w * (-1.23369801f + w * (0.253606349f + w * -0.020426251f));
}
