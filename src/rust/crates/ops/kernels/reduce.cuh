// Reductions on CUDA devices, in one launch. The including source defines
//   Params, In, Out, fetch, compute, idx, V, W    (codegen/body.rs)
//   T       the class that is reduced; U packs in flight
//   AFTER   if there is an epilogue: namespace `after` with its Params, and run(), which takes a result
//   SPREAD  if the epilogue runs for packs of a group's elements instead of once
//   KEPT    with SPREAD, if the reduced elements are kept for it: the number of slots in shared memory
//   SHORT   with KEPT, if a block has more threads than a row has lanes
// and calls one of reduce_neighbours, reduce_packs and reduce_lanes from its kernel, with the accumulator A.
//
// tree.rs defines the order of additions, a function of shapes alone, so that a plan's own kernel and the prebuilt ones
// give the same bits. Exact reductions (ORDERED<A> is false) distribute their elements as suits memory access.
#pragma once
#include "merge.cuh"

#define THREADS 256  // MERGED_THREADS
#define THREAD_BITS 8

template <class A> struct Job {
  i64 length, inner, groups;  // as in reduction.rs; groups is the number of results
  i64 span;                   // reduce_neighbours: tiles per block, a power of two
  u32 slices;                 // blocks that share a group (or a block of lanes)
  u32 x, y;                   // reduce_lanes: packs side by side in a block; threads per pack, a power of two
  u32 across;                 // reduce_lanes: blocks side by side
  u32 lane_bits, rows;        // of the tree: 2^lane_bits lanes; a power of two
  A* partial;                 // scratch memory for the slices' parts
  typename A::value* out;
  u32* tickets;               // count finished slices; zero before and after
  // host memory: the host waits until the high half of each of five words is `mark`; or null
  volatile u64* reported;
  u32 mark;
  u32 na_rm;                  // for kernels that serve both cases
#ifdef AFTER
  after::Params after;        // of the epilogue, which stores results in place of `out`
#endif
};

// Reports a result of at most 16 bytes, and its status, to the host. Each 64-bit store carries data and mark together,
// so no fence between data and flag is needed (the LL protocol of NCCL).
template <class A> VG_FN void report(const Job<A>& job, const typename A::value& value, u32 status) {
  u32 words[5] = {};
  static_assert(sizeof(value) <= 16, "a result of more than four words");
  memcpy(words, &value, sizeof(value));
  words[4] = status;
#pragma unroll
  for (int k = 0; k < 5; k++) job.reported[k] = (u64)job.mark << 32 | words[k];
}

template <class A> VG_FN void put(const Job<A>& job, i64 group, const A& a) {
  u32 status = 0;
#if defined(AFTER) && !defined(SPREAD)
  after::run(job.after, group, A::finish(a, status));
#else
  const typename A::value value = A::finish(a, status);
  job.out[group] = value;
  if (job.reported != nullptr) report(job, value, status);
#endif
}

// ---- groups of adjacent elements ------------------------------------------------------------------------
// Elements of a row per thread: four lanes of the tree, or a pack
template <class A> constexpr int OWN = ORDERED<A> ? 4 : V;
// The alignment of a row's first position
template <class A> constexpr int ALIGN = OWN<A> < 4 ? 4 : OWN<A>;
// Parts of a group that are read together
constexpr int AHEAD = 4;

// The row of a position, and the number of rows that hold `places` positions
template <class A> VG_FN i64 row_of(i64 place, int bits) {
  constexpr int OWN_BITS = OWN<A> == 1 ? 0 : OWN<A> == 2 ? 1 : OWN<A> == 4 ? 2 : OWN<A> == 8 ? 3 : 4;
  return place >> (bits + OWN_BITS);
}
template <class A> VG_FN i64 rows_of(i64 places, int bits) { return row_of<A>(places + ((i64)OWN<A> << bits) - 1, bits); }

#ifdef KEPT
#define KEPT_IN , T* kept
#define KEPT_GIVEN , kept
#define KEEP(i, x) kept[(i) - (start & ~15ll)] = (x)  // no pack is wider than 16
#else
#define KEPT_IN
#define KEPT_GIVEN
#define KEEP(i, x)
#endif

// walk_pass for inputs with elements that Quick<A> cannot add: one element after the other
template <class A>
VG_FN A walk_special(const Params& p, i64 base, i64 start, i64 end, i64 row, i64 rows, i64 rank, int bits, int pass,
                     bool narm, u32 (&w)[W]) {
  constexpr int L = V < 4 ? V : 4;
  const i64 width = (i64)OWN<A> << bits, own = base + rank * OWN<A> + pass * V;
  A lane[L];
#pragma unroll
  for (int l = 0; l < L; l++) lane[l] = A::start();
#pragma unroll 1
  for (i64 r = row; r < rows; r++) {
    const i64 i = own + r * width;
    if (i + V <= start || i >= end) continue;
    In x;
    fetch(p, (idx)i, x);
#pragma unroll
    for (int k = 0; k < V; k++) {
      Out y;
      compute(p, x, k, i + k, w, y);
      if (i + k >= start && i + k < end) accumulate(lane[k % L], y.y0, i + k - start, narm);
    }
  }
  merge_all(lane);
  return lane[0];
}

// Reduces rows `row .. rows` of the group `start .. end`, whose rows begin at `base`, as thread `rank` of 2^`bits`. Of
// the thread's four lanes it takes those of pack `pass`.
template <class A>
VG_FN A walk_pass(const Params& p, i64 base, i64 start, i64 end, i64 row, i64 rows, i64 rank, int bits, int pass,
                  bool narm, u32 (&w)[W] KEPT_IN) {
  constexpr int L = V < 4 ? V : 4;                // accumulators, which divide V
  constexpr int B = ADDS_ALL<A> ? 4 : U;          // rows that are read together
  constexpr int S = ADDS_ALL<A> ? 1 : U;          // the same if some may be incomplete
  const i64 width = (i64)OWN<A> << bits, own = base + rank * OWN<A> + pass * V;
  Quick<A> lane[L];
#pragma unroll
  for (int l = 0; l < L; l++) lane[l] = Quick<A>::start();
  const auto add_one = [&](const In& x, int k, i64 i) {
    Out y;
    compute(p, x, k, i + k, w, y);
    // One position serves L lanes. L is added, so that positions are positive even in a pack that begins before the
    // group; move_on() subtracts it again.
    Quick<A>::add(lane[k % L], y.y0, i + (k - k % L) - start + L, narm);
    KEEP(i + k, y.y0);
  };
  const auto add = [&](const In& x, i64 i) {
#pragma unroll
    for (int k = 0; k < V; k++) add_one(x, k, i);
  };
  // Adds the elements of four rows, lane by lane. In `left`, a bit is set for each lane whose elements must be added
  // one by one.
  const auto add_rows = [&](const In (&x)[B], i64 i) {
    u32 left = 0;
#pragma unroll
    for (int k = 0; k < V; k++) {
      T y[B];
#pragma unroll (V == 1 ? 1 : B)
      for (int u = 0; u < B; u++) {
        Out out;
        compute(p, x[u], k, i + u * width + k, w, out);
        y[u] = out.y0;
        KEEP(i + u * width + k, y[u]);
      }
      if constexpr (ADDS_ALL<A>) {
        if (!add_all(lane[k % L].a, y)) left |= 1u << k;
      }
    }
    return left;
  };
  // The edges: before the rows, the pack that the group shares with the previous group; after them, the pack shared
  // with the next.
#pragma unroll 1
  for (int edge = 0; edge < 2; edge++) {
    if (V > 1) {
      const i64 at = edge == 0 ? start : end, i = at & ~(i64)(V - 1), r = row_of<A>(i - own, bits);
      if (i != at && (edge == 0 || i >= start) && i == own + r * width && r >= row && r < rows) {
        In x;
        fetch(p, (idx)i, x);
#pragma unroll
        for (int k = 0; k < V; k++)
          if (i + k >= start && i + k < end) add_one(x, k, i);
      }
    }
    if (edge == 1) break;
    const i64 complete = row_of<A>(end - base, bits), whole = complete < rows ? complete : rows;
#pragma unroll 1
    for (i64 r = row; r < rows; r += S) {
      // no bounds tests as long as rows are complete
      if (B > 1 && base + r * width >= start && (!ADDS_ALL<A> || r % B == 0)) {
#pragma unroll 1
        for (; r + B <= whole; r += B) {
          const i64 i = own + r * width;
          In x[B];
#pragma unroll (V == 1 ? 1 : B)
          for (int u = 0; u < B; u++) fetch<true>(p, (idx)i, x[u], u * width);
          loads_together();
          if (ADDS_ALL<A>) {
            const u32 left = add_rows(x, i);
            if (left == 0u) continue;
#pragma unroll 1
            for (int u = 0; u < B; u++) {
              fetch<true>(p, (idx)(i + u * width), x[0]);
#pragma unroll
              for (int k = 0; k < V; k++)
                if (left >> k & 1u) add_one(x[0], k, i + u * width);
            }
          } else {
#pragma unroll
            for (int u = 0; u < B; u++) add(x[u], i + u * width);
          }
        }
        if (r >= rows) break;
      }
      In x[S];
      bool there[S];
#pragma unroll
      for (int u = 0; u < S; u++) {
        const i64 i = own + (r + u) * width;
        there[u] = r + u < rows && i >= start && i + V <= end;
        if (there[u]) fetch<true>(p, (idx)i, x[u]);
      }
      if (S > 1) loads_together();
#pragma unroll
      for (int u = 0; u < S; u++)
        if (there[u]) add(x[u], own + (r + u) * width);
    }
  }
  A all[L];
  bool is_usual = true;
#pragma unroll
  for (int l = 0; l < L; l++) {
    is_usual = is_usual && Quick<A>::is_usual(lane[l]);
    all[l] = Quick<A>::get(lane[l]);
    if (!ORDERED<A>) move_on(all[l], l - L);
  }
  if (QUICK<A> && !is_usual) return walk_special<A>(p, base, start, end, row, rows, rank, bits, pass, narm, w);
  merge_all(all);
  return all[0];
}

// This thread's part of those rows, over all passes
template <class A>
VG_FN A walk(const Params& p, i64 base, i64 start, i64 end, i64 row, i64 rows, i64 rank, int bits, bool narm,
             u32 (&w)[W] KEPT_IN) {
  constexpr int PASSES = OWN<A> / V;
  static_assert(PASSES == 1 || PASSES == 2 || PASSES == 4, "four lanes, in whole packs");
  if (PASSES == 1) return walk_pass<A>(p, base, start, end, row, rows, rank, bits, 0, narm, w KEPT_GIVEN);
  A low = A::start(), high = A::start();
#pragma unroll 1
  for (int pass = 0; pass < PASSES; pass++) {
    const A a = walk_pass<A>(p, base, start, end, row, rows, rank, bits, pass, narm, w KEPT_GIVEN);
    if (pass < 2) A::merge(low, a);
    else A::merge(high, a);
  }
  A::merge(low, high);
  return low;
}

#ifdef SHORT
// Keeps values and adds nothing: an accumulator that makes walk() fill `kept`.
struct Nothing {
  VG_FN Nothing start() { return Nothing(); }
  VG_FN void add(Nothing&, T, bool) {}
  VG_FN void merge(Nothing&, const Nothing&) {}
};
// This thread's part of a kept group, by the same additions as `walk`: one lane of rows of 2^`lane_bits`
template <class A>
VG_FN A walk_kept(i64 base, i64 start, i64 end, i64 row, i64 rows, int lane_bits, bool narm, const T* kept) {
  const i64 width = 1ll << lane_bits, own = base + threadIdx.x;
  const T* x = kept + (own - (start & ~15ll));
  A a = A::start();
#pragma unroll 1
  for (i64 r = row; r < rows; r++) {
    if (ADDS_ALL<A> && r % 4 == 0 && base + r * width >= start && base + (r + 4) * width <= end && r + 4 <= rows) {
      T y[4];
#pragma unroll
      for (int u = 0; u < 4; u++) y[u] = x[(r + u) * width];
      if (add_all(a, y)) {
        r += 3;
        continue;
      }
    }
    const i64 i = own + r * width;
    if (i >= start && i < end) accumulate(a, x[r * width], i - start, narm);
  }
  return a;
}
#endif

#ifdef SPREAD
// Runs the epilogue for a group's elements and its result, in the block that reduced it: elements that are not kept are
// still in the caches.
template <class A> VG_FN void spread_out(const Job<A>& job, i64 group, i64 start, i64 end, const A& a KEPT_IN) {
  __shared__ typename A::value result;
  if (threadIdx.x == 0) {
    u32 status = 0;
    result = A::finish(a, status);
    job.out[group] = result;
  }
  __syncthreads();
  const i64 last = (end + after::V - 1) / after::V;
  for (i64 pack = start / after::V + threadIdx.x; pack < last; pack += THREADS * after::U)
    after::run(job.after, pack, last, start, end, result KEPT_GIVEN);
}
#endif

// Reduces a single row by one warp: latency dominates.
template <class A> VG_FN A few(const Params& p, i64 length, bool narm, u32 (&w)[W]) {
  constexpr int PASSES = OWN<A> / V;
  A low = A::start(), high = A::start();
#pragma unroll 1
  for (int pass = 0; pass < PASSES; pass++) {
    const i64 at = (i64)threadIdx.x * OWN<A> + pass * V;
    if (at >= length) break;
    In x;
    fetch(p, (idx)at, x);
    A lane[V];
#pragma unroll
    for (int k = 0; k < V; k++) lane[k] = A::start();
#pragma unroll
    for (int k = 0; k < V; k++) {
      if (at + k >= length) break;
      Out y;
      compute(p, x, k, at + k, w, y);
      accumulate(lane[k], y.y0, at + k, narm);
    }
    merge_all(lane);
    if (PASSES == 1 || pass < 2) A::merge(low, lane[0]);
    else A::merge(high, lane[0]);
  }
  if (PASSES > 2) A::merge(low, high);
#pragma unroll 1
  for (int by = 1; by < 32 && by * OWN<A> < length; by *= 2) A::merge(low, shuffle_down(low, by));
  return low;
}

// A group is `length` adjacent elements. A short group is reduced by 2^`bits` adjacent threads of a warp; otherwise
// `slices` blocks share it, `span` tiles each.
template <class A> VG_FN void reduce_neighbours(const Params& p, const Job<A>& job, bool narm, int bits) {
  __shared__ A levels[LEVELS];
  u32 w[W] = {};
#ifdef SPREAD
  // A block takes short groups too, whose rows have fewer lanes than the block has threads.
  constexpr bool team = false;
#else
  const bool team = bits < THREAD_BITS;
#endif
  const i64 group = team ? (i64)blockIdx.x * (THREADS >> bits) + (threadIdx.x >> bits) : blockIdx.x / job.slices;
  const u32 slice = team ? 0u : blockIdx.x % job.slices, rank = team ? threadIdx.x & ((1u << bits) - 1u) : threadIdx.x;
  // all threads of a warp stay, for the shuffles
  const bool real = group < job.groups;
  const i64 start = real ? group * job.length : 0, end = real ? start + job.length : 0;
  const i64 base = start & ~(i64)(ALIGN<A> - 1), all = rows_of<A>(end - base, bits);
#ifndef SPREAD
  if (!team && gridDim.x == 1u && job.length <= 32 * OWN<A>) {
    if (threadIdx.x >= 32u) return;
    const A a = few<A>(p, job.length, narm, w);
    if (threadIdx.x == 0u) put(job, 0, a);
    note_flags(w, p.flags, p.any);
    return;
  }
#endif
#ifdef KEPT
  __shared__ __align__(16) T kept[KEPT];
#endif
#ifdef SHORT
  const i64 from = start & ~(i64)(ALIGN<Nothing> - 1);
  walk<Nothing>(p, from, start, end, 0, rows_of<Nothing>(end - from, THREAD_BITS), threadIdx.x, THREAD_BITS, narm, w, kept);
  __syncthreads();
#endif
  // Exact reductions need no tiles: a whole span is treated as one.
  const i64 height = team ? all : ORDERED<A> ? (i64)job.rows : (i64)job.rows * 4 / OWN<A> * job.span;
  const i64 tiles = team ? 1 : (all + height - 1) / height, span = team || !ORDERED<A> ? 1 : job.span;
  const i64 first = slice * span, last = first + span < tiles ? first + span : tiles;
  A a = A::start();
#pragma unroll 1
  for (i64 tile = first; tile < last; tile++) {
    const i64 rows = (tile + 1) * height < all ? (tile + 1) * height : all;
    a = A::start();
#ifdef SHORT
    if (rank >> (bits + 2) == 0u) a = walk_kept<A>(base, start, end, tile * height, rows, bits + 2, narm, kept);
#else
    if (rank >> bits == 0u) a = walk<A>(p, base, start, end, tile * height, rows, rank, bits, narm, w KEPT_GIVEN);
#endif
    if (team) a = merge_team(a, 1 << bits);
    else a = merge_block(a);
    if (span > 1 && threadIdx.x == 0) push(levels, tile - first, 1, a);
  }
  if (span > 1 && threadIdx.x == 0) a = all_pushed(levels, last > first ? last - first : 0, 1);
  if (!team && job.slices > 1) {
    A* parts = job.partial + group * job.slices;
    if (threadIdx.x == 0) parts[slice] = a;
    if (!is_last(job.tickets + group, job.slices)) {
      note_flags(w, p.flags, p.any);
      return;
    }
    // Adjacent parts per thread, a power of two: at most sixteen, since reduce.rs makes no more slices
    u32 each = 1;
    while (each * THREADS < job.slices) each *= 2;
    A low = A::start(), high = A::start();
#pragma unroll 1
    for (u32 k = 0; k < each; k += AHEAD) {
      const u32 from = threadIdx.x * each + k;
      A part[AHEAD];
#pragma unroll
      for (u32 u = 0; u < AHEAD; u++)
        part[u] = u < each && from + u < job.slices ? read_fresh(parts + from + u) : A::start();
      merge_all(part);
      if (k < 2 * AHEAD) A::merge(low, part[0]);
      else A::merge(high, part[0]);
    }
    A::merge(low, high);
    a = merge_block(low);
  }
#ifdef SPREAD
  spread_out(job, group, start, end, a KEPT_GIVEN);
#else
  if (real && rank == 0u) put(job, group, a);
#endif
  note_flags(w, p.flags, p.any);
}

// Groups of 1, 2, 4 or 8 packs, one thread per pack: adjacent threads read adjacent packs, and each thread has U packs,
// THREADS apart, in flight.
template <class A> VG_FN void reduce_packs(const Params& p, const Job<A>& job, bool narm, int team) {
  u32 w[W] = {};
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
    constexpr int L = ORDERED<A> ? V : 1;
    A lane[L];
#pragma unroll
    for (int l = 0; l < L; l++) lane[l] = A::start();
#pragma unroll
    for (int k = 0; k < V; k++) {
      Out y;
      compute(p, x[u], k, pack * V + k, w, y);
      accumulate(lane[k % L], y.y0, pack % team * V + k, narm);
    }
    merge_all(lane);
    const A a = merge_team(lane[0], team);
    if (at < packs && at % team == 0) put(job, at / team, a);
  }
  note_flags(w, p.flags, p.any);
}

// ---- groups across memory --------------------------------------------------------------------------------
// Adjacent elements belong to different groups: a thread walks a lane of a tile for V groups. A block is `x` packs
// wide; each pack is shared by `y` threads, which take adjacent lanes; `slices` blocks share the axis.
template <class A> VG_FN void reduce_lanes(const Params& p, const Job<A>& job, bool narm) {
  // Whether the results of all lanes fit in shared memory, which is 48 KiB at most
  constexpr bool STAGED = sizeof(A) * V * THREADS <= 28672;
  constexpr u32 MOST_ABREAST = 32, ROUNDS = 8;  // if blocks share the axis: the largest x; levels of push() over rounds
  __shared__ A parts[THREADS * (STAGED ? V : 1)];
  __shared__ A levels[MOST_ABREAST * ROUNDS];
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
  if (real) {
    // `place` numbers the lanes of all tiles in the order in which they are merged.
    const u32 place = slice * job.y + ty, step = 1u << job.lane_bits;
    const i64 tile = (i64)job.rows << job.lane_bits, from = (place >> job.lane_bits) * tile;
    const i64 base = outer * job.length, end = from + tile < job.length ? from + tile : job.length;
    Quick<A> quick[V];
#pragma unroll
    for (int k = 0; k < V; k++) quick[k] = Quick<A>::start();
    const auto add = [&](const In& x, i64 l) {
#pragma unroll
      for (int k = 0; k < V; k++) {
        Out y;
        compute(p, x, k, (base + l) * job.inner + lane + k, w, y);
        Quick<A>::add(quick[k], y.y0, l, narm);
      }
    };
    i64 l = from + (place & (step - 1u));
#pragma unroll 1
    for (; U > 1 && l + (U - 1) * step < end; l += U * step) {
      In x[U];
#pragma unroll
      for (int u = 0; u < U; u++) fetch<true>(p, (idx)((base + l) * job.inner + lane), x[u], u * step * job.inner);
#pragma unroll
      for (int u = 0; u < U; u++) add(x[u], l + u * step);
    }
#pragma unroll 1
    for (; l < end; l += U * step) {
      In x[U];
#pragma unroll
      for (int u = 0; u < U; u++)
        fetch<true>(p, (idx)((base + l) * job.inner + lane), x[u], l + u * step < end ? u * step * job.inner : 0);
      loads_together();
#pragma unroll
      for (int u = 0; u < U; u++) if (l + u * step < end) add(x[u], l + u * step);
      if (U > 1) break;
    }
    bool is_usual = true;
#pragma unroll
    for (int k = 0; k < V; k++) {
      is_usual = is_usual && Quick<A>::is_usual(quick[k]);
      a[k] = Quick<A>::get(quick[k]);
    }
    if (QUICK<A> && !is_usual) {
      // again, one row after the other
#pragma unroll
      for (int k = 0; k < V; k++) a[k] = A::start();
#pragma unroll 1
      for (l = from + (place & (step - 1u)); l < end; l += step) {
        In x;
        fetch(p, (idx)((base + l) * job.inner + lane), x);
#pragma unroll
        for (int k = 0; k < V; k++) {
          Out y;
          compute(p, x, k, (base + l) * job.inner + lane + k, w, y);
          accumulate(a[k], y.y0, l, narm);
        }
      }
    }
  }
  // Merges the threads that share a pack into the first.
  const auto merge_threads = [&](A own) {
    if (job.y == 1u) return own;
    parts[threadIdx.x] = own;
    __syncthreads();
    for (u32 by = 1; by < job.y; by *= 2) {
      if (ty % (2 * by) == 0u && ty + by < job.y) {
        A::merge(own, parts[threadIdx.x + by * job.x]);
        parts[threadIdx.x] = own;
      }
      __syncthreads();
    }
    return own;
  };
#pragma unroll
  for (int k = 0; k < V; k++) a[k] = merge_threads(a[k]);
  if (job.slices > 1u) {
    A* all = job.partial + outer * job.slices * job.inner + lane;
    if (real && ty == 0)
#pragma unroll
      for (int k = 0; k < V; k++) all[slice * job.inner + k] = a[k];
    if (!is_last(job.tickets + outer * job.across + column, job.slices)) {
      note_flags(w, p.flags, p.any);
      return;
    }
    const u32 each = job.slices > 2 * job.y ? 4 : job.slices > job.y ? 2 : 1;
    const u32 rounds = (job.slices + each * job.y - 1) / (each * job.y);
#pragma unroll
    for (int k = 0; k < V; k++) {
#pragma unroll 1
      for (u32 round = 0; round < rounds; round++) {
        const u32 from = (round * job.y + ty) * each;
        A part[AHEAD];
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++)
          part[u] = real && u < each && from + u < job.slices ? read_fresh(all + (from + u) * job.inner + k) : A::start();
        merge_all(part);
        a[k] = merge_threads(part[0]);
        if (rounds > 1 && ty == 0) push(levels + tx, round, MOST_ABREAST, a[k]);
      }
      if (rounds > 1 && ty == 0) a[k] = all_pushed(levels + tx, rounds, MOST_ABREAST);
    }
  }
  if (STAGED) {
    // adjacent threads store adjacent results
    __syncthreads();
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
