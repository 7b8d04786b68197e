// Cholesky factors and linear systems of one small matrix, by a team of threads: see dense.h.
#pragma once
#include "dense_team.h"

// ---- Cholesky ---------------------------------------------------------------------------------------------
// The upper factor of a real matrix; only the upper triangle is read. Columns are divided by their pivots at the end,
// so that a step needs a single barrier.
template <class T, class Team> VG_FN i32 cholesky(Team& t, i32 n, const T* a, T* out, T* w) {
  const i32 ld = leading<Team>(n);
  for (i32 j = t.y(); j < n; j += Team::Y)
    for (i32 i = t.x(); i <= j; i += Team::X) w[j + i * ld] = a[i + (i64)j * n];
  t.sync();
  for (i32 k = 0; k < n; k++) {
    const T p = w[k + k * ld];
    if (!(p > 0)) return k + 1;
    for (i32 j = k + 1 + t.y(); j < n; j += Team::Y) {
      const T q = w[j + k * ld] / p;
      for (i32 i = j + t.x(); i < n; i += Team::X) w[i + j * ld] = w[i + j * ld] - w[i + k * ld] * q;
    }
    t.sync();
  }
  for (i32 j = t.y(); j < n; j += Team::Y)
    for (i32 i = t.x(); i < n; i += Team::X)
      out[i + (i64)j * n] = i < j ? w[j + i * ld] / root(w[i + i * ld]) : i == j ? root(w[j + j * ld]) : T();
  return 0;
}

// ---- linear systems ---------------------------------------------------------------------------------------
// LU factorisation in place, with partial pivoting; `rows` becomes the order of the rows.
template <class T, class Team> VG_FN i32 factor_lu(Team& t, i32 n, T* w, i32 ld, i32* rows) {
  typedef typename Number<T>::real R;
  for (i32 i = t.rank(); i < n; i += Team::SIZE) rows[i] = i;
  t.sync();
  for (i32 k = 0; k < n; k++) {
    R best = -1;
    i32 at = k;
    for (i32 i = k + t.rank(); i < n; i += Team::SIZE)
      if (magnitude(w[i + k * ld]) > best) { best = magnitude(w[i + k * ld]); at = i; }
    at = t.where_most(best, at);
    t.sync();
    if (at != k) {
      for (i32 j = t.rank(); j < n; j += Team::SIZE) {
        const T v = w[k + j * ld];
        w[k + j * ld] = w[at + j * ld];
        w[at + j * ld] = v;
      }
      if (t.rank() == 0) { const i32 v = rows[k]; rows[k] = rows[at]; rows[at] = v; }
      t.sync();
    }
    const T p = w[k + k * ld];
    if (magnitude(p) == 0) return k + 1;
    for (i32 i = k + 1 + t.rank(); i < n; i += Team::SIZE) w[i + k * ld] = w[i + k * ld] / p;
    t.sync();
    for (i32 j = k + 1 + t.y(); j < n; j += Team::Y) {
      const T q = w[k + j * ld];
      for (i32 i = k + 1 + t.x(); i < n; i += Team::X) w[i + j * ld] = w[i + j * ld] - w[i + k * ld] * q;
    }
    t.sync();
  }
  return 0;
}

// Solves L U x = b in place for the columns of b, whose rows are in pivot order.
template <class T, class Team> VG_FN void solve_lu(Team& t, i32 n, const T* w, i32 ld, T* b, i32 ldb, i32 columns) {
  const i32 X = columns == 1 ? (i32)Team::SIZE : (i32)Team::X, Y = Team::SIZE / X;
  const i32 x = columns == 1 ? t.rank() : t.x(), y = columns == 1 ? 0 : t.y();
  VG_ROLLED
  for (i32 k = 0; k + 1 < n; k++) {
    VG_ROLLED
    for (i32 c = y; c < columns; c += Y) {
      const T q = b[k + (i64)c * ldb];
      VG_ROLLED
      for (i32 i = k + 1 + x; i < n; i += X) b[i + (i64)c * ldb] = b[i + (i64)c * ldb] - w[i + k * ld] * q;
    }
    t.sync();
  }
  VG_ROLLED
  for (i32 k = n - 1; k > 0; k--) {
    VG_ROLLED
    for (i32 c = y; c < columns; c += Y) {
      const T q = b[k + (i64)c * ldb] / w[k + k * ld];
      VG_ROLLED
      for (i32 i = x; i < k; i += X) b[i + (i64)c * ldb] = b[i + (i64)c * ldb] - w[i + k * ld] * q;
    }
    t.sync();
  }
  VG_ROLLED
  for (i32 c = y; c < columns; c += Y)
    VG_ROLLED
    for (i32 i = x; i < n; i += X) b[i + (i64)c * ldb] = b[i + (i64)c * ldb] / w[i + i * ld];
  t.sync();
}

// Solves for one vector v, in place, with the factors of a matrix or of its transpose; `u` is scratch memory.
template <class T, class Team> VG_CALL void solve_vector(Team& t, i32 n, const T* w, i32 ld, const i32* rows, T* v,
                                                         T* u, bool transpose) {
  if (!transpose) {
    VG_ROLLED
    for (i32 i = t.rank(); i < n; i += Team::SIZE) u[i] = v[rows[i]];
    t.sync();
    solve_lu(t, n, w, ld, u, n, 1);
    VG_ROLLED
    for (i32 i = t.rank(); i < n; i += Team::SIZE) v[i] = u[i];
    t.sync();
    return;
  }
  VG_ROLLED
  for (i32 k = 0; k + 1 < n; k++) {
    const T q = v[k] / w[k + k * ld];
    VG_ROLLED
    for (i32 j = k + 1 + t.rank(); j < n; j += Team::SIZE) v[j] = v[j] - w[k + j * ld] * q;
    t.sync();
  }
  VG_ROLLED
  for (i32 i = t.rank(); i < n; i += Team::SIZE) v[i] = v[i] / w[i + i * ld];
  t.sync();
  VG_ROLLED
  for (i32 k = n - 1; k > 0; k--) {
    const T q = v[k];
    VG_ROLLED
    for (i32 j = t.rank(); j < k; j += Team::SIZE) v[j] = v[j] - w[k + j * ld] * q;
    t.sync();
  }
  VG_ROLLED
  for (i32 i = t.rank(); i < n; i += Team::SIZE) u[rows[i]] = v[i];
  t.sync();
  VG_ROLLED
  for (i32 i = t.rank(); i < n; i += Team::SIZE) v[i] = u[i];
  t.sync();
}

template <class T, class Team> VG_FN T absolute_sum(Team& t, i32 n, const T* v) {
  T s = 0;
  VG_ROLLED
  for (i32 i = t.rank(); i < n; i += Team::SIZE) s += magnitude(v[i]);
  return t.sum(s);
}
template <class T, class Team> VG_FN i32 where_largest(Team& t, i32 n, const T* v) {
  T best = -1;
  i32 at = n;
  VG_ROLLED
  for (i32 i = t.rank(); i < n; i += Team::SIZE)
    if (magnitude(v[i]) > best) { best = magnitude(v[i]); at = i; }
  at = t.where_most(best, at);
  return at < n ? at : 0;
}

// LAPACK's estimate of the 1-norm of an inverse (dlacn2; Higham, ACM TOMS 14, 1988), with three vectors of scratch
// memory.
template <class T, class Team> VG_FN T inverse_norm(Team& t, i32 n, const T* w, i32 ld, const i32* rows, T* v, T* u,
                                                    T* signs) {
  VG_ROLLED
  for (i32 i = t.rank(); i < n; i += Team::SIZE) v[i] = (T)1 / n;
  t.sync();
  solve_vector(t, n, w, ld, rows, v, u, false);
  T estimate = absolute_sum(t, n, v);
  if (n == 1 || estimate != estimate) return estimate;
  i32 at = 0;
  VG_ROLLED
  for (i32 turn = 0; turn < 5; turn++) {
    // The first iteration does not start from a unit vector.
    if (turn > 0) {
      t.sync();
      VG_ROLLED
      for (i32 i = t.rank(); i < n; i += Team::SIZE) v[i] = i == at ? (T)1 : (T)0;
      t.sync();
      solve_vector(t, n, w, ld, rows, v, u, false);
      const T before = estimate;
      estimate = absolute_sum(t, n, v);
      T changed = 0;
      VG_ROLLED
      for (i32 i = t.rank(); i < n; i += Team::SIZE) changed += (v[i] >= 0) != (signs[i] > 0) ? 1 : 0;
      changed = t.sum(changed);
      if (estimate != estimate || changed == 0 || estimate <= before) break;
    }
    VG_ROLLED
    for (i32 i = t.rank(); i < n; i += Team::SIZE) v[i] = signs[i] = v[i] >= 0 ? 1 : -1;
    t.sync();
    solve_vector(t, n, w, ld, rows, v, u, true);
    const i32 last = at;
    at = where_largest(t, n, v);
    if (turn > 0 && magnitude(v[last]) == magnitude(v[at])) break;
  }
  t.sync();
  VG_ROLLED
  for (i32 i = t.rank(); i < n; i += Team::SIZE) v[i] = ((T)1 + (T)i / (n - 1)) * (i % 2 ? -1 : 1);
  t.sync();
  solve_vector(t, n, w, ld, rows, v, u, false);
  const T other = 2 * absolute_sum(t, n, v) / (3 * n);
  return other > estimate ? other : estimate;
}

// The reciprocal condition number. For complex matrices base R does not test it, so it is 1.
template <class Team> VG_FN f64 condition(Team&, i32, const c64*, i32, const i32*, c64*, f32) { return 1; }
template <class Team> VG_FN f64 condition(Team&, i32, const c128*, i32, const i32*, c128*, f64) { return 1; }
template <class T, class Team> VG_FN f64 condition(Team& t, i32 n, const T* w, i32 ld, const i32* rows, T* vectors,
                                                   T size) {
  return (f64)((T)1 / inverse_norm(t, n, w, ld, rows, vectors, vectors + n, vectors + 2 * n) / size);
}

// Writes the solution of a x = b, or the inverse if b is null, to `x`. `within` says that w has room for it behind the
// matrix, where it is then computed. A positive `tol` asks for the condition number.
template <class T, class Team> VG_FN i32 solve(Team& t, i32 n, i32 columns, const T* a, const T* b, T* x, T* w,
                                               bool within, f64 tol) {
  typedef typename Number<T>::real R;
  const i32 ld = leading<Team>(n);
  T* vectors = w + n * ld;  // three vectors of n elements, then the row numbers
  i32* rows = (i32*)(vectors + 3 * n);
  if (!load_finite(t, n, n, a, w, ld)) return NOT_FINITE;
  R size = 0;
  if (tol > 0) {
    for (i32 j = t.rank(); j < n; j += Team::SIZE) {
      R s = 0;
      for (i32 i = 0; i < n; i++) s += magnitude(w[i + j * ld]);
      size = s > size ? s : size;
    }
    size = t.most(size);
  }
  const i32 info = factor_lu(t, n, w, ld, rows);
  if (info) return info;
  T* local = within ? vectors + 4 * n : x;
  const i32 ldb = within ? ld : n;
  for (i32 c = t.y(); c < columns; c += Team::Y)
    for (i32 i = t.x(); i < n; i += Team::X)
      local[i + (i64)c * ldb] = b ? b[rows[i] + (i64)c * n] : Number<T>::of(rows[i] == c ? 1 : 0);
  t.sync();
  solve_lu(t, n, w, ld, local, ldb, columns);
  if (within)
    for (i32 c = t.y(); c < columns; c += Team::Y)
      for (i32 i = t.x(); i < n; i += Team::X) x[i + (i64)c * n] = local[i + (i64)c * ldb];
  if (tol > 0) {
    const f64 reciprocal = condition(t, n, w, ld, rows, vectors, size);
    const f64 least = tol > (f64)Limits<R>::unit() || sizeof(R) == 8 ? tol : (f64)Limits<R>::unit();
    if (!(reciprocal >= least)) return NEXT_TO_SINGULAR;
  }
  return 0;
}
