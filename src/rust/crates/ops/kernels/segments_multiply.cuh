// Products of two sparse matrices, all stored by columns. Column j of the product adds up the columns of the first
// matrix that the elements of column j of the second one refer to (Gustavson 1978). A first pass counts the distinct
// rows of each column, a second one computes them. Columns are put into bins by the memory that they need (Nagasaka,
// Nukada and Matsuoka 2017):
//   - few rows: one thread per column, with a sorted list in shared memory;
//   - more: a hash table in shared memory for each warp or block, whose keys are sorted at the end;
//   - the most: a bit for each row in global memory. The rank of a row's bit is its place in the result.
//
// Sums start with 0 and take their terms in the order of the second matrix's elements, in float64, as the cpu device's
// do. So bits depend neither on the bin nor on the run.
#pragma once
#include "segments_bins.cuh"

template <class T, class I> struct Factors {
  const I* pa;
  const i32* ia;
  const T* xa;  // null: all values are 1
  const I* pb;
  const i32* ib;
  const T* xb;
};

// ---- terms ------------------------------------------------------------------------------------------
template <class T> VG_FN f64 add_product(f64 sum, T a, T b) {
  const f64 r = sum + (f64)a * (f64)b;
  if (r == r) return r;
  return is_na_payload(sum) || is_na_payload((f64)a) || is_na_payload((f64)b) ? na_f64() : nan_f64();
}
template <class T> VG_FN T value_at(const T* __restrict__ x, i64 e) { return x ? x[e] : (T)1; }

// ---- teams ------------------------------------------------------------------------------------------
// A team is a warp or a block.
template <int TEAM> VG_FN void team_sync() {
  if constexpr (TEAM == WARP) __syncwarp(); else __syncthreads();
}
template <int TEAM> VG_FN bool team_any(bool x) {
  if constexpr (TEAM == WARP) return __any_sync(ALL_LANES, x); else return __syncthreads_or(x);
}
// The sum over the team; `shared` has an element for each warp of a block.
template <int TEAM> VG_FN u32 team_sum(u32 x, u32* shared) {
#pragma unroll
  for (int by = WARP / 2; by > 0; by /= 2) x += __shfl_xor_sync(ALL_LANES, x, by);
  if constexpr (TEAM > WARP) {
    if (lane_id() == 0) shared[threadIdx.x / WARP] = x;
    __syncthreads();
    x = 0;
    for (int w = 0; w < TEAM / WARP; w++) x += shared[w];
    __syncthreads();
  }
  return x;
}

// Calls `body` with the row of each product of a column, in no order. `lanes` threads take a column of the first
// matrix.
template <int TEAM, class T, class I, class F> VG_FN void each_row(const Factors<T, I>& m, i64 j, u32 lanes,
    const F& body) {
  const u32 t = threadIdx.x % TEAM, groups = TEAM / lanes, lane = t % lanes;
  const i64 last = m.pb[j + 1];
  i64 e = (i64)m.pb[j] + t / lanes;
  i32 next = e < last ? m.ib[e] : 0;
  for (; e < last; e += groups) {
    const i32 k = next;
    if (e + groups < last) next = m.ib[e + groups];
    const i64 to = m.pa[k + 1];
    for (i64 f = (i64)m.pa[k] + lane; f < to; f += lanes) body(m.ia[f]);
  }
}

// Adds up the products of a column, in the order of the second matrix's elements. `find` returns the place of a row's
// sum, `add` adds to it. Rows of one column of the first matrix differ, so only terms of different elements may meet in
// a sum: groups of lanes find places together, and add in turn.
template <int TEAM, class T, class I, class FIND, class ADD> VG_FN void add_in_order(const Factors<T, I>& m, i64 j,
    u32 lanes, const FIND& find, const ADD& add) {
  const u32 t = threadIdx.x % TEAM, groups = TEAM / lanes, group = t / lanes, lane = t % lanes;
  const i64 first = m.pb[j], last = m.pb[j + 1];
  // the bounds of the next column of the first matrix, and the number of the one after, are loaded ahead
  i64 e = first + group;
  i64 from = 0, to = 0;
  if (e < last) {
    const i32 k = m.ib[e];
    from = m.pa[k]; to = m.pa[k + 1];
  }
  i32 next = e + groups < last ? m.ib[e + groups] : -1;
  for (i64 begin = first; begin < last; begin += groups, e += groups) {
    const i64 f0 = from, f1 = to;
    const bool has = f0 + lane < f1;
    i32 row = 0;
    T a = 0, b = 0;
    if (has) { row = m.ia[f0 + lane]; a = value_at(m.xa, f0 + lane); b = value_at(m.xb, e); }
    from = next >= 0 ? (i64)m.pa[next] : 0;
    to = next >= 0 ? (i64)m.pa[next + 1] : 0;
    next = e + 2 * (i64)groups < last ? m.ib[e + 2 * (i64)groups] : -1;
    if (!team_any<TEAM>(f1 - f0 > (i64)lanes)) {
      u32 place = 0;
      if (has) place = find(row);
      const i64 turns = last - begin < (i64)groups ? last - begin : (i64)groups;
      for (u32 turn = 0; turn < turns; turn++) {
        if (turn == group && has) add(place, a, b);
        team_sync<TEAM>();
      }
    } else {
      for (i64 g = begin; g < begin + groups && g < last; g++) {
        const i32 k = m.ib[g];
        const T by = value_at(m.xb, g);
        const i64 end = m.pa[k + 1];
        for (i64 f = (i64)m.pa[k] + t; f < end; f += TEAM) add(find(m.ia[f]), value_at(m.xa, f), by);
        team_sync<TEAM>();
      }
    }
  }
}

// ---- columns with one element -----------------------------------------------------------------------
template <class T, class I> VG_FN void copy_columns(const Factors<T, I>& m, const i32* __restrict__ list, i64 n,
    u32 lanes, const Offsets& offsets, i32* __restrict__ rows, T* __restrict__ values) {
  const i64 step = (i64)gridDim.x * THREADS / lanes;
  for (i64 c = ((i64)blockIdx.x * THREADS + threadIdx.x) / lanes; c < n; c += step) {
    const i64 j = list[c], e = m.pb[j], k = m.ib[e], from = m.pa[k], to = m.pa[k + 1], start = Offsets::at(offsets, j);
    const T b = value_at(m.xb, e);
    for (i64 f = from + threadIdx.x % lanes; f < to; f += lanes) {
      rows[start + f - from] = m.ia[f];
      values[start + f - from] = (T)add_product<T>(0.0, value_at(m.xa, f), b);
    }
  }
}

// ---- a thread for each column -----------------------------------------------------------------------
// Merges the columns of the first matrix into a sorted list. Element s of the list is at s * stride; `insert` makes
// room for a row at s, `meet` is called where the row is.
template <class T, class I, class INSERT, class MEET> VG_FN u32 merge_columns(const Factors<T, I>& m, i64 j, i32* own,
    u32 stride, const INSERT& insert, const MEET& meet) {
  u32 count = 0;
  i64 e = m.pb[j];
  const i64 last = m.pb[j + 1];
  i32 k = m.ib[e];
  i64 from = m.pa[k], to = m.pa[k + 1];
  for (; e < last; e++) {
    i64 next_from = 0, next_to = 0;
    if (e + 1 < last) {
      k = m.ib[e + 1];
      next_from = m.pa[k]; next_to = m.pa[k + 1];
    }
    u32 s = 0;
    i32 last_row = -1;
    for (i64 f = from; f < to; f++) {
      const i32 row = m.ia[f];
      i32 here = -1;
      // rows out of order must not become duplicates
      if (row < last_row) s = 0;
      last_row = row;
      while (s < count && (here = own[s * stride]) < row) s++;
      if (s == count || here != row) {
        for (u32 r = count; r > s; r--) own[r * stride] = own[(r - 1) * stride];
        own[s * stride] = row;
        insert(s, count);
        count++;
      }
      meet(s, f, e);
    }
    from = next_from; to = next_to;
  }
  return count;
}
template <class T, class I> VG_FN void count_by_thread(const Factors<T, I>& m, const i32* __restrict__ list, i64 n,
    u32 stride, i32* shared, u32* __restrict__ counts) {
  const i64 c = (i64)blockIdx.x * THREADS + threadIdx.x;
  if (c >= n) return;
  const i64 j = list[c];
  counts[j] = merge_columns(m, j, shared + threadIdx.x, stride, [](u32, u32) {}, [](u32, i64, i64) {});
}
// `slots`: the most rows of a column. Sums are followed by rows in shared memory. `stride` is odd, so that lanes that
// write out a column's elements read different banks.
template <class T, class I> VG_FN void multiply_by_thread(const Factors<T, I>& m, const i32* __restrict__ list, i64 n,
    u32 slots, u32 stride, f64* shared, const Offsets& offsets, i32* __restrict__ rows, T* __restrict__ values) {
  f64* const sums = shared + threadIdx.x;
  i32* const own = (i32*)(shared + slots * stride) + threadIdx.x;
  const i64 c = (i64)blockIdx.x * THREADS + threadIdx.x;
  u32 count = 0;
  i64 start = 0;
  if (c < n) {
    const i64 j = list[c];
    start = Offsets::at(offsets, j);
    count = merge_columns(
        m, j, own, stride,
        [&](u32 s, u32 count) {
          for (u32 r = count; r > s; r--) sums[r * stride] = sums[(r - 1) * stride];
          sums[s * stride] = 0;
        },
        [&](u32 s, i64 f, i64 e) {
          sums[s * stride] = add_product<T>(sums[s * stride], value_at(m.xa, f), value_at(m.xb, e));
        });
  }
  // The lanes of a warp write their columns together: neighbouring columns are neighbours in the result.
  __syncwarp();
  const u32 until = warp_prefix(count), total = __shfl_sync(ALL_LANES, until, WARP - 1);
  const i64 shift = start - (i64)(until - count);
  for (u32 first = 0; first < total; first += WARP) {
    const u32 q = first + lane_id();
    u32 owner = 0;
#pragma unroll
    for (u32 half = WARP / 2; half > 0; half /= 2)
      if (__shfl_sync(ALL_LANES, until, owner + half - 1) <= q) owner += half;
    const i64 to = __shfl_sync(ALL_LANES, shift, owner) + q;
    const u32 slot = q - (__shfl_sync(ALL_LANES, until, owner) - __shfl_sync(ALL_LANES, count, owner));
    if (q < total) {
      const u32 at = slot * stride + owner;
      rows[to] = (own - lane_id())[at];
      values[to] = (T)(sums - lane_id())[at];
    }
  }
}

// ---- hash tables ------------------------------------------------------------------------------------
#define NO_ROW 0xFFFFFFFFu
// Fibonacci hashing: the high bits of a multiple of the golden ratio. 2^(32 - shift) slots.
VG_FN u32 slot_of(u32 row, u32 shift) { return (row * 0x9E3779B1u) >> shift; }
// Returns the slot of a row, and whether it is new.
VG_FN u32 insert_row(u32* keys, u32 row, u32 slots, u32 shift, bool& is_new) {
  u32 at = slot_of(row, shift);
  while (true) {
    u32 seen = *(volatile u32*)(keys + at);
    if (seen == NO_ROW) seen = atomicCAS(keys + at, NO_ROW, row);
    is_new = seen == NO_ROW;
    if (is_new || seen == row) return at;
    at = (at + 1u) & (slots - 1u);
  }
}

template <int TEAM, class T, class I> VG_FN void count_by_hash(const Factors<T, I>& m, const i32* __restrict__ list,
    i64 n, u32 slots, u32 shift, u32 lanes, u32* shared, u32* __restrict__ counts) {
  __shared__ u32 sums[WARP];
  const u32 team = threadIdx.x / TEAM, t = threadIdx.x % TEAM;
  const i64 c = (i64)blockIdx.x * (blockDim.x / TEAM) + team;
  if (c >= n) return;
  u32* const keys = shared + team * slots;
  for (u32 s = t; s < slots; s += TEAM) keys[s] = NO_ROW;
  team_sync<TEAM>();
  const i64 j = list[c];
  u32 count = 0;
  each_row<TEAM>(m, j, lanes, [&](i32 row) {
    bool is_new;
    insert_row(keys, (u32)row, slots, shift, is_new);
    count += is_new;
  });
  if constexpr (TEAM == WARP) __syncwarp();
  count = team_sum<TEAM>(count, sums);
  if (t == 0) counts[j] = count;
}

// Orders two keys.
VG_FN void order_keys(u32& x, u32& y, bool up) {
  const u32 low = x < y ? x : y, high = x < y ? y : x;
  x = up ? low : high;
  y = up ? high : low;
}
// Sorts R keys of each lane over a warp, bitonically (Batcher 1968); lane l has keys l * R .. l * R + R - 1. Only loops
// that need constant indices are unrolled.
template <int R> VG_FN void sort_in_warp(u32 (&x)[R]) {
  const u32 lane = lane_id();
#pragma unroll
  for (int size = 2; size <= R; size *= 2)
#pragma unroll
    for (int by = size / 2; by > 0; by /= 2)
#pragma unroll
      for (int r = 0; r < R; r++)
        if ((r & by) == 0) order_keys(x[r], x[r | by], size < R ? (r & size) == 0 : (lane & 1u) == 0);
#pragma unroll 1
  for (u32 lanes = 2; lanes <= WARP; lanes *= 2) {
    const bool up = (lane & lanes) == 0;
#pragma unroll 1
    for (u32 by = lanes / 2; by > 0; by /= 2) {
      const bool takes_lower = ((lane & by) == 0) == up;
#pragma unroll
      for (int r = 0; r < R; r++) {
        const u32 other = __shfl_xor_sync(ALL_LANES, x[r], by);
        x[r] = (other < x[r]) == takes_lower ? other : x[r];
      }
    }
#pragma unroll
    for (int by = R / 2; by > 0; by /= 2)
#pragma unroll
      for (int r = 0; r < R; r++)
        if ((r & by) == 0) order_keys(x[r], x[r | by], up);
  }
}
template <int R> VG_FN void sort_keys_in_warp(u32* keys) {
  u32 x[R];
#pragma unroll
  for (int r = 0; r < R; r++) x[r] = keys[lane_id() * R + r];
  sort_in_warp<R>(x);
#pragma unroll
  for (int r = 0; r < R; r++) keys[lane_id() * R + r] = x[r];
}
// Sorts `count` keys, a power of two of at least 32.
template <int TEAM> VG_FN void sort_keys(u32* keys, u32 count) {
  if constexpr (TEAM == WARP) {
    if (count <= 32u) sort_keys_in_warp<1>(keys);
    else if (count == 64u) sort_keys_in_warp<2>(keys);
    else if (count == 128u) sort_keys_in_warp<4>(keys);
    else if (count == 256u) sort_keys_in_warp<8>(keys);
    else if (count == 512u) sort_keys_in_warp<16>(keys);
    else sort_keys_in_warp<32>(keys);
    __syncwarp();
  } else {
    const u32 t = threadIdx.x;
    for (u32 size = 2; size <= count; size *= 2)
      for (u32 by = size / 2; by > 0; by /= 2) {
        for (u32 q = t; q < count / 2; q += TEAM) {
          const u32 low = 2 * q - (q & (by - 1)), high = low + by, x = keys[low], y = keys[high];
          if ((x > y) == ((low & size) == 0)) { keys[low] = y; keys[high] = x; }
        }
        __syncthreads();
      }
  }
}

// Shared memory has, for all teams, sums, keys, and room for the keys that are found, as a power of two.
template <int TEAM, class T, class I> VG_FN void multiply_by_hash(const Factors<T, I>& m, const i32* __restrict__ list,
    i64 n, u32 slots, u32 shift, u32 lanes, f64* shared, const Offsets& offsets, i32* __restrict__ rows,
    T* __restrict__ values) {
  const u32 capacity = TEAM == WARP ? slots : slots / 2;
  __shared__ u32 taken[WARP];
  const u32 teams = blockDim.x / TEAM, team = threadIdx.x / TEAM, t = threadIdx.x % TEAM;
  const i64 c = (i64)blockIdx.x * teams + team;
  if (c >= n) return;
  f64* const sums = shared + team * slots;
  u32* const keys = (u32*)(shared + teams * slots) + team * slots;
  u32* const found = (u32*)(shared + teams * slots) + teams * slots + team * capacity;
  for (u32 s = t; s < slots; s += TEAM) {
    keys[s] = NO_ROW;
    sums[s] = 0;
  }
  if (t == 0) taken[team] = 0;
  team_sync<TEAM>();
  const i64 j = list[c];
  add_in_order<TEAM>(
      m, j, lanes,
      [&](i32 row) {
        bool is_new;
        return insert_row(keys, (u32)row, slots, shift, is_new);
      },
      [&](u32 place, T a, T b) { sums[place] = add_product<T>(sums[place], a, b); });
  // the keys in any order, then sorted
  for (u32 s = t; s < slots; s += TEAM) {
    const u32 key = keys[s];
    const u32 here = __ballot_sync(ALL_LANES, key != NO_ROW);
    u32 at = 0;
    if (lane_id() == 0 && here) at = atomicAdd(taken + team, (u32)__popc(here));
    at = __shfl_sync(ALL_LANES, at, 0);
    if (key != NO_ROW) found[at + __popc(here & lanes_before())] = key;
  }
  team_sync<TEAM>();
  const u32 count = taken[team];
  u32 padded = WARP;
  while (padded < count) padded *= 2;
  for (u32 s = count + t; s < padded; s += TEAM) found[s] = NO_ROW;
  team_sync<TEAM>();
  sort_keys<TEAM>(found, padded);
  const i64 start = Offsets::at(offsets, j);
  for (u32 q = t; q < count; q += TEAM) {
    const u32 row = found[q];
    u32 at = slot_of(row, shift);
    while (keys[at] != row) at = (at + 1u) & (slots - 1u);
    rows[start + q] = (i32)row;
    values[start + q] = (T)sums[at];
  }
}

// ---- bits in global memory --------------------------------------------------------------------------
// A block's `bits` are all 0 between columns.
template <int TEAM, class T, class I> VG_FN void count_by_bits(const Factors<T, I>& m, const i32* __restrict__ list,
    i64 n, u64 words, u32 lanes, u32* all_bits, u32* __restrict__ counts) {
  __shared__ u32 sums[WARP];
  u32* const bits = all_bits + blockIdx.x * words;
  for (i64 c = blockIdx.x; c < n; c += gridDim.x) {
    const i64 j = list[c];
    u32 count = 0;
    each_row<TEAM>(m, j, lanes, [&](i32 row) {
      const u32 bit = 1u << (row & 31);
      count += (atomicOr(bits + ((u32)row >> 5), bit) & bit) == 0u;
    });
    count = team_sum<TEAM>(count, sums);
    if (threadIdx.x == 0) counts[j] = count;
    each_row<TEAM>(m, j, lanes, [&](i32 row) { *(volatile u32*)(bits + ((u32)row >> 5)) = 0; });
    __syncthreads();
  }
}
// `before` gets for each word the number of bits before it; `far` has room for a block's sums, if values are narrower.
template <int TEAM, class T, class I> VG_FN void multiply_by_bits(const Factors<T, I>& m, const i32* __restrict__ list,
    i64 n, u64 words, u32 lanes, u32* all_bits, u32* all_before, f64* all_far, u64 widest, const Offsets& offsets,
    i32* rows, T* values) {
  __shared__ u32 warps[WARP];
  u32* const bits = all_bits + blockIdx.x * words;
  u32* const before = all_before + blockIdx.x * words;
  const u64 each = (words + TEAM - 1) / TEAM, begin = threadIdx.x * each;
  const u64 end = begin + each < words ? begin + each : words;
  for (i64 c = blockIdx.x; c < n; c += gridDim.x) {
    const i64 j = list[c], start = Offsets::at(offsets, j);
    each_row<TEAM>(m, j, lanes, [&](i32 row) { atomicOr(bits + ((u32)row >> 5), 1u << (row & 31)); });
    __syncthreads();
    u32 own = 0, count;
    for (u64 w = begin; w < end; w++) own += __popc(__ldcg(bits + w));
    u32 rank = block_prefix(own, warps, count);
    for (u64 w = begin; w < end; w++) {
      before[w] = rank;
      for (u32 rest = __ldcg(bits + w); rest != 0u; rest &= rest - 1u)
        rows[start + rank++] = (i32)(w * 32u) + __ffs((int)rest) - 1;
    }
    f64* sums;
    if constexpr (sizeof(T) == 8) sums = (f64*)values + start; else sums = all_far + blockIdx.x * widest;
    for (u32 q = threadIdx.x; q < count; q += TEAM) sums[q] = 0;
    __syncthreads();
    add_in_order<TEAM>(
        m, j, lanes,
        [&](i32 row) {
          const u32 w = (u32)row >> 5;
          return before[w] + __popc(__ldcg(bits + w) & ((1u << (row & 31)) - 1u));
        },
        [&](u32 place, T a, T b) { sums[place] = add_product<T>(sums[place], a, b); });
    if constexpr (sizeof(T) < 8)
      for (u32 q = threadIdx.x; q < count; q += TEAM) values[start + q] = (T)sums[q];
    each_row<TEAM>(m, j, lanes, [&](i32 row) { *(volatile u32*)(bits + ((u32)row >> 5)) = 0; });
    __syncthreads();
  }
}
