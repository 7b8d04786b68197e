// Draws without replacement, and draws of the rank statistics. See draws.h: a draw is a function of key, index and
// parameters.
#pragma once
#include "draws.h"

// Beyond it the error of log(k!) would show in draws.
#define MOST_OBJECTS 1e11
// The most ranks: so many take a processor some tenths of a second.
#define MOST_DRAWN_RANKS 1e7
// log(k!) by Stirling's formula, with the package's own logarithm so that both devices give the same bits
VG_FN f64 log_factorial(f64 k) {
  if (k == 0) return 0.0;
  return (k + 0.5) * own_log(k) - k + 0.91893853320467274178 + factorial_rest(k);
}
// Uniform number `at` of an element; a block has two.
VG_FN f64 numbered_uniform(i64 key, i64 i, u32 at) {
  return uniform_of(word64(block_of(key, i, at >> 1, FOR_COUNT), at & 1u));
}
// The number of white balls among k <= (m + n) / 2 drawn from m white and n >= m black ones. Few draws are simulated
// one by one; otherwise E. Stadlober, "The ratio of uniforms approach for generating discrete random variates", J.
// Comput. Appl. Math. 31 (1990): HRUA.
VG_CALL f64 hypergeometric_draw(i64 key, i64 i, f64 m, f64 n, f64 k) {
  f64 all = m + n;
  if (k <= 10) {
    f64 white = m;
    for (u32 j = 0; j < (u32)k; j++)
      if (numbered_uniform(key, i, j) * (all - (f64)j) < white) white -= 1;
    return m - white;
  }
  f64 share = m / all, centre = k * share + 0.5;
  f64 spread = sqrt((all - k) * k * share * (1.0 - share) / (all - 1.0) + 0.5);
  f64 width = 1.7155277699214135 * spread + 0.8989161620588988;  // 2 sqrt(2/e), 3 - 2 sqrt(3/e)
  f64 mode = floor((k + 1.0) * (m + 1.0) / (all + 2.0));
  f64 top = log_factorial(mode) + log_factorial(m - mode) + log_factorial(k - mode) + log_factorial(n - k + mode);
  f64 most = (k < m ? k : m) + 1.0, x = mode;
  for (u32 j = 0; j < MOST_TRIES; j++) {
    philox_block c = block_of(key, i, j, FOR_COUNT);
    f64 u = uniform_of(word64(c, 0)), v = uniform_of(word64(c, 1)), at = centre + width * (v - 0.5) / u;
    if (!(at >= 0 && at < most)) continue;
    f64 z = floor(at);
    f64 rest = top - (log_factorial(z) + log_factorial(m - z) + log_factorial(k - z) + log_factorial(n - k + z));
    if (2.0 * own_log(u) > rest) continue;
    x = z;
    break;
  }
  return x;
}
VG_FN f64 hypergeometric_of(i64 key, i64 i, f64 m, f64 n, f64 k, u32& w) {
  if (!is_finite(m) || !is_finite(n) || !is_finite(k)) return refused(w);
  m = floor(m + 0.5);
  n = floor(n + 0.5);
  k = floor(k + 0.5);
  if (m < 0 || n < 0 || k < 0 || k > m + n || m + n > MOST_OBJECTS) return refused(w);
  // Draw for the rarer colour, and for the balls that are left in the urn if they are fewer.
  bool swapped = m > n, left = 2.0 * k > m + n;
  f64 a = swapped ? n : m, b = swapped ? m : n, drawn = left ? m + n - k : k;
  f64 x = a == 0 || drawn == 0 ? 0.0 : hypergeometric_draw(key, i, a, b, drawn);
  if (left) x = a - x;
  return swapped ? k - x : x;
}
// The sum of the ranks 1 ... n, each included with probability 1/2: one bit each
VG_FN f64 signed_rank_of(i64 key, i64 i, f64 n, u32& w) {
  if (!is_finite(n)) return refused(w);
  n = floor(n + 0.5);
  if (n < 0 || n > MOST_DRAWN_RANKS) return refused(w);
  f64 sum = 0;
  for (f64 rank = 0; rank < n;) {
    philox_block c = block_of(key, i, (u32)(rank / 128), FOR_COUNT);
    for (u32 part = 0; part < 2 && rank < n; part++) {
      u64 word = word64(c, part);
      for (u32 k = 0; k < 64 && rank < n; k++, word >>= 1) {
        rank += 1;
        if (word & 1u) sum += rank;
      }
    }
  }
  return sum;
}
// The sum of m of the ranks 0 ... m + n - 1, minus its smallest value. Each rank in turn is included with the
// probability (ranks still wanted) / (ranks left) (Fan, Muller and Rezucha, J. Amer. Stat. Assoc. 57, 1962)
VG_FN f64 rank_sum_of(i64 key, i64 i, f64 m, f64 n, u32& w) {
  if (!is_finite(m) || !is_finite(n)) return refused(w);
  m = floor(m + 0.5);
  n = floor(n + 0.5);
  if (m < 0 || n < 0 || m + n > MOST_DRAWN_RANKS) return refused(w);
  f64 sum = 0, wanted = m, all = m + n;
  for (f64 rank = 0; rank < all && wanted > 0; rank += 1) {
    if (numbered_uniform(key, i, (u32)rank) * (all - rank) < wanted) {
      // minus the number of ranks included before, which add up to the smallest value
      sum += rank - (m - wanted);
      wanted -= 1;
    }
  }
  return sum;
}
