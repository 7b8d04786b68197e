// Merges accumulators of reduce.h on CUDA devices in the order of tree.rs: within a thread, a warp and a block, and
// parts that come in sequence.
#pragma once
#include "reduce.h"
#include "launch.cuh"

// Threads of a block
constexpr int MERGED_THREADS = 256;

// Merges N accumulators into the first, pairwise: bit 0 of their indices first.
template <int N, class A> VG_FN void merge_all(A (&a)[N]) {
#pragma unroll
  for (int by = 1; by < N; by *= 2)
#pragma unroll
    for (int k = 0; k < N; k += 2 * by) A::merge(a[k], a[k + by]);
}

// With SMALL, code size matters more: merges are loops and calls.
#ifdef SMALL
constexpr int STEPS = 1;
#define MERGE VG_CALL
#else
constexpr int STEPS = 8;
#define MERGE VG_FN
#endif

// Merges the accumulators of `team` adjacent lanes of a warp into the first.
template <class A> VG_FN A merge_team(A a, int team) {
#pragma unroll STEPS
  for (int by = 1; by < team; by *= 2) A::merge(a, shuffle_down(a, by));
  return a;
}

// Merges all threads' accumulators into thread 0. Small parts of the warps are merged by one thread, which is faster
// than shuffling them.
template <class A> MERGE A merge_block(A a) {
  constexpr int WARPS = MERGED_THREADS / 32;
  __shared__ A parts[WARPS];
  a = merge_team(a, 32);
  if ((threadIdx.x & 31u) == 0u) parts[threadIdx.x >> 5] = a;
  __syncthreads();
  if ((sizeof(A) > 24 || STEPS == 1) && threadIdx.x < 32) {
    a = merge_team(parts[threadIdx.x % WARPS], WARPS);
  } else if (STEPS > 1 && threadIdx.x == 0) {
    A all[WARPS];
#pragma unroll
    for (int k = 0; k < WARPS; k++) all[k] = parts[k];
    merge_all(all);
    a = all[0];
  }
  __syncthreads();
  return a;
}

// Merges a sequence of parts in tree order: `levels` holds a merged part of 2^l parts for each set bit l of the number
// of parts so far. Levels are `step` apart in memory.
template <class A> MERGE void push(A* levels, i64 number, u32 step, A a) {
#pragma unroll 1
  for (; number & 1; number >>= 1, levels += step) {
    A low = *levels;
    A::merge(low, a);
    a = low;
  }
  *levels = a;
}
template <class A> MERGE A all_pushed(const A* levels, i64 number, u32 step) {
  A a = A::start();
#pragma unroll 1
  for (; number > 0; number >>= 1, levels += step) {
    if (!(number & 1)) continue;
    A low = *levels;
    A::merge(low, a);
    a = low;
  }
  return a;
}
constexpr int LEVELS = 32;

// Whether this block is the last of `slices` blocks to arrive here.
VG_FN bool is_last(u32* ticket, u32 slices) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(ticket, 1u) == slices - 1u;
    if (last) *ticket = 0u;
  }
  __syncthreads();
  __threadfence();
  return last;
}
