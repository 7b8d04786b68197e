// Reductions on CUDA devices, in one launch. The including source has defined
//   Params, In, Out, fetch, compute, idx, V, W    (codegen/body.rs)
//   A       the accumulator, T the class it takes, NARM, U packs in flight
//   AFTER   where there is an epilogue: namespace `after` with its Params, and run(), which takes a result
//   SPREAD  where the epilogue runs for packs of a group's elements instead of once
//   KEPT    with SPREAD, where the reduced elements are kept for it: the number of slots in shared memory
// and defines one of SEGMENTS_BLOCK, SEGMENTS_TEAM (threads of a group), SEGMENTS_PACKS (packs of a group), LANES.
//
// Which thread adds which element, and the order of merging, depend only on the shape of the grid, so that the same
// call gives the same bits.
#pragma once
#include "reduce.h"
#include "launch.cuh"

#define THREADS 256

struct Job {
  i64 length, inner, groups;  // as reduction.rs names them; groups counts the results
  i64 span;                   // elements of a group (or indices on the axis) that one of them takes, the last fewer
  u32 slices;                 // blocks that share a group (or a block of lanes)
  u32 x, y;                   // LANES: packs abreast in a block, and threads that share each
  u32 across;                 // LANES: blocks that lie abreast
  A* partial;                 // the slices' partial results
  A::value* out;
  u32* tickets;               // zero before and after
  volatile u64* reported;         // where the host waits for `mark` in the high half of five words, or null
  u32 mark;
#ifdef AFTER
  after::Params after;        // of the epilogue, which stores what `out` would
#endif
};

// Tells the host a result of 16 bytes at most, and its status. A word's halves arrive together, so nobody waits until
// one store is there before the other (the LL protocol of NCCL).
VG_FN void tell(const Job& job, const A::value& value, u32 status) {
  u32 words[5] = {};
  static_assert(sizeof(value) <= 16, "a result of more than four words");
  memcpy(words, &value, sizeof(value));
  words[4] = status;
#pragma unroll
  for (int k = 0; k < 5; k++) job.reported[k] = (u64)job.mark << 32 | words[k];
}

VG_FN void put(const Job& job, i64 group, const A& a) {
  u32 status = 0;
#if defined(AFTER) && !defined(SPREAD)
  after::run(job.after, group, A::finish(a, status));
#else
  const A::value value = A::finish(a, status);
  job.out[group] = value;
  if (job.reported != nullptr) tell(job, value, status);
#endif
}

// All threads' accumulators in thread 0, in a fixed tree. The warps' parts: one thread merges those that are little,
// which takes it less than sending them about.
VG_FN A merge_block(A a) {
  constexpr int WARPS = THREADS / 32;
  __shared__ A parts[WARPS];
#pragma unroll
  for (int by = 16; by > 0; by >>= 1) A::merge(a, shuffle_down(a, by));
  if ((threadIdx.x & 31u) == 0u) parts[threadIdx.x >> 5] = a;
  __syncthreads();
  if (sizeof(A) > 24 && threadIdx.x < 32) {
    a = parts[threadIdx.x % WARPS];
#pragma unroll
    for (int by = WARPS / 2; by > 0; by >>= 1) A::merge(a, shuffle_down(a, by));
  } else if (threadIdx.x == 0) {
    for (int k = 1; k < WARPS; k++) A::merge(a, parts[k]);
  }
  __syncthreads();
  return a;
}

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

// Adds the elements `from .. end` of the group that begins at `start`: this thread is number `rank` of `team` that
// share them.
constexpr int L = ADDS_ALL<A> ? 1 : V < 4 ? V : 4;  // divides V
#ifdef KEPT
#define KEPT_IN , T* kept
#define KEEP(i, x) kept[(i) - (start & ~15ll)] = (x)  // no pack is wider than 16
#else
#define KEPT_IN
#define KEEP(i, x)
#endif
VG_FN A walk(const Params& p, i64 start, i64 from, i64 end, i64 rank, i64 team, u32 (&w)[W] KEPT_IN) {
  A lane[L];
#pragma unroll
  for (int l = 0; l < L; l++) lane[l] = A::start();
  // packs lie on multiples of V in the whole array; `first .. last` are wholly among them
  const i64 first = (from + V - 1) / V, last = end / V;
  const auto add = [&](const In& x, i64 pack) {
#pragma unroll
    for (int k = 0; k < V; k++) {
      Out y;
      compute(p, x, k, pack * V + k, w, y);
      accumulate(lane[k % L], y.y0, pack * V + (k - k % L) - start, NARM);
      KEEP(pack * V + k, y.y0);
    }
  };
  // what a batch of packs holds; false where they must be added one by one
  const auto add_packs = [&](const In (&x)[U], i64 pack) {
    T y[U * V];
#pragma unroll
    for (int j = 0; j < U * V; j++) {
      const i64 i = (pack + j / V * team) * V + j % V;
      Out out;
      compute(p, x[j / V], j % V, i, w, out);
      y[j] = out.y0;
      KEEP(i, y[j]);
    }
    return add_all(lane[0], y);
  };
  // without a look at the end as long as there are U packs: for this thread, or for all of a team within a warp, so
  // that none waits for others
  i64 pack = first + rank;
#pragma unroll 1
  for (; U > 1 && (team < 32 ? pack - rank + U * team <= last : pack + (U - 1) * team < last); pack += U * team) {
    In x[U];
#pragma unroll
    for (int u = 0; u < U; u++) fetch<true>(p, (idx)(pack * V), x[u], u * team * V);
    loads_together();
    if (ADDS_ALL<A>) {
      if (add_packs(x, pack)) continue;
#pragma unroll 1
      for (int u = 0; u < U; u++) {
        fetch<true>(p, (idx)((pack + u * team) * V), x[0]);
        add(x[0], pack + u * team);
      }
    } else {
#pragma unroll
      for (int u = 0; u < U; u++) add(x[u], pack + u * team);
    }
  }
#pragma unroll 1
  for (; pack < last; pack += U * team) {
    In x[U];
#pragma unroll
    for (int u = 0; u < U; u++) fetch<true>(p, (idx)(pack * V), x[u], pack + u * team < last ? u * team * V : 0);
    loads_together();
#pragma unroll (ADDS_ALL<A> ? 1 : U)
    for (int u = 0; u < U; u++) if (pack + u * team < last) add(x[u], pack + u * team);
    if (U > 1) break;
  }
#pragma unroll
  for (int l = 1; l < L; l++) move_on(lane[l], l);
#pragma unroll
  for (int l = 1; l < L; l++) A::merge(lane[0], lane[l]);
  // the packs at its ends, shared with the neighbours; merged, not added, since the first comes before what was added
  if (V > 1 && from < end) {
    A ends = A::start();
#pragma unroll 1
    for (i64 edge = rank; edge < 2; edge += team) {
      const i64 at = edge == 0 ? from / V : end / V;
      const bool whole = edge == 0 ? from % V == 0 : end % V == 0;
      if (whole || (edge == 1 && at == from / V && from % V != 0)) continue;
      In x;
      fetch(p, (idx)(at * V), x);
#pragma unroll
      for (int k = 0; k < V; k++) {
        const i64 i = at * V + k;
        if (i < from || i >= end) continue;
        Out y;
        compute(p, x, k, i, w, y);
        accumulate(ends, y.y0, i - start, NARM);
        KEEP(i, y.y0);
      }
    }
    A::merge(lane[0], ends);
  }
  return lane[0];
}

#ifdef SEGMENTS_BLOCK
// At most 32 packs, a thread each: what a number takes that somebody waits for is the way to it.
VG_FN A few(const Params& p, i64 length, u32 (&w)[W]) {
  A a = A::start();
  const i64 at = (i64)threadIdx.x * V;
  if (at < length) {
    In x;
    fetch(p, (idx)at, x);
#pragma unroll
    for (int k = 0; k < V; k++) {
      if (at + k >= length) break;
      Out y;
      compute(p, x, k, at + k, w, y);
      accumulate(a, y.y0, at + k, NARM);
    }
  }
#pragma unroll 1
  for (int by = 16; by > 0; by >>= 1)
    if (by * V < length) A::merge(a, shuffle_down(a, by));
  return a;
}

// Parts that are read together.
constexpr int AHEAD = sizeof(A) <= 24 ? 4 : 2;

// A group is `length` neighbours; `slices` blocks share it.
extern "C" __global__ void __launch_bounds__(THREADS) reduction(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  u32 w[W] = {};
#ifndef SPREAD
  if (gridDim.x == 1u && job.length <= 32 * V) {
    if (threadIdx.x >= 32u) return;
    const A a = few(p, job.length, w);
    if (threadIdx.x == 0) put(job, 0, a);
    note_flags(w, p.flags, p.any);
    return;
  }
#endif
  const i64 group = blockIdx.x / job.slices;
  const u32 slice = blockIdx.x % job.slices;
  const i64 start = group * job.length, end = start + job.length;
#ifdef KEPT
  __shared__ __align__(16) T kept[KEPT];
  A a = merge_block(walk(p, start, start, end, threadIdx.x, THREADS, w, kept));
#else
  // neighbouring stretches in turn, as the GPU hands out blocks: their ends are where packs end, but the group's
  const auto cut = [&](u32 s) { return s == 0 ? start : s == job.slices ? end : (start + s * job.span + V - 1) / V * V; };
  A a = merge_block(walk(p, start, cut(slice), cut(slice + 1), threadIdx.x, THREADS, w));
#endif
  if (job.slices > 1) {
    A* parts = job.partial + group * job.slices;
    if (threadIdx.x == 0) parts[slice] = a;
    if (is_last(job.tickets + group, job.slices)) {
      a = A::start();
      for (u32 s = threadIdx.x; s < job.slices; s += THREADS * AHEAD) {
        A part[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
          part[u] = s + u * THREADS < job.slices ? read_fresh(parts + s + u * THREADS) : A::start();
#pragma unroll
        for (int u = 0; u < AHEAD; u++) A::merge(a, part[u]);
      }
      a = merge_block(a);
      if (threadIdx.x == 0) put(job, group, a);
    }
  }
#ifdef SPREAD
  // what the block has just read is in the caches still, if not kept
  __shared__ A::value result;
  if (threadIdx.x == 0) {
    u32 status = 0;
    result = A::finish(a, status);
    job.out[group] = result;
  }
  __syncthreads();
  const i64 last = (end + after::V - 1) / after::V;
  for (i64 pack = start / after::V + threadIdx.x; pack < last; pack += THREADS * after::U)
#ifdef KEPT
    after::run(job.after, pack, last, start, end, result, kept);
#else
    after::run(job.after, pack, last, start, end, result);
#endif
#else
  else if (threadIdx.x == 0) {
    put(job, group, a);
  }
#endif
  note_flags(w, p.flags, p.any);
}
#endif

#ifdef SEGMENTS_TEAM
// Short groups: SEGMENTS_TEAM neighbouring threads of a warp take one.
extern "C" __global__ void __launch_bounds__(THREADS) reduction(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  u32 w[W] = {};
  constexpr int team = SEGMENTS_TEAM;
  const i64 group = (i64)blockIdx.x * (THREADS / team) + threadIdx.x / team;
  const bool real = group < job.groups;
  const i64 start = real ? group * job.length : 0;
  // all threads of a warp stay, for the shuffles
  A a = walk(p, start, start, real ? start + job.length : 0, threadIdx.x % team, team, w);
#pragma unroll
  for (int by = team / 2; by > 0; by >>= 1) A::merge(a, shuffle_down(a, by));
  if (real && threadIdx.x % team == 0) put(job, group, a);
  note_flags(w, p.flags, p.any);
}
#endif

#ifdef SEGMENTS_PACKS
// Groups of 1, 2, 4 or 8 packs, each read by a thread: neighbours read neighbouring packs, U stretches of THREADS packs
// together.
extern "C" __global__ void __launch_bounds__(THREADS) reduction(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  u32 w[W] = {};
  constexpr int team = SEGMENTS_PACKS;
  const i64 packs = job.groups * team, first = (i64)blockIdx.x * (THREADS * U) + threadIdx.x;
  In x[U];
#pragma unroll
  for (int u = 0; u < U; u++) {
    const i64 at = first + u * THREADS;
    fetch<true>(p, (idx)((at < packs ? at : packs - 1) * V), x[u]);
  }
#pragma unroll
  for (int u = 0; u < U; u++) {
    const i64 at = first + u * THREADS, pack = at < packs ? at : packs - 1;
    // all threads of a warp stay, for the shuffles
    A a = A::start();
#pragma unroll
    for (int k = 0; k < V; k++) {
      Out y;
      compute(p, x[u], k, pack * V + k, w, y);
      accumulate(a, y.y0, pack % team * V + k, NARM);
    }
#pragma unroll
    for (int by = team / 2; by > 0; by >>= 1) A::merge(a, shuffle_down(a, by));
    if (at < packs && at % team == 0) put(job, at / team, a);
  }
  note_flags(w, p.flags, p.any);
}
#endif

#ifdef LANES
// Neighbours belong to different groups: a thread walks the axis for V of them. A block is `x` packs abreast,
// each shared by `y` threads; `slices` blocks share the axis.
extern "C" __global__ void __launch_bounds__(THREADS) reduction(const __grid_constant__ Params p,
    const __grid_constant__ Job job) {
  // parts that are read together, where they are small enough to cost the rest of the kernel no registers
  constexpr int AHEAD = sizeof(A) * V <= 32 ? 4 : sizeof(A) * V <= 48 ? 2 : 1;
  // whether there is room for a result of each lane, which is 48 KiB at most
  constexpr bool STAGED = sizeof(A) * V * THREADS <= 32768;
  __shared__ A parts[THREADS * (STAGED ? V : 1)];
  u32 w[W] = {};
  const u32 column = blockIdx.x % job.across, rest = blockIdx.x / job.across;
  const u32 slice = rest % job.slices;
  const i64 outer = rest / job.slices;
  const u32 tx = threadIdx.x % job.x, ty = threadIdx.x / job.x;
  const i64 lane = ((i64)column * job.x + tx) * V;
  const bool real = ty < job.y && lane < job.inner;
  A a[V];
#pragma unroll
  for (int k = 0; k < V; k++) a[k] = A::start();
  const i64 base = outer * job.length, end = slice + 1u == job.slices ? job.length : (slice + 1u) * job.span;
  if (real) {
    const auto add = [&](const In& x, i64 l) {
#pragma unroll
      for (int k = 0; k < V; k++) {
        Out y;
        compute(p, x, k, (base + l) * job.inner + lane + k, w, y);
        accumulate(a[k], y.y0, l, NARM);
      }
    };
    i64 l = slice * job.span + ty;
#pragma unroll 1
    for (; U > 1 && l + (U - 1) * job.y < end; l += U * job.y) {
      In x[U];
#pragma unroll
      for (int u = 0; u < U; u++) fetch<true>(p, (idx)((base + l) * job.inner + lane), x[u], u * job.y * job.inner);
#pragma unroll
      for (int u = 0; u < U; u++) add(x[u], l + u * job.y);
    }
#pragma unroll 1
    for (; l < end; l += U * job.y) {
      In x[U];
#pragma unroll
      for (int u = 0; u < U; u++)
        fetch<true>(p, (idx)((base + l) * job.inner + lane), x[u], l + u * job.y < end ? u * job.y * job.inner : 0);
      loads_together();
#pragma unroll
      for (int u = 0; u < U; u++) if (l + u * job.y < end) add(x[u], l + u * job.y);
      if (U > 1) break;
    }
  }
#pragma unroll 1
  for (int round = 0; round < 2; round++) {
    // the threads that share a lane
    if (job.y > 1) {
#pragma unroll
      for (int k = 0; k < V; k++) {
        parts[threadIdx.x] = a[k];
        __syncthreads();
        for (u32 by = THREADS / 2; by > 0; by >>= 1) {
          if (ty < by && ty + by < job.y) {
            A::merge(a[k], parts[threadIdx.x + by * job.x]);
            parts[threadIdx.x] = a[k];
          }
          __syncthreads();
        }
      }
    }
    if (job.slices == 1 || round == 1) break;
    // the blocks that share the axis
    A* all = job.partial + outer * job.slices * job.inner + lane;
    if (real && ty == 0)
#pragma unroll
      for (int k = 0; k < V; k++) all[slice * job.inner + k] = a[k];
    if (!is_last(job.tickets + outer * job.across + column, job.slices)) {
      note_flags(w, p.flags, p.any);
      return;
    }
#pragma unroll
    for (int k = 0; k < V; k++) a[k] = A::start();
    if (real)
      for (u32 s = ty; s < job.slices; s += job.y * AHEAD) {
        A part[AHEAD][V];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
          for (int k = 0; k < V; k++) {
            const u32 at = s + u * job.y;
            part[u][k] = at < job.slices ? read_fresh(all + at * job.inner + k) : A::start();
          }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
          for (int k = 0; k < V; k++) A::merge(a[k], part[u][k]);
      }
  }
  if (STAGED) {
    // neighbouring threads store neighbouring results
    if (ty == 0)
#pragma unroll
      for (int k = 0; k < V; k++) parts[tx * V + k] = a[k];
    __syncthreads();
    const i64 from = (i64)column * job.x * V;
    for (u32 k = threadIdx.x; k < job.x * V && from + k < job.inner; k += THREADS)
      put(job, outer * job.inner + from + k, parts[k]);
  } else if (real && ty == 0) {
#pragma unroll
    for (int k = 0; k < V; k++) put(job, outer * job.inner + lane + k, a[k]);
  }
  note_flags(w, p.flags, p.any);
}
#endif
