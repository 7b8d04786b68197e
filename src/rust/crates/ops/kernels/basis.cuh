// Grows orthonormal bases by a column. The number of blocks depends on the number of rows alone, and sums are added in
// a fixed order as doubles. So the bits depend on neither the run nor the device.
#pragma once
#include "block.cuh"
#include "launch.cuh"

// The including source defines THREADS, the threads of a block. COLUMNS columns are processed in one pass over the
// rows.
#define COLUMNS 8

// The sum over a warp, in lane 0.
VG_FN f64 warp_sum(f64 x) {
#pragma unroll
  for (int by = WARP / 2; by > 0; by /= 2) x += shuffle_down(x, by);
  return x;
}

// Projection step. If `subtract`, column `count` becomes the vector minus its components along columns near .. count -
// 1 (`products` holds the dot products), and minus numbers[known] times column near - 1 if `known` is not 0. Then
// writes to `out` the dot products of that column (or of the vector, if not `subtract`) with columns first .. last - 1.
// numbers[0] counts finished blocks: it is 0 before and after.
template <class T> VG_FN void basis_project(T* basis, i64 rows, i64 count, const T* __restrict__ vector, i64 near,
    i64 known, u32 subtract, i64 first, i64 last, const f64* __restrict__ products, f64* numbers, f64* partial,
    f64* out) {
  __shared__ f64 sums[COLUMNS][THREADS / WARP];
  __shared__ u32 is_last;
  const i64 each = (rows + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * each;
  const i64 end = begin + each < rows ? begin + each : rows;
  const u32 warp = threadIdx.x / WARP;
  T* own = basis + count * rows;
  if (subtract) {
    const f64 before = known ? numbers[known] : 0;
    for (i64 row = begin + threadIdx.x; row < end; row += THREADS) {
      f64 x = (f64)vector[row];
      if (known) x -= before * (f64)basis[(near - 1) * rows + row];
#pragma unroll 8
      for (i64 c = near; c < count; c++) x -= products[c - near] * (f64)basis[c * rows + row];
      own[row] = (T)x;
    }
  }
  const T* x = subtract ? own : vector;
  for (i64 from = first; from < last; from += COLUMNS) {
    f64 sum[COLUMNS];
#pragma unroll
    for (int l = 0; l < COLUMNS; l++) sum[l] = 0;
    for (i64 row = begin + threadIdx.x; row < end; row += THREADS) {
      const f64 value = (f64)x[row];
#pragma unroll
      for (int l = 0; l < COLUMNS; l++) if (from + l < last) sum[l] += value * (f64)basis[(from + l) * rows + row];
    }
#pragma unroll
    for (int l = 0; l < COLUMNS; l++) {
      const f64 all = warp_sum(sum[l]);
      if (lane_id() == 0) sums[l][warp] = all;
    }
    __syncthreads();
    if (threadIdx.x < COLUMNS && from + threadIdx.x < last) {
      f64 all = 0;
      for (int w = 0; w < THREADS / WARP; w++) all += sums[threadIdx.x][w];
      partial[(from - first + threadIdx.x) * gridDim.x + blockIdx.x] = all;
      __threadfence();
    }
    __syncthreads();
  }
  // The last block to finish adds up the partial sums of all blocks.
  if (threadIdx.x == 0) is_last = atomicAdd((u32*)numbers, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  for (i64 c = warp; c < last - first; c += THREADS / WARP) {
    f64 sum = 0;
    for (u32 b = lane_id(); b < gridDim.x; b += WARP) sum += read_fresh(partial + c * gridDim.x + b);
    sum = warp_sum(sum);
    if (lane_id() == 0) out[c] = sum;
  }
  if (threadIdx.x == 0) *(volatile u32*)numbers = 0;
}

// Second orthogonalisation and normalisation of column `count`. `again` holds its dot products with columns `from` and
// up, and last its squared norm. Writes to numbers[at]: the dot products with the columns from `near` on, the norm, and
// the norm relative to that before this step.
template <class T> VG_FN void basis_finish(T* basis, i64 rows, i64 count, i64 near, i64 from,
    const f64* __restrict__ products, const f64* __restrict__ again, f64* numbers, i64 at) {
  __shared__ f64 scale;
  if (threadIdx.x < WARP) {
    f64 taken = 0;
    for (i64 c = lane_id(); c < count - from; c += WARP) taken += again[c] * again[c];
    taken = warp_sum(taken);
    if (lane_id() == 0) {
      const f64 whole = again[count - from], square = whole - taken;
      // A NaN is kept: the comparison is false.
      const f64 norm = square <= 0 ? 0 : sqrt(square);
      scale = norm == 0 ? 0 : 1 / norm;
      if (blockIdx.x == 0) {
        numbers[at + count - near] = norm;
        numbers[at + count - near + 1] = whole == 0 ? 0 : norm / sqrt(whole);
      }
    }
  }
  if (blockIdx.x == 0) for (i64 c = near + threadIdx.x; c < count; c += THREADS)
    numbers[at + c - near] = products[c - near] + (c < from ? 0 : again[c - from]);
  __syncthreads();
  const i64 each = (rows + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * each;
  const i64 end = begin + each < rows ? begin + each : rows;
  T* own = basis + count * rows;
  for (i64 row = begin + threadIdx.x; row < end; row += THREADS) {
    f64 x = (f64)own[row];
#pragma unroll 8
    for (i64 c = from; c < count; c++) x -= again[c - from] * (f64)basis[c * rows + row];
    own[row] = (T)(x * scale);
  }
}
