// libcublas: the matrix product, by three loops, in the stream's order.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

extern "C" unsigned cuLaunchHostFunc(void* stream, void (*function)(void*), void* data);

namespace {

enum Status { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Type { F32 = 0, F64 = 1, F16 = 2, C32 = 4, C64 = 5, BF16 = 14 };

struct Handle { void* stream = nullptr; };

struct Complex32 { float re, im; };
struct Complex64 { double re, im; };
template <class C> C product(C a, C b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
float times(float a, float b) { return a * b; }
double times(double a, double b) { return a * b; }
Complex32 times(Complex32 a, Complex32 b) { return product(a, b); }
Complex64 times(Complex64 a, Complex64 b) { return product(a, b); }
float plus(float a, float b) { return a + b; }
double plus(double a, double b) { return a + b; }
Complex32 plus(Complex32 a, Complex32 b) { return {a.re + b.re, a.im + b.im}; }
Complex64 plus(Complex64 a, Complex64 b) { return {a.re + b.re, a.im + b.im}; }

// how an element is stored, and what it is computed in
template <int type> struct Element;
template <> struct Element<F32> { typedef float Stored, Value; static float get(float x) { return x; } static float put(float x) { return x; } };
template <> struct Element<F64> { typedef double Stored, Value; static double get(double x) { return x; } static double put(double x) { return x; } };
template <> struct Element<C32> { typedef Complex32 Stored, Value; static Value get(Value x) { return x; } static Value put(Value x) { return x; } };
template <> struct Element<C64> { typedef Complex64 Stored, Value; static Value get(Value x) { return x; } static Value put(Value x) { return x; } };
template <> struct Element<F16> {
  typedef _Float16 Stored;
  typedef float Value;
  static float get(Stored x) { return (float)x; }
  static Stored put(float x) { return (Stored)x; }
};
template <> struct Element<BF16> {
  typedef uint16_t Stored;
  typedef float Value;
  static float get(Stored x) {
    const uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
  }
  static Stored put(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (x != x) return (Stored)(bits >> 16 | 0x40);
    return (Stored)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
};

struct Job {
  bool transpose_a, transpose_b;
  int64_t m, n, k, lda, ldb, ldc;
  const void *a, *b;
  void* c;
  Complex64 alpha, beta;  // as many bytes as the type has
  void (*run)(const Job&);
};

template <int type> void multiply(const Job& job) {
  typedef Element<type> E;
  typedef typename E::Value V;
  typedef typename E::Stored S;
  const S *a = (const S*)job.a, *b = (const S*)job.b;
  S* c = (S*)job.c;
  V alpha, beta;
  memcpy(&alpha, &job.alpha, sizeof alpha);
  memcpy(&beta, &job.beta, sizeof beta);
  const V zero = {};
  std::vector<V> column((size_t)job.m);
  for (int64_t j = 0; j < job.n; j++) {
    for (V& x : column) x = zero;
    for (int64_t l = 0; l < job.k; l++) {
      const V y = E::get(job.transpose_b ? b[j + l * job.ldb] : b[l + j * job.ldb]);
      for (int64_t i = 0; i < job.m; i++)
        column[(size_t)i] = plus(column[(size_t)i], times(E::get(job.transpose_a ? a[l + i * job.lda] : a[i + l * job.lda]), y));
    }
    for (int64_t i = 0; i < job.m; i++) {
      V x = times(alpha, column[(size_t)i]);
      // what is multiplied by no factor is not read: it may be anything
      if (memcmp(&beta, &zero, sizeof beta)) x = plus(x, times(beta, E::get(c[i + j * job.ldc])));
      c[i + j * job.ldc] = E::put(x);
    }
  }
}

void carry_out(void* data) {
  const std::unique_ptr<Job> job((Job*)data);
  job->run(*job);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) unsigned

API cublasCreate_v2(Handle** out) {
  *out = new Handle;
  return SUCCESS;
}
API cublasDestroy_v2(Handle* handle) {
  delete handle;
  return SUCCESS;
}
API cublasGetProperty(int which, int* out) {
  const int version[] = {12, 8, 4};
  if (which < 0 || which > 2) return INVALID_VALUE;
  *out = version[which];
  return SUCCESS;
}
API cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  return SUCCESS;
}
API cublasSetMathMode(Handle*, int) { return SUCCESS; }
API cublasGemmEx_64(Handle* handle, int op_a, int op_b, int64_t m, int64_t n, int64_t k, const void* alpha, const void* a, int type_a, int64_t lda,
                    const void* b, int type_b, int64_t ldb, const void* beta, void* c, int type_c, int64_t ldc, int, int) {
  if (op_a < 0 || op_a > 1 || op_b < 0 || op_b > 1 || type_a != type_b || type_b != type_c) return NOT_SUPPORTED;
  if (m < 0 || n < 0 || k < 0 || lda < (op_a ? k : m) || ldb < (op_b ? n : k) || ldc < m) return INVALID_VALUE;
  std::unique_ptr<Job> job(new Job{op_a == 1, op_b == 1, m, n, k, lda, ldb, ldc, a, b, c, {}, {}, nullptr});
  size_t bytes = 4;
  switch (type_a) {
    case F32: job->run = multiply<F32>; break;
    case F16: job->run = multiply<F16>; break;
    case BF16: job->run = multiply<BF16>; break;
    case F64: job->run = multiply<F64>; bytes = 8; break;
    case C32: job->run = multiply<C32>; bytes = 8; break;
    case C64: job->run = multiply<C64>; bytes = 16; break;
    default: return NOT_SUPPORTED;
  }
  memcpy(&job->alpha, alpha, bytes);
  memcpy(&job->beta, beta, bytes);
  return cuLaunchHostFunc(handle->stream, carry_out, job.release()) == 0 ? SUCCESS : EXECUTION_FAILED;
}
