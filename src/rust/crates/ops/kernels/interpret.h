// The interpreter: one kernel that executes any elementwise plan, instruction by instruction.
//
// A thread computes V elements at once, so that the cost of decoding an instruction is shared. The last result stays in
// registers, the accumulator; values that are needed later are in slots of shared memory, laid out without bank
// conflicts. The program is a kernel parameter, so all threads branch alike.
//
// The including source (interpret/source.rs) defines
//   VG_CELL   bytes of a cell, which holds one value of any class that this interpreter serves: 4, 8 or 16
//   VG_PACK   elements of a thread
// and passes `interpret` a struct with the instructions. `interpret/encode.rs` writes programs.
//
// The C++ compiler compiles it too, with blocks of one thread, so that tests can run programs without a GPU.
#pragma once
#include "prelude.h"

#ifdef VG_DEVICE
#define VG_THREADS 64
#define VG_SYNC __syncthreads()
// Always inline, so that the compiler knows which addresses are in shared memory and which are parameters
#define VG_STEP static __device__ __forceinline__
#else
#define VG_THREADS 1
#define VG_SYNC
#define VG_STEP static inline
#endif

constexpr int V = VG_PACK;
constexpr int G = 16 / VG_CELL;  // adjacent elements that a thread moves together: a unit, 16 bytes of cells
constexpr int U = V / G;         // units of a thread, G * VG_THREADS elements apart
struct alignas(16) Unit { u32 w[4]; };

// ---- programs ---------------------------------------------------------------------------------------
struct Program {
  i64 n;
  u32* flags;      // flag words for warnings, or null
  u32* any;        // host word that is set if a flag is new
  u32 count;       // number of instructions, the first words
  u32 scalars;     // number of scalars
  u32 scalar_at;   // index of the first scalar in `words`
  u32 slots;       // number of slots; the scalars follow the slots in shared memory
  u32 scratch;     // the slot through which the accumulator is accessed by index
  u32 unused;
  u64 words[506];  // instructions, inputs, outputs, scalars
};
static_assert(sizeof(Program) == 4096, "a kernel's parameters have at most 4 KB");

// An operand is the number of a slot, or one of these:
#define NONE 126u
#define ACC 127u
#define SCALAR 128u  // and above: scalar o - SCALAR
#define NOWHERE 0xFFFFu

// ---- cells ------------------------------------------------------------------------------------------
template <class T> struct As;
#if VG_CELL == 4
typedef u32 Cell;
VG_STEP Cell cell(i32 x) { return (u32)x; }
VG_STEP Cell cell(f32 x) { return bits_of(x); }
template <> struct As<i32> { VG_STEP i32 of(Cell c) { return (i32)c; } };
template <> struct As<f32> { VG_STEP f32 of(Cell c) { return f32_of_bits(c); } };
#elif VG_CELL == 8
typedef u64 Cell;
VG_STEP Cell cell(i32 x) { return (u64)(u32)x; }
VG_STEP Cell cell(f32 x) { return (u64)bits_of(x); }
VG_STEP Cell cell(i64 x) { return (u64)x; }
VG_STEP Cell cell(f64 x) { return bits_of(x); }
template <> struct As<i32> { VG_STEP i32 of(Cell c) { return (i32)(u32)c; } };
template <> struct As<f32> { VG_STEP f32 of(Cell c) { return f32_of_bits((u32)c); } };
template <> struct As<i64> { VG_STEP i64 of(Cell c) { return (i64)c; } };
template <> struct As<f64> { VG_STEP f64 of(Cell c) { return f64_of_bits(c); } };
#else
struct alignas(16) Cell { u64 low, high; };
VG_STEP Cell cell(u64 low, u64 high) { Cell c; c.low = low; c.high = high; return c; }
VG_STEP Cell cell(i32 x) { return cell((u64)(u32)x, 0); }
VG_STEP Cell cell(f32 x) { return cell((u64)bits_of(x), 0); }
VG_STEP Cell cell(i64 x) { return cell((u64)x, 0); }
VG_STEP Cell cell(f64 x) { return cell(bits_of(x), 0); }
VG_STEP Cell cell(c64 x) { return cell((u64)bits_of(x.im) << 32 | bits_of(x.re), 0); }
VG_STEP Cell cell(c128 x) { return cell(bits_of(x.re), bits_of(x.im)); }
template <> struct As<i32> { VG_STEP i32 of(Cell c) { return (i32)(u32)c.low; } };
template <> struct As<f32> { VG_STEP f32 of(Cell c) { return f32_of_bits((u32)c.low); } };
template <> struct As<i64> { VG_STEP i64 of(Cell c) { return (i64)c.low; } };
template <> struct As<f64> { VG_STEP f64 of(Cell c) { return f64_of_bits(c.low); } };
template <> struct As<c64> { VG_STEP c64 of(Cell c) { c64 z; z.re = f32_of_bits((u32)c.low); z.im = f32_of_bits((u32)(c.low >> 32)); return z; } };
template <> struct As<c128> { VG_STEP c128 of(Cell c) { c128 z; z.re = f64_of_bits(c.low); z.im = f64_of_bits(c.high); return z; } };
#endif

// ---- a thread ---------------------------------------------------------------------------------------
struct Thread {
  Unit* mine;       // this thread's unit 0 of slot 0
  Unit* constants;  // the scalars
  i64 first;        // the thread's first element
  // the plan's last element, computed in place of elements past the end, so that these raise no warning of their own
  i64 last;
  u32 scratch;
  bool whole;       // whether no element of the block is past the end
};

VG_STEP i64 index_of(const Thread& t, int k) { return t.first + (i64)(k / G) * (VG_THREADS * G) + k % G; }
VG_STEP i64 within(const Thread& t, int k) { i64 i = index_of(t, k); return i < t.last ? i : t.last; }

// Copy the V values of an operand to registers (fetch), or registers to a slot (keep).
VG_STEP void fetch(const Thread& t, u32 operand, Cell (&x)[V]) {
  if (operand >= SCALAR) {
    const Cell c = *(const Cell*)(t.constants + (operand - SCALAR));
#pragma unroll
    for (int k = 0; k < V; k++) x[k] = c;
  } else {
    const Unit* s = t.mine + operand * (u32)(U * VG_THREADS);
#pragma unroll
    for (int u = 0; u < U; u++) {
      const Unit q = s[u * VG_THREADS];
      memcpy(&x[u * G], &q, 16);
    }
  }
}
VG_STEP void keep(const Thread& t, u32 slot, const Cell (&x)[V]) {
  Unit* s = t.mine + slot * (u32)(U * VG_THREADS);
#pragma unroll
  for (int u = 0; u < U; u++) {
    Unit q;
    memcpy(&q, &x[u * G], 16);
    s[u * VG_THREADS] = q;
  }
}

// Access to single values of an operand by index, for code that is too long to be unrolled over the elements.
struct Operand { const unsigned char* at; u32 unit, cell; };
VG_STEP Operand operand_of(const Thread& t, u32 operand) {
  Operand p;
  const bool scalar = operand >= SCALAR;
  const u32 slot = operand == ACC ? t.scratch : operand == NONE ? 0u : operand;
  p.at = scalar ? (const unsigned char*)(t.constants + (operand - SCALAR))
                : (const unsigned char*)(t.mine + slot * (u32)(U * VG_THREADS));
  p.unit = scalar ? 0u : VG_THREADS * 16u;
  p.cell = scalar ? 0u : (u32)VG_CELL;
  return p;
}
template <class T> VG_STEP T read(const Operand& p, int k) {
  return As<T>::of(*(const Cell*)(p.at + (u32)(k / G) * p.unit + (u32)(k % G) * p.cell));
}
VG_STEP void write(const Thread& t, int k, Cell c) {
  Unit* s = t.mine + t.scratch * (u32)(U * VG_THREADS) + (k / G) * VG_THREADS;
  *(Cell*)((unsigned char*)s + (k % G) * VG_CELL) = c;
}

// ---- memory -----------------------------------------------------------------------------------------
template <int BYTES> struct Wide;
template <> struct Wide<16> { typedef Unit type; };
template <> struct Wide<8> { typedef u64 type; };
template <> struct Wide<4> { typedef u32 type; };
template <> struct Wide<2> { typedef u16 type; };
template <> struct Wide<1> { typedef u8 type; };

// Move the G adjacent elements of a unit. If elements are smaller than cells, this is less than 16 bytes.
template <class S> VG_STEP void read_unit(const S* p, S* x) {
  typedef typename Wide<G * sizeof(S)>::type W;
  const W w = *(const W*)p;
  memcpy(x, &w, G * sizeof(S));
}
template <class S> VG_STEP void write_unit(S* p, const S* x) {
  typedef typename Wide<G * sizeof(S)>::type W;
  W w;
  memcpy(&w, x, G * sizeof(S));
  *(W*)p = w;
}

// The words of an input: address; access | rank << 8 | packed << 16; for RECYCLED a divisor; for STRIDED a divisor and
// a stride for each axis. The words of an output: address; packed << 16.
#define LINEAR 0u
#define BROADCAST 1u
#define RECYCLED 2u
#define STRIDED 3u
// For PICKED the third word is the input's length; positions come from an operand.
#define PICKED 4u

// x / d for x below 2^63, by a divisor that the host has prepared (Granlund and Montgomery 1994).
VG_STEP i64 divide(i64 x, const u64* divisor) {
#ifdef VG_DEVICE
  return (i64)(__umul64hi((u64)x, divisor[1]) >> divisor[2]);
#else
  return (i64)((u64)((unsigned __int128)(u64)x * divisor[1] >> 64) >> divisor[2]);
#endif
}

// The offset in an input of element `i` of the result.
VG_STEP i64 element(const u64* input, i64 i) {
  const u32 access = (u32)input[1] & 0xFFu, rank = (u32)input[1] >> 8 & 0xFFu;
  if (access == LINEAR) return i;
  if (access == BROADCAST) return 0;
  if (access == RECYCLED) return i - divide(i, input + 2) * (i64)input[2];
  i64 at = 0;
#pragma unroll 1
  for (u32 axis = 0; axis + 1 < rank; axis++) {
    const u64* a = input + 2 + 4 * axis;
    const i64 q = divide(i, a);
    at += (i - q * (i64)a[0]) * (i64)a[3];
    i = q;
  }
  return at + i * (i64)input[2 + 4 * (rank - 1) + 3];
}

// Loads whole units. False in the last block and if units are not aligned: elements are then loaded one by one, by
// index.
template <class D> VG_STEP bool load_linear(const Thread& t, const u64* input, Cell (&x)[V]) {
  typedef typename D::Stored S;
  const S* p = (const S*)input[0];
  if (t.whole && (input[1] >> 16 & 1u)) {
    S s[V];
#pragma unroll
    for (int u = 0; u < U; u++) read_unit(p + t.first + u * (VG_THREADS * G), s + u * G);
#pragma unroll
    for (int k = 0; k < V; k++) x[k] = cell(D::load(s, k));
    return true;
  }
  return false;
}
// Loads the elements of a unit at these offsets into the scratch slot.
template <class D> VG_STEP void load_indexed(const Thread& t, const u64* input, int u, const i64 (&at)[G]) {
  const typename D::Stored* p = (const typename D::Stored*)input[0];
  Cell x[G];
#pragma unroll
  for (int g = 0; g < G; g++) x[g] = cell(D::load(p, at[g]));
  Unit q;
  memcpy(&q, x, 16);
  t.mine[(t.scratch * U + u) * VG_THREADS] = q;
}
#if VG_CELL >= 8
// Loads the elements at computed positions into the scratch slot.
template <class D> VG_STEP void load_picked(const Thread& t, const u64* input, const Operand& at) {
  const typename D::Stored* p = (const typename D::Stored*)input[0];
  Cell x[V];
#pragma unroll
  for (int k = 0; k < V; k++) x[k] = cell(D::pick(p, (i64)input[2], read<i64>(at, k)));
  keep(t, t.scratch, x);
}
#endif
template <class D> VG_STEP void store(const Thread& t, i64 n, const u64* output, const Cell (&x)[V]) {
  typedef typename D::Stored S;
  S* p = (S*)output[0];
  if (t.whole && (output[1] >> 16 & 1u)) {
    S s[V];
#pragma unroll
    for (int k = 0; k < V; k++) D::store(s, k, As<typename D::Value>::of(x[k]));
#pragma unroll
    for (int u = 0; u < U; u++) write_unit(p + t.first + u * (VG_THREADS * G), s + u * G);
  } else {
    keep(t, t.scratch, x);
    const Operand from = operand_of(t, ACC);
#pragma unroll 1
    for (int k = 0; k < V; k++) {
      const i64 i = index_of(t, k);
      if (i < n) D::store(p, i, read<typename D::Value>(from, k));
    }
  }
}

// Like note_flags in launch.cuh, for the bits of one instruction.
VG_STEP void note(const Program& p, u32 where, u32 w) {
  if (p.flags == nullptr) return;
  u32* at = p.flags + (where >> 5);
  w <<= where & 31u;
#ifdef VG_DEVICE
  if ((w & ~*(volatile u32*)at) == 0u) return;
  if (w & ~atomicOr(at, w)) *(volatile u32*)p.any = 1u;
#else
  *at |= w;
  *p.any = 1u;
#endif
}

// ---- the loop ---------------------------------------------------------------------------------------
// I provides FIRST_INDEXED, the first instruction code that accesses operands and result by index, and two switches
// over instructions, run() and run_indexed(). run() returns false for a load that needs run_indexed().
template <class I> VG_STEP void interpret(const Program& p, Unit* shared, i64 block, u32 thread) {
  Thread t;
  t.mine = shared + thread;
  t.constants = shared + p.slots * (u32)(U * VG_THREADS);
  t.first = block * (i64)(VG_THREADS * V) + (i64)(thread * G);
  t.last = p.n - 1;
  t.scratch = p.scratch;
  t.whole = (block + 1) * (i64)(VG_THREADS * V) <= p.n;
  constexpr int words = VG_CELL == 16 ? 2 : 1;
  for (u32 j = thread; j < p.scalars; j += VG_THREADS) {
    u64* c = (u64*)(t.constants + j);
    c[0] = p.words[p.scalar_at + words * j];
    c[1] = words == 2 ? p.words[p.scalar_at + words * j + 1] : 0;
  }
  VG_SYNC;
  Cell acc[V] = {}, b[V] = {};
#pragma unroll 1
  for (u32 at = 0; at < p.count; at++) {
    const u64 word = p.words[at];
    const u32 code = (u32)word & 0xFFFFu, result = (u32)(word >> 16) & 0xFFu, more = (u32)(word >> 48);
    const u32 first = (u32)(word >> 24) & 0xFFu, second = (u32)(word >> 32) & 0xFFu, third = (u32)(word >> 40) & 0xFFu;
    u32 w = 0;
    bool done = false;
    if (code < I::FIRST_INDEXED) {
      if (second == ACC) {
#pragma unroll
        for (int k = 0; k < V; k++) b[k] = acc[k];
      } else if (second != NONE) {
        fetch(t, second, b);
      }
      if (first < NONE || first >= SCALAR) fetch(t, first, acc);
      done = I::run(p, t, code, third, more, acc, b, w);
    }
    if (!done) {
      keep(t, t.scratch, acc);
      I::run_indexed(p, t, code, operand_of(t, first), operand_of(t, second), operand_of(t, third), third, more, w);
      fetch(t, t.scratch, acc);
    }
    if (result != NONE) keep(t, result, acc);
    if (w != 0u && more != NOWHERE) note(p, more, w);
  }
}
