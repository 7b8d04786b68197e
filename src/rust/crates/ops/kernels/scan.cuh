// Scans on CUDA devices, in one pass over memory. The including source defines
//   Params, In, Out, fetch, compute, idx, V, W    (codegen/body.rs)
//   A       the state; T, the class that it takes; O, the stored type; `put`, which stores one value
//   R       packs of a thread; U, how many of them are in flight
//   WIDENS  if A is not wide, and a second kernel with wide states is compiled
//   SMALL_CODE  if no loop is to be unrolled
//
// A tile gets its prefix from tiles that run concurrently (Merrill and Garland 2016, "Single-pass parallel prefix scan
// with decoupled look-back"). In their algorithm the order of additions depends on which tile is ready first. Here it
// is fixed, so that the same call gives the same bits: a tile waits for the totals of the earlier tiles of its group of
// 32, of the earlier groups of its 32 groups, and for the single prefix of all complete sets of 1024 tiles.
#pragma once
#include "scan.h"
#include "launch.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define GROUP 32u

// A total is published in pieces of 16 bytes, each with a mark that says that it is there. A piece is written and read
// as a whole, so no fence between data and mark is needed.
struct __align__(16) Piece { u64 bits, ready; };
template <class S> struct Total { Piece piece[(sizeof(S) + 7) / 8]; };

struct Job {
  Piece *tiles, *groups, *thousands;  // zero at first; a total of a thousand covers all tiles up to its end
  // three words, zero at first: tickets of both kernels, and whether sums overflowed
  u32* ticket;
  u64* first;                         // the lowest position whose sum does not fit, past the end at first; or null
  u32 count;                          // number of tiles
  u32 always;                         // whether the second kernel runs alone
};
// The totals of one kernel. The second kernel reuses the memory of the first one, with mark 2.
template <class S> struct Totals {
  Total<S> *tiles, *groups, *thousands;
  u64 mark;
  VG_FN Totals of(const Job& job, u64 mark) {
    Totals t;
    t.tiles = (Total<S>*)job.tiles; t.groups = (Total<S>*)job.groups; t.thousands = (Total<S>*)job.thousands;
    t.mark = mark;
    return t;
  }
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
// Unroll factors. Loops are not unrolled if a step is a call, in the second kernel, and if the kernel is prebuilt as
// machine code.
#ifdef SMALL_CODE
template <class S> constexpr int UNROLLED = 1;
#else
template <class S> constexpr int UNROLLED = 64;
#endif
template <> constexpr int UNROLLED<CumProd<f32>> = 1;
template <> constexpr int UNROLLED<CumProd<f64>> = 1;
#ifdef WIDENS
template <> constexpr int UNROLLED<RunningSum<T, true>> = 1;
#endif
// The inclusive scan over the lanes of a warp.
template <class S> VG_FN S up_to_inline(S a) {
#pragma unroll (UNROLLED<S>)
  for (u32 by = 1; by < 32; by *= 2) {
    S before = shuffle_up(a, by);
    if ((threadIdx.x & 31u) >= by) { S::merge(before, a); a = before; }
  }
  return a;
}
template <class S> VG_CALL S up_to_called(S a) { return up_to_inline(a); }
template <class S> VG_FN S up_to(S a) {
  if constexpr (UNROLLED<S> == 1) return up_to_called(a); else return up_to_inline(a);
}

template <class S> VG_FN void publish(Total<S>* total, const S& a, u64 mark) {
  constexpr int pieces = sizeof(Total<S>) / sizeof(Piece);
  u64 bits[pieces] = {};
  memcpy(bits, &a, sizeof(S));
#pragma unroll
  for (int j = 0; j < pieces; j++)
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(&total->piece[j]), "l"(bits[j]), "l"(mark) : "memory");
}
template <class S> VG_FN S await(const Total<S>* total, u64 mark) {
  constexpr int pieces = sizeof(Total<S>) / sizeof(Piece);
  u64 bits[pieces];
#pragma unroll
  for (int j = 0; j < pieces; j++) {
    u64 ready;
    do asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(bits[j]), "=l"(ready) : "l"(&total->piece[j]) : "memory");
    while (ready != mark);
  }
  S a;
  memcpy(&a, bits, sizeof(S));
  return a;
}
// Merges `count` totals in order; every lane gets the result.
template <class S> VG_FN S all_of(const Total<S>* totals, u32 count, u64 mark) {
  const u32 lane = threadIdx.x & 31u;
  return last_lane(up_to(lane < count ? await(totals + lane, mark) : S::start()));
}
// Returns the prefix of a tile whose total is `total`, and publishes the totals that other tiles wait for. Called by
// one warp.
template <class S> VG_FN S before_tile(const Totals<S>& totals, u32 tile, const S& total) {
  const u32 group = tile / GROUP, thousand = group / GROUP, lane = threadIdx.x & 31u;
  const bool ends_group = tile % GROUP == GROUP - 1u, ends_thousand = ends_group && group % GROUP == GROUP - 1u;
  if (lane == 0) publish(totals.tiles + tile, total, totals.mark);
  S in_group = all_of(totals.tiles + group * GROUP, tile % GROUP, totals.mark);
  S of_group = in_group;
  S::merge(of_group, total);
  if (ends_group && lane == 0) publish(totals.groups + group, of_group, totals.mark);
  S before = all_of(totals.groups + thousand * GROUP, group % GROUP, totals.mark);
  S all = thousand > 0u ? await(totals.thousands + thousand - 1u, totals.mark) : S::start();
  S::merge(all, before);
  if (ends_thousand && lane == 0) {
    S up = all;
    S::merge(up, of_group);
    publish(totals.thousands + thousand, up, totals.mark);
  }
  S::merge(all, in_group);
  return all;
}

// Index in shared memory of pack `q` of a tile. Packs are swizzled within groups of eight, so that there are no bank
// conflicts, whether threads read adjacent packs or eight consecutive packs each.
VG_FN u32 swizzle(u32 q) { return (q & ~7u) | ((q ^ (q >> 3)) & 7u); }

// Scans a tile with states S. The second kernel, which seldom runs, is compiled to less code.
template <class S, bool SECOND> VG_FN void scan_tile(const Params& p, const Job& job, u32 tile) {
  constexpr int ahead = SECOND ? 1 : U, turns = UNROLLED<S>;
  __shared__ __align__(16) char memory[THREADS * R * V * sizeof(T)];
  __shared__ S parts[WARPS], start;
  T (*pack)[V] = (T (*)[V])memory;
  const u32 t = threadIdx.x, warp = t >> 5, lane = t & 31u;
  const idx n = (idx)p.n, first = (idx)tile * (idx)(THREADS * V * R);
  const bool full = first + (idx)(THREADS * V * R) <= n;
  u32 w[W] = {}, unfit = 0;  // the first of this thread's positions, counted from 1, whose sum does not fit
  // adjacent threads compute adjacent packs ...
#pragma unroll 1
  for (int r = 0; r < R; r += ahead) {
    In in[ahead];
#pragma unroll
    for (int u = 0; u < ahead; u++) fetch(p, first + (idx)(((r + u) * THREADS + t) * V), in[u]);
#pragma unroll
    for (int u = 0; u < ahead; u++) {
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
  // ... and each thread adds up R consecutive packs
  S own = S::start();
#pragma unroll (turns)
  for (int r = 0; r < R; r++) {
    T x[V];
    read_pack<V>(pack[swizzle(t * R + r)], x);
#pragma unroll
    for (int k = 0; k < V; k++) if (full || first + (idx)((t * R + r) * V + k) < n) S::add(own, x[k]);
  }
#ifdef WIDENS
  bool passes = false, was_finite = false;
  if constexpr (!SECOND) {
    was_finite = S::is_finite(own);
    if (S::is_large(own)) {
      passes = was_finite;
      // The sum may also be infinite because an element is, with no large element.
#pragma unroll 1
      for (int r = 0; r < R; r++)
#pragma unroll 1
        for (int k = 0; k < V; k++) passes = passes || is_finite_and_large(pack[swizzle(t * R + r)][k]);
    }
  }
#endif
  own = up_to(own);
  if (lane == 31u) parts[warp] = own;
  S before = shuffle_up(own, 1);
  if (lane == 0u) before = S::start();
  __syncthreads();
  if (warp == 0u) {
    S sum = up_to(lane < WARPS ? parts[lane] : S::start());
    S all = before_tile(Totals<S>::of(job, SECOND ? 2u : 1u), tile, last_lane(sum));
    sum = shuffle_up(sum, 1);
    if (lane == 0u) { sum = S::start(); start = all; }
    if (lane < WARPS) parts[lane] = sum;
  }
  __syncthreads();
  S a = start;
  S::merge(a, parts[warp]);
  S::merge(a, before);
#ifdef WIDENS
  if constexpr (!SECOND) was_finite = was_finite && S::is_finite(a);
#endif
#pragma unroll (turns)
  for (int r = 0; r < R; r++) {
    T x[V];
    O y[V];
    T* at = pack[swizzle(t * R + r)];
    read_pack<V>(at, x);
#pragma unroll
    for (int k = 0; k < V; k++) {
      S::add(a, x[k]);
      u32 here = 0;
      put(y, k, S::value(a, here));
      if (here != 0u && unfit == 0u && (full || first + (idx)((t * R + r) * V + k) < n)) unfit = r * V + k + 1;
    }
    write_pack<V>((O*)at, y);
  }
#ifdef WIDENS
  if constexpr (!SECOND) {
    // Mostly another thread has set it already.
    if ((passes || was_finite && !S::is_finite(a)) && *(volatile u32*)(job.ticket + 2) == 0u) job.ticket[2] = 1u;
  }
#endif
  __syncthreads();
#pragma unroll (turns)
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
    // Mostly another thread has noted an earlier position already.
    if (at < *(volatile u64*)job.first) atomicMin(job.first, at);
  }
  note_flags(w, p.flags, p.any);
}
// Tiles are numbered in the order in which blocks start, so the tiles that a tile waits for are running already.
VG_FN u32 next_tile(u32* ticket) {
  __shared__ u32 tile;
  __syncthreads();
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
  __syncthreads();
  return tile;
}

extern "C" __global__ void __launch_bounds__(THREADS) scan(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  scan_tile<A, false>(p, job, next_tile(job.ticket));
}
#ifdef WIDENS
// Scans again with wide states if a sum overflowed. For short arrays, where launches cost most, it runs alone
// (`always`).
extern "C" __global__ void __launch_bounds__(THREADS) scan_wide(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  if (job.always == 0u && job.ticket[2] == 0u) return;
#pragma unroll 1
  for (u32 tile; (tile = next_tile(job.ticket + 1)) < job.count;) scan_tile<RunningSum<T, true>, true>(p, job, tile);
}
#endif
