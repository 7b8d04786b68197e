// Distinct elements: a table of keys (open addressing, linear probing), each with the first place where it stands. A key's search begins
// at its hash, or, of whole numbers, at its low digits: those near each other then never meet.
// Where a key comes to lie depends on who comes first; its place, the smallest, does not.
#pragma once
#define THREADS 256
#include "sort.cuh"

// as many slots are tried: a table that needs more is too full
#define MOST_PROBES 128

// K is u32 or u64; no element that is known has the key that is all ones.
template <class K> struct __align__(2 * sizeof(K)) Slot { K key; u32 place; };

// The finalizers of MurmurHash3 (Appleby).
VG_FN u32 hash_of(u32 x) {
  x ^= x >> 16; x *= 0x85ebca6bu; x ^= x >> 13; x *= 0xc2b2ae35u;
  return x ^ x >> 16;
}
VG_FN u32 hash_of(u64 x) {
  x ^= x >> 33; x *= 0xff51afd7ed558ccdull; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ull;
  return (u32)(x ^ x >> 33);
}

// The slots that one reading of memory shows, as some thread has left them: what is older than a slot only costs another look.
template <class K> struct Shown {
  static const u32 SLOTS = 32 / sizeof(Slot<K>);
  union { uint4 words[2]; Slot<K> slots[SLOTS]; };
};
template <class K> VG_FN void look(const Slot<K>* from, Shown<K>& shown) {
  shown.words[0] = __ldcg((const uint4*)from);
  shown.words[1] = __ldcg((const uint4*)from + 1);
}
template <class K> VG_FN bool has(const Shown<K>& shown, K key, u32 place) {
  bool found = false;
#pragma unroll
  for (u32 j = 0; j < Shown<K>::SLOTS; j++) found |= shown.slots[j].key == key && shown.slots[j].place <= place;
  return found;
}

// Puts a key, which stands at `place`, into its slot, the first of those from `at` on that is its own or free.
template <class K> VG_FN void insert(K key, u32 place, u32 at, Slot<K>* slots, u32 mask, u32* full) {
  const K none = (K)~(K)0;
  for (int probe = 0;; probe++) {
    K seen = *(volatile K*)&slots[at].key;
    if (seen == none) {
      seen = atomicCAS(&slots[at].key, none, key);
      if (seen == none) seen = key;
    }
    if (seen == key) {
      if (place < *(volatile u32*)&slots[at].place) atomicMin(&slots[at].place, place);
      return;
    }
    if (probe == MOST_PROBES) {
      *(volatile u32*)full = 1;
      return;
    }
    at = (at + 1) & mask;
  }
}

template <class Key>
VG_FN void insert_all(const typename Key::T* __restrict__ in, i64 n, Slot<typename Key::K>* slots, u32 mask, bool by_digits, u32* full) {
  typedef typename Key::K K;
  const int ahead = 4;
  const K none = (K)~(K)0;
  const i64 step = (i64)gridDim.x * THREADS;
  const u32 begins = mask & ~(Shown<K>::SLOTS - 1);
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += ahead * step) {
    if (*(volatile u32*)full) return;
    K key[ahead];
    u32 at[ahead];
    Shown<K> shown[ahead];
#pragma unroll
    for (int l = 0; l < ahead; l++) key[l] = i + l * step < n ? Key::of(in[i + l * step], 0) : none;
    // most elements have been seen before: where they are looked for is read together, and there is nothing else to do
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      at[l] = (by_digits ? (u32)key[l] : hash_of(key[l])) & begins;
      look(slots + at[l], shown[l]);
    }
#pragma unroll
    for (int l = 0; l < ahead; l++) {
      const u32 place = (u32)(i + l * step);
      if (key[l] != none && !has(shown[l], key[l], place)) insert(key[l], place, at[l], slots, mask, full);
    }
  }
}

// How many keys there are; with `out`, their places in no order.
template <class K> VG_FN void collect_places(const Slot<K>* __restrict__ slots, u32 size, u32* cursor, i32* out) {
  const u32 step = gridDim.x * THREADS;
  for (u32 row = blockIdx.x * THREADS + (threadIdx.x & ~(WARP - 1)); row < size; row += step) {
    const u32 k = row + lane_id();
    const bool is_key = k < size && slots[k].key != (K)~(K)0;
    const u32 all = __ballot_sync(ALL_LANES, is_key);
    if (all == 0) continue;
    u32 at = 0;
    if (lane_id() == 0) at = atomicAdd(cursor, (u32)__popc(all));
    at = __shfl_sync(ALL_LANES, at, 0);
    if (out && is_key) out[at + __popc(all & lanes_before())] = (i32)slots[k].place;
  }
}
