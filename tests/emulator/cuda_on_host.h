// CUDA C for the host's C++ compiler: declarations that NVRTC has built in. Included before every source that the
// emulated NVRTC compiles. nvrtc.cpp rewrites in the text what a macro cannot express (`__global__`, `__shared__`,
// `__grid_constant__`, inline PTX).
#pragma once
#define __CUDACC_RTC__ 1
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#include "module.h"

typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;

#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict

// ---- vectors ----------------------------------------------------------------------------------------
#define VG_VECTORS(name, T, a2, a4)                                                          \
  struct name##1 { T x; };                                                                   \
  struct alignas(a2) name##2 { T x, y; };                                                    \
  struct name##3 { T x, y, z; };                                                             \
  struct alignas(a4) name##4 { T x, y, z, w; };                                              \
  inline name##1 make_##name##1(T x) { return {x}; }                                         \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                 \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                         \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VG_VECTORS(char, signed char, 2, 4)
VG_VECTORS(uchar, unsigned char, 2, 4)
VG_VECTORS(short, short, 4, 8)
VG_VECTORS(ushort, unsigned short, 4, 8)
VG_VECTORS(int, int, 8, 16)
VG_VECTORS(uint, unsigned, 8, 16)
VG_VECTORS(long, long, 16, 16)
VG_VECTORS(ulong, unsigned long, 16, 16)
VG_VECTORS(longlong, long long, 16, 16)
VG_VECTORS(ulonglong, unsigned long long, 16, 16)
VG_VECTORS(float, float, 8, 16)
VG_VECTORS(double, double, 16, 16)
#undef VG_VECTORS
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// ---- where a thread is ------------------------------------------------------------------------------
#define VG_HIDDEN __attribute__((visibility("hidden")))
extern "C" {
VG_HIDDEN emulator::Index threadIdx, blockIdx, blockDim, gridDim;
VG_HIDDEN const emulator::Host* vg_host;
VG_HIDDEN extern char __start_vg_shared[] __attribute__((weak));
VG_HIDDEN extern char __stop_vg_shared[] __attribute__((weak));
VG_HIDDEN __attribute__((aligned(1024))) char vg_dynamic_shared[emulator::DYNAMIC_SHARED + emulator::CANARY];
}
const int warpSize = 32;

// ---- what threads do together -----------------------------------------------------------------------
// the line, and which use of it
#define VG_SITE (__LINE__ | __COUNTER__ << 18)
#define __syncthreads() ((void)vg_host->barrier(0, VG_SITE))
#define __syncthreads_count(p) ((int)vg_host->barrier((p) != 0, VG_SITE))
#define __syncthreads_or(p) ((int)(vg_host->barrier((p) != 0, VG_SITE) != 0))
#define __syncthreads_and(p) ((int)(vg_host->barrier((p) == 0, VG_SITE) == 0))
#define VG_1ST(a, ...) a
#define __syncwarp(...) ((void)vg_host->together(emulator::SYNC, VG_1ST(__VA_ARGS__ __VA_OPT__(,) 0xFFFFFFFFu), 0, 0, VG_SITE))
#define __activemask() vg_active_is_not_served

inline unsigned vg_lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u; }
template <class T> inline T vg_shuffle(unsigned lanes, T x, unsigned from, int site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  emulator::u64 word = 0;
  __builtin_memcpy(&word, &x, sizeof(T));
  word = vg_host->together(emulator::SHUFFLE, lanes, word, from, site);
  __builtin_memcpy(&x, &word, sizeof(T));
  return x;
}
inline unsigned vg_up(unsigned by, int width) { unsigned l = vg_lane(), w = width;
return (l & (w - 1)) >= by ? l - by : l; }
inline unsigned vg_down(unsigned by, int width) { unsigned l = vg_lane(), w = width;
return (l & (w - 1)) + by < w ? l + by : l; }
inline unsigned vg_across(unsigned by, int width) {
  unsigned l = vg_lane(), to = l ^ by;
  return to / width <= l / width ? to : l;
}
inline unsigned vg_at(int from, int width) {
    return (vg_lane() & ~(unsigned)(width - 1)) | ((unsigned)from & (width - 1)); }
#define VG_WIDTH(...) VG_1ST(__VA_ARGS__ __VA_OPT__(,) 32)
#define __shfl_sync(m, x, from, ...) vg_shuffle(m, x, vg_at(from, VG_WIDTH(__VA_ARGS__)), VG_SITE)
#define __shfl_up_sync(m, x, by, ...) vg_shuffle(m, x, vg_up(by, VG_WIDTH(__VA_ARGS__)), VG_SITE)
#define __shfl_down_sync(m, x, by, ...) vg_shuffle(m, x, vg_down(by, VG_WIDTH(__VA_ARGS__)), VG_SITE)
#define __shfl_xor_sync(m, x, by, ...) vg_shuffle(m, x, vg_across(by, VG_WIDTH(__VA_ARGS__)), VG_SITE)
#define VG_BALLOT(m, p, site) ((unsigned)vg_host->together(emulator::BALLOT, m, (p) != 0, 0, site))
#define __ballot_sync(m, p) VG_BALLOT(m, p, VG_SITE)
#define __any_sync(m, p) ((int)(VG_BALLOT(m, p, VG_SITE) != 0))
#define __all_sync(m, p) ((int)(VG_BALLOT(m, !(p), VG_SITE) == 0))
template <class T> inline unsigned vg_match(unsigned lanes, T x, int site) {
  emulator::u64 word = 0;
  __builtin_memcpy(&word, &x, sizeof(T));
  return (unsigned)vg_host->together(emulator::MATCH, lanes, word, 0, site);
}
#define __match_any_sync(m, x) vg_match(m, x, VG_SITE)

inline void __threadfence() { __sync_synchronize(); }
inline void __threadfence_block() { __sync_synchronize(); }
inline void __threadfence_system() { __sync_synchronize(); }
inline void __nanosleep(unsigned) {}
inline void __trap() { vg_host->trap(); }
inline long long clock64() { return (long long)vg_host->clock(); }
inline unsigned __isShared(const void*) { return 0; }

// ---- atomics: kernels run one after the other, and a thread until it waits --------------------------
#define VG_ATOMIC(name, T, expression)                        \
  inline T name(T* p, T x) { T old = *(volatile T*)p; *(volatile T*)p = (expression); return old; }
#define VG_ATOMICS(T)                                         \
  VG_ATOMIC(atomicAdd, T, (T)(old + x))                       \
  VG_ATOMIC(atomicExch, T, x)
#define VG_INTEGER_ATOMICS(T)                                 \
  VG_ATOMICS(T)                                               \
  VG_ATOMIC(atomicMax, T, old > x ? old : x)                  \
  VG_ATOMIC(atomicMin, T, old < x ? old : x)                  \
  VG_ATOMIC(atomicAnd, T, old & x)                            \
  VG_ATOMIC(atomicOr, T, old | x)                             \
  VG_ATOMIC(atomicXor, T, old ^ x)                            \
  inline T atomicCAS(T* p, T compare, T x) { T old = *(volatile T*)p; if (old == compare) *(volatile T*)p = x; return old; }
VG_INTEGER_ATOMICS(int)
VG_INTEGER_ATOMICS(unsigned)
VG_INTEGER_ATOMICS(long long)
VG_INTEGER_ATOMICS(unsigned long long)
VG_ATOMICS(float)
VG_ATOMICS(double)
inline int atomicSub(int* p, int x) { return atomicAdd(p, -x); }
inline unsigned atomicSub(unsigned* p, unsigned x) { return atomicAdd(p, 0u - x); }
#undef VG_ATOMIC
#undef VG_ATOMICS
#undef VG_INTEGER_ATOMICS

// ---- memory -----------------------------------------------------------------------------------------
template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T __ldca(const T* p) { return *p; }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline T __ldcg(const T* p) { return *(const volatile T*)p; }
inline uint4 __ldcg(const uint4* p) { return *p; }
inline uint2 __ldcg(const uint2* p) { return *p; }
template <class T> inline T __ldcv(const T* p) { return *(const volatile T*)p; }
template <class T> inline void __stcs(T* p, T x) { *p = x; }
template <class T> inline void __stcg(T* p, T x) { *p = x; }
extern "C" {
void* memcpy(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
int printf(const char*, ...);
}

// ---- integers ---------------------------------------------------------------------------------------
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) { unsigned y = 0;
for (int k = 0; k < 32; k++) y |= (x >> k & 1u) << (31 - k); return y; }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    by &= 31; return by ? high << by | low >> (32 - by) : high; }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    by &= 31; return by ? low >> by | high << (32 - by) : low; }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned out = 0;
  for (int k = 0; k < 4; k++) out |= (unsigned)(both >> (8 * (s >> (4 * k) & 7)) & 0xFF) << (8 * k);
  return out;
}
inline int abs(int x) { return x < 0 ? -x : x; }
inline long long llabs(long long x) { return x < 0 ? -x : x; }
inline long abs(long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }

// ---- bits of floating point -------------------------------------------------------------------------
#define VG_BITS(name, To, From) inline To name(From x) { To y; __builtin_memcpy(&y, &x, sizeof(y)); return y; }
VG_BITS(__double_as_longlong, long long, double)
VG_BITS(__longlong_as_double, double, long long)
VG_BITS(__float_as_int, int, float)
VG_BITS(__float_as_uint, unsigned, float)
VG_BITS(__int_as_float, float, int)
VG_BITS(__uint_as_float, float, unsigned)
#undef VG_BITS
inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low)); }

// ---- C's functions, of double and of float: the C library's, which the cpu device uses too ---------
#define VG_MATH1(name)                                                                                   \
  extern "C" double name(double) noexcept; extern "C" float name##f(float) noexcept;                     \
  inline float name(float x) { return name##f(x); }
#define VG_MATH2(name)                                                                                   \
  extern "C" double name(double, double) noexcept; extern "C" float name##f(float, float) noexcept;      \
  inline float name(float x, float y) { return name##f(x, y); }
VG_MATH1(acos) VG_MATH1(asin) VG_MATH1(atan) VG_MATH1(cos) VG_MATH1(sin) VG_MATH1(tan)
VG_MATH1(acosh) VG_MATH1(asinh) VG_MATH1(atanh) VG_MATH1(cosh) VG_MATH1(sinh) VG_MATH1(tanh)
VG_MATH1(exp) VG_MATH1(exp2) VG_MATH1(expm1) VG_MATH1(log) VG_MATH1(log2) VG_MATH1(log10) VG_MATH1(log1p) VG_MATH1(logb)
VG_MATH1(sqrt) VG_MATH1(cbrt) VG_MATH1(floor) VG_MATH1(ceil) VG_MATH1(round) VG_MATH1(trunc) VG_MATH1(rint) VG_MATH1(nearbyint)
VG_MATH1(fabs) VG_MATH1(erf) VG_MATH1(erfc) VG_MATH1(tgamma) VG_MATH1(lgamma)
VG_MATH2(pow) VG_MATH2(atan2) VG_MATH2(fmod) VG_MATH2(hypot) VG_MATH2(fmax) VG_MATH2(fmin) VG_MATH2(copysign)
VG_MATH2(remainder) VG_MATH2(fdim) VG_MATH2(nextafter)
#undef VG_MATH1
#undef VG_MATH2
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" double frexp(double, int*) noexcept;
extern "C" float frexpf(float, int*) noexcept;
extern "C" double modf(double, double*) noexcept;
extern "C" float modff(float, float*) noexcept;
extern "C" double exp10(double) noexcept;
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline float ldexp(float x, int e) { return ldexpf(x, e); }
inline double scalbn(double x, int e) { return ldexp(x, e); }
inline float scalbn(float x, int e) { return ldexpf(x, e); }
inline float frexp(float x, int* e) { return frexpf(x, e); }
inline float modf(float x, float* whole) { return modff(x, whole); }
inline double abs(double x) { return fabs(x); }
inline float abs(float x) { return fabsf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
// exactly reduced, and in double for float
inline double vg_pi(double x, bool cosine) {
  double y = fmod(fabs(x), 2.0), sign = !cosine && x < 0 ? -1.0 : 1.0;
  if (y >= 1.0) { y -= 1.0; sign = -sign; }
  if (y > 0.5) { y = 1.0 - y; if (cosine) sign = -sign; }
  const double pi = 3.141592653589793238462643383280;
  return sign * (cosine == (y > 0.25) ? sin(pi * (cosine ? 0.5 - y : y)) : cos(pi * (cosine ? y : 0.5 - y)));
}
inline double sinpi(double x) { return vg_pi(x, false); }
inline double cospi(double x) { return vg_pi(x, true); }
inline float sinpif(float x) { return (float)vg_pi(x, false); }
inline float cospif(float x) { return (float)vg_pi(x, true); }
inline void sincos(double x, double* s, double* c) { *s = sin(x); *c = cos(x); }
inline void sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __fdividef(float x, float y) { return x / y; }
template <class T> inline bool isnan(T x) { return x != x; }
template <class T> inline bool isinf(T x) { return __builtin_isinf(x); }
template <class T> inline bool isfinite(T x) { return __builtin_isfinite(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }
inline bool signbit(float x) { return __builtin_signbitf(x); }
// rounded once, whatever the compiler would contract
#define VG_ROUNDED(name, T)                                                                  \
  inline T __##name##add_rn(T a, T b) { return a + b; }                                             \
  inline T __##name##sub_rn(T a, T b) { return a - b; }                                             \
  inline T __##name##mul_rn(T a, T b) { return a * b; }
VG_ROUNDED(d, double)
VG_ROUNDED(f, float)
#undef VG_ROUNDED
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline int __double2int_rz(double x) {
    return x != x ? (int)0x80000000 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? (int)0x80000000 : (int)x; }
inline long long __double2ll_rz(double x) {
  return x != x ? (long long)0x8000000000000000ull : x >= 9223372036854775808.0 ?
      0x7FFFFFFFFFFFFFFFll : x <= -9223372036854775808.0 ? (long long)0x8000000000000000ull : (long long)x;
}
inline int __double2int_rn(double x) { return __double2int_rz(rint(x)); }
inline long long __double2ll_rn(double x) { return __double2ll_rz(rint(x)); }
inline int __float2int_rz(float x) { return __double2int_rz(x); }
inline int __float2int_rn(float x) { return __double2int_rn(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
// as CUDA has them: of two numbers of one type, and of mixed ones that C++ would bring together
template <class A, class B> inline decltype(A() + B()) min(A a, B b) { typedef decltype(A() + B()) T;
return (T)b < (T)a ? (T)b : (T)a; }
template <class A, class B> inline decltype(A() + B()) max(A a, B b) { typedef decltype(A() + B()) T;
return (T)a < (T)b ? (T)b : (T)a; }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

// ---- PTX that nvrtc.cpp knows -----------------------------------------------------------------------
inline void vg_ptx_event() {}
inline void vg_ptx_wide_product(unsigned long long& to, unsigned a, unsigned b) { to = (unsigned long long)a * b; }
template <class T> inline void vg_ptx_rsqrt(T& to, T x) { to = (T)(1 / sqrt((double)x)); }
inline void vg_ptx_f32_of_f16(float& to, unsigned short h) {
  _Float16 x;
  __builtin_memcpy(&x, &h, 2);
  to = (float)x;
}
inline void vg_ptx_f16_of_f32(unsigned short& to, float x) {
  // NVIDIA's NaN is the one with all bits
  if (x != x) { to = 0x7FFF; return; }
  _Float16 y = (_Float16)x;
  __builtin_memcpy(&to, &y, 2);
}
template <class W> inline void vg_ptx_store_pair(void* to, W a, W b) { *(volatile W*)to = a; ((volatile W*)to)[1] = b; }
template <class W> inline void vg_ptx_load_pair(W& a, W& b, const void* from) { a = *(const volatile W*)from;
b = ((const volatile W*)from)[1]; }
// The copy is done at once, which the PTX ISA allows; addresses of shared memory are ordinary ones.
inline size_t __cvta_generic_to_shared(const void* p) { return (size_t)p; }
inline void vg_ptx_copy_double(size_t to, const double* from) { *(double*)to = *from; }
// c += a b of 8 x 4 and 4 x 8 elements, as the lanes hold them (PTX ISA, mma.m8n8k4).
inline void vg_ptx_multiply_add(double& c0, double& c1, double a, double b, int site) {
  const unsigned row = vg_lane() / 4, column = vg_lane() % 4 * 2;
  for (unsigned k = 0; k < 4; k++) {
    const int first = site | (int)(3 * k + 1) << 18;
    const double left = vg_shuffle(0xFFFFFFFFu, a, row * 4 + k, first);
    c0 += left * vg_shuffle(0xFFFFFFFFu, b, column * 4 + k, first + (1 << 18));
    c1 += left * vg_shuffle(0xFFFFFFFFu, b, (column + 1) * 4 + k, first + (2 << 18));
  }
}
inline void vg_ptx_same_bit(unsigned& to, unsigned x, unsigned bit, int site) {
  const unsigned with = VG_BALLOT(0xFFFFFFFFu, (x & bit) != 0, site);
  to = x & bit ? with : ~with;
}

// ---- how the driver calls a kernel ------------------------------------------------------------------
namespace emulator {
template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<T&> { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };
template <class T> struct Plain<const T&> { typedef T type; };
template <int... K> struct Places {};
template <int N, int... K> struct Count : Count<N - 1, N - 1, K...> {};
template <int... K> struct Count<0, K...> { typedef Places<K...> type; };
template <class F, F* f> struct Caller;
template <class... P, void (*f)(P...)> struct Caller<void(P...), f> {
  static constexpr u32 count = sizeof...(P);
  static constexpr u32 sizes[] = {(u32)sizeof(typename Plain<P>::type)..., 0};
  template <int... K> static inline void spread(void** a, Places<K...>) { f(*(typename Plain<P>::type*)a[K]...); }
  static void call(void** a) { spread(a, typename Count<sizeof...(P)>::type()); }
};
template <class... P, void (*f)(P...)> constexpr u32 Caller<void(P...), f>::sizes[];
}  // namespace emulator
#define VG_KERNEL(f, bounds) {#f, emulator::Caller<decltype(f), &f>::call, emulator::Caller<decltype(f), &f>::sizes, emulator::Caller<decltype(f), &f>::count, bounds}
