// Order statistics without a full sort (radix select). Counting finds the first two digits (11 bits each) of the keys
// at the wanted ranks. The elements with these digits are then collected; there are few unless many are tied.
#pragma once
#include "sort.cuh"

#define TOP_BITS 11
#define TOP_DIGITS (1 << TOP_BITS)
#define NO_SLOT 255u

template <class K> VG_FN u32 top_digit(K key, int level) {
  return (u32)(key >> (8 * sizeof(K) - TOP_BITS * (level + 1))) & (TOP_DIGITS - 1);
}

// Counts each first digit; the last count is the number of missing elements.
template <class Key> VG_FN void first_digits(const typename Key::T* __restrict__ in, i64 n, u64* out) {
  typedef typename Key::K K;
  const int copies = 4, ahead = 8;
  __shared__ u32 counts[TOP_DIGITS][copies];
  __shared__ u32 missing;
  for (u32 k = threadIdx.x; k < TOP_DIGITS * copies; k += THREADS) (&counts[0][0])[k] = 0;
  if (threadIdx.x == 0) missing = 0;
  __syncthreads();
  const u32 copy = threadIdx.x & (copies - 1);
  u32 own = 0;
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 row = (i64)blockIdx.x * THREADS + (threadIdx.x & ~(WARP - 1)); row < n; row += ahead * step) {
    const i64 i = row + lane_id();
    typename Key::T x[ahead];
    const bool whole = row + (ahead - 1) * step + WARP <= n;
#pragma unroll
    for (int l = 0; l < ahead; l++) x[l] = in[whole || i + l * step < n ? i + l * step : n - 1];
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const K key = Key::of(x[l], 0);
      const u32 d = top_digit(key, 0);
      const bool real = whole || i + l * step < n;
      own += real && key == (K)~(K)0;
      // Most numbers of similar magnitude have the same first digit: count the digit of lane 0 by ballot.
      const u32 one = __shfl_sync(ALL_LANES, d, 0), with = __ballot_sync(ALL_LANES, real && d == one);
      if (lane_id() == 0) atomicAdd(&counts[one][(threadIdx.x / WARP) & (copies - 1)], (u32)__popc(with));
      if (real && d != one) atomicAdd(&counts[d][copy], 1u);
    }
  }
  if (own) atomicAdd(&missing, own);
  __syncthreads();
  for (u32 k = threadIdx.x; k < TOP_DIGITS; k += THREADS) {
    u64 sum = 0;
    for (int c = 0; c < copies; c++) sum += counts[k][c];
    if (sum) atomicAdd(out + k, sum);
  }
  if (threadIdx.x == 0 && missing) atomicAdd(out + TOP_DIGITS, (u64)missing);
}

// Counts each second digit for each of the first digits that have a slot; `counts` is in shared memory.
template <class Key> VG_FN void second_digits(const typename Key::T* __restrict__ in, i64 n,
    const u8* __restrict__ slots, u32 count, u64* out, u32* counts) {
  const int ahead = 8;
  __shared__ u8 slot_of[TOP_DIGITS];
  for (u32 k = threadIdx.x; k < TOP_DIGITS; k += THREADS) slot_of[k] = slots[k];
  for (u32 k = threadIdx.x; k < count * TOP_DIGITS; k += THREADS) counts[k] = 0;
  __syncthreads();
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += ahead * step) {
    typename Key::T x[ahead];
#pragma unroll
    for (int l = 0; l < ahead; l++) x[l] = in[i + l * step < n ? i + l * step : i];
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const auto key = Key::of(x[l], 0);
      const u32 slot = slot_of[top_digit(key, 0)];
      if (slot != NO_SLOT && i + l * step < n) atomicAdd(counts + slot * TOP_DIGITS + top_digit(key, 1), 1u);
    }
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < count * TOP_DIGITS; k += THREADS)
    if (counts[k]) atomicAdd(out + k, (u64)counts[k]);
}

// Collects the elements with the wanted two digits, in no particular order. -0 becomes 0, since both have the same key.
template <class Key> VG_FN void take_ranks(const typename Key::T* __restrict__ in, i64 n, const u8* __restrict__ slots,
    u32 count, const u8* __restrict__ wanted,
                                          typename Key::T* out, u64* cursor, u8* takes) {
  const int ahead = 8;
  __shared__ u8 slot_of[TOP_DIGITS];
  for (u32 k = threadIdx.x; k < TOP_DIGITS; k += THREADS) slot_of[k] = slots[k];
  for (u32 k = threadIdx.x; k < count * TOP_DIGITS; k += THREADS) takes[k] = wanted[k];
  __syncthreads();
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 row = (i64)blockIdx.x * THREADS + (threadIdx.x & ~(WARP - 1)); row < n; row += ahead * step) {
    const i64 i = row + lane_id();
    typename Key::T x[ahead];
#pragma unroll
    for (int l = 0; l < ahead; l++) x[l] = in[i + l * step < n ? i + l * step : n - 1];
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const auto key = Key::of(x[l], 0);
      const u32 slot = slot_of[top_digit(key, 0)];
      const bool taken = i + l * step < n && slot != NO_SLOT && takes[slot * TOP_DIGITS + top_digit(key, 1)];
      const u32 all = __ballot_sync(ALL_LANES, taken);
      if (all == 0) continue;
      u64 at = 0;
      if (lane_id() == 0) at = atomicAdd(cursor, (u64)__popc(all));
      at = __shfl_sync(ALL_LANES, at, 0);
      if (taken) out[at + __popc(all & lanes_before())] = key == Key::of(0, 0) ? (typename Key::T)0 : x[l];
    }
  }
}
