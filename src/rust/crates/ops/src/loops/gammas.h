// Blocks of gamma draws, and of the beta and t draws that use them, on the cpu device, with the bits of gamma_of,
// beta_of and t_of (draws.h). The first attempt is made for many elements at once; undecided elements, and those with
// unusual parameters, are drawn again one by one.
#pragma once
#include "counts.h"

static __attribute__((noinline, unused)) stretched any_gamma(i64 key, i64 i, u32 purpose, f64 shape) {
    return gamma_draw(key, i, purpose, shape); }
static __attribute__((noinline, unused)) f64 any_gamma_of(i64 key, i64 i, f64 shape, f64 scale, u32& w) {
    return gamma_of(key, i, shape, scale, w); }
static __attribute__((noinline, unused)) f64 any_beta_of(i64 key, i64 i, f64 a, f64 b, u32& w) {
    return beta_of(key, i, a, b, w); }
static __attribute__((noinline, unused)) f64 any_t_of(i64 key, i64 i, f64 df, u32& w) { return t_of(key, i, df, w); }

VG_FN bool is_usual(f64 x) { return (x > 0) & (x - x == 0); }

// gamma_draw() for usual shapes: draws are value * exp(log). Returns whether any log is not 0.
VG_FN bool gamma_some(f64* __restrict value, f64* __restrict log, const i64* __restrict key,
    const f64* __restrict shape, i64 i, i32 n, u32 purpose) {
  u64 radius[COUNTS], angle[COUNTS];
  f64 test[COUNTS], x[COUNTS], s[COUNTS], u[COUNTS];
  i64 decided[COUNTS], small = 0, all = 1;
  for (i32 k = 0; k < n; k++) {
    s[k] = shape[k] < 1 ? shape[k] + 1.0 : shape[k];
    small |= shape[k] < 1 ? 1 : 0;
    log[k] = 0;
  }
  if (small) {
    for (i32 k = 0; k < n; k++) u[k] = uniform_of(word64(block_of(key[k], i + k, 0u, purpose + 1u), 0));
    for (i32 k = 0; k < n; k++) x[k] = own_log(u[k]) / (shape[k] < 1e-300 ? 1e-300 : shape[k]);
    for (i32 k = 0; k < n; k++) log[k] = shape[k] < 1 ? x[k] : 0.0;
  }
  for (i32 k = 0; k < n; k++) {
    philox_block c = block_of(key[k], i + k, 0u, purpose);
    radius[k] = word64(c, 0);
    angle[k] = (u64)c.x2 << 32 | 0x80000000u;
    test[k] = f64_of_bits(0x4330000000000000ull | c.x3) - 4503599627370496.0;
  }
  for (i32 k = 0; k < n; k++) x[k] = radius_of(radius[k]);
  for (i32 k = 0; k < n; k++) x[k] *= turned_cosine(angle[k], 0u);
  for (i32 k = 0; k < n; k++) {
    f64 d = s[k] - 1.0 / 3, step = 1.0 / (3.0 * sqrt(d)), v = 1.0 + x[k] * step, square = x[k] * x[k];
    f64 even = (test[k] + 0.5) * 2.3283064365386963e-10;
    value[k] = d * (v * v * v);
    decided[k] = (v > 0) & (even < 1.0 - 0.0331 * (square * square)) ? 1 : 0;
    all &= decided[k];
  }
  if (!all) for (i32 k = 0; k < n; k++) if (!decided[k]) value[k] = any_gamma(key[k], i + k, purpose, shape[k]).value;
  return small != 0;
}

// scale * gamma, for usual shapes and scales
VG_FN void gamma_scaled(f64* __restrict o, const i64* __restrict key, const f64* __restrict shape,
    const f64* __restrict scale, i64 i, i32 n) {
  f64 value[COUNTS], log[COUNTS];
  if (gamma_some(value, log, key, shape, i, n, FOR_GAMMA)) for (i32 k = 0; k < n; k++) value[k] *= own_exp(log[k]);
  for (i32 k = 0; k < n; k++) o[k] = scale[k] * value[k];
}

// Calls `some` for up to COUNTS elements if the parameters of all of them are usual, else `one` for each.
template <class USUAL, class SOME, class ONE> VG_FN void draw_blocks(i32 n, USUAL usual, SOME some, ONE one) {
  for (i32 from = 0; from < n; from += COUNTS) {
    i32 m = n - from < COUNTS ? n - from : COUNTS;
    i64 all = 1;
    for (i32 k = from; k < from + m; k++) all &= usual(k) ? 1 : 0;
    if (all) some(from, m); else for (i32 k = from; k < from + m; k++) one(k);
  }
}

VG_FN void gamma_block(f64* __restrict o, const i64* __restrict key, const f64* __restrict shape,
    const f64* __restrict scale, i64 i, i32 n, u32& w) {
  draw_blocks(n, [=](i32 k) { return is_usual(shape[k]) & is_usual(scale[k]); },
    [=](i32 from, i32 m) { gamma_scaled(o + from, key + from, shape + from, scale + from, i + from, m); },
    [=, &w](i32 k) { o[k] = any_gamma_of(key[k], i + k, shape[k], scale[k], w); });
}
VG_FN void chisq_block(f64* __restrict o, const i64* __restrict key, const f64* __restrict df, i64 i, i32 n, u32& w) {
  draw_blocks(n, [=](i32 k) { return is_usual(df[k] * 0.5); },
    [=](i32 from, i32 m) {
      f64 shape[COUNTS], two[COUNTS];
      for (i32 k = 0; k < m; k++) { shape[k] = df[from + k] * 0.5; two[k] = 2.0; }
      gamma_scaled(o + from, key + from, shape, two, i + from, m);
    },
    [=, &w](i32 k) { o[k] = is_finite(df[k]) && df[k] >= 0 ? any_gamma_of(key[k], i + k, df[k] * 0.5, 2.0,
        w) : refused(w); });
}
VG_FN void beta_block(f64* __restrict o, const i64* __restrict key, const f64* __restrict a, const f64* __restrict b,
    i64 i, i32 n, u32& w) {
  draw_blocks(n, [=](i32 k) { return is_usual(a[k]) & is_usual(b[k]); },
    [=](i32 from, i32 m) {
      f64 x[COUNTS], y[COUNTS], log_x[COUNTS], log_y[COUNTS];
      bool small = gamma_some(x, log_x, key + from, a + from, i + from, m, FOR_GAMMA);
      small |= gamma_some(y, log_y, key + from, b + from, i + from, m, FOR_SECOND);
      for (i32 k = 0; k < m; k++) y[k] = y[k] / x[k];
      if (small) for (i32 k = 0; k < m; k++) y[k] *= own_exp(log_y[k] - log_x[k]);
      for (i32 k = 0; k < m; k++) o[from + k] = 1.0 / (1.0 + y[k]);
    },
    [=, &w](i32 k) { o[k] = any_beta_of(key[k], i + k, a[k], b[k], w); });
}
VG_FN void t_block(f64* __restrict o, const i64* __restrict key, const f64* __restrict df, i64 i, i32 n, u32& w) {
  draw_blocks(n, [=](i32 k) { return is_usual(df[k] * 0.5); },
    [=](i32 from, i32 m) {
      u64 radius[COUNTS], angle[COUNTS];
      f64 z[COUNTS], shape[COUNTS], value[COUNTS], log[COUNTS];
      for (i32 k = 0; k < m; k++) {
        philox_block c = block_of(key[from + k], i + from + k, 0u, FOR_NORMAL);
        radius[k] = word64(c, 0);
        angle[k] = word64(c, 1);
        shape[k] = df[from + k] * 0.5;
      }
      for (i32 k = 0; k < m; k++) z[k] = radius_of(radius[k]);
      for (i32 k = 0; k < m; k++) z[k] *= turned_cosine(angle[k], 0u);
      bool small = gamma_some(value, log, key + from, shape, i + from, m, FOR_GAMMA);
      for (i32 k = 0; k < m; k++) z[k] *= sqrt(shape[k] / value[k]);
      if (small) for (i32 k = 0; k < m; k++) z[k] *= own_exp(-0.5 * log[k]);
      for (i32 k = 0; k < m; k++) o[from + k] = z[k];
    },
    [=, &w](i32 k) { o[k] = any_t_of(key[k], i + k, df[k], w); });
}

// ---- Weibull: weibull_draw() ----------------------------------------------------------------------------
static __attribute__((noinline, unused)) f64 any_weibull(f64 e, f64 shape, f64 scale, u32& w) {
    return weibull_draw(e, shape, scale, w); }
VG_FN void weibull_block(f64* __restrict o, const f64* __restrict e, const f64* __restrict shape,
    const f64* __restrict scale, i32 n, u32& w) {
  draw_blocks(n, [=](i32 k) { return is_usual(shape[k]) & is_usual(scale[k]); },
    [=](i32 from, i32 m) {
      f64 x[COUNTS];
      for (i32 k = 0; k < m; k++) x[k] = own_log(e[from + k]) / shape[from + k];
      for (i32 k = 0; k < m; k++) x[k] = own_exp(x[k]);
      for (i32 k = 0; k < m; k++) o[from + k] = e[from + k] > 0 ? scale[from + k] * x[k] : 0.0;
    },
    [=, &w](i32 k) { o[k] = any_weibull(e[k], shape[k], scale[k], w); });
}
