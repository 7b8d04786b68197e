// Sparse triangular systems: one warp per row and right-hand side, which waits for the rows that it needs (Liu, Li,
// Hogg, Duff and Vinter 2016). Warps take rows in solving order, so the rows that a warp waits for are being solved
// already. A row's terms are added in a fixed tree.
#pragma once
#include "segments.cuh"

// `offsets` and `at` are the matrix by rows; the value of its element e is x[order[e]], or 1 if x is null. `done` has a
// word for each row and right-hand side, followed by the ticket; all are 0 at first.
template <class T, class I, class O> VG_FN void segment_solve(const I* __restrict__ offsets,
    const i32* __restrict__ at, const O* __restrict__ order, const T* __restrict__ x, i64 n, i64 columns, bool upper,
    bool unit, const T* __restrict__ b, volatile T* out, volatile u32* done, u64* ticket) {
  const i64 total = n * columns;
  while (true) {
    u64 taken = 0;
    if (lane_id() == 0) taken = atomicAdd(ticket, (u64)1);
    taken = __shfl_sync(ALL_LANES, taken, 0);
    if (taken >= (u64)total) return;
    const i64 step = (i64)taken / columns, column = (i64)taken % columns, row = upper ? n - 1 - step : step;
    Products<T> sum = Products<T>::start(), diagonal = sum;
    for (i64 e = offsets[row] + lane_id(); e < (i64)offsets[row + 1]; e += WARP) {
      const i64 j = at[e];
      const T value = x ? x[order[e]] : (T)1;
      if (j == row) diagonal.s = value;
      if ((u64)j >= (u64)n || (upper ? j <= row : j >= row)) continue;
      while (done[j * columns + column] == 0) {}
      __threadfence();
      const T y = out[j + column * n];
      Products<T>::add(sum, kept_sum(value * y, value, y), false);
    }
    __syncwarp();
    sum = merged_lanes(sum, WARP);
    diagonal = merged_lanes(diagonal, WARP);
    if (lane_id() == 0) {
      const T y = b[row + column * n], left = kept_sum(y - sum.s, y, sum.s);
      out[row + column * n] = unit ? left : kept_sum(left / diagonal.s, left, diagonal.s);
      __threadfence();
      done[row * columns + column] = 1;
    }
    __syncwarp();
  }
}
