// Products of small matrices: one block per tile of the result, one thread per element.
#pragma once
#include "prelude.h"

#define TILE 16
#define MOST_INNER 64

VG_FN f32 add_product(f32 sum, f32 a, f32 b) { return fmaf(a, b, sum); }
VG_FN f64 add_product(f64 sum, f64 a, f64 b) { return fma(a, b, sum); }

// Loads lines i0, i0 + 1 ... of a matrix into the rows of a tile. Lines are `down` elements apart, the elements of a
// line `across`. Adjacent threads read adjacent memory.
template <class T> VG_FN void load_lines(T (*tile)[MOST_INNER + 1], const T* x, i32 i0, i32 lines, i32 inner, i64 down,
                                         i64 across) {
  for (i32 t = (i32)threadIdx.x; t < TILE * MOST_INNER; t += TILE * TILE) {
    const i32 i = down == 1 ? t % TILE : t / MOST_INNER, l = down == 1 ? t / TILE : t % MOST_INNER;
    if (i0 + i < lines && l < inner) tile[i][l] = x[(i0 + i) * down + l * across];
  }
}

// out (m x n) = a (m x k) b (k x n), k <= MOST_INNER, with strides between rows (`down`) and columns (`across`).
// Products are added in the order of k.
template <class T> VG_FN void small_product(const T* a, const T* b, T* out, i32 m, i32 n, i32 k, i64 a_down,
                                            i64 a_across, i64 b_down, i64 b_across) {
  __shared__ T left[TILE][MOST_INNER + 1];
  __shared__ T right[TILE][MOST_INNER + 1];
  const i32 i0 = (i32)blockIdx.x * TILE, j0 = (i32)blockIdx.y * TILE;
  load_lines(left, a, i0, m, k, a_down, a_across);
  load_lines(right, b, j0, n, k, b_across, b_down);
  __syncthreads();
  const i32 i = (i32)threadIdx.x % TILE, j = (i32)threadIdx.x / TILE;
  if (i0 + i >= m || j0 + j >= n) return;
  T sum = T();
#pragma unroll 8
  for (i32 l = 0; l < k; l++) sum = add_product(sum, left[i][l], right[j][l]);
  out[i0 + i + (i64)(j0 + j) * m] = sum;
}
