// A stable radix sort from the least significant digit, 8 bits a pass, one read of the data a pass (Adinets and Merrill
// 2022, "Onesweep"): a tile gets its offsets from earlier tiles while they run, so no counting pass is needed.
//
// The elements themselves are moved, bits unchanged; each pass computes their digits from them. So 0 and -0, and NA and
// NaN, stay distinct in the output although they compare equal.
#pragma once
#include "block.cuh"

#define DIGITS 256
#define WARPS (THREADS / WARP)  // the including source defines THREADS

// ---- keys ---------------------------------------------------------------------------------------------
// A key is unsigned and increases in the wanted order. Missing values have the greatest key, which no other value has.
// T is the stored type, K the type of the key; `flip` is all ones for a decreasing order, else 0. `last` is an element
// with the greatest key. `key_type` in ops/sort.rs maps dtypes to these structs.
template <class K> VG_FN K top_bit() { return (K)((K)1 << (8 * sizeof(K) - 1)); }

struct BoolKey {
  typedef u8 T;
  typedef u8 K;
  VG_FN u8 of(u8 x, u8 flip) { return x > 1 ? 255 : (x ^ flip) & 1; }
  VG_FN u8 last(u8) { return 2; }
};
// no value is missing
template <class Bits> struct UIntKey {
  typedef Bits T;
  typedef Bits K;
  VG_FN K of(T x, K flip) { return x ^ flip; }
  VG_FN T last(K flip) { return (T)~flip; }
};
template <class Bits> struct IntKey {
  typedef Bits T;
  typedef Bits K;
  // NA, the smallest value, becomes 0 and then the greatest, by wraparound or by the flip.
  VG_FN K of(T x, K flip) { return (K)((K)(x ^ top_bit<K>() ^ flip) - (K)(1 & ~flip)); }
  VG_FN T last(K) { return top_bit<K>(); }
};
template <class Bits, Bits infinity> struct FloatKey {
  typedef Bits T;
  typedef Bits K;
  VG_FN K of(T x, K flip) {
    const K top = top_bit<K>(), size = (K)(x & (K)~top);
    K up = (K)(x & top ? ~x : x | top);
    up = size == 0 ? top : up;
    return size > infinity ? (K)~(K)0 : (K)(up ^ flip);
  }
  VG_FN T last(K) { return (T)~(T)0; }
};

template <class K> VG_FN u32 digit(K key, u32 pass) { return (u32)(key >> (8 * pass)) & (DIGITS - 1); }

// ---- histograms of the digits, for all passes in one read --------------------------------------------------
// Each warp counts in its own copy, so that equal digits rarely contend. A digit that all elements of a warp share is
// counted once, which is common for exponents and for the low bits of rounded values. Behind the counts of all passes,
// `bins` has a byte for each pass (zero before) that is set if all elements have the same digit.
template <class Key> VG_FN void sort_count(const typename Key::T* __restrict__ in, i64 n, u32 down, u64* bins) {
  typedef typename Key::K K;
  const int passes = sizeof(K), copies = passes > 4 ? 4 : 8, ahead = 8;
  __shared__ u32 counts[passes][DIGITS][copies];
  for (u32 k = threadIdx.x; k < passes * copies * DIGITS; k += THREADS) (&counts[0][0][0])[k] = 0;
  __syncthreads();
  const K flip = down ? (K)~(K)0 : (K)0;
  const u32 copy = threadIdx.x & (copies - 1);
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 row = (i64)blockIdx.x * THREADS + (threadIdx.x & ~(WARP - 1)); row < n; row += ahead * step) {
    const i64 i = row + lane_id();
    if (row + (ahead - 1) * step + WARP <= n) {
      K key[ahead], differ = 0;
#pragma unroll
      for (int l = 0; l < ahead; l++) key[l] = Key::of(in[i + l * step], flip);
      const K one = (K)__shfl_sync(ALL_LANES, sizeof(K) < 4 ? (u32)key[0] : key[0], 0);
#pragma unroll
      for (int l = 0; l < ahead; l++) differ |= (K)(key[l] ^ one);
#pragma unroll
      for (int pass = 0; pass < passes; pass++) {
        if (__all_sync(ALL_LANES, digit(differ, pass) == 0)) {
          if (lane_id() == 0) atomicAdd(&counts[pass][digit(one, pass)][(threadIdx.x / WARP) & (copies - 1)],
              (u32)(ahead * WARP));
        } else {
#pragma unroll
          for (int l = 0; l < ahead; l++) atomicAdd(&counts[pass][digit(key[l], pass)][copy], 1u);
        }
      }
    } else {
      for (int l = 0; l < ahead; l++) {
        if (i + l * step >= n) break;
        const K key = Key::of(in[i + l * step], flip);
        for (int pass = 0; pass < passes; pass++) atomicAdd(&counts[pass][digit(key, pass)][copy], 1u);
      }
    }
  }
  __syncthreads();
  for (u32 k = threadIdx.x; k < passes * DIGITS; k += THREADS) {
    u64 sum = 0;
    for (int c = 0; c < copies; c++) sum += (&counts[0][0][0])[k * copies + c];
    if (sum) atomicAdd(bins + k, sum);
  }
}
// One block per pass: replaces counts by the position of each digit's first element.
VG_FN void sort_scan(u64* bins, u64 n) {
  __shared__ u64 warps[DIGITS / WARP];
  u64 total, *bin = bins + (u64)blockIdx.x * DIGITS + threadIdx.x;
  if (*bin == n) ((u8*)(bins + (u64)gridDim.x * DIGITS))[blockIdx.x] = 1;
  *bin = block_prefix(*bin, warps, total);
}

// ---- a pass -------------------------------------------------------------------------------------------
// `words` holds the state of every tile and digit: nothing, the tile's own count, or the count of all tiles up to it.
// State and count are one word, so no fence is needed between them. Offset is u32 below 2^30 elements, else u64; Index
// is the type of the positions that are sorted along.
template <class Offset> struct Word {
  static const int shift = 8 * sizeof(Offset) - 2;
  VG_FN Offset make(u32 state, Offset count) { return ((Offset)state << shift) | count; }
  VG_FN u32 state(Offset word) { return (u32)(word >> shift); }
  VG_FN Offset count(Offset word) { return word & (((Offset)1 << shift) - 1); }
};
#define STATE_TILE 1u
#define STATE_ALL 2u

// The lanes with the same digit: those that agree with this one in every bit.
VG_FN u32 same_digit(u32 d) {
  u32 same = ALL_LANES;
#pragma unroll
  for (int bit = 0; bit < 8; bit++) {
    u32 with;
    asm("{ .reg .pred p; .reg .b32 t; and.b32 t, %1, %2; setp.ne.u32 p, t, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; @!p not.b32 %0, %0; }"
        : "=r"(with) : "r"(d), "r"(1u << bit));
    same &= with;
  }
  return same;
}

// The rank of a pass among the passes that move elements. A digit that all elements share needs no pass; if all digits
// are shared, the last pass still copies.
struct Turn { u32 before, count; };
VG_FN Turn turn_of(u64 shared, u32 pass, u32 passes) {
  Turn t;
  t.count = passes - (u32)__popcll(shared);
  t.before = pass - (u32)__popcll(shared & (((u64)1 << (8 * pass)) - 1));
  if (t.count == 0) { t.count = pass == passes - 1; t.before = 0; return t; }
  if (shared >> (8 * pass) & 1) t.count = 0;
  return t;
}

// The memory that passes read and write. They write alternately to `out` and `spare`, so that the last one writes to
// the result; positions likewise.
template <class T, class Index> struct Buffers {
  const T* in;
  T *out, *spare;
  Index *positions, *spare_positions;
};
template <class Key, int ITEMS, bool POSITIONS, class Index, class Offset>
VG_FN void sort_pass(const Buffers<typename Key::T, Index>& memory_of, i64 n, u32 down, u32 pass,
    const u64* __restrict__ all_bins,
                     volatile Offset* words, u32* ticket) {
  typedef typename Key::T T;
  typedef typename Key::K K;
  const u32 tile_items = THREADS * ITEMS;
  const u32 exchange = tile_items * (POSITIONS && sizeof(Index) > sizeof(T) ? sizeof(Index) : sizeof(T));
  const u32 ranking = WARPS * DIGITS * 4;
  __shared__ __align__(16) char memory[exchange > ranking ? exchange : ranking];
  // output position of the digit's first element of this tile, minus its position in the tile
  __shared__ Offset start[DIGITS];
  __shared__ u32 warp_sums[WARPS];
  __shared__ u32 my_tile;
  const Turn turn = turn_of(all_bins[sizeof(K) * DIGITS], pass, (u32)sizeof(K));
  if (turn.count == 0) return;
  const u64* const bins = all_bins + pass * DIGITS;
  const u32 left = turn.count - 1 - turn.before;
  const T* const in = turn.before == 0 ? memory_of.in : left & 1 ? memory_of.out : memory_of.spare;
  T* const out = left & 1 ? memory_of.spare : memory_of.out;
  u32 (*counts)[DIGITS] = (u32 (*)[DIGITS])memory;

  // Tiles are numbered as they start: earlier ones are running already, so waiting for them ends.
  if (threadIdx.x == 0) my_tile = atomicAdd(ticket, 1u);
  for (u32 k = threadIdx.x; k < WARPS * DIGITS; k += THREADS) (&counts[0][0])[k] = 0;
  __syncthreads();
  const u32 tile = my_tile, warp = threadIdx.x / WARP;
  const i64 first = (i64)tile * tile_items;
  const u32 valid = n - first < (i64)tile_items ? (u32)(n - first) : tile_items;
  const K flip = down ? (K)~(K)0 : (K)0;
  const u32 shift = 8 * pass;

  // Rank within the warp. Positions past the end hold elements with the greatest key, which rank last and are not
  // written.
  const T* from = in + first;
  T x[ITEMS];
  u32 rank[ITEMS];  // with the digit in the low byte
  const u32 mine = warp * WARP * ITEMS + lane_id();
  if (valid == tile_items) {
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = from[mine + k * WARP];
  } else {
#pragma unroll
    for (int k = 0; k < ITEMS; k++) x[k] = mine + k * WARP < valid ? from[mine + k * WARP] : Key::last(flip);
  }
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    const u32 d = (u32)(Key::of(x[k], flip) >> shift) & (DIGITS - 1);
    const u32 same = same_digit(d), before = __popc(same & lanes_before());
    const u32 seen = counts[warp][d];
    __syncwarp();
    if (before == 0) counts[warp][d] = seen + __popc(same);
    __syncwarp();
    rank[k] = (seen + before) << 8 | d;
  }
  __syncthreads();

  // The tile's count is published at once; then the warps' counts become positions in the sorted tile.
  const u32 d = threadIdx.x;
  u32 count = 0;
  if (d < DIGITS) {
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) count += counts[w][d];
    words[(u64)tile * DIGITS + d] = Word<Offset>::make(tile ? STATE_TILE : STATE_ALL, (Offset)count);
  }
  u32 total, at = block_prefix(count, warp_sums, total);
  if (d < DIGITS) {
    u32 next = at;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) {
      const u32 c = counts[w][d];
      counts[w][d] = next;
      next += c;
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) rank[k] = (rank[k] >> 8) + counts[warp][rank[k] & (DIGITS - 1)];
  __syncthreads();

  // Bring the tile in order, while some threads look back at earlier tiles.
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
    start[d] = (Offset)bins[d] + sum - at;
  }
  __syncthreads();

  Offset to[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {
    const u32 j = threadIdx.x + k * THREADS;
    const T y = ((T*)memory)[j];
    to[k] = start[(u32)(Key::of(y, flip) >> shift) & (DIGITS - 1)] + j;
    if (j < valid) out[to[k]] = y;
  }
  if (POSITIONS) {
    // in the first pass the positions are the elements' indices
    const Index* const at_in = turn.before == 0 ? (const Index*)0 : left & 1 ? memory_of.positions : memory_of.spare_positions;
    Index* const at_out = left & 1 ? memory_of.spare_positions : memory_of.positions;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      const u32 j = mine + k * WARP;
      if (j < valid) ((Index*)memory)[rank[k]] = at_in ? at_in[first + j] : (Index)(first + j);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      const u32 j = threadIdx.x + k * THREADS;
      if (j < valid) at_out[to[k]] = ((Index*)memory)[j];
    }
  }
}
