// Counts for products of two sparse matrices (segments_multiply.cuh): the products of each column, columns by the size
// of their tables, and the offsets of the result.
#pragma once
#include "segments.cuh"

// ---- bins -------------------------------------------------------------------------------------------
// The same in backend/cuda/ops/segments_multiply.rs.
#define BIN_EMPTY 0u
#define BIN_COPY 1u    // one element in the second matrix's column
#define BIN_THREAD 2u  // at most 16 rows; the next bin: at most 32
#define BIN_WARP 4u    // at most 104 rows; then 208, 416, 832: tables of 128 to 1024 slots
#define BIN_BLOCK 8u   // at most 2048 rows, 4096 slots
#define BIN_WIDE 9u
#define BINS 10
// The most products of a column that one thread adds up.
#define MOST_BY_THREAD 256u
// Columns that a block counts or puts into bins.
#define CHUNK (THREADS * ITEMS)

#define BAD_OFFSETS 1ull
#define BAD_INNER 2ull  // positions of the second matrix
#define BAD_ROWS 4ull   // positions of the first matrix

VG_FN u32 bin_of(u64 rows, u64 products) {
  if (rows <= 32u && products <= MOST_BY_THREAD) return rows <= 16u ? BIN_THREAD : BIN_THREAD + 1u;
  u32 bin = BIN_WARP;
  for (u64 most = 104u; bin < BIN_BLOCK && rows > most; most *= 2u) bin++;
  return bin == BIN_BLOCK && rows > 2048u ? BIN_WIDE : bin;
}

// Counters of the kernels, read by the host. All are 0 at first.
struct Progress {
  u64 faults, products, count;
  u64 widest;          // the most rows of a column in BIN_WIDE
  u64 sizes[2][BINS];  // columns in each bin of the first and the second pass
  u64 taken[2][BINS];  // how many of them are in the lists
};

// Counts a block's bins, and adds them to the device's.
VG_FN void add_sizes(const u32* sizes, u64* to) {
  __syncthreads();
  if (threadIdx.x < BINS && sizes[threadIdx.x] > 0u) atomicAdd(to + threadIdx.x, (u64)sizes[threadIdx.x]);
}

// Notes positions of the first matrix that are not below `rows`.
VG_FN void check_rows(const i32* __restrict__ ia, i64 n, i64 rows, Progress* progress) {
  const i64 step = (i64)gridDim.x * THREADS;
  bool good = true;
#pragma unroll 8
  for (i64 f = (i64)blockIdx.x * THREADS + threadIdx.x; f < n; f += step) good = good && (u32)ia[f] < (u64)rows;
  if (!good) atomicOr(&progress->faults, BAD_ROWS);
}

// For each column the number of products (at most 2^32 - 1) and its bin in the first pass. Counts of columns with at
// most one element are known already. Faulty columns have no products, but the host stops then.
template <class I> VG_FN void count_products(const I* __restrict__ pa, i64 inner, i64 la, const I* __restrict__ pb,
    const i32* __restrict__ ib, i64 columns, i64 lb, i64 rows, u32* __restrict__ work, u32* __restrict__ counts,
    u8* __restrict__ bins, Progress* progress) {
  const i64 short_column = 32;
  __shared__ u64 sums[THREADS], all;
  __shared__ u32 longer[THREADS], sizes[BINS], count;
  u64 faults = 0;
  const auto length = [&](i64 e) -> u64 {
    const i64 k = ib[e];
    if ((u64)k >= (u64)inner) { faults |= BAD_INNER; return 0; }
    const i64 from = pa[k], to = pa[k + 1];
    if (from < 0 || to < from || to > la) { faults |= BAD_OFFSETS; return 0; }
    return (u64)(to - from);
  };
  if (threadIdx.x < BINS) sizes[threadIdx.x] = 0;
  if (threadIdx.x == 0) all = 0;
  u64 own = 0;
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 first = (i64)blockIdx.x * THREADS; first < columns; first += step) {
    const i64 j = first + threadIdx.x;
    if (threadIdx.x == 0) count = 0;
    sums[threadIdx.x] = 0;
    __syncthreads();
    i64 from = 0, to = 0;
    if (j < columns) {
      from = pb[j]; to = pb[j + 1];
      if (from < 0 || to < from || to > lb || (j == 0 && from != 0) || (j == columns - 1 && to != lb)) {
        faults |= BAD_OFFSETS;
        from = to = 0;
      }
      if (to - from > short_column) {
        longer[atomicAdd(&count, 1u)] = threadIdx.x;
      } else {
        u64 sum = 0;
#pragma unroll 4
        for (i64 e = from; e < to; e++) sum += length(e);
        sums[threadIdx.x] = sum;
      }
    }
    __syncthreads();
    for (u32 l = 0; l < count; l++) {
      const i64 column = first + longer[l];
      u64 sum = 0;
#pragma unroll 4
      for (i64 e = (i64)pb[column] + threadIdx.x; e < (i64)pb[column + 1]; e += THREADS) sum += length(e);
      if (sum > 0) atomicAdd(sums + longer[l], sum);
    }
    __syncthreads();
    if (j < columns) {
      const u64 sum = sums[threadIdx.x];
      const bool single = to - from == 1;
      const u32 bin = sum == 0 ? BIN_EMPTY : single ? BIN_COPY : bin_of(sum < (u64)rows ? sum : (u64)rows, sum);
      own += sum;
      work[j] = sum < 0xFFFFFFFFull ? (u32)sum : 0xFFFFFFFFu;
      counts[j] = single ? (u32)sum : 0u;
      bins[j] = (u8)bin;
      atomicAdd(sizes + bin, 1u);
    }
    __syncthreads();
  }
  if (faults) atomicOr(&progress->faults, faults);
  if (own > 0) atomicAdd(&all, own);
  add_sizes(sizes, progress->sizes[0]);
  if (threadIdx.x == 0 && all > 0) atomicAdd(&progress->products, all);
}

// The bin of each column in the second pass.
VG_FN void bins_by_count(const u32* __restrict__ work, const u32* __restrict__ counts, i64 columns,
    u8* __restrict__ bins, Progress* progress) {
  __shared__ u32 sizes[BINS], widest;
  if (threadIdx.x < BINS) sizes[threadIdx.x] = 0;
  if (threadIdx.x == 0) widest = 0;
  __syncthreads();
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 j = (i64)blockIdx.x * THREADS + threadIdx.x; j < columns; j += step) {
    u32 bin = bins[j];
    if (bin > BIN_COPY) {
      bin = bin_of(counts[j], work[j]);
      bins[j] = (u8)bin;
      if (bin == BIN_WIDE) atomicMax(&widest, counts[j]);
    }
    atomicAdd(sizes + bin, 1u);
  }
  add_sizes(sizes, progress->sizes[1]);
  if (threadIdx.x == 0 && widest > 0) atomicMax(&progress->widest, (u64)widest);
}

// Lists the columns by bin. Within a chunk of columns their order is kept, so that threads of a warp take neighbours.
VG_FN void list_columns(const u8* __restrict__ bins, i64 columns, u32 pass, Progress* progress,
    i32* __restrict__ list) {
  const u32 warps = THREADS / WARP;
  __shared__ u32 before[ITEMS * warps][BINS];
  __shared__ i64 begin[BINS];
  const i64 first = (i64)blockIdx.x * CHUNK;
  const u32 warp = threadIdx.x / WARP;
  u32 bin[ITEMS], rank[ITEMS];
#pragma unroll
  for (int r = 0; r < ITEMS; r++) {
    const i64 j = first + r * THREADS + threadIdx.x;
    bin[r] = j < columns ? bins[j] : BIN_EMPTY;
    rank[r] = 0;
#pragma unroll
    for (u32 b = 0; b < BINS; b++) {
      const u32 same = __ballot_sync(ALL_LANES, bin[r] == b);
      if (bin[r] == b) rank[r] = __popc(same & lanes_before());
      if (lane_id() == 0) before[r * warps + warp][b] = __popc(same);
    }
  }
  __syncthreads();
  if (threadIdx.x > BIN_EMPTY && threadIdx.x < BINS) {
    const u32 b = threadIdx.x;
    u32 sum = 0;
    for (u32 w = 0; w < ITEMS * warps; w++) {
      const u32 here = before[w][b];
      before[w][b] = sum;
      sum += here;
    }
    u64 at = 0;
    for (u32 c = 1; c < b; c++) at += progress->sizes[pass][c];
    if (sum > 0) at += atomicAdd(&progress->taken[pass][b], (u64)sum);
    begin[b] = (i64)at;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ITEMS; r++)
    if (bin[r] != BIN_EMPTY)
      list[begin[bin[r]] + before[r * warps + warp][bin[r]] + rank[r]] = (i32)(first + r * THREADS + threadIdx.x);
}

// ---- offsets ----------------------------------------------------------------------------------------
VG_FN void sum_counts(const u32* __restrict__ counts, i64 columns, u64* __restrict__ sums) {
  __shared__ u64 warps[WARP];
  const i64 first = (i64)blockIdx.x * CHUNK;
  u64 own = 0, total;
#pragma unroll
  for (int r = 0; r < ITEMS; r++) {
    const i64 j = first + r * THREADS + threadIdx.x;
    if (j < columns) own += counts[j];
  }
  block_prefix(own, warps, total);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
// Replaces sums by the sums before them. One block.
VG_FN void scan_sums(u64* sums, i64 n, Progress* progress) {
  __shared__ u64 warps[WARP];
  u64 before = 0;
  for (i64 first = 0; first < n; first += CHUNK) {
    u64 x[ITEMS], own = 0, total;
#pragma unroll
    for (int r = 0; r < ITEMS; r++) {
      const i64 k = first + (i64)threadIdx.x * ITEMS + r;
      x[r] = k < n ? sums[k] : 0;
      own += x[r];
    }
    u64 at = before + block_prefix(own, warps, total);
#pragma unroll
    for (int r = 0; r < ITEMS; r++) {
      const i64 k = first + (i64)threadIdx.x * ITEMS + r;
      if (k < n) sums[k] = at;
      at += x[r];
    }
    before += total;
  }
  if (threadIdx.x == 0) progress->count = before;
}
template <class O> VG_FN void write_offsets(const u32* __restrict__ counts, i64 columns, const u64* __restrict__ sums,
    const Progress* progress, O* __restrict__ out) {
  __shared__ u64 warps[WARP];
  const i64 first = (i64)blockIdx.x * CHUNK;
  u64 before = sums[blockIdx.x];
#pragma unroll 1
  for (int r = 0; r < ITEMS; r++) {
    const i64 j = first + r * THREADS + threadIdx.x;
    u64 total;
    const u64 at = before + block_prefix(j < columns ? (u64)counts[j] : 0ull, warps, total);
    if (j < columns) out[j] = (O)at;
    before += total;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) out[columns] = (O)progress->count;
}
// The product's offsets, of either dtype.
struct Offsets {
  const void* p;
  u32 wide;
  VG_FN i64 at(const Offsets& o, i64 j) { return o.wide ? ((const i64*)o.p)[j] : (i64)((const i32*)o.p)[j]; }
};
