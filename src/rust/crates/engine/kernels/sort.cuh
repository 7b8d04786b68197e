// A stable radix sort from the least significant digit, 8 bits a pass, in one reading of the data a pass
// (Adinets and Merrill 2022, "Onesweep"): a tile learns from the tiles before it, while they run, where its
// elements go, and so needs no count of its own beforehand.
//
// The elements themselves are moved, bits untouched; their digits are computed from them in every pass. That
// keeps 0 and -0, and NA and NaN, apart in what comes out while they are equal in the order.
#pragma once
#include "block.cuh"

#define DIGITS 256
#define THREADS 512
#define WARPS (THREADS / WARP)

// ---- keys ---------------------------------------------------------------------------------------------
// A key is unsigned and rises in the wanted order; missing values have the greatest, which no other has.
// T is how an element is stored, K the type of its key.
template <class K> VG_FN K signed_key(K bits, bool down) {
  const K top = (K)((K)1 << (8 * sizeof(K) - 1));
  K up = (K)(bits ^ top);  // NA, the smallest, becomes 0
  return down ? (K)~up : (K)(up - 1);
}
// not_a_number and zero are of the bits without their sign
template <class K> VG_FN K float_key(K bits, K infinity, bool down) {
  const K top = (K)((K)1 << (8 * sizeof(K) - 1));
  K size = (K)(bits & (K)~top);
  if (size > infinity) return (K)~(K)0;
  K up = size == 0 ? top : bits & top ? (K)~bits : (K)(bits | top);
  return down ? (K)~up : up;
}
struct Key_bool8 { typedef u8 T; typedef u8 K; VG_FN u8 of(u8 x, bool down) { return x > 1 ? 255 : down ? 1 - x : x; } };
struct Key_uint8 { typedef u8 T; typedef u8 K; VG_FN u8 of(u8 x, bool down) { return down ? (u8)~x : x; } };
struct Key_int8 { typedef u8 T; typedef u8 K; VG_FN u8 of(u8 x, bool down) { return signed_key<u8>(x, down); } };
struct Key_int16 { typedef u16 T; typedef u16 K; VG_FN u16 of(u16 x, bool down) { return signed_key<u16>(x, down); } };
struct Key_int32 { typedef u32 T; typedef u32 K; VG_FN u32 of(u32 x, bool down) { return signed_key<u32>(x, down); } };
struct Key_int64 { typedef u64 T; typedef u64 K; VG_FN u64 of(u64 x, bool down) { return signed_key<u64>(x, down); } };
struct Key_float16 { typedef u16 T; typedef u16 K; VG_FN u16 of(u16 x, bool down) { return float_key<u16>(x, 0x7C00, down); } };
struct Key_bfloat16 { typedef u16 T; typedef u16 K; VG_FN u16 of(u16 x, bool down) { return float_key<u16>(x, 0x7F80, down); } };
struct Key_float32 { typedef u32 T; typedef u32 K; VG_FN u32 of(u32 x, bool down) { return float_key<u32>(x, 0x7F800000u, down); } };
struct Key_float64 { typedef u64 T; typedef u64 K; VG_FN u64 of(u64 x, bool down) { return float_key<u64>(x, 0x7FF0000000000000ull, down); } };

template <class K> VG_FN u32 digit(K key, u32 pass) { return (u32)(key >> (8 * pass)) & (DIGITS - 1); }

// ---- how often each digit occurs, for all passes in one reading -----------------------------------------
// Several copies in shared memory, so that equal digits do not all wait for one counter.
template <class Key> VG_FN void sort_count(const typename Key::T* __restrict__ in, i64 n, u32 down, u64* bins) {
  const int passes = sizeof(typename Key::K), copies = passes > 4 ? 2 : 4;
  __shared__ u32 counts[passes][copies][DIGITS];
  for (u32 k = threadIdx.x; k < passes * copies * DIGITS; k += THREADS) (&counts[0][0][0])[k] = 0;
  __syncthreads();
  u32 copy = threadIdx.x & (copies - 1);
  i64 step = (i64)gridDim.x * THREADS;
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += 4 * step) {
    typename Key::K keys[4];
#pragma unroll
    for (int l = 0; l < 4; l++) if (i + l * step < n) keys[l] = Key::of(in[i + l * step], down != 0);
#pragma unroll
    for (int l = 0; l < 4; l++)
      if (i + l * step < n) for (int pass = 0; pass < passes; pass++) atomicAdd(&counts[pass][copy][digit(keys[l], pass)], 1u);
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < passes * DIGITS; k += THREADS) {
    u64 sum = 0;
    for (int c = 0; c < copies; c++) sum += counts[k / DIGITS][c][k % DIGITS];
    if (sum) atomicAdd(bins + k, sum);
  }
}
// A block a pass: counts become the place of the digit's first element.
VG_FN void sort_scan(u64* bins) {
  __shared__ u64 warps[DIGITS / WARP];
  u64 total, *bin = bins + (u64)blockIdx.x * DIGITS + threadIdx.x;
  *bin = block_prefix(*bin, warps, total);
}

// ---- a pass -------------------------------------------------------------------------------------------
// `words` holds, for every tile and digit, what the tile knows so far: nothing, its own count, or the count
// of all tiles up to it. State and count are one word, so no fence is needed between them.
// Offset is u32 below 2^30 elements, else u64; Index the type of the positions that are carried along.
template <class Offset> struct Word {
  static const int shift = 8 * sizeof(Offset) - 2;
  VG_FN Offset make(u32 state, Offset count) { return ((Offset)state << shift) | count; }
  VG_FN u32 state(Offset word) { return (u32)(word >> shift); }
  VG_FN Offset count(Offset word) { return word & (((Offset)1 << shift) - 1); }
};
#define STATE_TILE 1u
#define STATE_ALL 2u

// The lanes with the same digit.
VG_FN u32 same_digit(u32 d) {
  u32 same = ALL_LANES;
#pragma unroll
  for (int bit = 0; bit < 8; bit++) {
    bool set = (d >> bit) & 1;
    u32 with = __ballot_sync(ALL_LANES, set);
    same &= set ? with : ~with;
  }
  return same;
}

// Positions: `at_in` null takes the element's own place (the first pass); `at_last` non-null takes the int64
// result (the last pass).
template <class Key, int ITEMS, bool POSITIONS, class Index, class Offset>
VG_FN void sort_pass(const typename Key::T* __restrict__ in, typename Key::T* __restrict__ out, const Index* __restrict__ at_in,
                     Index* __restrict__ at_out, i64* __restrict__ at_last, i64 n, u32 down, u32 pass,
                     const u64* __restrict__ bins, volatile Offset* words, u32* ticket) {
  typedef typename Key::T T;
  const u32 tile_items = THREADS * ITEMS;
  const u32 exchange = tile_items * (POSITIONS && sizeof(Index) > sizeof(T) ? sizeof(Index) : sizeof(T));
  const u32 ranking = WARPS * DIGITS * 4;
  __shared__ __align__(16) char memory[exchange > ranking ? exchange : ranking];
  __shared__ u64 place[DIGITS];   // where the digit's first element of this tile goes, less `start`
  __shared__ u32 start[DIGITS];   // where the digit starts in the sorted tile
  __shared__ u32 warp_sums[WARPS];
  __shared__ u32 my_tile;
  u32 (*counts)[DIGITS] = (u32 (*)[DIGITS])memory;

  // tiles are numbered as they start: the ones before are at work already, and waiting for them ends
  if (threadIdx.x == 0) my_tile = atomicAdd(ticket, 1u);
  for (u32 k = threadIdx.x; k < WARPS * DIGITS; k += THREADS) (&counts[0][0])[k] = 0;
  __syncthreads();
  const u32 tile = my_tile, warp = threadIdx.x / WARP;
  const i64 first = (i64)tile * tile_items;
  const u32 valid = n - first < (i64)tile_items ? (u32)(n - first) : tile_items;

  // Rank within the warp. Past the end the digit is the greatest, and so these rank last and are not written.
  T x[ITEMS];
  u32 rank[ITEMS];
  const u32 mine = warp * WARP * ITEMS + lane_id();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 j = mine + k * WARP;
    if (j < valid) x[k] = in[first + j];
  }
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 d = mine + k * WARP < valid ? digit(Key::of(x[k], down != 0), pass) : DIGITS - 1;
    u32 same = same_digit(d), before = __popc(same & lanes_before());
    u32 seen = counts[warp][d];
    __syncwarp();
    if (before == 0) counts[warp][d] = seen + __popc(same);
    __syncwarp();
    rank[k] = seen + before;
  }
  __syncthreads();

  // From the warps' counts to places in the tile; the count of the tile is told at once.
  u32 d = threadIdx.x, count = 0;
  if (d < DIGITS) {
    for (u32 w = 0; w < WARPS; w++) {
      u32 c = counts[w][d];
      counts[w][d] = count;
      count += c;
    }
    words[(u64)tile * DIGITS + d] = Word<Offset>::make(tile ? STATE_TILE : STATE_ALL, (Offset)count);
  }
  u32 total, at = block_prefix(count, warp_sums, total);
  if (d < DIGITS) start[d] = at;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 e = mine + k * WARP < valid ? digit(Key::of(x[k], down != 0), pass) : DIGITS - 1;
    rank[k] += counts[warp][e] + start[e];
  }
  __syncthreads();

  // Bring the tile in order, while some threads ask the tiles before.
#pragma unroll
  for (int k = 0; k < ITEMS; k++) ((T*)memory)[rank[k]] = x[k];
  if (d < DIGITS) {
    Offset sum = 0;
    if (tile) {
      for (u64 other = tile - 1;; other--) {
        Offset word;
        do word = words[other * DIGITS + d]; while (Word<Offset>::state(word) == 0);
        sum += Word<Offset>::count(word);
        if (Word<Offset>::state(word) == STATE_ALL) break;
      }
      words[(u64)tile * DIGITS + d] = Word<Offset>::make(STATE_ALL, sum + count);
    }
    place[d] = bins[d] + sum - at;
  }
  __syncthreads();

  u64 to[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    u32 j = threadIdx.x + k * THREADS;
    if (j < valid) {
      T y = ((T*)memory)[j];
      to[k] = place[digit(Key::of(y, down != 0), pass)] + j;
      out[to[k]] = y;
    }
  }
  if (POSITIONS) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      i64 i = first + mine + k * WARP;
      if (i < n) ((Index*)memory)[rank[k]] = at_in ? at_in[i] : (Index)i;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      u32 j = threadIdx.x + k * THREADS;
      if (j < valid) {
        Index p = ((Index*)memory)[j];
        if (at_last) at_last[to[k]] = (i64)p;
        else at_out[to[k]] = p;
      }
    }
  }
}
