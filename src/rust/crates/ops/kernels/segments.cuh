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

// Loads elements unchanged.
template <class T> struct Plain {
  typedef T value;
  const T* x;
  VG_FN void load(const Plain& job, i64 e, i64 n, T* out) {
    for (i64 k = threadIdx.x; k < n; k += THREADS) out[k] = job.x[e + k];
  }
};
// Loads products of the elements' values (1 unless WEIGHTED) and the elements of b at the elements' positions.
template <class T, bool WEIGHTED> struct Picked {
  typedef T value;
  const i32* at;
  const T* x;
  const T* b;
  i64 extent;
  VG_FN void load(const Picked& job, i64 e, i64 n, T* out) {
    const int ahead = ITEMS < 8 ? ITEMS : 8;
    for (i64 first = threadIdx.x; first < n; first += ahead * THREADS) {
      i32 at[ahead];
      T x[ahead], y[ahead];
#pragma unroll
      for (int l = 0; l < ahead; l++) {
        const i64 k = first + l * THREADS;
        at[l] = k < n ? job.at[e + k] : 0;
        x[l] = WEIGHTED && k < n ? job.x[e + k] : (T)1;
      }
#pragma unroll
      for (int l = 0; l < ahead; l++) y[l] = (u32)at[l] < (u64)job.extent ? job.b[at[l]] : na_of((T)0);
#pragma unroll
      for (int l = 0; l < ahead; l++) {
        const i64 k = first + l * THREADS;
        if (k < n) out[k] = kept_sum(x[l] * y[l], x[l], y[l]);
      }
    }
  }
};

// ---- tiles ------------------------------------------------------------------------------------------
template <class A> VG_FN A shuffle_up(const A& a, int by) {
  constexpr int words = sizeof(A) / 4;
  u32 w[words];
  memcpy(w, &a, sizeof(A));
#pragma unroll
  for (int j = 0; j < words; j++) w[j] = __shfl_up_sync(ALL_LANES, w[j], by);
  A b;
  memcpy(&b, w, sizeof(A));
  return b;
}
// Merges b, a later part, into a copy of a.
template <class A> VG_FN A merged(const A& a, const A& b) { A r = a; A::merge(r, b); return r; }

// Reduces a tile's segments. Segments that begin and end in the tile go to `out`. `heads` gets the tile's part of the
// segment that ends first, `opens` its part of the segment that is still open.
template <class A, class LOAD, class I> VG_FN void segment_tile(const LOAD& job, const I* __restrict__ offsets,
    i64 segments, i64 len, const i64* __restrict__ starts, bool na_rm, typename A::value* __restrict__ out, A* heads,
    A* opens) {
  typedef typename LOAD::value T;
  __shared__ T elements[TILE];
  __shared__ i32 ends[TILE];
  __shared__ A of_warp[THREADS / WARP];
  __shared__ u32 begun[THREADS / WARP];
  const i64 total = segments + len, place = (i64)blockIdx.x * TILE, next = place + TILE < total ? place + TILE : total;
  // Invalid (decreasing) offsets must not lead out of bounds.
  const i64 s0 = starts[blockIdx.x], e0 = place - s0, span = next - place;
  i64 wanted = starts[blockIdx.x + 1] - s0;
  wanted = wanted < 0 ? 0 : wanted > span ? span : wanted;
  const i32 m = (i32)wanted, n = (i32)(span - wanted);
  LOAD::load(job, e0, e0 + n > len ? (len > e0 ? len - e0 : 0) : n, elements);
  for (i32 k = (i32)threadIdx.x; k < m; k += THREADS) {
    const i64 end = (i64)offsets[s0 + 1 + k] - e0;
    ends[k] = (i32)(end < 0 ? 0 : end > n ? n : end);
  }
  __syncthreads();

  // each thread takes a part of the tile's path
  i32 d = (i32)threadIdx.x * ITEMS, stop = d + ITEMS;
  d = d < m + n ? d : m + n;
  stop = stop < m + n ? stop : m + n;
  i32 s = d > n ? d - n : 0;
  for (i32 to = d < m ? d : m; s < to;) {
    const i32 half = (s + to) / 2;
    if (ends[half] < d - half) s = half + 1; else to = half;
  }
  const i32 first = s;
  i32 e = d - s;
  u32 status = 0;
  A a = A::start(), head = a;
#pragma unroll 1
  for (; d < stop; d++) {
    if (s < m && ends[s] <= e) {
      if (s == first) head = a; else out[s0 + s] = A::finish(a, status);
      a = A::start();
      s++;
    } else if (e < n) {
      A::add(a, elements[e], na_rm);
      e++;
    }
  }
  // A segmented scan: the open part behind each thread, over all threads since the last one in which a segment began.
  u32 fresh = s > first;
#pragma unroll
  for (int by = 1; by < WARP; by *= 2) {
    const A before = shuffle_up(a, by);
    const u32 fresh_before = __shfl_up_sync(ALL_LANES, fresh, by);
    if (lane_id() >= by) {
      if (!fresh) a = merged(before, a);
      fresh |= fresh_before;
    }
  }
  const u32 warp = threadIdx.x / WARP;
  if (lane_id() == WARP - 1) {
    of_warp[warp] = a;
    begun[warp] = fresh;
  }
  __syncthreads();
  A open = A::start();
  for (u32 w = 0; w < warp; w++) open = begun[w] ? of_warp[w] : merged(open, of_warp[w]);
  if (!fresh) a = merged(open, a);
  const A of_lane = shuffle_up(a, 1);
  if (lane_id() > 0) open = of_lane;
  if (s > first) {
    head = merged(open, head);
    if (first == 0) heads[blockIdx.x] = head; else out[s0 + first] = A::finish(head, status);
  }
  if (threadIdx.x == THREADS - 1) opens[blockIdx.x] = a;
}

// The first of the tiles whose open segment is the one that ends first in tile t.
VG_FN i64 first_open(const i64* __restrict__ starts, i64 t) {
  const i64 wanted = starts[t];
  i64 from = 0, to = t;
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
