// Positions of elements in a sorted table: one binary search per element.
#pragma once
#include "prelude.h"

#define PIECES 2048

template <class T> VG_FN bool is_missing(T x) { return x != x; }
VG_FN bool is_missing(i32 x) { return x == NA_I32; }
VG_FN bool is_missing(i64 x) { return x == NA_I64; }

// How many of `table[0 .. m]` are at most x, or less than x.
template <bool STRICTLY, class T> VG_FN i64 count_below(const T* table, i64 m, T x) {
  i64 from = 0;
  while (m > 0) {
    const i64 half = m / 2;
    const T y = table[from + half];
    const bool below = STRICTLY ? y < x : y <= x;
    from = below ? from + half + 1 : from;
    m = below ? m - half - 1 : half;
  }
  return from;
}
// The table is cut into pieces. Every block keeps the last elements of the pieces in shared memory, so that only the
// final search within a piece reads the table.
template <class T, bool STRICTLY> VG_FN void search(const T* __restrict__ x, i64 n, const T* __restrict__ table, i64 m,
    i64 piece, i32* out) {
  __shared__ T last[PIECES];
  const u32 pieces = (u32)((m + piece - 1) / piece);
  for (u32 k = threadIdx.x; k < pieces; k += blockDim.x) {
    const i64 end = (i64)(k + 1) * piece;
    last[k] = table[(end < m ? end : m) - 1];
  }
  __syncthreads();
  const i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    const T y = x[i];
    const i64 k = count_below<STRICTLY>(last, (i64)pieces, y), from = k * piece, left = m - from;
    const i64 at = from + (piece == 1 || left <= 0 ? 0 : count_below<STRICTLY>(table + from, left < piece ? left : piece, y));
    out[i] = is_missing(y) ? NA_I32 : (i32)(at < m ? at : m);
  }
}
