// Building blocks of dense.h: arithmetic for numbers of four types, and teams of threads. A team is one thread on the
// cpu device (`Alone`), and part of a warp, a warp or a block on a GPU (dense.cuh). Its SIZE threads form a grid of X
// by Y; threads of one y are neighbours and can add up among themselves. An element that several threads read must not
// be written before the next `sync()`.
#pragma once
#include "prelude.h"

// Return codes besides LAPACK's: the matrix has elements that are not finite, or it is singular to the requested
// precision.
#define NOT_FINITE (-1)
#define NEXT_TO_SINGULAR (-2)

// ---- numbers ----------------------------------------------------------------------------------------------
VG_FN f32 root(f32 x) { return sqrtf(x); }
VG_FN f64 root(f64 x) { return sqrt(x); }
VG_FN f32 magnitude(f32 x) { return fabsf(x); }
VG_FN f64 magnitude(f64 x) { return fabs(x); }
VG_FN f32 real_of(f32 x) { return x; }
VG_FN f64 real_of(f64 x) { return x; }
VG_FN f32 conj_of(f32 x) { return x; }
VG_FN f64 conj_of(f64 x) { return x; }
VG_FN f32 squared(f32 x) { return x * x; }
VG_FN f64 squared(f64 x) { return x * x; }
template <class T> struct Number {
  typedef T real;
  VG_FN T of(T x) { return x; }
};
template <class R> struct Limits;
template <> struct Limits<f64> {
  VG_FN f64 unit() { return 2.220446049250313e-16; }
  VG_FN f64 small() { return 1e-280; }  // squares of larger numbers do not underflow
  VG_FN f64 large() { return 1e280; }
  VG_FN f64 tiny() { return 1e-300; }  // less than `small` times `unit`
};
template <> struct Limits<f32> {
  VG_FN f32 unit() { return 1.1920929e-7f; }
  VG_FN f32 small() { return 1e-30f; }
  VG_FN f32 large() { return 1e30f; }
  VG_FN f32 tiny() { return 1e-37f; }
};
// Plain formulas without recovery from infinities (compare complex.h), since all elements are finite.
#define DENSE_COMPLEX(C, R)                                                                             \
  VG_FN C operator+(C a, C b) { C z = {a.re + b.re, a.im + b.im}; return z; }                           \
  VG_FN C operator-(C a, C b) { C z = {a.re - b.re, a.im - b.im}; return z; }                           \
  VG_FN C operator-(C a) { C z = {-a.re, -a.im}; return z; }                                            \
  VG_FN C operator*(C a, C b) { C z = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; return z; } \
  VG_FN C operator*(C a, R b) { C z = {a.re * b, a.im * b}; return z; }                                 \
  VG_FN C operator/(C a, R b) { C z = {a.re / b, a.im / b}; return z; }                                 \
  VG_FN R magnitude(C a) { return magnitude(a.re) + magnitude(a.im); }                                        \
  VG_FN R real_of(C a) { return a.re; }                                                                 \
  VG_FN C conj_of(C a) { C z = {a.re, -a.im}; return z; }                                               \
  VG_FN R squared(C a) { return a.re * a.re + a.im * a.im; }                                          \
  VG_FN C operator/(C a, C b) {                                                                         \
    if (magnitude(b.re) >= magnitude(b.im)) {                                                               \
      const R q = b.im / b.re, d = b.re + b.im * q;                                                     \
      C z = {(a.re + a.im * q) / d, (a.im - a.re * q) / d};                                             \
      return z;                                                                                         \
    }                                                                                                   \
    const R q = b.re / b.im, d = b.re * q + b.im;                                                       \
    C z = {(a.re * q + a.im) / d, (a.im * q - a.re) / d};                                               \
    return z;                                                                                           \
  }                                                                                                     \
  template <> struct Number<C> {                                                                        \
    typedef R real;                                                                                     \
    VG_FN C of(R x) { C z = {x, 0}; return z; }                                                  \
  };
DENSE_COMPLEX(c64, f32)
DENSE_COMPLEX(c128, f64)
#undef DENSE_COMPLEX

template <class R> VG_FN R greater(R a, R b) { return a > b ? a : b; }

// ---- teams ------------------------------------------------------------------------------------------------
#ifdef VG_DEVICE
#define VG_MEMBER __device__ __forceinline__
#else
#define VG_MEMBER inline __attribute__((always_inline))
#endif
// For loops of which a GPU thread makes one or two iterations: unrolling would only add code.
#ifdef VG_DEVICE
#define VG_ROLLED _Pragma("unroll 1")
#else
#define VG_ROLLED
#endif
struct Alone {
  static constexpr i32 SIZE = 1, X = 1, Y = 1;
  VG_MEMBER i32 rank() const { return 0; }
  VG_MEMBER i32 x() const { return 0; }
  VG_MEMBER i32 y() const { return 0; }
  VG_MEMBER void sync() {}
  template <class R> VG_MEMBER R sum(R v) { return v; }
  template <class R> VG_MEMBER R sum_x(R v) { return v; }
  template <class R> VG_MEMBER R most(R v) { return v; }
  // The index of the largest value over all threads; the smaller index on a tie.
  template <class R> VG_MEMBER i32 where_most(R, i32 at) { return at; }
};
// The leading dimension of a matrix in work memory. An odd number puts the elements of a row into different banks.
template <class Team> VG_FN i32 leading(i32 rows) { return Team::SIZE == 1 ? rows : rows | 1; }

// ---- vectors ----------------------------------------------------------------------------------------------
// The thread's partial sum of conj(a) b over from .. to; threads `x` of `X` share the work.
template <class T> VG_FN T dot_share(const T* a, const T* b, i32 from, i32 to, i32 x, i32 X) {
  T sums[4] = {T(), T(), T(), T()};
  i32 i = from + x;
  for (; i + 3 * X < to; i += 4 * X)
    for (i32 k = 0; k < 4; k++) sums[k] = sums[k] + conj_of(a[i + k * X]) * b[i + k * X];
  for (; i < to; i += X) sums[0] = sums[0] + conj_of(a[i]) * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
template <class T> VG_FN typename Number<T>::real squares_share(const T* a, i32 from, i32 to, i32 x, i32 X) {
  typename Number<T>::real sums[4] = {0, 0, 0, 0};
  i32 i = from + x;
  for (; i + 3 * X < to; i += 4 * X)
    for (i32 k = 0; k < 4; k++) sums[k] = sums[k] + squared(a[i + k * X]);
  for (; i < to; i += X) sums[0] = sums[0] + squared(a[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
template <class Team, class R> VG_FN R add_x(Team& t, R v) { return t.sum_x(v); }
template <class Team> VG_FN c64 add_x(Team& t, c64 v) { c64 z = {t.sum_x(v.re), t.sum_x(v.im)}; return z; }
template <class Team> VG_FN c128 add_x(Team& t, c128 v) { c128 z = {t.sum_x(v.re), t.sum_x(v.im)}; return z; }
template <class Team, class R> VG_FN R add_all(Team& t, R v) { return t.sum(v); }
template <class Team> VG_FN c64 add_all(Team& t, c64 v) { c64 z = {t.sum(v.re), t.sum(v.im)}; return z; }
template <class Team> VG_FN c128 add_all(Team& t, c128 v) { c128 z = {t.sum(v.re), t.sum(v.im)}; return z; }

// The Euclidean norm of elements from .. to, without overflow or underflow.
template <class T, class Team> VG_FN typename Number<T>::real norm_of(Team& t, const T* a, i32 from, i32 to) {
  typedef typename Number<T>::real R;
  const R s = t.sum(squares_share(a, from, to, t.rank(), Team::SIZE));
  if (s > Limits<R>::small() && s < Limits<R>::large()) return root(s);
  R largest = 0;
  VG_ROLLED
  for (i32 i = from + t.rank(); i < to; i += Team::SIZE) largest = greater(magnitude(a[i]), largest);
  largest = t.most(largest);
  if (largest == 0) return 0;
  R scaled = 0;
  VG_ROLLED
  for (i32 i = from + t.rank(); i < to; i += Team::SIZE) scaled += squared(a[i] / largest);
  return largest * root(t.sum(scaled));
}

// Copies a matrix into work memory, and returns whether all its elements are finite.
template <class T, class Team> VG_FN bool load_finite(Team& t, i32 m, i32 n, const T* a, T* w, i32 ld) {
  typedef typename Number<T>::real R;
  R odd = 0;
  for (i32 j = t.y(); j < n; j += Team::Y)
    for (i32 i = t.x(); i < m; i += Team::X) {
      const T v = a[i + (i64)j * m];
      w[i + j * ld] = v;
      const R s = magnitude(v);
      odd += s - s;  // 0, or NaN
    }
  odd = t.sum(odd);
  t.sync();
  return odd == odd;
}
