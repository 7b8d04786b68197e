// libcublas: matrix products by three loops, and triangular solves by substitution, in the stream's order.
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

extern "C" unsigned cuLaunchHostFunc(void* stream, void (*function)(void*), void* data);

namespace {

enum Status { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Type { F32 = 0, F64 = 1, F16 = 2, C32 = 4, C64 = 5, BF16 = 14 };

struct Handle { void* stream = nullptr; };

struct Complex32 { float re = 0, im = 0; };
struct Complex64 { double re = 0, im = 0; };
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
template <> struct Element<F32> { typedef float Stored, Value; static float get(float x) {
    return x; } static float put(float x) { return x; } };
template <> struct Element<F64> { typedef double Stored, Value; static double get(double x) {
    return x; } static double put(double x) { return x; } };
template <> struct Element<C32> { typedef Complex32 Stored, Value; static Value get(Value x) {
    return x; } static Value put(Value x) { return x; } };
template <> struct Element<C64> { typedef Complex64 Stored, Value; static Value get(Value x) {
    return x; } static Value put(Value x) { return x; } };
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
  int64_t next_a, next_b, next_c, count;
  bool upper;             // of the result only the upper triangle is written
  Complex64 alpha, beta;  // as many bytes as the type has
};

template <int type> void multiply(const Job& job) {
  typedef Element<type> E;
  typedef typename E::Value V;
  typedef typename E::Stored S;
  V alpha, beta;
  memcpy((void*)&alpha, &job.alpha, sizeof alpha);
  memcpy((void*)&beta, &job.beta, sizeof beta);
  const V zero = {};
  std::vector<V> column((size_t)job.m);
  for (int64_t l = 0; l < job.count; l++) {
    const S *a = (const S*)job.a + l * job.next_a, *b = (const S*)job.b + l * job.next_b;
    S* c = (S*)job.c + l * job.next_c;
    for (int64_t j = 0; j < job.n; j++) {
      const int64_t rows = job.upper ? j + 1 : job.m;
      for (V& x : column) x = zero;
      for (int64_t h = 0; h < job.k; h++) {
        const V y = E::get(job.transpose_b ? b[j + h * job.ldb] : b[h + j * job.ldb]);
        for (int64_t i = 0; i < rows; i++)
          column[(size_t)i] = plus(column[(size_t)i],
              times(E::get(job.transpose_a ? a[h + i * job.lda] : a[i + h * job.lda]), y));
      }
      for (int64_t i = 0; i < rows; i++) {
        V x = times(alpha, column[(size_t)i]);
        // what is multiplied by no factor is not read: it may be anything
        if (memcmp(&beta, &zero, sizeof beta)) x = plus(x, times(beta, E::get(c[i + j * job.ldc])));
        c[i + j * job.ldc] = E::put(x);
      }
    }
  }
}

Complex32 over(Complex32 a, Complex32 b) {
  const float d = b.re * b.re + b.im * b.im;
  return {(a.re * b.re + a.im * b.im) / d, (a.im * b.re - a.re * b.im) / d};
}
Complex64 over(Complex64 a, Complex64 b) {
  const double d = b.re * b.re + b.im * b.im;
  return {(a.re * b.re + a.im * b.im) / d, (a.im * b.re - a.re * b.im) / d};
}
float over(float a, float b) { return a / b; }
double over(double a, double b) { return a / b; }
template <class V> V minus(V a, V b) { return plus(a, times(V{-1}, b)); }
float minus(float a, float b) { return a - b; }
double minus(double a, double b) { return a - b; }

// b becomes the solution of op(a) x = b
template <int type> void substitute(bool upper, bool transpose, int64_t m, int64_t n, const void* a_, int64_t lda,
    void* b_, int64_t ldb) {
  typedef typename Element<type>::Value V;
  const V* a = (const V*)a_;
  const auto at = [=](int64_t i, int64_t j) { return transpose ? a[j + i * lda] : a[i + j * lda]; };
  const bool backward = upper != transpose;
  for (int64_t c = 0; c < n; c++) {
    V* b = (V*)b_ + c * ldb;
    for (int64_t s = 0; s < m; s++) {
      const int64_t i = backward ? m - 1 - s : s;
      V x = b[i];
      for (int64_t t = 0; t < s; t++) {
        const int64_t j = backward ? m - 1 - t : t;
        x = minus(x, times(at(i, j), b[j]));
      }
      b[i] = over(x, at(i, i));
    }
  }
}

void carry_out(void* data) {
  // never freed: a graph carries it out again
  (*(std::function<void()>*)data)();
}

unsigned later(Handle* handle, std::function<void()> work) {
  return cuLaunchHostFunc(handle->stream, carry_out, new std::function<void()>(std::move(work))) == 0 ?
      SUCCESS : EXECUTION_FAILED;
}

unsigned start(Handle* handle, Job job, int type, const void* alpha, const void* beta) {
  void (*run)(const Job&) = nullptr;
  size_t bytes = 4;
  switch (type) {
    case F32: run = multiply<F32>; break;
    case F16: run = multiply<F16>; break;
    case BF16: run = multiply<BF16>; break;
    case F64: run = multiply<F64>; bytes = 8; break;
    case C32: run = multiply<C32>; bytes = 8; break;
    case C64: run = multiply<C64>; bytes = 16; break;
    default: return NOT_SUPPORTED;
  }
  memcpy(&job.alpha, alpha, bytes);
  memcpy(&job.beta, beta, bytes);
  return later(handle, [=] { run(job); });
}

unsigned syrk(Handle* handle, int type, int fill, int op, int64_t n, int64_t k, const void* alpha, const void* a,
    int64_t lda, const void* beta, void* c, int64_t ldc) {
  // CUBLAS_FILL_MODE_UPPER is 1
  if (fill != 1 || op < 0 || op > 1) return NOT_SUPPORTED;
  if (n < 0 || k < 0 || lda < (op ? k : n) || ldc < n) return INVALID_VALUE;
  return start(handle, Job{op == 1, op == 0, n, n, k, lda, lda, ldc, a, a, c, 0, 0, 0, 1, true, {}, {}}, type, alpha,
      beta);
}

template <int type>
unsigned trsm(Handle* handle, int side, int fill, int op, int diagonal, int64_t m, int64_t n, const void* alpha,
    const void* a, int64_t lda, void* b, int64_t ldb) {
  typename Element<type>::Value one{1}, given;
  memcpy((void*)&given, alpha, sizeof given);
  if (side != 0 || diagonal != 0 || op < 0 || op > 1 || memcmp(&one, &given, sizeof one)) return NOT_SUPPORTED;
  if (m < 0 || n < 0 || lda < m || ldb < m) return INVALID_VALUE;
  return later(handle, [=] { substitute<type>(fill == 1, op == 1, m, n, a, lda, b, ldb); });
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
API cublasGemmStridedBatchedEx_64(Handle* handle, int op_a, int op_b, int64_t m, int64_t n, int64_t k,
    const void* alpha, const void* a, int type_a, int64_t lda, int64_t next_a,
                                  const void* b, int type_b, int64_t ldb, int64_t next_b, const void* beta, void* c,
                                      int type_c, int64_t ldc, int64_t next_c, int64_t count, int, int) {
  if (op_a < 0 || op_a > 1 || op_b < 0 || op_b > 1 || type_a != type_b || type_b != type_c) return NOT_SUPPORTED;
  if (m < 0 || n < 0 || k < 0 || lda < (op_a ? k : m) || ldb < (op_b ? n : k) || ldc < m || count < 0 ||
      next_c < m * n) return INVALID_VALUE;
  return start(handle, Job{op_a == 1, op_b == 1, m, n, k, lda, ldb, ldc, a, b, c, next_a, next_b, next_c, count, false,
      {}, {}}, type_a, alpha, beta);
}
API cublasGemmEx_64(Handle* handle, int op_a, int op_b, int64_t m, int64_t n, int64_t k, const void* alpha,
    const void* a, int type_a, int64_t lda,
                    const void* b, int type_b, int64_t ldb, const void* beta, void* c, int type_c, int64_t ldc,
                        int compute, int algorithm) {
  return cublasGemmStridedBatchedEx_64(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta,
      c, type_c, ldc, m * n, 1, compute, algorithm);
}

#define TYPED(letter, type)                                                                                            \
  API cublas##letter##syrk_v2_64(Handle* handle, int fill, int op, int64_t n, int64_t k, const void* alpha, const void* a, int64_t lda, const void* beta, void* c, \
                                 int64_t ldc) {                                                                        \
    return syrk(handle, type, fill, op, n, k, alpha, a, lda, beta, c, ldc);                                            \
  }                                                                                                                    \
  API cublas##letter##trsm_v2_64(Handle* handle, int side, int fill, int op, int diagonal, int64_t m, int64_t n, const void* alpha, const void* a, int64_t lda, void* b, \
                                 int64_t ldb) {                                                                        \
    return trsm<type>(handle, side, fill, op, diagonal, m, n, alpha, a, lda, b, ldb);                                  \
  }
TYPED(S, F32)
TYPED(D, F64)
TYPED(C, C32)
TYPED(Z, C64)
