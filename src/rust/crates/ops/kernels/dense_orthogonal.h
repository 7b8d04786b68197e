// QR, symmetric eigenvalues and singular values of one small matrix, by a team of threads: see dense.h.
#pragma once
#include "dense_team.h"

// The most iterations for one eigenvalue, and the most sweeps for all singular values, as in LAPACK.
#define MOST_TURNS 30

// ---- reflections ------------------------------------------------------------------------------------------
// Reflects the elements of a column from j on to (beta, 0 ...): LAPACK's reflector (dlarfg), whose first element, 1, is
// not stored. The column's element j becomes beta. Returns the conjugate of tau. Signs are LINPACK's, which also
// reflects a column that is zero below j, unless j is the last row.
template <class T, class Team> VG_FN T reflect(Team& t, i32 m, T* column, i32 j) {
  typedef typename Number<T>::real R;
  const T alpha = column[j];
  const R below = norm_of(t, column, j + 1, m);
  t.sync();
  if (below == 0 && (magnitude(alpha) == 0 || (j == m - 1 && magnitude(alpha - conj_of(alpha)) == 0))) return T();
  const R pair = below > magnitude(alpha) ? below : magnitude(alpha);
  const R norm = pair * root(squared(alpha / pair) + (below / pair) * (below / pair));
  const R beta = real_of(alpha) < 0 ? norm : -norm;
  const T scale = alpha - Number<T>::of(beta);
  for (i32 i = j + 1 + t.rank(); i < m; i += Team::SIZE) column[i] = column[i] / scale;
  if (t.rank() == 0) column[j] = Number<T>::of(beta);
  t.sync();
  return conj_of((Number<T>::of(beta) - alpha) / beta);
}
// Applies I - tau v v^H to columns from .. to of w, where v is stored below element j of its column.
template <class T, class Team> VG_FN void apply_reflector(Team& t, i32 m, T* w, i32 ld, const T* v, i32 j, T tau,
                                                          i32 from, i32 to) {
  if (squared(tau) == 0) return;
  for (i32 c = from + t.y(); c < to; c += Team::Y) {
    T* column = w + c * ld;
    // Only one thread reads and writes element j.
    const T share = dot_share(v, column, j + 1, m, t.x(), Team::X);
    const T s = tau * add_x(t, t.x() == 0 ? column[j] + share : share);
    for (i32 i = j + 1 + t.x(); i < m; i += Team::X) column[i] = column[i] - v[i] * s;
    if (t.x() == 0) column[j] = column[j] - s;
  }
  t.sync();
}
// Replaces k reflectors by the first k columns of their product, in place (dorg2r).
template <class T, class Team> VG_FN void gather_reflectors(Team& t, i32 m, i32 k, T* w, i32 ld, const T* tau) {
  for (i32 j = k - 1; j >= 0; j--) {
    T* v = w + j * ld;
    apply_reflector(t, m, w, ld, v, j, tau[j], j + 1, k);
    for (i32 i = t.rank(); i < m; i += Team::SIZE)
      v[i] = i < j ? T() : i == j ? Number<T>::of(1) - tau[j] : -(v[i] * tau[j]);
    t.sync();
  }
}

// ---- QR ---------------------------------------------------------------------------------------------------
// Q (m x k) and R (k x n), k = min(m, n), by Householder reflections without pivoting.
template <class T, class Team> VG_FN i32 qr(Team& t, i32 m, i32 n, const T* a, T* q, T* r, T* w) {
  const i32 k = m < n ? m : n, ld = leading<Team>(m);
  T* tau = w + n * ld;
  if (!load_finite(t, m, n, a, w, ld)) return NOT_FINITE;
  for (i32 j = 0; j < k; j++) {
    const T factor = reflect(t, m, w + j * ld, j);
    // R is made by the adjoints of the reflections, Q by the reflections.
    apply_reflector(t, m, w, ld, w + j * ld, j, factor, j + 1, n);
    if (t.rank() == 0) tau[j] = conj_of(factor);
    t.sync();
  }
  for (i32 j = t.y(); j < n; j += Team::Y)
    for (i32 i = t.x(); i < k; i += Team::X) r[i + (i64)j * k] = i <= j ? w[i + j * ld] : T();
  t.sync();
  gather_reflectors(t, m, k, w, ld, tau);
  for (i32 j = t.y(); j < k; j += Team::Y)
    for (i32 i = t.x(); i < m; i += Team::X) q[i + (i64)j * m] = w[i + j * ld];
  return 0;
}

// ---- symmetric eigenvalues --------------------------------------------------------------------------------
// Applies plane rotations last - 1 down to first to adjacent columns of z, which has n rows.
template <class T, class Team, class R> VG_FN void turn_columns(Team& t, i32 n, T* z, i32 ld, i32 first, i32 last,
                                                                const R* cosines, const R* sines) {
  if (Team::SIZE == 1) {
    for (i32 i = last - 1; i >= first; i--) {
      const R c = cosines[i], s = sines[i];
      T* __restrict left = z + i * ld;
      T* __restrict right = z + (i + 1) * ld;
      for (i32 r = 0; r < n; r++) {
        const T f = right[r], g = left[r];
        right[r] = g * s + f * c;
        left[r] = g * c - f * s;
      }
    }
    return;
  }
  for (i32 r = t.rank(); r < n; r += Team::SIZE) {
    T f = z[r + last * ld];
    for (i32 i = last - 1; i >= first; i--) {
      const T g = z[r + i * ld];
      z[r + (i + 1) * ld] = g * sines[i] + f * cosines[i];
      f = g * cosines[i] - f * sines[i];
    }
    z[r + first * ld] = f;
  }
}

// Eigenvalues in descending order and eigenvectors of a symmetric or Hermitian matrix; only the lower triangle is read.
// Reduction to tridiagonal form by reflections (dsytd2), then implicit QL (Bowdler, Martin, Reinsch and Wilkinson,
// Numer. Math. 11, 1968; Dubrulle's implicit form, Numer. Math. 15, 1970). One thread computes the rotations, all
// threads apply them.
template <class T, class Team> VG_FN i32 symmetric(Team& t, i32 n, const T* a, typename Number<T>::real* values,
                                                   T* vectors, T* w) {
  typedef typename Number<T>::real R;
  const i32 ld = leading<Team>(n);
  T* tau = w + n * ld;
  T* p = tau + n;
  R* d = (R*)(p + n);
  R* e = (R*)((T*)d + n);
  R* cosines = (R*)((T*)e + n);
  R* sines = (R*)((T*)cosines + n);
  R odd = 0, largest = 0;
  for (i32 j = t.y(); j < n; j += Team::Y)
    for (i32 i = j + t.x(); i < n; i += Team::X) {
      const T v = a[i + (i64)j * n];
      w[i + j * ld] = i == j ? Number<T>::of(real_of(v)) : v;
      if (i > j) w[j + i * ld] = conj_of(v);
      const R s = magnitude(v);
      odd += s - s;
      largest = s > largest ? s : largest;
    }
  odd = t.sum(odd);
  if (odd != odd) return NOT_FINITE;
  largest = t.most(largest);
  t.sync();
  // Scale the matrix if squares of its elements could overflow or underflow.
  const bool scaled = largest != 0 && !(largest > root(Limits<R>::small()) && largest < root(Limits<R>::large()));
  const R unit = scaled ? largest : (R)1;
  if (scaled) {
    for (i32 j = t.y(); j < n; j += Team::Y)
      for (i32 i = t.x(); i < n; i += Team::X) w[i + j * ld] = w[i + j * ld] / unit;
    t.sync();
  }
  for (i32 j = 0; j + 1 < n; j++) {
    T* v = w + j * ld;  // below element j + 1, which is the reflector's 1
    const T factor = conj_of(reflect(t, n, v, j + 1));
    const R beta = real_of(v[j + 1]);
    t.sync();
    if (t.rank() == 0) {
      e[j] = beta;
      tau[j] = factor;
      v[j + 1] = Number<T>::of(1);
    }
    t.sync();
    if (squared(factor) == 0) continue;
    // p = tau A v
    if (Team::SIZE == 1) {
      for (i32 i = j + 1; i < n; i++) p[i] = T();
      for (i32 c = j + 1; c < n; c++) {
        const T f = v[c];
        for (i32 i = j + 1; i < n; i++) p[i] = p[i] + w[i + c * ld] * f;
      }
      for (i32 i = j + 1; i < n; i++) p[i] = p[i] * factor;
    } else {
      for (i32 i = j + 1 + t.rank(); i < n; i += Team::SIZE) {
        T s = T();
        for (i32 c = j + 1; c < n; c++) s = s + w[i + c * ld] * v[c];
        p[i] = s * factor;
      }
    }
    t.sync();
    const T half = -(factor * add_all(t, dot_share(p, v, j + 1, n, t.rank(), Team::SIZE))) * (R)0.5;
    t.sync();
    for (i32 i = j + 1 + t.rank(); i < n; i += Team::SIZE) p[i] = p[i] + v[i] * half;
    t.sync();
    for (i32 c = j + 1 + t.y(); c < n; c += Team::Y) {
      const T pc = conj_of(p[c]), vc = conj_of(v[c]);
      for (i32 i = j + 1 + t.x(); i < n; i += Team::X) w[i + c * ld] = w[i + c * ld] - v[i] * pc - p[i] * vc;
    }
    t.sync();
  }
  for (i32 i = t.rank(); i < n; i += Team::SIZE) d[i] = real_of(w[i + i * ld]);
  t.sync();
  // Shift the reflectors one column to the right, then multiply them.
  for (i32 j = n - 1; j > 0; j--) {
    for (i32 i = t.rank(); i < n; i += Team::SIZE) w[i + j * ld] = i > j ? w[i + (j - 1) * ld] : T();
    t.sync();
  }
  for (i32 i = t.rank(); i < n; i += Team::SIZE) w[i] = Number<T>::of(i == 0 ? 1 : 0);
  t.sync();
  if (n > 1) gather_reflectors(t, n - 1, n - 1, w + 1 + ld, ld, tau);
  for (i32 l = 0; l < n; l++) {
    for (i32 turn = 0;; turn++) {
      i32 m = l;
      for (; m + 1 < n; m++)
        if (magnitude(e[m]) <= Limits<R>::unit() * (magnitude(d[m]) + magnitude(d[m + 1]))) break;
      if (m == l) break;
      if (turn == MOST_TURNS) return l + 1;
      t.sync();
      if (t.rank() == 0) {
        R g = (d[l + 1] - d[l]) / (2 * e[l]);
        const R far = magnitude(g) > 1 ? magnitude(g) * root(1 + (1 / g) * (1 / g)) : root(g * g + 1);
        g = d[m] - d[l] + e[l] / (g + (g < 0 ? -far : far));
        R s = 1, c = 1, shift = 0;
        i32 i = m - 1;
        for (; i >= l; i--) {
          const R f = s * e[i], b = c * e[i], r = root(f * f + g * g);
          e[i + 1] = r;
          if (r == 0) {  // underflow: the matrix splits here
            d[i + 1] -= shift;
            break;
          }
          s = f / r;
          c = g / r;
          g = d[i + 1] - shift;
          const R h = (d[i] - g) * s + 2 * c * b;
          shift = s * h;
          d[i + 1] = g + shift;
          g = c * h - b;
          cosines[i] = c;
          sines[i] = s;
        }
        if (i < l) {
          d[l] -= shift;
          e[l] = g;
        } else {
          for (; i >= l; i--) { cosines[i] = 1; sines[i] = 0; }
        }
        e[m] = 0;
      }
      t.sync();
      turn_columns(t, n, w, ld, l, m, cosines, sines);
      t.sync();
    }
  }
  // Sort in descending order; ties keep their order.
  for (i32 i = t.rank(); i < n; i += Team::SIZE) {
    i32 at = 0;
    for (i32 j = 0; j < n; j++) at += d[j] > d[i] || (d[j] == d[i] && j < i);
    values[at] = d[i] * unit;
    ((i32*)cosines)[i] = at;
  }
  t.sync();
  for (i32 j = t.y(); j < n; j += Team::Y)
    for (i32 i = t.x(); i < n; i += Team::X) vectors[i + (i64)((i32*)cosines)[j] * n] = w[i + j * ld];
  return 0;
}

// ---- singular values --------------------------------------------------------------------------------------
// Pair k of a round of a tournament among an even number n of columns: each round has every column once, and n - 1
// rounds have all pairs.
VG_FN void pair_of(i32 round, i32 k, i32 n, i32& p, i32& q) {
  p = k == 0 ? n - 1 : (round + k) % (n - 1);
  q = (round + n - 1 - k) % (n - 1);
  if (p > q) { const i32 v = p; p = q; q = v; }
}

// Singular values d in descending order, u (m x n) and v of a matrix of m >= n rows, by one-sided Jacobi rotations
// (Hestenes, J. SIAM 6, 1958): pairs of columns are rotated until all are orthogonal.
template <class T, class Team> VG_FN i32 singular(Team& t, i32 m, i32 n, const T* a, typename Number<T>::real* d, T* u,
                                                  T* v, T* w) {
  typedef typename Number<T>::real R;
  const i32 ld = leading<Team>(m), ldv = leading<Team>(n);
  T* z = w + n * ld;
  R* norms = (R*)(z + n * ldv);
  i32* place = (i32*)((T*)norms + n);
  if (!load_finite(t, m, n, a, w, ld)) return NOT_FINITE;
  R largest = 0;
  for (i32 j = t.y(); j < n; j += Team::Y)
    for (i32 i = t.x(); i < m; i += Team::X) largest = greater(magnitude(w[i + j * ld]), largest);
  largest = t.most(largest);
  t.sync();
  const R unit = largest > 0 ? largest : (R)1;
  for (i32 j = t.y(); j < n; j += Team::Y) {
    for (i32 i = t.x(); i < m; i += Team::X) w[i + j * ld] = w[i + j * ld] / unit;
    for (i32 i = t.x(); i < n; i += Team::X) z[i + j * ldv] = Number<T>::of(i == j ? 1 : 0);
  }
  t.sync();
  const R tolerance = Limits<R>::unit() * root((R)m);
  const i32 even = n + (n & 1);
  R turned = n > 1 ? 1 : 0;
  for (i32 turn = 0; turned != 0; turn++) {
    if (turn == MOST_TURNS) return 1;
    turned = 0;
    for (i32 round = 0; round < even - 1; round++) {
      for (i32 k = t.y(); k < even / 2; k += Team::Y) {
        i32 p, q;
        pair_of(round, k, even, p, q);
        if (q >= n) continue;
        T* __restrict left = w + p * ld;
        T* __restrict right = w + q * ld;
        const R alpha = add_x(t, squares_share(left, 0, m, t.x(), Team::X));
        const R beta = add_x(t, squares_share(right, 0, m, t.x(), Team::X));
        const T product = add_x(t, dot_share(left, right, 0, m, t.x(), Team::X));
        const R gamma = root(squared(product));
        // Columns this small are replaced at the end.
        if (!(gamma > tolerance * root(alpha) * root(beta)) || gamma < Limits<R>::tiny()) continue;
        turned = 1;
        const R zeta = (beta - alpha) / (2 * gamma);
        const R far = magnitude(zeta) > 1 ? magnitude(zeta) * root(1 + (1 / zeta) * (1 / zeta)) : root(1 + zeta * zeta);
        const R tangent = (zeta < 0 ? (R)-1 : (R)1) / (magnitude(zeta) + far);
        const R c = 1 / root(1 + tangent * tangent), s = c * tangent;
        const T phase = conj_of(product) / gamma;
        for (i32 i = t.x(); i < m; i += Team::X) {
          const T f = left[i], g = right[i] * phase;
          left[i] = f * c - g * s;
          right[i] = f * s + g * c;
        }
        T* __restrict z_left = z + p * ldv;
        T* __restrict z_right = z + q * ldv;
        for (i32 i = t.x(); i < n; i += Team::X) {
          const T f = z_left[i], g = z_right[i] * phase;
          z_left[i] = f * c - g * s;
          z_right[i] = f * s + g * c;
        }
      }
      t.sync();
    }
    turned = t.most(turned);
  }
  for (i32 j = 0; j < n; j++) {
    const R norm = norm_of(t, w + j * ld, 0, m);
    if (t.rank() == 0) norms[j] = norm;
  }
  t.sync();
  for (i32 i = t.rank(); i < n; i += Team::SIZE) {
    i32 at = 0;
    for (i32 j = 0; j < n; j++) at += norms[j] > norms[i] || (norms[j] == norms[i] && j < i);
    d[at] = norms[i] * unit;
    place[i] = at;
  }
  t.sync();
  // Columns too short to have a reliable direction come last.
  const R least = root(Limits<R>::small());
  i32 known = 0;
  for (i32 j = 0; j < n; j++) known += norms[j] > least;
  for (i32 j = t.y(); j < n; j += Team::Y) {
    for (i32 i = t.x(); i < n; i += Team::X) v[i + (i64)place[j] * n] = z[i + j * ldv];
    if (place[j] < known)
      for (i32 i = t.x(); i < m; i += Team::X) u[i + (i64)place[j] * m] = w[i + j * ld] / norms[j];
  }
  t.sync();
  // Complete the basis: the unit vector with the smallest projection onto the other columns, orthogonalised twice.
  for (i32 j = known; j < n; j++) {
    R best = -2;
    i32 at = 0;
    for (i32 i = t.rank(); i < m; i += Team::SIZE) {
      R s = 0;
      for (i32 c = 0; c < j; c++) s += squared(u[i + (i64)c * m]);
      if (-s > best) { best = -s; at = i; }
    }
    at = t.where_most(best, at);
    T* column = u + (i64)j * m;
    for (i32 i = t.rank(); i < m; i += Team::SIZE) column[i] = Number<T>::of(i == at ? 1 : 0);
    t.sync();
    for (i32 again = 0; again < 2; again++)
      for (i32 c = 0; c < j; c++) {
        const T s = add_all(t, dot_share((const T*)(u + (i64)c * m), (const T*)column, 0, m, t.rank(), Team::SIZE));
        for (i32 i = t.rank(); i < m; i += Team::SIZE) column[i] = column[i] - u[i + (i64)c * m] * s;
        t.sync();
      }
    const R norm = norm_of(t, column, 0, m);
    t.sync();
    for (i32 i = t.rank(); i < m; i += Team::SIZE) column[i] = column[i] / norm;
    t.sync();
  }
  return 0;
}
