// Merges accumulators of reduce.h on CUDA devices in the order of tree.rs: within a thread, a warp and a block, and parts
// that come one after the other.
#pragma once
#include "reduce.h"
#include "launch.cuh"

// Threads of a block.
constexpr int MERGED_THREADS = 256;

// `n` accumulators, pairwise and bit by bit of their places, into the first.
template <int N, class A> VG_FN void merge_all(A (&a)[N]) {
#pragma unroll
  for (int by = 1; by < N; by *= 2)
#pragma unroll
    for (int k = 0; k < N; k += 2 * by) A::merge(a[k], a[k + by]);
}

// Where code size matters more (SMALL) merges are loops and calls.
#ifdef SMALL
constexpr int STEPS = 1;
#define MERGE VG_CALL
#else
constexpr int STEPS = 8;
#define MERGE VG_FN
#endif

// `team` neighbouring threads of a warp, into the first.
template <class A> VG_FN A merge_team(A a, int team) {
#pragma unroll STEPS
  for (int by = 1; by < team; by *= 2) A::merge(a, shuffle_down(a, by));
  return a;
}

// All threads' accumulators in thread 0. The warps' parts: one thread merges those that are little, which takes it less
// than sending them about.
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

// Parts that come one after the other: `levels` holds a part of 2^l of them for each bit l of their number.
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

// Whether this block is the last of `slices` to come here.
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
