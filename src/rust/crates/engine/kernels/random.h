// Random numbers as functions of a key and an index: Philox4x32-10 of J. Salmon, M. Moraes,
// R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), whose constants these are.
//
// Only integer operations, + - * / and sqrt stand here, each rounded as IEEE says, so that both devices give the
// same bits; that is why the logarithm is our own.
#pragma once
#include "prelude.h"

struct philox_block { u32 x0, x1, x2, x3; };

VG_FN philox_block philox4x32(philox_block c, u32 k0, u32 k1) {
  for (int round = 0; round < 10; round++) {
    u64 p = (u64)0xD2511F53u * c.x0, q = (u64)0xCD9E8D57u * c.x2;
    philox_block next = {(u32)(q >> 32) ^ c.x1 ^ k0, (u32)q, (u32)(p >> 32) ^ c.x3 ^ k1, (u32)p};
    c = next;
    k0 += 0x9E3779B9u;  // the golden ratio
    k1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return c;
}

// 64 bits for element i: a block serves two elements
VG_FN u64 random_bits(i64 key, i64 i) {
  u64 block = (u64)i >> 1;
  philox_block c = {(u32)block, (u32)(block >> 32), 0u, 0u};
  c = philox4x32(c, (u32)(u64)key, (u32)((u64)key >> 32));
  return (i & 1) ? (u64)c.x3 << 32 | c.x2 : (u64)c.x1 << 32 | c.x0;
}

// An odd multiple of 2^-53: never 0 nor 1, and u is as likely as 1 - u
VG_FN f64 random_uniform(i64 key, i64 i) {
  return (f64)(i64)(random_bits(key, i) >> 11 | 1u) * 1.1102230246251565e-16;
}

// log(x) of a positive normal number, within 1 ulp. x = 2^k (1 + f) with 1 + f in sqrt(1/2) ... sqrt(2);
// with s = f / (2 + f), log(1 + f) is 2 atanh(s) = f - f^2/2 + s (f^2/2 + r), where r is the
// series 2 s^2/3 + 2 s^4/5 + ... (s^2 < 0.0295, so that ten terms reach 2^-56); the order of the sum keeps the large f exact.
VG_FN f64 own_log(f64 x) {
  u64 b = bits_of(x);
  i64 k = (i64)(b >> 52) - 1023;
  u64 fraction = b & 0xFFFFFFFFFFFFFull;
  bool upper = fraction > 0x6A09E667F3BCCull;  // sqrt(2)
  f64 m = f64_of_bits(fraction | (upper ? 0x3FE0000000000000ull : 0x3FF0000000000000ull));
  f64 n = (f64)(k + (i64)upper), f = m - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  f64 r = z * (2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 +
          z * (2.0 / 13 + z * (2.0 / 15 + z * (2.0 / 17 + z * (2.0 / 19 + z * (2.0 / 21))))))))));
  // log(2) in a part with 32 trailing zeros, whose multiples by k are exact, and the rest
  return n * 6.93147180369123816490e-01 -
         ((half - (s * (half + r) + n * 1.90821492927058770002e-10)) - f);
}

// The normal quantile: M. J. Wichura, "Algorithm AS 241: the percentage points of the normal
// distribution", Applied Statistics 37 (1988), 477-484, routine PPND16 (about 1 part in 10^16).
VG_FN f64 normal_quantile(f64 u) {
  f64 q = u - 0.5, top, bottom, x;
  if (fabs(q) <= 0.425) {
    f64 r = 0.180625 - q * q;
    top = (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r +
               4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r +
            1.3314166789178437745e2) * r + 3.3871328727963666080e0);
    bottom = (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r +
                  2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r +
               4.2313330701600911252e1) * r + 1.0);
    return q * top / bottom;
  }
  f64 r = sqrt(-own_log(q < 0 ? u : 1.0 - u));
  if (r <= 5.0) {
    r -= 1.6;
    top = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
               1.27045825245236838258e0) * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r +
            4.63033784615654529590e0) * r + 1.42343711074968357734e0);
    bottom = (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
                  1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r +
               2.05319162663775882187e0) * r + 1.0);
  } else {
    r -= 5.0;
    top = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r +
               2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r +
            5.46378491116411436990e0) * r + 6.65790464350110377720e0);
    bottom = (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r +
                  7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r +
               5.99832206555887937690e-1) * r + 1.0);
  }
  x = top / bottom;
  return q < 0 ? -x : x;
}

VG_FN f64 random_normal(i64 key, i64 i) { return normal_quantile(random_uniform(key, i)); }
VG_FN f64 random_exponential(i64 key, i64 i) { return -own_log(random_uniform(key, i)); }
