// Batches of small dense matrices: linear systems, Cholesky, QR, symmetric eigenvalues, singular values. Each function
// runs on a team of threads (dense_team.h). Matrices are column-major. A function copies its matrix into `w`, the
// team's work memory, computes there, and writes its results. It returns, in all threads of the team, LAPACK's `info`
// or a code of dense_team.h.
#pragma once
#include "dense_orthogonal.h"
#include "dense_systems.h"

// ---- batches ----------------------------------------------------------------------------------------------
// A batch of matrices: the same layout as `Job` in src/dense.rs, which documents the fields.
struct DenseJob {
  i64 count, from, to, b_step;
  u64 a, b, x, y, z, status, first, work;
  f64 tol;
  i32 m, n, columns, room, within, pad;
};
static_assert(sizeof(DenseJob) == 128, "src/dense.rs has the same");
enum { CHOLESKY, SOLVE, QR, SYMMETRIC, SINGULAR };


template <i32 TASK> struct Dense;
template <> struct Dense<CHOLESKY> {
  template <class T, class Team> VG_FN i32 run(Team& t, const DenseJob& job, i64 k, T* w) {
    const i64 size = (i64)job.n * job.n;
    return cholesky(t, job.n, (const T*)job.a + k * size, (T*)job.x + k * size, w);
  }
};
template <> struct Dense<SOLVE> {
  template <class T, class Team> VG_FN i32 run(Team& t, const DenseJob& job, i64 k, T* w) {
    const T* b = job.b ? (const T*)job.b + k * job.b_step : (const T*)0;
    return solve(t, job.n, job.columns, (const T*)job.a + k * job.n * job.n, b,
                 (T*)job.x + k * job.n * job.columns, w, job.within != 0, job.tol);
  }
};
template <> struct Dense<QR> {
  template <class T, class Team> VG_FN i32 run(Team& t, const DenseJob& job, i64 k, T* w) {
    const i64 least = job.m < job.n ? job.m : job.n;
    return qr(t, job.m, job.n, (const T*)job.a + k * job.m * job.n, (T*)job.x + k * job.m * least,
              (T*)job.y + k * least * job.n, w);
  }
};
template <> struct Dense<SYMMETRIC> {
  template <class T, class Team> VG_FN i32 run(Team& t, const DenseJob& job, i64 k, T* w) {
    typedef typename Number<T>::real R;
    const i64 size = (i64)job.n * job.n;
    return symmetric(t, job.n, (const T*)job.a + k * size, (R*)job.x + k * job.n, (T*)job.y + k * size, w);
  }
};
template <> struct Dense<SINGULAR> {
  template <class T, class Team> VG_FN i32 run(Team& t, const DenseJob& job, i64 k, T* w) {
    typedef typename Number<T>::real R;
    const i64 size = (i64)job.m * job.n;
    return singular(t, job.m, job.n, (const T*)job.a + k * size, (R*)job.x + k * job.n, (T*)job.y + k * size,
                    (T*)job.z + k * job.n * job.n, w);
  }
};
