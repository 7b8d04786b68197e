// Helpers of all generated kernels: packs of elements, division by precomputed divisors, flags. CUDA only.
#pragma once
#include "prelude.h"

// ---- packs: adjacent elements moved by few wide accesses ------------------------------------------
template <int BYTES> struct Word;
template <> struct Word<16> { typedef uint4 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<1> { typedef u8 type; };

// `p` is aligned to the pack's size, or to 16 bytes if the pack is longer.
template <int V, class T> VG_FN void read_pack(const T* p, T* x) {
  constexpr int bytes = V * sizeof(T), unit = bytes < 16 ? bytes : 16, count = bytes / unit;
  typedef typename Word<unit>::type W;
  W w[count];
#pragma unroll
  for (int c = 0; c < count; c++) w[c] = ((const W*)p)[c];
  memcpy(x, w, bytes);
}
template <int V, class T> VG_FN void write_pack(T* p, const T* x) {
  constexpr int bytes = V * sizeof(T), unit = bytes < 16 ? bytes : 16, count = bytes / unit;
  typedef typename Word<unit>::type W;
  W w[count];
  memcpy(w, x, bytes);
#pragma unroll
  for (int c = 0; c < count; c++) ((W*)p)[c] = w[c];
}

// Keeps earlier loads before this point. To save registers, the compiler would otherwise compute with the first packs
// before it issues the loads of the next, so that loads would not overlap. It moves no load across an event of the
// performance monitor, which is one instruction.
VG_FN void loads_together() { asm volatile("pmevent 0;" ::: "memory"); }

// ---- division by a number that the host has prepared (codegen/parameters.rs) -----------------------
// Granlund and Montgomery 1994; for d >= 2, and x below 2^31 or 2^63.
struct Divisor32 { u32 d, m, s; };
struct Divisor64 { u64 d, m; u32 s; };
VG_FN u32 quotient(u32 x, const Divisor32& v) { return __umulhi(x, v.m) >> v.s; }
VG_FN i64 quotient(i64 x, const Divisor64& v) { return (i64)(__umul64hi((u64)x, v.m) >> v.s); }

// ---- flags --------------------------------------------------------------------------------------
// Ors a thread's bits into the launch's flag words. Most threads find their bits already set. A thread that sets a new
// one tells the host that there are flags to fetch.
template <int N> VG_FN void note_flags(const u32 (&w)[N], u32* flags, u32* any) {
#pragma unroll
  for (int j = 0; j < N; j++) {
    if (w[j] == 0u || flags == nullptr) continue;
    if ((w[j] & ~*(volatile u32*)(flags + j)) == 0u) continue;
    if (w[j] & ~atomicOr(flags + j, w[j])) *(volatile u32*)any = 1u;
  }
}

// ---- moving whole accumulators between threads ----------------------------------------------------
template <class A> VG_FN A shuffle_down(const A& a, int by) {
  constexpr int words = sizeof(A) / 4;
  u32 w[words];
  memcpy(w, &a, sizeof(A));
#pragma unroll
  for (int j = 0; j < words; j++) w[j] = __shfl_down_sync(0xFFFFFFFFu, w[j], by);
  A b;
  memcpy(&b, w, sizeof(A));
  return b;
}
// Reads from the L2 cache, since the L1 cache does not see other blocks' writes
template <class A> VG_FN A read_fresh(const A* p) {
  typedef typename Word<alignof(A) < 8 ? 4 : 8>::type Piece;
  constexpr int pieces = sizeof(A) / sizeof(Piece);
  Piece w[pieces];
#pragma unroll
  for (int j = 0; j < pieces; j++) w[j] = __ldcg((const Piece*)p + j);
  A a;
  memcpy(&a, w, sizeof(A));
  return a;
}
