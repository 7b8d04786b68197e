// Draws from distributions with parameters. Each element i of a key may have parameters of its own. Algorithms that
// need an unknown number of uniforms take the blocks of attempt 0, 1, 2 ... of the element, so a draw stays a function
// of key, index and parameters.
//
// As in random.h, both devices give the same bits (portable.h). Invalid parameters set a bit in w ("NAs produced") and
// give NaN. Limits that are point masses are those of base R.
#pragma once
#include "random.h"

// The purpose of a Philox block, which is part of its counter, so that no block is used twice. Streams (random.h) use
// 0.
#define FOR_GAMMA 1u
#define FOR_BOOST 2u     // for gamma shapes below 1
#define FOR_SECOND 3u    // a second gamma draw; its boost uses 4
#define FOR_NORMAL 5u
#define FOR_COUNT 6u
#define FOR_INDEX 7u

// Every rejection method here accepts at least one of three tries, so this many rejections in a row do not happen.
#define MOST_TRIES 4096u

VG_FN philox_block block_of(i64 key, i64 i, u32 attempt, u32 purpose) {
  philox_block c = {(u32)(u64)i, (u32)((u64)i >> 32), attempt, purpose};
  return philox4x32(c, (u32)(u64)key, (u32)((u64)key >> 32));
}
VG_FN f64 refused(u32& w) { w |= 1u; return nan_f64(); }
template <class T> VG_FN bool is_finite(T x) { return x - x == 0; }

// ---- standard draws, shifted and scaled ---------------------------------------------------------------
template <class T> VG_FN T scaled(T z, T location, T scale, u32& w) {
  if (location != location || !is_finite(scale) || scale < 0) return (T)refused(w);
  return scale == 0 || !is_finite(location) ? location : z * scale + location;
}
VG_FN f64 lognormal_draw(f64 z, f64 mean, f64 sd, u32& w) {
  f64 x = scaled(z, mean, sd, w);
  return x != x ? x : own_exp(x);
}
template <class T> VG_FN T uniform_draw(T u, T low, T high, u32& w) {
  if (!is_finite(low) || !is_finite(high) || high < low) return (T)refused(w);
  return u * (high - low) + low;
}
template <class T> VG_FN T exponential_draw(T e, T rate, u32& w) {
  T scale = 1 / rate;
  if (!is_finite(scale) || scale < 0) return (T)refused(w);
  return e * scale;
}
// inversion: scale * e^(1 / shape)
VG_FN f64 weibull_draw(f64 e, f64 shape, f64 scale, u32& w) {
  if (scale == 0) return 0.0;
  if (!is_finite(shape) || !is_finite(scale) || shape <= 0 || scale < 0) return refused(w);
  return e > 0 ? scale * own_exp(own_log(e) / shape) : 0.0;
}
// inversion: the tangent of pi (u - 1/2)
VG_FN f64 cauchy_draw(f64 u, f64 location, f64 scale, u32& w) {
  f64 y = u - 0.5, far = 1.0 - 2.0 * fabs(y), near = 2.0 * y;
  f64 tangent = fabs(y) <= 0.25 ? quarter_sine(near) / quarter_cosine(near)
                                : (y < 0 ? -1.0 : 1.0) * (quarter_cosine(far) / quarter_sine(far));
  return scaled(tangent, location, scale, w);
}
// inversion; base R takes a negative scale here
VG_FN f64 logistic_draw(f64 u, f64 location, f64 scale, u32& w) {
  if (location != location || !is_finite(scale)) return refused(w);
  return scale == 0 || !is_finite(location) ? location : own_log(u / (1.0 - u)) * scale + location;
}

// float32 is drawn in float32 and shaped in float64
VG_FN f32 lognormal_draw(f32 z, f32 mean, f32 sd, u32& w) { return (f32)lognormal_draw((f64)z, (f64)mean, (f64)sd, w); }
VG_FN f32 weibull_draw(f32 e, f32 shape, f32 scale, u32& w) {
  return (f32)weibull_draw((f64)e, (f64)shape, (f64)scale, w);
}
VG_FN f32 cauchy_draw(f32 u, f32 location, f32 scale, u32& w) {
  return (f32)cauchy_draw((f64)u, (f64)location, (f64)scale, w);
}
VG_FN f32 logistic_draw(f32 u, f32 location, f32 scale, u32& w) {
  return (f32)logistic_draw((f64)u, (f64)location, (f64)scale, w);
}

// ---- gamma ----------------------------------------------------------------------------------------------
// log(1 + y) - y + y^2/2 - y^3/3, without cancellation
VG_FN f64 log1p_beyond_third(f64 y) {
  if (fabs(y) < 0.03125)
    return y * y * (y * y) * (-0.25 + y * (0.2 + y * (-1.0 / 6 + y * (1.0 / 7 + y * (-0.125 + y * (1.0 / 9 + y * -0.1))))));
  return own_log1p(y) - y * (1.0 + y * (-0.5 + y * (1.0 / 3)));
}

// The number value * exp(log), which may underflow for shapes below 1
struct stretched { f64 value, log; };

// Gamma draws: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000); shapes
// below 1 by their last section. An attempt uses one block: 64 bits for the normal's radius, 32 for its angle and 32
// for the test. With d = shape - 1/3 and y = x / (3 sqrt(d)), their test log(u) < x^2/2 + d - d v + d log(v) becomes
// log(u) < 3 d (log(1 + y) - y + y^2/2 - y^3/3).
VG_CALL stretched gamma_draw(i64 key, i64 i, u32 purpose, f64 shape) {
  stretched g = {0.0, 0.0};
  if (shape < 1) {
    // below 1e-300 a draw is 0 either way
    g.log = own_log(uniform_of(word64(block_of(key, i, 0u, purpose + 1u), 0))) / (shape < 1e-300 ? 1e-300 : shape);
    shape += 1.0;
  }
  f64 d = shape - 1.0 / 3, step = 1.0 / (3.0 * sqrt(d));
  for (u32 j = 0; j < MOST_TRIES; j++) {
    philox_block c = block_of(key, i, j, purpose);
    f64 x = radius_of(word64(c, 0)) * turned_cosine((u64)c.x2 << 32 | 0x80000000u, 0u), y = x * step, v = 1.0 + y;
    if (v <= 0) continue;
    f64 u = ((f64)c.x3 + 0.5) * 2.3283064365386963e-10, square = x * x;
    g.value = d * (v * v * v);
    if (u < 1.0 - 0.0331 * (square * square) || own_log(u) < 3.0 * d * log1p_beyond_third(y)) break;
  }
  return g;
}

VG_FN f64 gamma_of(i64 key, i64 i, f64 shape, f64 scale, u32& w) {
  if (scale == 0 || shape == 0) return shape != shape || scale != scale ? refused(w) : 0.0;
  if (!(shape > 0) || !(scale > 0)) return refused(w);
  if (!is_finite(shape) || !is_finite(scale)) return f64_of_bits(0x7FF0000000000000ull);
  stretched g = gamma_draw(key, i, FOR_GAMMA, shape);
  return g.log == 0 ? scale * g.value : scale * (g.value * own_exp(g.log));
}
VG_FN f64 chisq_of(i64 key, i64 i, f64 df, u32& w) {
  return is_finite(df) && df >= 0 ? gamma_of(key, i, df * 0.5, 2.0, w) : refused(w);
}
// G1 / (G1 + G2)
VG_FN f64 beta_of(i64 key, i64 i, f64 a, f64 b, u32& w) {
  if (!(a >= 0) || !(b >= 0)) return refused(w);
  bool whole = !is_finite(a), other = !is_finite(b);
  if (whole && other) return 0.5;
  if (a == 0 && b == 0) return uniform_of(block_of(key, i, 0u, FOR_BOOST).x0) < 0.5f ? 0.0 : 1.0;
  if (whole || b == 0) return 1.0;
  if (other || a == 0) return 0.0;
  stretched x = gamma_draw(key, i, FOR_GAMMA, a), y = gamma_draw(key, i, FOR_SECOND, b);
  return 1.0 / (1.0 + y.value / x.value * own_exp(y.log - x.log));
}
// A normal divided by the root of chi-square / df
VG_FN f64 t_of(i64 key, i64 i, f64 df, u32& w) {
  if (!(df > 0)) return refused(w);
  f64 z = normal64(block_of(key, i, 0u, FOR_NORMAL), 0u);
  if (!is_finite(df)) return z;
  stretched g = gamma_draw(key, i, FOR_GAMMA, df * 0.5);
  return z * sqrt(df * 0.5 / g.value) * own_exp(-0.5 * g.log);
}

// ---- log probabilities of counts: C. Loader, "Fast and accurate computation of binomial probabilities" (2000) -------------
// log(k!) minus Stirling's formula, for k = 0 (the formula's limit, not used), 1 ... 15
VG_TABLE f64 FACTORIAL_REST[16] = {
  0.0, 0.08106146679532726, 0.0413406959554093, 0.02767792568499834, 0.020790672103765093, 0.016644691189821193,
  0.013876128823070748, 0.01189670994589177, 0.010411265261972096, 0.009255462182712733, 0.00833056343336287,
  0.007573675487951841, 0.00694284010720953, 0.006408994188004207, 0.0059513701127588475, 0.005554733551962801,
};
VG_FN f64 factorial_rest(f64 k) {
  if (k < 16) return FACTORIAL_REST[(i32)k];
  f64 r = 1.0 / k, s = r * r;
  return r * (1.0 / 12 + s * (-1.0 / 360 + s * (1.0 / 1260 + s * (-1.0 / 1680 + s * (1.0 / 1188)))));
}
// k log(k / m) + m - k for k > 0
VG_FN f64 deviance(f64 k, f64 m) {
  f64 d = k - m, v = d / (k + m), s = v * v;
  if (fabs(v) < 0.1)
    return d * v + 2.0 * k * v * s * (1.0 / 3 + s * (0.2 + s * (1.0 / 7 + s * (1.0 / 9 + s * (1.0 / 11 +
           s * (1.0 / 13 + s * (1.0 / 15 + s * (1.0 / 17))))))));
  return k * own_log(k / m) - d;
}
VG_FN f64 log_poisson(f64 k, f64 mean) {
  if (k == 0) return -mean;
  return -0.5 * own_log(6.283185307179586 * k) - factorial_rest(k) - deviance(k, mean);
}
// The log probability minus factorial_rest(n), which does not depend on k
VG_FN f64 log_binomial(f64 k, f64 n, f64 p) {
  f64 rest = n - k;
  if (k == 0 || rest == 0) return n * (k == 0 ? own_log1p(-p) : own_log(p)) - factorial_rest(n);
  return -0.5 * own_log(6.283185307179586 * k * (rest / n)) - factorial_rest(k) - factorial_rest(rest) -
         deviance(k, n * p) - deviance(rest, n * (1.0 - p));
}

// ---- counts -----------------------------------------------------------------------------------------------
// Means below 10: by summing probabilities. Otherwise W. Hoermann, "The transformed rejection method for generating
// Poisson random variables", Insurance: Mathematics and Economics 12 (1993): PTRS.
VG_CALL f64 poisson_draw(i64 key, i64 i, f64 mean) {
  if (mean < 10) {
    f64 u = uniform_of(word64(block_of(key, i, 0u, FOR_COUNT), 0)), p = own_exp(-mean), k = 0;
    // larger counts have a probability below 1e-100
    while (u > p && k < 150) {
      u -= p;
      k += 1;
      p *= mean / k;
    }
    return k;
  }
  f64 b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, height = 1.1239 + 1.1328 / (b - 3.4), sure = 0.9277 - 3.6224 / (b - 2.0);
  f64 k = 0;
  for (u32 j = 0; j < MOST_TRIES; j++) {
    philox_block c = block_of(key, i, j, FOR_COUNT);
    f64 u = uniform_of(word64(c, 0)) - 0.5, v = uniform_of(word64(c, 1)), rest = 0.5 - fabs(u);
    k = floor((2.0 * a / rest + b) * u + mean + 0.43);
    if (rest >= 0.07 && v <= sure) break;
    if (k < 0 || (rest < 0.013 && v > rest)) continue;
    if (own_log(v * height / (a / (rest * rest) + b)) <= log_poisson(k, mean)) break;
  }
  return k;
}
// p <= 1/2. Means below 10: by summing probabilities. Otherwise W. Hoermann, "The generation of binomial random
// variates", Journal of Statistical Computation and Simulation 46 (1993): BTRS.
VG_CALL f64 binomial_draw(i64 key, i64 i, f64 n, f64 p) {
  f64 q = 1.0 - p;
  if (n * p < 10) {
    f64 u = uniform_of(word64(block_of(key, i, 0u, FOR_COUNT), 0)), odds = p / q, at = own_exp(n * own_log1p(-p)), k = 0;
    while (u > at && k < n && k < 150) {
      u -= at;
      at *= (n - k) / (k + 1.0) * odds;
      k += 1;
    }
    return k;
  }
  f64 deviation = sqrt(n * p * q), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  f64 height = (2.83 + 5.1 / b) * deviation, sure = 0.92 - 4.2 / b;
  f64 k = 0, top = 1.0;  // log probability of the mode, computed on demand: most draws are accepted without it
  for (u32 j = 0; j < MOST_TRIES; j++) {
    philox_block c = block_of(key, i, j, FOR_COUNT);
    f64 u = uniform_of(word64(c, 0)) - 0.5, v = uniform_of(word64(c, 1)), rest = 0.5 - fabs(u);
    k = floor((2.0 * a / rest + b) * u + n * p + 0.5);
    if (k < 0 || k > n) continue;
    if (rest >= 0.07 && v <= sure) break;
    if (top > 0) top = log_binomial(floor((n + 1.0) * p), n, p);
    if (own_log(v * height / (a / (rest * rest) + b)) <= log_binomial(k, n, p) - top) break;
  }
  return k;
}

VG_FN f64 poisson_of(i64 key, i64 i, f64 mean, u32& w) {
  if (!is_finite(mean) || mean < 0) return refused(w);
  return mean == 0 ? 0.0 : poisson_draw(key, i, mean);
}
VG_FN f64 binomial_of(i64 key, i64 i, f64 n, f64 p, u32& w) {
  if (!is_finite(n) || n < 0 || n != floor(n) || !(p >= 0 && p <= 1)) return refused(w);
  if (n == 0 || p == 0) return 0.0;
  return p > 0.5 ? n - (p == 1 ? 0.0 : binomial_draw(key, i, n, 1.0 - p)) : binomial_draw(key, i, n, p);
}
// A chi-square with twice a Poisson number of additional degrees of freedom
VG_FN f64 noncentral_chisq_of(i64 key, i64 i, f64 df, f64 ncp, u32& w) {
  if (!(df >= 0) || !is_finite(ncp) || ncp < 0) return refused(w);
  return gamma_of(key, i, df * 0.5 + (ncp == 0 ? 0.0 : poisson_draw(key, i, ncp * 0.5)), 2.0, w);
}
// inversion: the number of failures before a success
VG_FN f64 geometric_of(i64 key, i64 i, f64 p, u32& w) {
  if (!(p > 0 && p <= 1)) return refused(w);
  if (p == 1) return 0.0;
  f64 rate = -own_log1p(-p);
  return floor(-own_log(uniform_of(word64(block_of(key, i, 0u, FOR_COUNT), 0))) / rate);
}
// A Poisson count with a gamma mean. R treats an infinite size as a very large one, which makes the mean constant.
VG_FN f64 mixed_poisson(i64 key, i64 i, f64 size, f64 scale) {
  stretched g = gamma_draw(key, i, FOR_GAMMA, size);
  f64 mean = g.log == 0 ? scale * g.value : scale * (g.value * own_exp(g.log));
  return mean == 0 || !is_finite(mean) ? mean : poisson_draw(key, i, mean);
}
VG_FN f64 negative_binomial_of(i64 key, i64 i, f64 size, f64 p, u32& w) {
  if (!(size > 0) || !(p > 0 && p <= 1)) return refused(w);
  if (p == 1) return 0.0;
  return mixed_poisson(key, i, is_finite(size) ? size : 8.9884656743115795e307, (1.0 - p) / p);
}
VG_FN f64 negative_binomial_of_mean(i64 key, i64 i, f64 size, f64 mean, u32& w) {
  if (!(size > 0) || !is_finite(mean) || mean < 0) return refused(w);
  if (mean == 0) return 0.0;
  if (!is_finite(size)) return poisson_draw(key, i, mean);
  return mixed_poisson(key, i, size, mean / size);
}

// ---- positions ------------------------------------------------------------------------------------------
// The high 64 bits of a product
VG_FN u64 high_product(u64 a, u64 b) {
  u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
  u64 middle = ah * bl + (al * bl >> 32), other = al * bh + (u32)middle;
  return ah * bh + (middle >> 32) + (other >> 32);
}
// 1 ... n (below 2^53), all equally likely: D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29
// (2019)
VG_FN f64 index_of(i64 key, i64 i, f64 n) {
  u64 count = (u64)n, high = 0;
  for (u32 j = 0; j < MOST_TRIES; j++) {
    u64 word = word64(block_of(key, i, j, FOR_INDEX), 0);
    high = high_product(word, count);
    u64 low = word * count;
    if (low >= count || low >= (0 - count) % count) break;
  }
  return (f64)high + 1.0;
}
