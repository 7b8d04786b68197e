// Distinct elements: a hash table of keys (open addressing, linear probing), each with the first position at which it
// occurs. Integers of a small range use a table indexed by value that holds first positions only: it takes a third of
// the time, since it stays in the L2 cache. The slot of a key depends on the order of insertion; its position, the
// smallest, does not.
#pragma once
#define THREADS 256
#include "sort.cuh"

// The most probes for a key: a table that needs more is too full.
#define MOST_PROBES 128

// K is u32 or u64. A key of all ones stands for a missing element, and for a free slot.
template <class K> struct __align__(2 * sizeof(K)) Slot { K key; u32 position; };

// The finalizers of MurmurHash3 (Appleby).
VG_FN u32 hash_of(u32 x) {
  x ^= x >> 16; x *= 0x85ebca6bu; x ^= x >> 13; x *= 0xc2b2ae35u;
  return x ^ x >> 16;
}
VG_FN u32 hash_of(u64 x) {
  x ^= x >> 33; x *= 0xff51afd7ed558ccdull; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ull;
  return (u32)(x ^ x >> 33);
}

// Reads a slot without synchronisation: an outdated value only costs another look.
VG_FN Slot<u32> peek(const Slot<u32>* slot) {
  const u64 both = *(const volatile u64*)slot;
  Slot<u32> seen; seen.key = (u32)both; seen.position = (u32)(both >> 32);
  return seen;
}
VG_FN Slot<u64> peek(const Slot<u64>* slot) {
  Slot<u64> seen; seen.key = *(const volatile u64*)&slot->key; seen.position = *(const volatile u32*)&slot->position;
  return seen;
}

// Inserts a key that occurs at `position` into the first slot from `at` on that is free or has this key.
template <class K> VG_FN void insert(K key, u32 position, u32 at, Slot<K>* slots, u32 mask, u32* full) {
  const K none = (K)~(K)0;
  for (int probe = 0;; probe++) {
    K seen = *(volatile K*)&slots[at].key;
    if (seen == none) {
      seen = atomicCAS(&slots[at].key, none, key);
      if (seen == none) seen = key;
    }
    if (seen == key) {
      if (position < *(volatile u32*)&slots[at].position) atomicMin(&slots[at].position, position);
      return;
    }
    if (probe == MOST_PROBES) {
      *(volatile u32*)full = 1;
      return;
    }
    at = (at + 1) & mask;
  }
}

template <class Key> VG_FN void insert_all(const typename Key::T* __restrict__ in, i64 n, Slot<typename Key::K>* slots,
    u32 mask, u32* full) {
  typedef typename Key::K K;
  const int ahead = 8;
  const K none = (K)~(K)0;
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += ahead * step) {
    if (*(volatile u32*)full) return;
    K key[ahead];
    Slot<K> seen[ahead];
#pragma unroll
    for (int l = 0; l < ahead; l++) key[l] = i + l * step < n ? Key::of(in[i + l * step], 0) : none;
    // Most elements have been seen before: their slots are read together, and nothing else needs to be done.
#pragma unroll
    for (int l = 0; l < ahead; l++) seen[l] = peek(slots + (hash_of(key[l]) & mask));
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const u32 position = (u32)(i + l * step);
      if (key[l] == none || (seen[l].key == key[l] && seen[l].position <= position)) continue;
      insert(key[l], position, hash_of(key[l]) & mask, slots, mask, full);
    }
  }
}

// The first positions of the integers low .. low + bins - 1; missing values are skipped.
template <class T> VG_FN void first_of_each(const T* __restrict__ in, i64 n, i64 low, u32 bins, u32* first) {
  const int ahead = 4;
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += ahead * step) {
    u64 bin[ahead];
    u32 seen[ahead];
#pragma unroll
    for (int l = 0; l < ahead; l++) bin[l] = i + l * step < n ? (u64)(i64)in[i + l * step] - (u64)low : ~0ull;
#pragma unroll
    for (int l = 0; l < ahead; l++) seen[l] = bin[l] < bins ? __ldcg(first + bin[l]) : 0;
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const u32 position = (u32)(i + l * step);
      if (position < seen[l]) atomicMin(first + bin[l], position);
    }
  }
}

// The position in a slot; all ones if it is free
template <class K> VG_FN u32 position_in(const Slot<K>& slot) { return slot.position; }
VG_FN u32 position_in(u32 position) { return position; }

// Counts the occupied slots; with `out`, also stores their positions, in no particular order.
template <class S> VG_FN void collect_positions(const S* __restrict__ slots, u32 size, u32* cursor, i32* out) {
  const u32 step = gridDim.x * THREADS;
  for (u32 row = blockIdx.x * THREADS + (threadIdx.x & ~(WARP - 1)); row < size; row += step) {
    const u32 k = row + lane_id(), position = k < size ? position_in(slots[k]) : ~0u;
    const u32 all = __ballot_sync(ALL_LANES, position != ~0u);
    if (all == 0) continue;
    u32 at = 0;
    if (lane_id() == 0) at = atomicAdd(cursor, (u32)__popc(all));
    at = __shfl_sync(ALL_LANES, at, 0);
    if (out && position != ~0u) out[at + __popc(all & lanes_before())] = (i32)position;
  }
}
