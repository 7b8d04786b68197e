// Grouped operations, where each element has a group code: counts per code, and reductions per code.
//
// Results depend neither on the order in which threads run nor on the device. Counts are integers. In a reduction, each
// chunk of elements, whose length depends only on the numbers of elements and codes (`tree.rs`), has a table with an
// accumulator for each code. A warp reads its chunk in rows of 32; lanes with equal codes are first merged in a fixed
// tree. Tables are merged pairwise, by bit 0 of their chunks' numbers first.
#pragma once
#include "block.cuh"
#include "launch.cuh"
#include "reduce.h"

// ---- counts -------------------------------------------------------------------------------------------
// The bin of an integer, 0 for `low`; `bins` for values outside. NA is below every possible `low`.
VG_FN u32 bin_of(i64 x, i64 low, u32 bins) { const u64 d = (u64)x - (u64)low; return d < bins ? (u32)d : bins; }
VG_FN u32 bin_of(f64 x, i64 low, u32 bins) {
  const f64 d = x - (f64)low;
  if (!(d >= 0 && d < (f64)bins)) return bins;
  // x itself must be whole: d is rounded, and may be whole where x is not. The sum is exact.
  const u32 bin = (u32)d;
  return (f64)bin + (f64)low == x ? bin : bins;
}
VG_FN u32 bin_of(f32 x, i64 low, u32 bins) { return bin_of((f64)x, low, bins); }
VG_FN u32 bin_of(i32 x, i64 low, u32 bins) { return bin_of((i64)x, low, bins); }
VG_FN u32 bin_of(i16 x, i64 low, u32 bins) { return bin_of((i64)x, low, bins); }
VG_FN u32 bin_of(i8 x, i64 low, u32 bins) { return bin_of((i64)x, low, bins); }
VG_FN u32 bin_of(u8 x, i64 low, u32 bins) { return bin_of((i64)x, low, bins); }

// Adds the counts to `out[0 .. bins]`. A block counts in shared memory (`counts`), in `copies` tables (a power of two)
// that its threads use in turn, which reduces contention. If `copies` is 0, it counts in `out` directly.
template <class T> VG_FN void count_bins(const T* __restrict__ in, i64 n, i64 low, u32 bins, u32 copies, u64* out,
    u32* counts) {
  const int ahead = 8;
  for (u32 k = threadIdx.x; k < (bins + 1) * copies; k += blockDim.x) counts[k] = 0;
  __syncthreads();
  const u32 copy = threadIdx.x & (copies - 1);
  const auto add = [&](u32 bin, u32 many) {
    if (copies) atomicAdd(counts + bin * copies + copy, many);
    else atomicAdd(out + bin, (u64)many);
  };
  const i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 row = (i64)blockIdx.x * blockDim.x + (threadIdx.x & ~(WARP - 1)); row < n; row += ahead * step) {
    const i64 i = row + lane_id();
    if (row + (ahead - 1) * step + WARP <= n) {
      u32 bin[ahead], differ = 0;
      T x[ahead];
#pragma unroll
      for (int l = 0; l < ahead; l++) x[l] = in[i + l * step];
#pragma unroll
      for (int l = 0; l < ahead; l++) bin[l] = bin_of(x[l], low, bins);
      const u32 one = __shfl_sync(ALL_LANES, bin[0], 0);
#pragma unroll
      for (int l = 0; l < ahead; l++) differ |= bin[l] ^ one;
      // a warp with equal bins adds once: atomics on one address would serialise
      if (__all_sync(ALL_LANES, differ == 0)) {
        if (lane_id() == 0) add(one, ahead * WARP);
      } else {
#pragma unroll
        for (int l = 0; l < ahead; l++) add(bin[l], 1);
      }
    } else {
      for (int l = 0; l < ahead; l++)
        if (i + l * step < n) add(bin_of(in[i + l * step], low, bins), 1);
    }
  }
  if (copies == 0) return;
  __syncthreads();
  for (u32 k = threadIdx.x; k <= bins; k += blockDim.x) {
    u64 sum = 0;
    for (u32 c = 0; c < copies; c++) sum += counts[k * copies + c];
    if (sum) atomicAdd(out + k, sum);
  }
}

// ---- reductions ---------------------------------------------------------------------------------------
// The lanes whose lowest `bits` bits of x equal this lane's
VG_FN u32 lanes_alike(u32 x, u32 bits) {
  u32 same = ALL_LANES;
#pragma unroll 4
  for (u32 bit = 0; bit < bits; bit++) {
    const u32 set = x >> bit & 1, with = __ballot_sync(ALL_LANES, set);
    same &= set ? with : ~with;
  }
  return same;
}
template <class A> VG_FN A shuffle_from(const A& a, u32 lane) {
  constexpr int words = sizeof(A) / 4;
  u32 w[words];
  memcpy(w, &a, sizeof(A));
#pragma unroll
  for (int j = 0; j < words; j++) w[j] = __shfl_sync(ALL_LANES, w[j], lane);
  A b;
  memcpy(&b, w, sizeof(A));
  return b;
}
// Merges the accumulators of lanes with equal codes into the lowest of these lanes, in a tree, adjacent ones first.
template <class A> VG_FN void merge_alike(A& a, u32 alike, bool real) {
  u32 left = real ? alike : 0;
  while (__any_sync(ALL_LANES, (left & (left - 1)) != 0)) {
    const u32 later = left & ~lanes_before() & ~(1u << lane_id());
    const A b = shuffle_from(a, later ? __ffs(later) - 1 : lane_id());
    const bool stays = (left >> lane_id() & 1) && !(__popc(left & lanes_before()) & 1);
    if (stays && later) A::merge(a, b);
    left &= __ballot_sync(ALL_LANES, stays);
  }
}

// `x` has a column of `n` elements for every `blocks` blocks; all columns share `codes`. These count from 1; elements
// with codes outside of 1 .. groups are ignored. Each warp takes a chunk of `each` elements of a column, a multiple of
// WARP * rows. `tables` has one table per warp (a power of two of them), in shared memory if they fit. `parts` gets one
// table per block.
template <class A, class T, bool NA_RM> VG_FN void reduce_by_code(const T* __restrict__ x,
    const i32* __restrict__ codes, i64 n, u32 blocks, u32 groups, u32 bits, i64 each, A* parts, A* tables) {
  const int rows = 4;
  const u32 warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  A* const own = tables + (u64)warp * groups;
  for (u32 g = lane_id(); g < groups; g += WARP) own[g] = A::start();
  __syncwarp();
  x += (i64)(blockIdx.x / blocks) * n;
  const i64 from = ((i64)(blockIdx.x % blocks) * warps + warp) * each, to = from + each < n ? from + each : n;
  for (i64 row = from; row < to; row += WARP * rows) {
    u32 code[rows], alike[rows];
    T value[rows];
#pragma unroll
    for (int k = 0; k < rows; k++) {
      const i64 i = row + k * WARP + lane_id();
      code[k] = i < to ? (u32)codes[i] - 1u : groups;
      value[k] = x[i < to ? i : to - 1];
    }
#pragma unroll
    for (int k = 0; k < rows; k++) {
      code[k] = code[k] < groups ? code[k] : groups;
      alike[k] = lanes_alike(code[k], bits);
    }
#pragma unroll
    for (int k = 0; k < rows; k++) {
      const bool real = code[k] < groups, alone = (alike[k] & (alike[k] - 1)) == 0;
      if (__all_sync(ALL_LANES, alone || !real)) {
        if (real) {
          A a = own[code[k]];
          A::add(a, value[k], NA_RM);
          own[code[k]] = a;
        }
      } else {
        A a = A::start();
        A::add(a, value[k], NA_RM);
        merge_alike(a, alike[k], real);
        if (real && (alike[k] & lanes_before()) == 0) {
          A all = own[code[k]];
          A::merge(all, a);
          own[code[k]] = all;
        }
      }
      __syncwarp();
    }
  }
  __syncthreads();
  for (u32 g = threadIdx.x; g < groups; g += blockDim.x) {
#pragma unroll 1
    for (u32 by = 1; by < warps; by *= 2)
#pragma unroll 1
      for (u32 w = 0; w < warps; w += 2 * by) {
        A low = tables[(u64)w * groups + g];
        A::merge(low, tables[(u64)(w + by) * groups + g]);
        tables[(u64)w * groups + g] = low;
      }
    parts[(i64)blockIdx.x * groups + g] = tables[g];
  }
}
// One warp per group of a column: each lane merges `each` adjacent blocks' parts, a power of two and at most 128.
template <class A> VG_FN void finish_by_code(const A* __restrict__ parts, u32 columns, u32 groups, u32 blocks, u32 each,
    typename A::value* out) {
  const u64 at = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  if (at >= (u64)columns * groups) return;
  const u32 g = (u32)(at % groups);
  parts += at / groups * blocks * groups;
  // levels[l] holds a merged part of 2^l parts for each set bit l of their number
  A levels[8], all = A::start();
#pragma unroll 1
  for (u32 k = 0; k < each; k++) {
    const u32 b = lane_id() * each + k;
    all = b < blocks ? parts[(i64)b * groups + g] : A::start();
    u32 l = 0;
#pragma unroll 1
    for (; k >> l & 1; l++) {
      A low = levels[l];
      A::merge(low, all);
      all = low;
    }
    levels[l] = all;
  }
#pragma unroll
  for (int by = 1; by < WARP; by *= 2) {
    const A later = shuffle_down(all, by);
    if ((lane_id() & (2 * by - 1)) == 0) A::merge(all, later);
  }
  u32 status = 0;
  if (lane_id() == 0) out[at] = A::finish(all, status);
}
