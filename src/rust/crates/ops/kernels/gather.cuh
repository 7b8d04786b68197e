// Gather and scatter.
//
// Elements are moved as bytes, so one instance serves all types of a size.
#pragma once
#include "block.cuh"

struct __align__(16) b16 { u64 low, high; };

#define FIRST_THREAD ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define ALL_THREADS ((i64)gridDim.x * blockDim.x)

// ---- gather -----------------------------------------------------------------------------------------
// out[k] = source[at[k]], or `na` if at[k] is outside. Each thread has four loads in flight.
template <class T> VG_FN void gather(const T* __restrict__ source, i64 m, const i64* __restrict__ at, i64 n, T na,
    T* __restrict__ out) {
  for (i64 first = FIRST_THREAD; first < n; first += 4 * ALL_THREADS) {
    i64 p[4];
    T x[4];
#pragma unroll
    for (int l = 0; l < 4; l++) {
      i64 k = first + l * ALL_THREADS;
      p[l] = k < n ? at[k] : -1;
    }
#pragma unroll
    for (int l = 0; l < 4; l++) x[l] = (u64)p[l] < (u64)m ? source[p[l]] : na;
#pragma unroll
    for (int l = 0; l < 4; l++) {
      i64 k = first + l * ALL_THREADS;
      if (k < n) out[k] = x[l];
    }
  }
}

// ---- scatter ----------------------------------------------------------------------------------------
// If positions repeat, the last value wins. Strictly increasing positions (as from which()) have no duplicates, so a
// single pass writes. Otherwise a claiming pass first finds the largest k of each position. The device itself decides
// whether positions increase: `equal` is 0 until a pair that does not increase is seen, and the claiming passes read
// it.
VG_FN void scatter_check(const i64* __restrict__ at, i64 count, u32* equal) {
  bool falls = false;
  for (i64 k = FIRST_THREAD; k + 1 < count; k += ALL_THREADS) falls |= at[k + 1] <= at[k];
  if (__any_sync(ALL_LANES, falls) && lane_id() == 0) *equal = 1;
}
template <class W> VG_FN void scatter_clear(W* __restrict__ winner, i64 n, const u32* equal) {
  if (!*equal) return;
  for (i64 i = FIRST_THREAD; i < n; i += ALL_THREADS) winner[i] = 0;
}
template <class W> VG_FN void scatter_claim(const i64* __restrict__ at, i64 count, W* winner, i64 n, const u32* equal) {
  if (!*equal) return;
  for (i64 k = FIRST_THREAD; k < count; k += ALL_THREADS) {
    i64 p = at[k];
    if ((u64)p < (u64)n) atomicMax(winner + p, (W)(k + 1));
  }
}
// `winner` is null if there is only one value, so that duplicates do not matter.
template <class T, class W> VG_FN void scatter_write(T* __restrict__ target, i64 n, const i64* __restrict__ at,
    i64 count,
                                                    const T* __restrict__ values, i64 length, const W* __restrict__ winner, const u32* equal) {
  bool claimed = winner && *equal;
  for (i64 k = FIRST_THREAD; k < count; k += ALL_THREADS) {
    i64 p = at[k];
    if ((u64)p >= (u64)n || (claimed && winner[p] != (W)(k + 1))) continue;
    target[p] = values[k < length ? k : k % length];
  }
}
