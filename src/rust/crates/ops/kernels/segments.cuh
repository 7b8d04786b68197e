// Reductions of segments, such as the rows of sparse matrices, and sums of products.
//
// The ends of segments and the elements form one merge path, an end before the elements of later segments. Blocks take
// tiles of equal size of the path (Merrill and Garland 2016), so that neither a long segment nor many empty ones
// unbalance the work. A segment that is open at the end of a tile leaves an accumulator there; `segment_finish` merges
// these in order. So bits do not depend on the run.
#pragma once
#include "block.cuh"
#include "launch.cuh"
#include "reduce.h"

// The including source defines THREADS, and ITEMS per thread.
#define TILE (THREADS * ITEMS)

// ---- the path ---------------------------------------------------------------------------------------
// The number of segments that end before a position of the path.
template <class I> VG_FN i64 ends_before(const I* __restrict__ offsets, i64 segments, i64 len, i64 place) {
  i64 from = place > len ? place - len : 0, to = place < segments ? place : segments;
  while (from < to) {
    const i64 half = from + (to - from) / 2;
    if ((i64)offsets[half + 1] < place - half) from = half + 1; else to = half;
  }
  return from;
}
// The last segment that begins at or before element e.
template <class I> VG_FN i64 segment_of(const I* __restrict__ offsets, i64 first, i64 last, i64 e) {
  while (first < last) {
    const i64 half = first + (last - first + 1) / 2;
    if ((i64)offsets[half] <= e) first = half; else last = half - 1;
  }
  return first;
}

// For each part of the path (`each` ends and elements), the first segment that ends in it; then the number of segments.
template <class I> VG_FN void segment_starts(const I* __restrict__ offsets, i64 segments, i64 len, i64 each, i64 parts,
    i64* __restrict__ starts) {
  const i64 part = (i64)blockIdx.x * THREADS + threadIdx.x, total = segments + len;
  if (part <= parts) starts[part] = ends_before(offsets, segments, len, part * each < total ? part * each : total);
}

// ---- sums of products -----------------------------------------------------------------------------
// r, but if it is NaN: NA if an operand is NA.
VG_FN f64 kept_sum(f64 r, f64 a, f64 b) {
  return r == r ? r : is_na_payload(a) || is_na_payload(b) ? na_f64() : nan_f64();
}
VG_FN f32 kept_sum(f32 r, f32, f32) { return r; }
template <class T> struct Products {
  typedef T value; T s;
  VG_FN Products start() { Products a; a.s = 0; return a; }
  VG_FN void add(Products& a, T x, bool) { a.s = kept_sum(a.s + x, a.s, x); }
  VG_FN void merge(Products& a, const Products& b) { a.s = kept_sum(a.s + b.s, a.s, b.s); }
  VG_FN T finish(const Products& a, u32&) { return a.s; }
};

// ---- loads ------------------------------------------------------------------------------------------
// How elements are read, each once: so that they leave the caches first, or as usual, which is faster where the L1 cache
// holds all of b.
struct Streamed { template <class T> VG_FN T read(const T* p) { return __ldcs(p); } };
struct Cached { template <class T> VG_FN T read(const T* p) { return *p; } };

// `take` loads COUNT elements behind element e, `step` apart, of which those before the n-th exist.
// Elements unchanged.
template <class T> struct Plain {
  typedef T value;
  const T* x;
  template <int COUNT, class> VG_FN void take(const Plain& job, i64 e, i32 first, i32 step, i32 n, T* out) {
#pragma unroll
    for (int l = 0; l < COUNT; l++) out[l] = first + l * step < n ? job.x[e + first + l * step] : T();
  }
};
// Products of the elements' values (1 unless WEIGHTED) and the elements of b at the elements' positions.
template <class T, bool WEIGHTED> struct Picked {
  typedef T value;
  const i32* at;
  const T* x;
  const T* b;
  i64 extent;
  template <int COUNT, class HOW> VG_FN void take(const Picked& job, i64 e, i32 first, i32 step, i32 n, T* out) {
    i32 at[COUNT];
    T x[COUNT], y[COUNT];
#pragma unroll
    for (int l = 0; l < COUNT; l++) {
      const i32 k = first + l * step;
      at[l] = k < n ? HOW::read(job.at + e + k) : 0;
      x[l] = WEIGHTED && k < n ? HOW::read(job.x + e + k) : (T)1;
    }
#pragma unroll
    for (int l = 0; l < COUNT; l++) y[l] = (u32)at[l] < (u64)job.extent ? job.b[at[l]] : na_of((T)0);
#pragma unroll
    for (int l = 0; l < COUNT; l++) out[l] = kept_sum(x[l] * y[l], x[l], y[l]);
  }
};

// ---- tiles ------------------------------------------------------------------------------------------
// The tile of a block: n elements from e0 on, of which the first `real` exist, and m ends, the first that of segment s0.
// The ends cut the elements into m + 1 pieces. Invalid (decreasing) offsets do not lead out of bounds.
template <class I> struct Tile {
  const I* offsets;
  i64 s0, e0;
  i32 m, n, real;
  VG_FN Tile of(const I* offsets, i64 segments, i64 len, const i64* __restrict__ starts) {
    const i64 total = segments + len, place = (i64)blockIdx.x * TILE, next = place + TILE < total ? place + TILE : total;
    const i64 s0 = starts[blockIdx.x], e0 = place - s0, span = next - place, wanted = starts[blockIdx.x + 1] - s0;
    const i64 m = wanted < 0 ? 0 : wanted > span ? span : wanted, n = span - m;
    const i64 real = e0 + n <= len ? n : len > e0 ? len - e0 : 0;
    return {offsets, s0, e0, (i32)m, (i32)n, (i32)real};
  }
  // Where piece j ends.
  VG_FN i32 end(const Tile& tile, i32 j) {
    if (j >= tile.m) return tile.n;
    const i64 end = (i64)tile.offsets[tile.s0 + 1 + j] - tile.e0;
    return end < 0 ? 0 : end > tile.n ? tile.n : (i32)end;
  }
  // Stores piece j: the first one is the tile's part of the segment that ends first in it, the last one that of the
  // segment that is still open, and those between are segments.
  template <class A> VG_FN void put(const Tile& tile, i32 j, const A& a, typename A::value* out, A* heads, A* opens) {
    u32 status = 0;
    if (j == tile.m) opens[blockIdx.x] = a;
    else if (j == 0) heads[blockIdx.x] = a;
    else out[tile.s0 + j] = A::finish(a, status);
  }
};

// Merges b, a later part, into a copy of a.
template <class A> VG_FN A merged(const A& a, const A& b) { A r = a; A::merge(r, b); return r; }
// Merges the accumulators of a team of lanes into that of its first lane.
template <class A> VG_FN A merged_lanes(A a, i32 lanes) {
  for (i32 by = lanes / 2; by > 0; by /= 2) A::merge(a, shuffle_down(a, by));
  return a;
}
// Reduces elements from .. to, `step` apart.
template <class A, class T> VG_FN A reduced(const T* elements, i32 from, i32 to, i32 step, bool na_rm) {
  A a = A::start();
  for (i32 k = from; k < to; k += step) A::add(a, elements[k], na_rm);
  return a;
}

// Where piece j begins and ends, by the ends that wait in shared memory. A piece beyond the last one is empty.
struct Piece {
  i32 from, to;
  template <class I> VG_FN Piece of(const Tile<I>& tile, const i32* ends, i32 j) {
    if (j > tile.m) return {0, 0};
    return {j > 0 ? ends[j - 1] : 0, j < tile.m ? ends[j] : tile.n};
  }
};
// Reduces the pieces of a tile, whose elements wait in shared memory. Teams of lanes take a piece each, by turns; those
// that are far longer than the tile's others are left to whole warps.
template <class A, class LOAD, class I> VG_FN void segment_tile(const LOAD& job, const I* __restrict__ offsets,
    i64 segments, i64 len, const i64* __restrict__ starts, bool na_rm, typename A::value* __restrict__ out, A* heads,
    A* opens) {
  typedef typename LOAD::value T;
  const int ahead = 4, most_steps = 32;  // more loads ahead take registers from more threads
  // elements from the front, ends from the back: shared memory is taken from the L1 cache, which holds b
  constexpr int unit = sizeof(T) > 4 ? sizeof(T) : 4;
  __shared__ u64 room[TILE * unit / 8];
  const Tile<I> tile = Tile<I>::of(offsets, segments, len, starts);
  const i32 m = tile.m;
  T* const elements = (T*)room;
  i32* const ends = (i32*)(room + TILE * unit / 8) - m;
  for (i32 first = (i32)threadIdx.x; first < tile.real; first += ahead * THREADS) {
    T taken[ahead];
    LOAD::template take<ahead, Streamed>(job, tile.e0, first, THREADS, tile.real, taken);
#pragma unroll
    for (int l = 0; l < ahead; l++)
      if (first + l * THREADS < tile.real) elements[first + l * THREADS] = taken[l];
  }
  i32 lanes = 1;
  while (lanes < WARP && 2 * lanes * (m + 1) <= THREADS) lanes *= 2;
  const i32 most = lanes * most_steps;
  bool longer = false;
  for (i32 j = (i32)threadIdx.x; j <= m; j += THREADS) {
    const i32 from = j > 0 ? Tile<I>::end(tile, j - 1) : 0, to = Tile<I>::end(tile, j);
    if (j < m) ends[j] = to;
    longer |= to - from > most;
  }
  longer = __syncthreads_or(longer);

  const i32 lane = (i32)threadIdx.x & (lanes - 1), teams = THREADS / lanes;
  for (i32 turn = 0; turn <= m; turn += teams) {
    const i32 j = turn + (i32)threadIdx.x / lanes;
    const Piece piece = Piece::of(tile, ends, j);
    const bool own = j <= m && piece.to - piece.from <= most;
    const A a = merged_lanes(reduced<A>(elements, piece.from + lane, own ? piece.to : 0, lanes, na_rm), lanes);
    if (own && lane == 0) Tile<I>::put(tile, j, a, out, heads, opens);
  }
  if (!longer) return;
  u32 seen = 0;
  for (i32 first = 0; first <= m; first += WARP) {
    const Piece piece = Piece::of(tile, ends, first + (i32)lane_id());
    for (u32 left = __ballot_sync(ALL_LANES, piece.to - piece.from > most); left != 0; left &= left - 1, seen++) {
      if (seen % (THREADS / WARP) != threadIdx.x / WARP) continue;
      const i32 of = __ffs(left) - 1;
      const i32 begin = __shfl_sync(ALL_LANES, piece.from, of), end = __shfl_sync(ALL_LANES, piece.to, of);
      const A a = merged_lanes(reduced<A>(elements, begin + (i32)lane_id(), end, WARP, na_rm), WARP);
      if (lane_id() == 0) Tile<I>::put(tile, first + of, a, out, heads, opens);
    }
  }
}

// Reduces those elements of a warp's run that are at from .. to of the tile, where `own` is the lane's first.
template <class A, class T> VG_FN A reduced_run(const T (&elements)[ITEMS], i32 own, i32 from, i32 to, bool na_rm) {
  A a = A::start();
#pragma unroll
  for (int l = 0; l < ITEMS; l++)
    if (own + l * WARP >= from && own + l * WARP < to) A::add(a, elements[l], na_rm);
  return merged_lanes(a, WARP);
}
// Reduces a tile of long segments. Each warp takes an equal run of the elements, which stay in registers: all of the L1
// cache is left to b, and no warp waits for another one's loads.
template <class A, class LOAD, class I> VG_FN void segment_run(const LOAD& job, const I* __restrict__ offsets,
    i64 segments, i64 len, const i64* __restrict__ starts, bool na_rm, typename A::value* __restrict__ out, A* heads,
    A* opens) {
  const i32 warps = THREADS / WARP, run = WARP * ITEMS;
  __shared__ A open_of[warps];
  __shared__ u32 ends_in[warps];
  const Tile<I> tile = Tile<I>::of(offsets, segments, len, starts);
  const i32 warp = (i32)threadIdx.x / WARP, lane = (i32)lane_id(), begin = warp * run;
  typename LOAD::value elements[ITEMS];
  LOAD::template take<ITEMS, Cached>(job, tile.e0, begin + lane, WARP, tile.real, elements);

  i32 from = begin, first = -1;
  A head = A::start();
  for (i32 chunk = 0; chunk < tile.m; chunk += WARP) {
    const i32 j = chunk + lane, end = j < tile.m ? Tile<I>::end(tile, j) : -1;
    const bool own = end <= begin + run && (end > begin || (end == 0 && warp == 0));
    for (u32 left = __ballot_sync(ALL_LANES, own); left != 0; left &= left - 1) {
      const i32 of = __ffs(left) - 1, to = __shfl_sync(ALL_LANES, end, of);
      const A a = reduced_run<A>(elements, begin + lane, from, to, na_rm);
      if (first < 0) {
        first = chunk + of;
        head = a;
      } else if (lane == 0) {
        Tile<I>::put(tile, chunk + of, a, out, heads, opens);
      }
      from = to;
    }
  }
  const A open = reduced_run<A>(elements, begin + lane, from, tile.n, na_rm);
  if (lane == 0) {
    open_of[warp] = open;
    ends_in[warp] = first >= 0;
  }
  __syncthreads();
  if (lane != 0) return;
  A before = A::start();
  for (i32 w = 0; w < warp; w++) before = ends_in[w] ? open_of[w] : merged(before, open_of[w]);
  if (first >= 0) Tile<I>::put(tile, first, merged(before, head), out, heads, opens);
  if (warp == warps - 1) Tile<I>::put(tile, tile.m, first >= 0 ? open : merged(before, open), out, heads, opens);
}

// The first of the tiles whose open segment is the one that ends first in tile t.
VG_FN i64 first_open(const i64* __restrict__ starts, i64 t) {
  const i64 wanted = starts[t];
  i64 from = 0, to = t;
  // mostly that is the tile before
  for (i64 back = 1; back <= t; back *= 2) {
    if (starts[t - back] < wanted) {
      from = t - back + 1;
      break;
    }
    to = t - back;
  }
  while (from < to) {
    const i64 half = (from + to) / 2;
    if (starts[half] < wanted) from = half + 1; else to = half;
  }
  return from > 0 ? from - 1 : 0;
}
// Finishes the segments that end first in their tiles: merges the open parts of earlier tiles with the head.
template <class A> VG_FN void segment_finish(const A* __restrict__ heads, const A* __restrict__ opens,
    const i64* __restrict__ starts, i64 tiles, typename A::value* __restrict__ out) {
  const int few = 16;
  __shared__ i32 longer[THREADS];
  __shared__ u32 count;
  __shared__ A parts[THREADS];
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const i64 first = (i64)blockIdx.x * THREADS, t = first + threadIdx.x;
  u32 status = 0;
  if (t < tiles && starts[t + 1] > starts[t]) {
    const i64 from = first_open(starts, t);
    if (t - from > few) {
      longer[atomicAdd(&count, 1u)] = (i32)threadIdx.x;
    } else {
      A a = A::start();
      for (i64 k = from; k < t; k++) A::merge(a, opens[k]);
      A::merge(a, heads[t]);
      out[starts[t]] = A::finish(a, status);
    }
  }
  __syncthreads();
  // Segments over many tiles are merged by all threads, which take adjacent parts.
  for (u32 l = 0; l < count; l++) {
    const i64 tile = first + longer[l], from = first_open(starts, tile), each = (tile - from + THREADS - 1) / THREADS;
    A a = A::start();
    for (i64 k = from + threadIdx.x * each; k < from + (threadIdx.x + 1) * each && k < tile; k++) A::merge(a, opens[k]);
    parts[threadIdx.x] = a;
    for (u32 by = 1; by < THREADS; by *= 2) {
      __syncthreads();
      if (threadIdx.x % (2 * by) == 0) parts[threadIdx.x] = merged(parts[threadIdx.x], parts[threadIdx.x + by]);
    }
    if (threadIdx.x == 0) out[starts[tile]] = A::finish(merged(parts[0], heads[tile]), status);
    __syncthreads();
  }
}

// ---- structure --------------------------------------------------------------------------------------
// The number of each element's segment
template <class I> VG_FN void segment_expand(const I* __restrict__ offsets, i64 segments, i64 len,
    i32* __restrict__ out) {
  __shared__ i64 edges[2];
  const i64 from = (i64)blockIdx.x * TILE, to = from + TILE < len ? from + TILE : len;
  if (threadIdx.x < 2) edges[threadIdx.x] = segment_of(offsets, 0, segments - 1, threadIdx.x ? to - 1 : from);
  __syncthreads();
  for (i64 e = from + threadIdx.x; e < to; e += THREADS) out[e] = (i32)segment_of(offsets, edges[0], edges[1], e);
}
// For each of 0 to `extent`, how many of the sorted positions are below it
template <class I> VG_FN void segment_bounds(const i32* __restrict__ sorted, i64 len, i64 extent, I* __restrict__ out) {
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 row = (i64)blockIdx.x * THREADS + threadIdx.x; row <= extent; row += step) {
    i64 from = 0, to = len;
    while (from < to) {
      const i64 half = (from + to) / 2;
      if ((i64)sorted[half] < row) from = half + 1; else to = half;
    }
    out[row] = (I)from;
  }
}
template <class O> VG_FN void segment_pick(const i32* __restrict__ from, const O* __restrict__ order, i64 len,
    i32* __restrict__ out) {
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 k = (i64)blockIdx.x * THREADS + threadIdx.x; k < len; k += step) out[k] = from[order[k]];
}
// Looks at pairs of adjacent segments: out[0] is how many elements have a position near that of the element of the same
// rank in the next segment, out[1] how many elements there are. One block.
template <class I> VG_FN void segment_nearness(const I* __restrict__ offsets, const i32* __restrict__ at, i64 segments,
    i64 len, u64* out) {
  const i64 pairs = 4096, longest = 32, near = 32;
  __shared__ u32 found[2];
  if (threadIdx.x < 2) found[threadIdx.x] = 0;
  __syncthreads();
  u32 close = 0, seen = 0;
  for (i64 k = threadIdx.x; k < pairs; k += THREADS) {
    const i64 s = k * (segments - 1) / pairs;
    i64 bound[3];
    for (int j = 0; j < 3; j++) {
      const i64 o = (i64)offsets[s + j], least = j ? bound[j - 1] : 0;
      bound[j] = o < least ? least : o > len ? len : o;
    }
    const i64 own = bound[1] - bound[0], next = bound[2] - bound[1], longer = own > next ? own : next;
    const i64 shorter = own < next ? own : next;
    seen += (u32)(longer < 1 << 20 ? longer : 1 << 20);
    for (i64 l = 0; l < shorter && l < longest; l++) {
      const i64 away = (i64)at[bound[0] + l] - at[bound[1] + l];
      close += away >= -near && away <= near;
    }
  }
  atomicAdd(&found[0], close);
  atomicAdd(&found[1], seen);
  __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = found[threadIdx.x];
}
