// Sums and prefix sums over the threads of a block.
#pragma once
#include "prelude.h"

#define WARP 32
#define ALL_LANES 0xFFFFFFFFu

VG_FN u32 lane_id() { return threadIdx.x & (WARP - 1); }
VG_FN u32 lanes_before() { return (1u << lane_id()) - 1u; }

// The inclusive prefix sum over the lanes of a warp.
VG_FN u32 warp_prefix(u32 x) {
  for (u32 step = 1; step < WARP; step *= 2) {
    u32 y = __shfl_up_sync(ALL_LANES, x, step);
    if (lane_id() >= step) x += y;
  }
  return x;
}
VG_FN u64 warp_prefix(u64 x) {
  for (u32 step = 1; step < WARP; step *= 2) {
    u64 y = __shfl_up_sync(ALL_LANES, x, step);
    if (lane_id() >= step) x += y;
  }
  return x;
}

// The exclusive prefix sum over the threads of a block; `total` gets the sum over all. Every thread of the block must
// call it, with `warps` a shared array of one element per warp.
template <class T> VG_FN T block_prefix(T x, T* warps, T& total) {
  T up_to = warp_prefix(x);
  u32 warp = threadIdx.x / WARP, count = blockDim.x / WARP;
  __syncthreads();  // the array may still be read from an earlier call
  if (lane_id() == WARP - 1) warps[warp] = up_to;
  __syncthreads();
  if (warp == 0) {
    T sum = warp_prefix(lane_id() < count ? warps[lane_id()] : (T)0);
    if (lane_id() < count) warps[lane_id()] = sum;
  }
  __syncthreads();
  total = warps[count - 1];
  return up_to - x + (warp ? warps[warp - 1] : (T)0);
}
