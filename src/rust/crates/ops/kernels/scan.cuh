// Scans on CUDA devices, in one pass over memory. The including source has defined
//   Params, In, Out, fetch, compute, idx, V, W    (codegen/body.rs)
//   A       the state, T the class it takes, O the stored type, `put` which stores one
//   R       packs of a thread, U of them in flight
//
// A tile gets its prefix from tiles that run concurrently (Merrill and Garland 2016, "Single-pass parallel prefix scan
// with decoupled look-back"). In their algorithm the order of additions depends on which tile is ready first. Here it
// is fixed, so that the same call gives the same bits: a tile waits for the totals of the earlier tiles of its group of
// 32, of the earlier groups of its 32 groups, and for the one prefix of all complete sets of 1024 tiles.
#pragma once
#include "scan.h"
#include "launch.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define GROUP 32u

// A total in the words of two that carry it, each with a mark that it is there: a pair is written and read whole, so
// nobody needs to wait for the order of writes.
constexpr int PIECES = (sizeof(A) + 7) / 8;
struct __align__(16) Piece { u64 bits, ready; };
struct Total { Piece piece[PIECES]; };

struct Job {
  Total *tiles, *groups, *thousands;  // zero before; the thousands' are of all up to their end
  u32* ticket;                        // zero before
  u64* first;                         // the first position whose sum does not fit, beyond the end initially; or null
};

template <class S> VG_FN S shuffle_up(const S& a, int by) {
  constexpr int words = sizeof(S) / 4;
  u32 w[words];
  memcpy(w, &a, sizeof(S));
#pragma unroll
  for (int j = 0; j < words; j++) w[j] = __shfl_up_sync(0xFFFFFFFFu, w[j], by);
  S b;
  memcpy(&b, w, sizeof(S));
  return b;
}
template <class S> VG_FN S last_lane(const S& a) {
  constexpr int words = sizeof(S) / 4;
  u32 w[words];
  memcpy(w, &a, sizeof(S));
#pragma unroll
  for (int j = 0; j < words; j++) w[j] = __shfl_sync(0xFFFFFFFFu, w[j], 31);
  S b;
  memcpy(&b, w, sizeof(S));
  return b;
}
// What the lanes up to this one give.
VG_FN A up_to(A a) {
#pragma unroll
  for (u32 by = 1; by < 32; by *= 2) {
    A before = shuffle_up(a, by);
    if ((threadIdx.x & 31u) >= by) { A::merge(before, a); a = before; }
  }
  return a;
}

VG_FN void publish(Total* total, const A& a) {
  u64 bits[PIECES] = {};
  memcpy(bits, &a, sizeof(A));
#pragma unroll
  for (int j = 0; j < PIECES; j++)
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(&total->piece[j]), "l"(bits[j]), "l"(1ull) : "memory");
}
VG_FN A await(const Total* total) {
  u64 bits[PIECES];
#pragma unroll
  for (int j = 0; j < PIECES; j++) {
    u64 ready;
    do asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(bits[j]), "=l"(ready) : "l"(&total->piece[j]) : "memory");
    while (ready == 0ull);
  }
  A a;
  memcpy(&a, bits, sizeof(A));
  return a;
}
// What `count` totals give, in every lane.
VG_FN A all_of(const Total* totals, u32 count) {
  const u32 lane = threadIdx.x & 31u;
  return last_lane(up_to(lane < count ? await(totals + lane) : A::start()));
}
// What comes before a tile whose total is `total`; tells the others of it. By one warp.
VG_FN A before_tile(const Job& job, u32 tile, const A& total) {
  const u32 group = tile / GROUP, thousand = group / GROUP, lane = threadIdx.x & 31u;
  const bool ends_group = tile % GROUP == GROUP - 1u, ends_thousand = ends_group && group % GROUP == GROUP - 1u;
  if (lane == 0) publish(job.tiles + tile, total);
  A in_group = all_of(job.tiles + group * GROUP, tile % GROUP);
  A of_group = in_group;
  A::merge(of_group, total);
  if (ends_group && lane == 0) publish(job.groups + group, of_group);
  A before = all_of(job.groups + thousand * GROUP, group % GROUP);
  A all = thousand > 0u ? await(job.thousands + thousand - 1u) : A::start();
  A::merge(all, before);
  if (ends_thousand && lane == 0) {
    A up = all;
    A::merge(up, of_group);
    publish(job.thousands + thousand, up);
  }
  A::merge(all, in_group);
  return all;
}

// Index in shared memory of pack `q` of a tile. Packs are swizzled within groups of eight, so that there are no bank
// conflicts, whether threads read neighbouring packs or eight consecutive packs each.
VG_FN u32 swizzle(u32 q) { return (q & ~7u) | ((q ^ (q >> 3)) & 7u); }

extern "C" __global__ void __launch_bounds__(THREADS) scan(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  __shared__ __align__(16) char memory[THREADS * R * V * sizeof(T)];
  __shared__ u32 my_tile;
  __shared__ A parts[WARPS], start;
  T (*pack)[V] = (T (*)[V])memory;
  // tiles are numbered as they start, so that those that a tile waits for are at work
  if (threadIdx.x == 0) my_tile = atomicAdd(job.ticket, 1u);
  __syncthreads();
  const u32 tile = my_tile, t = threadIdx.x, warp = t >> 5, lane = t & 31u;
  const idx n = (idx)p.n, first = (idx)tile * (idx)(THREADS * V * R);
  const bool full = first + (idx)(THREADS * V * R) <= n;
  u32 w[W] = {}, unfit = 0;  // of this thread's positions, counted from 1, the first whose sum does not fit
  // neighbouring threads compute neighbouring packs ...
#pragma unroll 1
  for (int r = 0; r < R; r += U) {
    In in[U];
#pragma unroll
    for (int u = 0; u < U; u++) fetch(p, first + (idx)(((r + u) * THREADS + t) * V), in[u]);
#pragma unroll
    for (int u = 0; u < U; u++) {
      const u32 q = (r + u) * THREADS + t;
      T x[V];
#pragma unroll
      for (int k = 0; k < V; k++) {
        Out y;
        compute(p, in[u], k, (i64)within(first + (idx)(q * V + k), n - 1), w, y);
        x[k] = y.y0;
      }
      write_pack<V>(pack[swizzle(q)], x);
    }
  }
  __syncthreads();
  // ... and each adds up R of its own
  A own = A::start();
#pragma unroll
  for (int r = 0; r < R; r++) {
    T x[V];
    read_pack<V>(pack[swizzle(t * R + r)], x);
#pragma unroll
    for (int k = 0; k < V; k++) if (full || first + (idx)((t * R + r) * V + k) < n) A::add(own, x[k]);
  }
  own = up_to(own);
  if (lane == 31u) parts[warp] = own;
  A before = shuffle_up(own, 1);
  if (lane == 0u) before = A::start();
  __syncthreads();
  if (warp == 0u) {
    A sum = up_to(lane < WARPS ? parts[lane] : A::start());
    A all = before_tile(job, tile, last_lane(sum));
    sum = shuffle_up(sum, 1);
    if (lane == 0u) { sum = A::start(); start = all; }
    if (lane < WARPS) parts[lane] = sum;
  }
  __syncthreads();
  A a = start;
  A::merge(a, parts[warp]);
  A::merge(a, before);
#pragma unroll
  for (int r = 0; r < R; r++) {
    T x[V];
    O y[V];
    T* at = pack[swizzle(t * R + r)];
    read_pack<V>(at, x);
#pragma unroll
    for (int k = 0; k < V; k++) {
      A::add(a, x[k]);
      u32 here = 0;
      put(y, k, A::value(a, here));
      if (here != 0u && unfit == 0u && (full || first + (idx)((t * R + r) * V + k) < n)) unfit = r * V + k + 1;
    }
    write_pack<V>((O*)at, y);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < R; r++) {
    const u32 q = r * THREADS + t;
    const idx i = first + (idx)(q * V);
    O y[V];
    read_pack<V>((const O*)pack[swizzle(q)], y);
    if (full) write_pack<V>(p.y0 + i, y);
    else {
#pragma unroll
      for (int k = 0; k < V; k++) if (i + k < n) p.y0[i + k] = y[k];
    }
  }
  if (unfit != 0u && job.first != nullptr) {
    const u64 at = (u64)first + t * R * V + unfit - 1u;
    // most come after one that has told already
    if (at < *(volatile u64*)job.first) atomicMin(job.first, at);
  }
  note_flags(w, p.flags, p.any);
}
