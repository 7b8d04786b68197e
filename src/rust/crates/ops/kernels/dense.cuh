// The functions of dense.h for batches on a GPU. A matrix is computed by part of a warp, a warp, or a block.
#pragma once
#include "block.cuh"
#include "dense.h"

#define DENSE_THREADS 128

template <i32 LANES> struct DenseShape {  // 8 or 32: lanes of a warp
  static constexpr i32 X = 8, Y = LANES / 8;
};
template <> struct DenseShape<DENSE_THREADS> {
  static constexpr i32 X = 16, Y = DENSE_THREADS / 16;
};

template <i32 LANES> struct DenseTeam {
  static constexpr i32 SIZE = LANES, X = DenseShape<LANES>::X, Y = DenseShape<LANES>::Y;
  // Lanes of one shuffle group, and the number of warps
  static constexpr i32 WIDTH = LANES < WARP ? LANES : WARP, WARPS = LANES / WIDTH;
  u64* parts;  // shared memory for exchanges between warps, two sets; unused within a warp
  i32 turn;

  VG_MEMBER i32 rank() const { return (i32)(threadIdx.x & (LANES - 1)); }
  VG_MEMBER i32 x() const { return rank() & (X - 1); }
  VG_MEMBER i32 y() const { return rank() / X; }
  VG_MEMBER static u32 mask(i32 lanes) {
    return lanes == WARP ? ALL_LANES : ((1u << lanes) - 1u) << (lane_id() & ~(u32)(lanes - 1));
  }
  VG_MEMBER void sync() {
    if (WARPS == 1) __syncwarp(mask(WIDTH));
    else __syncthreads();
  }
  template <class R> VG_MEMBER R sum_of(R v, i32 lanes) {
    for (i32 by = lanes / 2; by > 0; by /= 2) v += __shfl_xor_sync(mask(lanes), v, by);
    return v;
  }
  template <class R> VG_MEMBER R sum_x(R v) { return sum_of(v, X); }
  // Every warp's value, for all threads. The two sets alternate, since the previous one may still be read.
  template <class R> VG_MEMBER const R* exchanged(R v) {
    R* place = (R*)(parts + (turn ^= 1) * 2 * WARPS);
    if (lane_id() == 0) place[threadIdx.x / WARP] = v;
    __syncthreads();
    return place;
  }
  template <class R> VG_MEMBER R sum(R v) {
    v = sum_of(v, WIDTH);
    if (WARPS == 1) return v;
    const R* all = exchanged(v);
    v = all[0];
    for (i32 k = 1; k < WARPS; k++) v += all[k];
    return v;
  }
  template <class R> VG_MEMBER R most(R v) {
    for (i32 by = WIDTH / 2; by > 0; by /= 2) {
      const R other = __shfl_xor_sync(mask(WIDTH), v, by);
      v = other > v ? other : v;
    }
    if (WARPS == 1) return v;
    const R* all = exchanged(v);
    v = all[0];
    for (i32 k = 1; k < WARPS; k++) v = all[k] > v ? all[k] : v;
    return v;
  }
  template <class R> VG_MEMBER i32 where_most(R v, i32 at) {
    for (i32 by = WIDTH / 2; by > 0; by /= 2) {
      const R other = __shfl_xor_sync(mask(WIDTH), v, by);
      const i32 there = __shfl_xor_sync(mask(WIDTH), at, by);
      if (other > v || (other == v && there < at)) { v = other; at = there; }
    }
    if (WARPS == 1) return at;
    R* place = (R*)(parts + (turn ^= 1) * 2 * WARPS);
    if (lane_id() == 0) {
      place[threadIdx.x / WARP] = v;
      ((i32*)(place + WARPS))[threadIdx.x / WARP] = at;
    }
    __syncthreads();
    v = place[0];
    at = ((i32*)(place + WARPS))[0];
    for (i32 k = 1; k < WARPS; k++) {
      const i32 there = ((i32*)(place + WARPS))[k];
      if (place[k] > v || (place[k] == v && there < at)) { v = place[k]; at = there; }
    }
    return at;
  }
};

// One team per matrix. The work memory is in shared memory, or in global memory if the job has it (`work`).
template <i32 TASK, class T, i32 LANES> VG_FN void dense(const DenseJob& job, T* shared) {
  __shared__ u64 parts[4 * (DENSE_THREADS / WARP)];
  const i32 team = (i32)threadIdx.x / LANES;
  const i64 k = job.from + (i64)blockIdx.x * (DENSE_THREADS / LANES) + team;
  if (k >= job.to) return;
  T* w = job.work ? (T*)job.work + (k - job.from) * job.room : shared + team * job.room;
  DenseTeam<LANES> t;
  t.parts = parts;
  t.turn = 0;
  const i32 info = Dense<TASK>::run(t, job, k, w);
  if (t.rank() == 0) {
    ((i32*)job.status)[k] = info;
    if (info) atomicMax((u32*)job.first, (u32)(job.count - k));
  }
}
