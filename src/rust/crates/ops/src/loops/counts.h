// Blocks of Poisson and binomial draws on the cpu device, with the bits of poisson_of and binomial_of (draws.h), many
// elements at once. Inversion steps through the probabilities of 0, 1, 2 ... for all elements together; elements that
// are done wait. Hoermann's rejection makes its first attempt for all. Elements that are still undecided, or have
// unusual parameters, are drawn again one by one.
#pragma once
#include "draws.h"

static __attribute__((noinline, unused)) f64 any_poisson(i64 key, i64 i, f64 mean, u32& w) {
    return poisson_of(key, i, mean, w); }
static __attribute__((noinline, unused)) f64 any_binomial(i64 key, i64 i, f64 n, f64 p, u32& w) {
    return binomial_of(key, i, n, p, w); }

enum { COUNTS = 256 };  // elements at a time

// Whether a parameter is the same throughout, as it mostly is. Values derived from it are then computed once.
VG_FN bool is_same(const f64* x, i32 n) {
  u64 other = 0;
  for (i32 k = 1; k < n; k++) other |= bits_of(x[k]) ^ bits_of(x[0]);
  return other == 0;
}

// A method runs for all elements if it serves most of them.
VG_FN bool is_most(i64 served, i32 n) { return 4 * served > 3 * (i64)n; }

VG_FN void count_uniforms(f64* __restrict u, const i64* __restrict key, i64 i, i32 n) {
  for (i32 k = 0; k < n; k++) u[k] = uniform_of(word64(block_of(key[k], i + k, 0u, FOR_COUNT), 0));
}
VG_FN void count_uniforms(f64* __restrict u, f64* __restrict v, const i64* __restrict key, i64 i, i32 n) {
  for (i32 k = 0; k < n; k++) {
    philox_block c = block_of(key[k], i + k, 0u, FOR_COUNT);
    u[k] = uniform_of(word64(c, 0)) - 0.5;
    v[k] = uniform_of(word64(c, 1));
  }
}

// Elements whose uniform exceeds the probability advance by one; returns whether any does. Elements that are done have
// a uniform below all probabilities.
VG_FN bool go_on(f64* __restrict o, f64* __restrict u, f64 p, i32 n) {
  i64 any = 0;
  for (i32 k = 0; k < n; k++) {
    bool on = u[k] > p;
    u[k] = on ? u[k] - p : -1.0;
    o[k] = on ? o[k] + 1.0 : o[k];
    any |= on ? 1 : 0;
  }
  return any != 0;
}
VG_FN bool go_on(f64* __restrict o, f64* __restrict u, const f64* __restrict p, i32 n) {
  i64 any = 0;
  for (i32 k = 0; k < n; k++) {
    bool on = u[k] > p[k];
    u[k] = on ? u[k] - p[k] : -1.0;
    o[k] = on ? o[k] + 1.0 : o[k];
    any |= on ? 1 : 0;
  }
  return any != 0;
}

// ---- Poisson --------------------------------------------------------------------------------------------
struct poisson_shape { f64 a, b, sure; };
VG_FN poisson_shape shape_of(f64 mean) {
  poisson_shape s;
  s.b = 0.931 + 2.53 * sqrt(mean);
  s.a = -0.059 + 0.02483 * s.b;
  s.sure = 0.9277 - 3.6224 / (s.b - 2.0);
  return s;
}
VG_FN bool poisson_try(f64& k, f64 u, f64 v, f64 mean, const poisson_shape& s) {
  f64 rest = 0.5 - fabs(u);
  k = floor((2.0 * s.a / rest + s.b) * u + mean + 0.43);
  return (rest >= 0.07) & (v <= s.sure);
}

// Draws an element that its first attempt did not decide, for a mean of at least 10: poisson_draw() with a known shape.
static __attribute__((noinline, unused)) f64 poisson_rest(i64 key, i64 i, f64 mean, const poisson_shape& s) {
  f64 height = 1.1239 + 1.1328 / (s.b - 3.4), k = 0;
  for (u32 j = 0; j < MOST_TRIES; j++) {
    philox_block c = block_of(key, i, j, FOR_COUNT);
    f64 u = uniform_of(word64(c, 0)) - 0.5, v = uniform_of(word64(c, 1)), rest = 0.5 - fabs(u);
    k = floor((2.0 * s.a / rest + s.b) * u + mean + 0.43);
    if (rest >= 0.07 && v <= s.sure) break;
    if (k < 0 || (rest < 0.013 && v > rest)) continue;
    if (own_log(v * height / (s.a / (rest * rest) + s.b)) <= log_poisson(k, mean)) break;
  }
  return k;
}

VG_FN void poisson_some(f64* __restrict o, const i64* __restrict key, const f64* __restrict mean, i64 i, i32 n,
    u32& w) {
  f64 u[COUNTS], v[COUNTS], p[COUNTS], m[COUNTS];
  i64 is_small[COUNTS], decided[COUNTS], all = 1, below = 0, above = 0;
  for (i32 k = 0; k < n; k++) {
    bool small = (mean[k] < 10) & (mean[k] >= 0), large = (mean[k] >= 10) & (mean[k] < 1e300);
    is_small[k] = small;
    below += small ? 1 : 0;
    above += large ? 1 : 0;
  }
  bool same = is_same(mean, n), by_inversion = is_most(below, n), by_rejection = is_most(above, n);
  for (i32 k = 0; k < n; k++) decided[k] = by_inversion ? is_small[k] : 0;
  if (by_inversion) {
    count_uniforms(u, key, i, n);
    for (i32 k = 0; k < n; k++) o[k] = 0;
    // larger counts have a probability below 1e-100
    if (same) {
      f64 at = own_exp(-mean[0]);
      for (i32 j = 1; go_on(o, u, at, n) && j < 150; j++) at *= mean[0] / (f64)j;
    } else {
      for (i32 k = 0; k < n; k++) m[k] = is_small[k] ? mean[k] : 0.0;
      for (i32 k = 0; k < n; k++) p[k] = own_exp(-m[k]);
      for (i32 j = 1; go_on(o, u, p, n) && j < 150; j++) for (i32 k = 0; k < n; k++) p[k] *= m[k] / (f64)j;
    }
  }
  if (by_rejection) {
    count_uniforms(u, v, key, i, n);
    poisson_shape first = shape_of(mean[0]);
    for (i32 k = 0; k < n; k++) {
      f64 count;
      bool sure = poisson_try(count, u[k], v[k], mean[k],
          same ? first : shape_of(mean[k])) & (mean[k] >= 10) & (mean[k] < 1e300);
      o[k] = sure ? count : o[k];
      decided[k] |= sure ? 1 : 0;
    }
    if (same) {
      for (i32 k = 0; k < n; k++) if (!decided[k]) o[k] = poisson_rest(key[k], i + k, mean[0], first);
      return;
    }
  }
  for (i32 k = 0; k < n; k++) all &= decided[k];
  if (!all) for (i32 k = 0; k < n; k++) if (!decided[k]) o[k] = any_poisson(key[k], i + k, mean[k], w);
}
VG_FN void poisson_block(f64* __restrict o, const i64* __restrict key, const f64* __restrict mean, i64 i, i32 n,
    u32& w) {
  for (i32 from = 0; from < n; from += COUNTS)
    poisson_some(o + from, key + from, mean + from, i + from, n - from < COUNTS ? n - from : COUNTS, w);
}

// ---- binomial -------------------------------------------------------------------------------------------
struct binomial_shape { f64 a, b, sure; };
VG_FN binomial_shape shape_of(f64 n, f64 p) {
  f64 deviation = sqrt(n * p * (1.0 - p));
  binomial_shape s;
  s.b = 1.15 + 2.53 * deviation;
  s.a = -0.0873 + 0.0248 * s.b + 0.01 * p;
  s.sure = 0.92 - 4.2 / s.b;
  return s;
}
VG_FN bool binomial_try(f64& k, f64 u, f64 v, f64 n, f64 p, const binomial_shape& s) {
  f64 rest = 0.5 - fabs(u);
  k = floor((2.0 * s.a / rest + s.b) * u + n * p + 0.5);
  return (k >= 0) & (k <= n) & (rest >= 0.07) & (v <= s.sure);
}

// Draws an element that its first attempt did not decide: binomial_draw() with a known shape and log probability of the
// mode.
static __attribute__((noinline, unused)) f64 binomial_rest(i64 key, i64 i, f64 n, f64 p, const binomial_shape& s,
    f64 top) {
  f64 height = (2.83 + 5.1 / s.b) * sqrt(n * p * (1.0 - p)), k = 0;
  for (u32 j = 0; j < MOST_TRIES; j++) {
    philox_block c = block_of(key, i, j, FOR_COUNT);
    f64 u = uniform_of(word64(c, 0)) - 0.5, v = uniform_of(word64(c, 1)), rest = 0.5 - fabs(u);
    k = floor((2.0 * s.a / rest + s.b) * u + n * p + 0.5);
    if (k < 0 || k > n) continue;
    if (rest >= 0.07 && v <= s.sure) break;
    if (own_log(v * height / (s.a / (rest * rest) + s.b)) <= log_binomial(k, n, p) - top) break;
  }
  return k;
}

VG_FN void binomial_some(f64* __restrict o, const i64* __restrict key, const f64* __restrict size,
    const f64* __restrict prob, i64 i, i32 n, u32& w) {
  f64 u[COUNTS], v[COUNTS], at[COUNTS], p[COUNTS], odds[COUNTS], trials[COUNTS];
  i64 is_small[COUNTS], decided[COUNTS], all = 1, below = 0, above = 0;
  for (i32 k = 0; k < n; k++) {
    f64 x = prob[k];
    bool usual = (size[k] >= 0) & (size[k] < 1e300) & (size[k] == floor(size[k])) & (x >= 0) & (x <= 1);
    p[k] = x > 0.5 ? 1.0 - x : x;
    bool small = usual & (size[k] * p[k] < 10), large = usual & !small;
    is_small[k] = small;
    trials[k] = usual ? size[k] : 0.0;
    p[k] = usual ? p[k] : 0.0;
    below += small ? 1 : 0;
    above += large ? 1 : 0;
  }
  bool same = is_same(size, n) && is_same(prob, n), by_inversion = is_most(below, n), by_rejection = is_most(above, n);
  for (i32 k = 0; k < n; k++) decided[k] = by_inversion ? is_small[k] : 0;
  if (by_inversion) {
    count_uniforms(u, key, i, n);
    for (i32 k = 0; k < n; k++) o[k] = 0;
    if (same) {
      f64 t = trials[0], ratio = p[0] / (1.0 - p[0]), now = own_exp(t * own_log1p(-p[0]));
      for (f64 j = 0; j < t && j < 150 && go_on(o, u, now, n); j += 1) now *= (t - j) / (j + 1.0) * ratio;
    } else {
      f64 most = 0;
      for (i32 k = 0; k < n; k++) most = is_small[k] && trials[k] > most ? trials[k] : most;
      for (i32 k = 0; k < n; k++) odds[k] = p[k] / (1.0 - p[k]);
      // the probability of 0, by own_log1p in loops that vectorise
      f64 rest[COUNTS], log[COUNTS];
      for (i32 k = 0; k < n; k++) rest[k] = 1.0 - p[k];
      for (i32 k = 0; k < n; k++) log[k] = own_log(rest[k]);
      for (i32 k = 0; k < n; k++) {
        f64 exact = log[k] * (-p[k] / (rest[k] - 1.0));
        log[k] = trials[k] * (rest[k] == 1.0 ? -p[k] : exact);
      }
      for (i32 k = 0; k < n; k++) at[k] = own_exp(log[k]);
      for (i32 k = 0; k < n; k++) at[k] = is_small[k] ? at[k] : 1.0;
      for (f64 j = 0; j < most && j < 150; j += 1) {
        // an element that has reached its number of trials stays
        for (i32 k = 0; k < n; k++) at[k] = j < trials[k] ? at[k] : 1.0;
        if (!go_on(o, u, at, n)) break;
        for (i32 k = 0; k < n; k++) at[k] *= (trials[k] - j) / (j + 1.0) * odds[k];
      }
    }
  }
  if (by_rejection) {
    count_uniforms(u, v, key, i, n);
    binomial_shape first = shape_of(trials[0], p[0]);
    for (i32 k = 0; k < n; k++) {
      f64 count;
      bool sure = binomial_try(count, u[k], v[k], trials[k], p[k], same ? first : shape_of(trials[k],
          p[k])) & !is_small[k] & (trials[k] * p[k] >= 10);
      o[k] = sure ? count : o[k];
      decided[k] |= sure ? 1 : 0;
    }
    if (same) {
      f64 top = log_binomial(floor((trials[0] + 1.0) * p[0]), trials[0], p[0]);
      for (i32 k = 0; k < n; k++) if (!decided[k]) o[k] = binomial_rest(key[k], i + k, trials[0], p[0], first, top);
      for (i32 k = 0; k < n; k++) decided[k] = 1;
    }
  }
  for (i32 k = 0; k < n; k++) {
    o[k] = prob[k] > 0.5 ? size[k] - o[k] : o[k];
    all &= decided[k];
  }
  if (!all) for (i32 k = 0; k < n; k++) if (!decided[k]) o[k] = any_binomial(key[k], i + k, size[k], prob[k], w);
}
VG_FN void binomial_block(f64* __restrict o, const i64* __restrict key, const f64* __restrict size,
    const f64* __restrict prob, i64 i, i32 n, u32& w) {
  for (i32 from = 0; from < n; from += COUNTS)
    binomial_some(o + from, key + from, size + from, prob + from, i + from, n - from < COUNTS ? n - from : COUNTS, w);
}
