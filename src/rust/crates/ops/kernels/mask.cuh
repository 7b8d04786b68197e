// Compacts the elements of a plan's value, or their positions, where the plan's mask is TRUE. Order is kept. The
// including source defines
//   Params, In, Out, fetch, compute, idx, V (1), W    (codegen/body.rs)
//   KEEP_NA   whether an NA of the mask yields an element (which is NA)
//   K         elements that a thread has in flight
//   Kept      the type that is stored, and keep(out, at, y, i, na), which stores one
//
// Each warp takes a contiguous range. A first kernel counts, so that the result can be allocated; a second one writes,
// each warp at the prefix sum of the counts. No block waits for another, and evaluating the expression twice is cheaper
// than storing it.
#pragma once
#include "block.cuh"
#include "launch.cuh"

#define THREADS 256
#define WARPS (THREADS / WARP)

struct Job {
  i64 each;      // elements per warp, a multiple of WARP * K
  u32* warps;    // the number of elements that each warp found
  u64* blocks;   // the same for each block
  u64* total;    // the total, in host memory
  u32* ticket;   // counts finished blocks; zero before and after
};

VG_FN bool chosen(i32 mask) { return KEEP_NA ? mask != 0 : mask != 0 && mask != NA_I32; }

VG_FN u64 block_sum(u64 x) {
  __shared__ u64 parts[WARPS];
#pragma unroll
  for (int by = WARP / 2; by > 0; by /= 2) x += __shfl_down_sync(ALL_LANES, x, by);
  __syncthreads();
  if (lane_id() == 0) parts[threadIdx.x / WARP] = x;
  __syncthreads();
  x = 0;
#pragma unroll
  for (int k = 0; k < WARPS; k++) x += parts[k];
  return x;
}

// K rows of adjacent elements. Unless WHOLE, elements may be past `end`: then `real` is false.
template <bool WHOLE, class Body> VG_FN void rows(const Params& p, idx first, idx end, u32 (&w)[W], Body body) {
  In x[K];
#pragma unroll
  for (int k = 0; k < K; k++) {
    const idx i = first + k * WARP;
    fetch<WHOLE>(p, WHOLE || i < end ? i : end - 1, x[k]);
  }
#pragma unroll
  for (int k = 0; k < K; k++) {
    const idx i = first + k * WARP;
    const bool real = WHOLE || i < end;
    Out y;
    compute(p, x[k], 0, (i64)(real ? i : end - 1), w, y);
    body(i, real, y);
  }
}
// Calls `body(i, real, y)` for a warp's elements in order.
template <class Body> VG_FN void stretch(const Params& p, const Job& job, u32 (&w)[W], Body body) {
  const i64 from = ((i64)blockIdx.x * WARPS + threadIdx.x / WARP) * job.each;
  const idx end = (idx)(from + job.each < p.n ? from + job.each : p.n);
  if (from >= p.n) return;
  idx row = (idx)from;
  for (; row + WARP * K <= end; row += WARP * K) rows<true>(p, row + lane_id(), end, w, body);
  if (row < end) rows<false>(p, row + lane_id(), end, w, body);
}

extern "C" __global__ void __launch_bounds__(THREADS) mask_count(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  __shared__ bool last;
  u32 w[W] = {};
  u32 found = 0;
  stretch(p, job, w, [&](idx, bool real, const Out& y) { found += (u32)(real && chosen(y.y0)); });
#pragma unroll
  for (int by = WARP / 2; by > 0; by /= 2) found += __shfl_down_sync(ALL_LANES, found, by);
  if (lane_id() == 0) job.warps[(i64)blockIdx.x * WARPS + threadIdx.x / WARP] = found;
  const u64 all = block_sum(lane_id() == 0 ? found : 0);
  if (threadIdx.x == 0) {
    job.blocks[blockIdx.x] = all;
    __threadfence();
    last = atomicAdd(job.ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) {
    __threadfence();
    u64 sum = 0;
    for (u32 b = threadIdx.x; b < gridDim.x; b += THREADS) sum += __ldcg(job.blocks + b);
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
      *job.total = sum;
      *job.ticket = 0;
    }
  }
  note_flags(w, p.flags, p.any);
}

extern "C" __global__ void __launch_bounds__(THREADS) mask_write(const __grid_constant__ Params p,
    const __grid_constant__ Job job, Kept* out) {
  u32 w[W] = {};
  u64 at = 0;
  for (u32 b = threadIdx.x; b < blockIdx.x; b += THREADS) at += job.blocks[b];
  at = block_sum(at);
  for (u32 k = 0; k < threadIdx.x / WARP; k++) at += job.warps[(i64)blockIdx.x * WARPS + k];
  Kept* const to = out + at;
  const u32 before = lanes_before();
  u32 done = 0;
  stretch(p, job, w, [&](idx i, bool real, const Out& y) {
    const bool taken = real && chosen(y.y0);
    const u32 all = __ballot_sync(ALL_LANES, taken);
    if (taken) keep(to, done + __popc(all & before), y, (i64)i, KEEP_NA && y.y0 == NA_I32);
    done += __popc(all);
  });
}
