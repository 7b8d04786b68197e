// Gathering, scattering, and the positions where a mask is TRUE.
//
// Elements are moved by their bytes, so one instance serves all types of a size.
#pragma once
#include "block.cuh"

struct __align__(16) b16 { u64 low, high; };

#define FIRST_THREAD ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define ALL_THREADS ((i64)gridDim.x * blockDim.x)

// ---- gather -----------------------------------------------------------------------------------------
// out[k] = source[at[k]], or `na` where that is outside. Four loads are on the way at once.
template <class T> VG_FN void gather(const T* __restrict__ source, i64 m, const i64* __restrict__ at, i64 n, T na, T* __restrict__ out) {
  for (i64 first = FIRST_THREAD; first < n; first += 4 * ALL_THREADS) {
    i64 p[4];
    T x[4];
#pragma unroll
    for (int l = 0; l < 4; l++) {
      i64 k = first + l * ALL_THREADS;
      p[l] = k < n ? at[k] : -1;
    }
#pragma unroll
    for (int l = 0; l < 4; l++) x[l] = (u64)p[l] < (u64)m ? source[p[l]] : na;
#pragma unroll
    for (int l = 0; l < 4; l++) {
      i64 k = first + l * ALL_THREADS;
      if (k < n) out[k] = x[l];
    }
  }
}

// ---- scatter ----------------------------------------------------------------------------------------
// Of equal positions the last wins. Where positions rise strictly (they come from which() then) there
// are no equal ones, and one pass writes. Else each position is claimed by its greatest k first. Whether they
// rise is decided on the device: `equal` is 0 until a fall is seen, and the passes for claims look at it.
VG_FN void scatter_check(const i64* __restrict__ at, i64 count, u32* equal) {
  bool falls = false;
  for (i64 k = FIRST_THREAD; k + 1 < count; k += ALL_THREADS) falls |= at[k + 1] <= at[k];
  if (__any_sync(ALL_LANES, falls) && lane_id() == 0) *equal = 1;
}
template <class W> VG_FN void scatter_clear(W* __restrict__ winner, i64 n, const u32* equal) {
  if (!*equal) return;
  for (i64 i = FIRST_THREAD; i < n; i += ALL_THREADS) winner[i] = 0;
}
template <class W> VG_FN void scatter_claim(const i64* __restrict__ at, i64 count, W* winner, i64 n, const u32* equal) {
  if (!*equal) return;
  for (i64 k = FIRST_THREAD; k < count; k += ALL_THREADS) {
    i64 p = at[k];
    if ((u64)p < (u64)n) atomicMax(winner + p, (W)(k + 1));
  }
}
// `winner` is null where nothing needs to be claimed: one value for all.
template <class T, class W> VG_FN void scatter_write(T* __restrict__ target, i64 n, const i64* __restrict__ at, i64 count,
                                                    const T* __restrict__ values, i64 length, const W* __restrict__ winner, const u32* equal) {
  bool claimed = winner && *equal;
  for (i64 k = FIRST_THREAD; k < count; k += ALL_THREADS) {
    i64 p = at[k];
    if ((u64)p >= (u64)n || (claimed && winner[p] != (W)(k + 1))) continue;
    target[p] = values[k < length ? k : k % length];
  }
}

// ---- positions --------------------------------------------------------------------------------------
// A tile is 256 threads of 16 bytes. One kernel counts, one sums the counts of the tiles, one writes.
#define TILE_THREADS 256
#define TILE_BYTES (TILE_THREADS * 16)

// The thread's 16 bytes of a tile; bytes past the end are FALSE.
VG_FN void load_mask(const u8* __restrict__ mask, i64 n, i64 first, u32 (&word)[4]) {
  if (first + 16 <= n && ((u64)(mask + first) & 15) == 0) {
    uint4 x = *(const uint4*)(mask + first);
    word[0] = x.x; word[1] = x.y; word[2] = x.z; word[3] = x.w;
    return;
  }
  for (int w = 0; w < 4; w++) {
    word[w] = 0;
    for (int b = 0; b < 4; b++) {
      i64 k = first + 4 * w + b;
      if (k < n) word[w] |= (u32)mask[k] << (8 * b);
    }
  }
}
// 0x01 in each byte that gives a position: TRUE is 1, NA is anything above.
VG_FN u32 chosen(u32 word, bool keep_na) {
  u32 one = __vcmpeq4(word, 0x01010101u), more = keep_na ? __vcmpgtu4(word, 0x01010101u) : 0u;
  return (one | more) & 0x01010101u;
}
VG_FN u32 count_chosen(const u32 (&word)[4], bool keep_na) {
  u32 count = 0;
  for (int w = 0; w < 4; w++) count += __popc(chosen(word[w], keep_na));
  return count;
}
VG_FN void positions_count(const u8* __restrict__ mask, i64 n, u32 keep_na, u64* __restrict__ counts) {
  __shared__ u32 warps[TILE_THREADS / WARP];
  u32 word[4], total;
  load_mask(mask, n, (i64)blockIdx.x * TILE_BYTES + threadIdx.x * 16, word);
  block_prefix(count_chosen(word, keep_na != 0), warps, total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}
// One block: counts become the sums of those before them.
VG_FN void positions_scan(u64* __restrict__ counts, i64 tiles, u64* __restrict__ total) {
  __shared__ u64 warps[WARP];
  u64 before = 0;
  for (i64 first = 0; first < tiles; first += blockDim.x) {
    i64 k = first + threadIdx.x;
    u64 sum, x = k < tiles ? counts[k] : 0;
    u64 prefix = block_prefix(x, warps, sum);
    if (k < tiles) counts[k] = before + prefix;
    before += sum;
  }
  if (threadIdx.x == 0) *total = before;
}
// Positions within the tile are collected in order and written together.
VG_FN void positions_write(const u8* __restrict__ mask, i64 n, u32 keep_na, const u64* __restrict__ starts, i64* __restrict__ out) {
  __shared__ u32 warps[TILE_THREADS / WARP];
  __shared__ u16 places[TILE_BYTES];
  const u16 na = 0x8000;
  u32 word[4], total;
  i64 tile = (i64)blockIdx.x * TILE_BYTES;
  load_mask(mask, n, tile + threadIdx.x * 16, word);
  u32 k = block_prefix(count_chosen(word, keep_na != 0), warps, total);
  for (int w = 0; w < 4; w++) {
    u32 here = chosen(word[w], keep_na != 0);
    while (here) {
      u32 byte = (u32)__ffs(here) / 8;
      here &= here - 1;
      u32 place = threadIdx.x * 16 + 4 * w + byte;
      places[k++] = (u16)(place | (((word[w] >> (8 * byte)) & 0xFF) == 1 ? 0 : na));
    }
  }
  __syncthreads();
  i64* __restrict__ to = out + starts[blockIdx.x];
  for (u32 j = threadIdx.x; j < total; j += TILE_THREADS) to[j] = places[j] & na ? -1 : tile + places[j];
}
