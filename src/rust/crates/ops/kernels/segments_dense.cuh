// Products of sparse matrices with dense ones of several columns, and products of dense rows at the elements of a
// sparse matrix. Dense matrices are stored by rows: a team of lanes reads adjacent elements of a row. Only if adjacent
// segments have adjacent positions, as in a banded matrix, are they stored by columns.
#pragma once
#include "segments.cuh"

template <class T, int V> struct Row { T x[V]; };

VG_FN f64 add_term(f64 sum, f64 a, f64 b) { return fma(a, b, sum); }
VG_FN f32 add_term(f32 sum, f32 a, f32 b) { return fmaf(a, b, sum); }

// A sum that is NaN: NA if an operand is NA, which the hardware does not preserve. `b` is the column's first element, and
// rows of the dense matrix are `step` apart.
template <class T, bool WEIGHTED> VG_FN T nan_sum(const Picked<T, WEIGHTED>& job, T sum, const T* b, i64 step, i64 from,
    i64 to) {
  Products<T> seen = Products<T>::start();
  for (i64 e = from; e < to; e++) {
    const bool inside = (u32)job.at[e] < (u64)job.extent;
    const T y = inside ? b[job.at[e] * step] : na_of((T)0);
    if (y != y) Products<T>::add(seen, y, false);
    if (WEIGHTED && job.x[e] != job.x[e]) Products<T>::add(seen, job.x[e], false);
  }
  return kept_sum(sum, seen.s, (T)0);
}

// Sums the products of elements from .. to of a segment, for V columns.
template <class T, int V, bool WEIGHTED> VG_FN Row<T, V> row_sums(const Picked<T, WEIGHTED>& job, i64 columns,
    i64 column, i64 from, i64 to) {
  const int ahead = 4;
  Row<T, V> sums;
#pragma unroll
  for (int v = 0; v < V; v++) sums.x[v] = 0;
  for (i64 e = from; e < to; e += ahead) {
    i32 at[ahead];
    T x[ahead];
    Row<T, V> y[ahead];
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const bool real = e + l < to;
      at[l] = real ? job.at[e + l] : 0;
      x[l] = !real ? (T)0 : WEIGHTED ? job.x[e + l] : (T)1;
    }
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const bool inside = (u32)at[l] < (u64)job.extent;
      if (e + l < to) read_pack<V>(job.b + (inside ? at[l] : 0) * columns + column, y[l].x);
#pragma unroll
      for (int v = 0; v < V; v++)
        if (e + l >= to) y[l].x[v] = 0; else if (!inside) y[l].x[v] = na_of((T)0);
    }
#pragma unroll
    for (int l = 0; l < ahead; l++)
#pragma unroll
      for (int v = 0; v < V; v++) sums.x[v] = add_term(sums.x[v], x[l], y[l].x[v]);
  }
#pragma unroll
  for (int v = 0; v < V; v++)
    if (sums.x[v] != sums.x[v])
      sums.x[v] = nan_sum<T, WEIGHTED>(job, sums.x[v], job.b + column + v, columns, from, to);
  return sums;
}
template <class T, int V> VG_FN void write_row(T* to, const Row<T, V>& row) { write_pack<V>(to, row.x); }

// Each team takes a part of the path (`each` ends and elements), and V adjacent columns per lane; blockIdx.y counts the
// sets of columns that a team covers. `columns` is a multiple of V.
template <class T, int V, bool WEIGHTED, class I> VG_FN void segment_rows(const Picked<T, WEIGHTED>& job,
    const I* __restrict__ offsets, i64 segments, i64 len, i64 columns, u32 lanes, i64 each, i64 parts,
    const i64* __restrict__ starts, T* __restrict__ out, T* heads, T* opens) {
  const i64 part = ((i64)blockIdx.x * THREADS + threadIdx.x) / lanes;
  const u32 lane = threadIdx.x % lanes;
  const i64 column = ((i64)blockIdx.y * lanes + lane) * V;
  if (part >= parts || column >= columns) return;
  const i64 total = segments + len, place = part * each, next = place + each < total ? place + each : total;
  const i64 s0 = starts[part], s1 = starts[part + 1];
  const i64 end = next - s1;
  i64 from = place - s0;
  for (i64 s = s0; s <= s1; s++) {
    i64 to = s < s1 ? (i64)offsets[s + 1] : end;
    // Invalid (decreasing) offsets must not lead out of bounds.
    to = to < from ? from : to > len ? len : to;
    const Row<T, V> sums = row_sums<T, V, WEIGHTED>(job, columns, column, from, to);
    T* const row = s == s1 ? opens + part * columns : s == s0 ? heads + part * columns : out + s * columns;
    write_row<T, V>(row + column, sums);
    from = to;
  }
}

// Finishes the segments that end first in their parts, one warp each. Segments over more than FEW_PARTS parts, which the
// including source defines, are left to `segment_rows_finish_long`.
template <class T> VG_FN void segment_rows_finish(const T* __restrict__ heads, const T* __restrict__ opens,
    const i64* __restrict__ starts, i64 parts, i64 columns, T* __restrict__ out) {
  typedef Products<T> A;
  const i64 part = ((i64)blockIdx.x * THREADS + threadIdx.x) / WARP;
  if (part >= parts || starts[part + 1] <= starts[part]) return;
  const i64 from = first_open(starts, part);
  if (part - from > FEW_PARTS) return;
  for (i64 j = lane_id(); j < columns; j += WARP) {
    A a = A::start();
    for (i64 k = from; k < part; k++) A::add(a, opens[k * columns + j], false);
    A::add(a, heads[part * columns + j], false);
    out[starts[part] * columns + j] = a.s;
  }
}
// A block looks at THREADS parts, and takes every gridDim.y-th set of adjacent columns, of 16 bytes a row: one block
// alone would take longer for one long segment than the rest of the product.
template <class T> VG_FN void segment_rows_finish_long(const T* __restrict__ heads, const T* __restrict__ opens,
    const i64* __restrict__ starts, i64 parts, i64 columns, T* __restrict__ out) {
  typedef Products<T> A;
  const u32 set = 16 / sizeof(T), rows = THREADS / set;
  __shared__ i64 longer[THREADS][2];
  __shared__ u32 count;
  __shared__ A sums[THREADS];
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const i64 own = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (own < parts && starts[own + 1] > starts[own]) {
    const i64 from = first_open(starts, own);
    if (own - from > FEW_PARTS) {
      i64* const found = longer[atomicAdd(&count, 1u)];
      found[0] = from;
      found[1] = own;
    }
  }
  __syncthreads();
  const i64 least = (i64)blockIdx.y * set + threadIdx.x % set, step = (i64)gridDim.y * set;
  for (u32 l = 0; l < count; l++) {
    const i64 from = longer[l][0], part = longer[l][1];
    for (i64 j = least; j - threadIdx.x % set < columns; j += step) {
      A a = A::start();
      if (j < columns)
#pragma unroll 8
        for (i64 k = from + threadIdx.x / set; k < part; k += rows) A::add(a, opens[k * columns + j], false);
      sums[threadIdx.x] = a;
      for (u32 by = THREADS / 2; by >= set; by /= 2) {
        __syncthreads();
        if (threadIdx.x < by) sums[threadIdx.x] = merged(sums[threadIdx.x], sums[threadIdx.x + by]);
      }
      if (threadIdx.x < set && j < columns) {
        a = sums[threadIdx.x];
        A::add(a, heads[part * columns + j], false);
        out[starts[part] * columns + j] = a.s;
      }
      __syncthreads();
    }
  }
}

// As row_sums, of V columns that are `rows` apart, of which the first `count` exist.
template <class T, int V, bool WEIGHTED> VG_FN Row<T, V> column_sums(const Picked<T, WEIGHTED>& job, const T* b,
    i64 rows, int count, i64 from, i64 to) {
  Row<T, V> sums;
#pragma unroll
  for (int v = 0; v < V; v++) sums.x[v] = 0;
  for (i64 e = from; e < to; e++) {
    const i32 at = job.at[e];
    const T x = WEIGHTED ? job.x[e] : (T)1;
    T y[V];
    if ((u32)at < (u64)job.extent) {
      const T* place = b + at;
#pragma unroll
      for (int v = 0; v < V; v++) y[v] = v < count ? place[v * rows] : (T)0;
    } else {
#pragma unroll
      for (int v = 0; v < V; v++) y[v] = na_of((T)0);
    }
#pragma unroll
    for (int v = 0; v < V; v++) sums.x[v] = add_term(sums.x[v], x, y[v]);
  }
#pragma unroll
  for (int v = 0; v < V; v++)
    if (v < count && sums.x[v] != sums.x[v])
      sums.x[v] = nan_sum<T, WEIGHTED>(job, sums.x[v], b + v * rows, 1, from, to);
  return sums;
}
// The same sums, with the same bits, of dense matrices stored by columns: a thread takes a segment, and V columns at a
// time. A segment that lies in several parts of the path is summed part by part.
template <class T, int V, bool WEIGHTED, class I> VG_FN void segment_columns(const Picked<T, WEIGHTED>& job,
    const I* __restrict__ offsets, i64 segments, i64 len, i64 columns, i64 each, T* __restrict__ out) {
  const i64 s = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (s >= segments) return;
  // Invalid offsets must not lead out of bounds.
  i64 begin = (i64)offsets[s], to = (i64)offsets[s + 1];
  begin = begin < 0 ? 0 : begin > len ? len : begin;
  to = to < begin ? begin : to > len ? len : to;
  const i64 first = (begin + s) / each, last = (to + s) / each;
  for (i64 column = (i64)blockIdx.y * V; column < columns; column += (i64)gridDim.y * V) {
    const T* const b = job.b + column * job.extent;
    const int count = columns - column < V ? (int)(columns - column) : V;
    Row<T, V> sums;
    if (first == last) {
      sums = column_sums<T, V, WEIGHTED>(job, b, job.extent, count, begin, to);
    } else {
      Products<T> total[V];
#pragma unroll
      for (int v = 0; v < V; v++) total[v] = Products<T>::start();
      i64 from = begin;
#pragma unroll 1
      for (i64 part = first; part <= last; part++) {
        const i64 stop = part < last ? (part + 1) * each - s : to;
        const Row<T, V> piece = column_sums<T, V, WEIGHTED>(job, b, job.extent, count, from, stop);
#pragma unroll
        for (int v = 0; v < V; v++) Products<T>::add(total[v], piece.x[v], false);
        from = stop;
      }
#pragma unroll
      for (int v = 0; v < V; v++) sums.x[v] = total[v].s;
    }
#pragma unroll
    for (int v = 0; v < V; v++) if (v < count) out[(column + v) * segments + s] = sums.x[v];
  }
}

// For each element, the dot product of the row of `rows` at its position and the row of `others` of its segment.
template <class T> VG_FN void segment_sampled(const i32* __restrict__ at, const i32* __restrict__ segment, i64 len,
    const T* __restrict__ rows, i64 extent, const T* __restrict__ others, i64 inner, T* __restrict__ out) {
  const i64 step = (i64)gridDim.x * THREADS / WARP;
  for (i64 e = ((i64)blockIdx.x * THREADS + threadIdx.x) / WARP; e < len; e += step) {
    const bool inside = (u32)at[e] < (u64)extent;
    const T* const x = rows + (inside ? at[e] : 0) * inner;
    const T* const y = others + segment[e] * inner;
    Products<T> a = Products<T>::start();
    for (i64 l = lane_id(); l < inner; l += WARP) {
      const T v = inside ? x[l] : na_of((T)0);
      Products<T>::add(a, kept_sum(v * y[l], v, y[l]), false);
    }
    a = merged_lanes(a, WARP);
    if (lane_id() == 0) out[e] = a.s;
  }
}
