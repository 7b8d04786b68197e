// libcusolver: factorisations by LAPACK, in the stream's order.
#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

extern "C" unsigned cuLaunchHostFunc(void* stream, void (*function)(void*), void* data);
extern "C" unsigned cuStreamSynchronize(void* stream);

namespace {

enum Status { SUCCESS = 0, INVALID_VALUE = 3, EXECUTION_FAILED = 6, NOT_SUPPORTED = 9 };
enum Type { F32 = 0, F64 = 1, C32 = 4, C64 = 5 };
typedef std::complex<float> c32;
typedef std::complex<double> c64;

struct Handle { void* stream = nullptr; };

// workspaces are poisoned, so that one that is too small or freed too early shows; what is asked for is never used
const size_t DEVICE_WORK = 512, HOST_WORK = 64;

#define LAPACK extern "C" void
}  // namespace

#define FOR_ALL(M) M(s, float, float) M(d, double, double) M(c, c32, float) M(z, c64, double)
#define DECLARE(p, T, R)                                                                              \
  LAPACK p##getrf_(const int*, const int*, T*, const int*, int*, int*);                               \
  LAPACK p##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*); \
  LAPACK p##potrf_(const char*, const int*, T*, const int*, int*);                                    \
  LAPACK p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);
FOR_ALL(DECLARE)
LAPACK ssyevd_(const char*, const char*, const int*, float*, const int*, float*, float*, const int*, int*, const int*,
    int*);
LAPACK dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*, const int*, int*,
    const int*, int*);
LAPACK cheev_(const char*, const char*, const int*, c32*, const int*, float*, c32*, const int*, float*, int*);
LAPACK zheev_(const char*, const char*, const int*, c64*, const int*, double*, c64*, const int*, double*, int*);
LAPACK sgesvd_(const char*, const char*, const int*, const int*, float*, const int*, float*, float*, const int*, float*,
    const int*, float*, const int*, int*);
LAPACK dgesvd_(const char*, const char*, const int*, const int*, double*, const int*, double*, double*, const int*,
    double*, const int*, double*, const int*, int*);
LAPACK cgesvd_(const char*, const char*, const int*, const int*, c32*, const int*, float*, c32*, const int*, c32*,
    const int*, c32*, const int*, float*, int*);
LAPACK zgesvd_(const char*, const char*, const int*, const int*, c64*, const int*, double*, c64*, const int*, c64*,
    const int*, c64*, const int*, double*, int*);
LAPACK sgeev_(const char*, const char*, const int*, float*, const int*, float*, float*, float*, const int*, float*,
    const int*, float*, const int*, int*);
LAPACK dgeev_(const char*, const char*, const int*, double*, const int*, double*, double*, double*, const int*, double*,
    const int*, double*, const int*, int*);
LAPACK sormqr_(const char*, const char*, const int*, const int*, const int*, const float*, const int*, const float*,
    float*, const int*, float*, const int*, int*);
LAPACK dormqr_(const char*, const char*, const int*, const int*, const int*, const double*, const int*, const double*,
    double*, const int*, double*, const int*, int*);

namespace {

#define OVERLOAD(p, T, R)                                                                                              \
  void getrf(int n, T* a, int* pivots, int* info) { p##getrf_(&n, &n, a, &n, pivots, info); }                          \
  void getrs(char op, int n, int m, const T* a, const int* pivots, T* b, int* info) { p##getrs_(&op, &n, &m, a, &n, pivots, b, &n, info); } \
  void potrf(char fill, int n, T* a, int* info) { p##potrf_(&fill, &n, a, &n, info); }                                 \
  void geqrf(int m, int n, T* a, T* tau, int* info) {                                                                  \
    int size = 64 * std::max(1, n);                                                                                    \
    std::vector<T> work((size_t)size);                                                                                 \
    p##geqrf_(&m, &n, a, &m, tau, work.data(), &size, info);                                                           \
  }
FOR_ALL(OVERLOAD)
#define REAL(p, T)                                                                                                     \
  void syev(char job, char fill, int n, T* a, T* w, int* info) {                                                       \
    int size = 1 + 6 * n + 2 * n * n, isize = 3 + 5 * n;                                                               \
    std::vector<T> work((size_t)size);                                                                                 \
    std::vector<int> iwork((size_t)isize);                                                                             \
    p##syevd_(&job, &fill, &n, a, &n, w, work.data(), &size, iwork.data(), &isize, info);                              \
  }                                                                                                                    \
  void gesvd(char job, int m, int n, T* a, T* s, T* u, T* vt, int* info) {                                             \
    int size = 5 * m + 5 * n + 64;                                                                                     \
    std::vector<T> work((size_t)size);                                                                                 \
    p##gesvd_(&job, &job, &m, &n, a, &m, s, u, &m, vt, &n, work.data(), &size, info);                                  \
  }                                                                                                                    \
  void geev(char job, int n, T* a, T* w, T* vr, int* info) {                                                           \
    int size = 8 * n + 64, one = 1;                                                                                    \
    char none = 'N';                                                                                                   \
    std::vector<T> work((size_t)size);                                                                                 \
    p##geev_(&none, &job, &n, a, &n, w, w + n, nullptr, &one, vr, &n, work.data(), &size, info);                       \
  }                                                                                                                    \
  void ormqr(char op, int m, int n, int k, const T* a, const T* tau, T* c) {                                           \
    int size = 64 * std::max(1, n) + 8192, info = 0;                                                                   \
    char side = 'L';                                                                                                   \
    std::vector<T> work((size_t)size);                                                                                 \
    p##ormqr_(&side, &op, &m, &n, &k, a, &m, tau, c, &m, work.data(), &size, &info);                                   \
  }
REAL(s, float)
REAL(d, double)
#define COMPLEX(p, T, R)                                                                                               \
  void syev(char job, char fill, int n, T* a, R* w, int* info) {                                                       \
    int size = 4 * n + 64;                                                                                             \
    std::vector<T> work((size_t)size);                                                                                 \
    std::vector<R> rwork((size_t)(3 * n + 1));                                                                         \
    p##heev_(&job, &fill, &n, a, &n, w, work.data(), &size, rwork.data(), info);                                       \
  }                                                                                                                    \
  void gesvd(char job, int m, int n, T* a, R* s, T* u, T* vt, int* info) {                                             \
    int size = 5 * m + 5 * n + 64;                                                                                     \
    std::vector<T> work((size_t)size);                                                                                 \
    std::vector<R> rwork((size_t)(5 * n + 1));                                                                         \
    p##gesvd_(&job, &job, &m, &n, a, &m, s, u, &m, vt, &n, work.data(), &size, rwork.data(), info);                    \
  }
COMPLEX(c, c32, float)
COMPLEX(z, c64, double)

void carry_out(void* data) {
  // never freed: a graph carries it out again
  (*(std::function<void()>*)data)();
}

unsigned later(Handle* handle, std::function<void()> work) {
  return cuLaunchHostFunc(handle->stream, carry_out, new std::function<void()>(std::move(work))) == 0 ?
      SUCCESS : EXECUTION_FAILED;
}

// Runs `body` with a null pointer of the type, by whose type it knows what to compute in.
template <class Body> unsigned typed(int type, Body body) {
  switch (type) {
    case F32: return body((float*)nullptr);
    case F64: return body((double*)nullptr);
    case C32: return body((c32*)nullptr);
    case C64: return body((c64*)nullptr);
  }
  return NOT_SUPPORTED;
}
template <class Body> unsigned typed_real(int type, Body body) {
  if (type == F32) return body((float*)nullptr);
  if (type == F64) return body((double*)nullptr);
  return NOT_SUPPORTED;
}
template <class T> struct RealOf { typedef T type; };
template <class R> struct RealOf<std::complex<R>> { typedef R type; };
int real_of(int type) { return type & 1; }

// Whether the workspaces are those that were asked for; what is on the device is overwritten.
bool has_room(void* device, size_t device_bytes, void* host, size_t host_bytes) {
  if (device == nullptr || device_bytes < DEVICE_WORK || host == nullptr || host_bytes < HOST_WORK) return false;
  memset(host, 0x5A, host_bytes);
  return true;
}

unsigned sizes(size_t* device, size_t* host) {
  *device = DEVICE_WORK;
  *host = HOST_WORK;
  return SUCCESS;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) unsigned
#define ROOM void *work, size_t work_bytes, void *host, size_t host_bytes, int *info
#define CHECK_ROOM if (!has_room(work, work_bytes, host, host_bytes) || !info) return INVALID_VALUE

API cusolverDnCreate(Handle** out) {
  *out = new Handle;
  return SUCCESS;
}
API cusolverDnCreateParams(Handle** out) {
  *out = new Handle;
  return SUCCESS;
}
API cusolverDnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return SUCCESS;
}
API cusolverGetProperty(int which, int* out) {
  const int version[] = {11, 7, 3};
  if (which < 0 || which > 2) return INVALID_VALUE;
  *out = version[which];
  return SUCCESS;
}

API cusolverDnXgetrf_bufferSize(Handle*, void*, int64_t, int64_t, int, const void*, int64_t, int, size_t* device,
    size_t* host) { return sizes(device, host); }
API cusolverDnXgetrf(Handle* handle, void*, int64_t m, int64_t n, int type, void* a, int64_t lda, int64_t* pivots,
    int compute, ROOM) {
  CHECK_ROOM;
  if (m != n || lda != n || type != compute) return INVALID_VALUE;
  return typed(type, [=](auto* t) {
    typedef decltype(t) P;
    return later(handle, [=] {
      memset(work, 0x5A, work_bytes);
      std::vector<int> rows((size_t)n);
      getrf((int)n, (P)a, rows.data(), info);
      std::copy(rows.begin(), rows.end(), pivots);
    });
  });
}
API cusolverDnXgetrs(Handle* handle, void*, int op, int64_t n, int64_t columns, int type, const void* a, int64_t lda,
    const int64_t* pivots, int type_b, void* b, int64_t ldb, int* info) {
  if (op < 0 || op > 1 || lda != n || ldb != n || type != type_b || !info) return INVALID_VALUE;
  return typed(type, [=](auto* t) {
    typedef decltype(t) P;
    return later(handle, [=] {
      std::vector<int> rows(pivots, pivots + n);
      getrs(op ? 'T' : 'N', (int)n, (int)columns, (P)a, rows.data(), (P)b, info);
    });
  });
}
API cusolverDnXpotrf_bufferSize(Handle*, void*, int, int64_t, int, const void*, int64_t, int, size_t* device,
    size_t* host) { return sizes(device, host); }
API cusolverDnXpotrf(Handle* handle, void*, int fill, int64_t n, int type, void* a, int64_t lda, int compute, ROOM) {
  CHECK_ROOM;
  if (lda != n || type != compute) return INVALID_VALUE;
  return typed(type, [=](auto* t) {
    typedef decltype(t) P;
    return later(handle, [=] {
      memset(work, 0x5A, work_bytes);
      potrf(fill == 1 ? 'U' : 'L', (int)n, (P)a, info);
    });
  });
}
API cusolverDnXgeqrf_bufferSize(Handle*, void*, int64_t, int64_t, int, const void*, int64_t, int, const void*, int,
    size_t* device, size_t* host) { return sizes(device, host); }
API cusolverDnXgeqrf(Handle* handle, void*, int64_t m, int64_t n, int type, void* a, int64_t lda, int type_tau,
    void* tau, int compute, ROOM) {
  CHECK_ROOM;
  if (lda != m || type != compute || type != type_tau) return INVALID_VALUE;
  return typed(type, [=](auto* t) {
    typedef decltype(t) P;
    return later(handle, [=] {
      memset(work, 0x5A, work_bytes);
      geqrf((int)m, (int)n, (P)a, (P)tau, info);
    });
  });
}
API cusolverDnXsyevd_bufferSize(Handle*, void*, unsigned, int, int64_t, int, const void*, int64_t, int, const void*,
    int, size_t* device, size_t* host) { return sizes(device, host); }
API cusolverDnXsyevd(Handle* handle, void*, unsigned mode, int fill, int64_t n, int type, void* a, int64_t lda,
    int type_w, void* w, int compute, ROOM) {
  CHECK_ROOM;
  if (lda != n || mode > 1 || type != compute || type_w != real_of(type)) return INVALID_VALUE;
  return typed(type, [=](auto* t) {
    typedef decltype(t) P;
    typedef typename RealOf<typename std::remove_pointer<P>::type>::type R;
    return later(handle, [=] {
      memset(work, 0x5A, work_bytes);
      syev(mode ? 'V' : 'N', fill == 1 ? 'U' : 'L', (int)n, (P)a, (R*)w, info);
    });
  });
}
API cusolverDnXgesvd_bufferSize(Handle*, void*, signed char, signed char, int64_t, int64_t, int, const void*, int64_t,
    int, const void*, int, const void*, int64_t, int, const void*, int64_t, int,
                                size_t* device, size_t* host) {
  return sizes(device, host);
}
API cusolverDnXgesvd(Handle* handle, void*, signed char job, signed char job_v, int64_t m, int64_t n, int type, void* a,
    int64_t lda, int type_s, void* s, int type_u, void* u, int64_t ldu, int type_v,
                     void* vt, int64_t ldvt, int compute, ROOM) {
  CHECK_ROOM;
  // as the real one, which knows no wide matrices
  if (m < n || lda != m || ldu != m || ldvt != n || job != job_v || type_s != real_of(type) || type_u != type ||
      type_v != type || compute != type) return INVALID_VALUE;
  return typed(type, [=](auto* t) {
    typedef decltype(t) P;
    typedef typename RealOf<typename std::remove_pointer<P>::type>::type R;
    return later(handle, [=] {
      memset(work, 0x5A, work_bytes);
      gesvd((char)job, (int)m, (int)n, (P)a, (R*)s, (P)u, (P)vt, info);
    });
  });
}
API cusolverDnXgesvdp_bufferSize(Handle*, void*, unsigned, int, int64_t, int64_t, int, const void*, int64_t, int,
    const void*, int, const void*, int64_t, int, const void*, int64_t, int, size_t* device,
                                 size_t* host) {
  return sizes(device, host);
}
API cusolverDnXgesvdp(Handle* handle, void*, unsigned mode, int thin, int64_t m, int64_t n, int type, void* a,
    int64_t lda, int type_s, void* s, int type_u, void* u, int64_t ldu, int type_v, void* v,
                      int64_t ldv, int compute, ROOM, double* moved) {
  CHECK_ROOM;
  if (m < n || lda != m || ldu != m || ldv != n || mode > 1 || type_s != real_of(type) || type_u != type ||
      type_v != type || compute != type) return INVALID_VALUE;
  const unsigned status = typed(type, [=](auto* t) {
    typedef decltype(t) P;
    typedef typename std::remove_pointer<P>::type T;
    typedef typename RealOf<T>::type R;
    return later(handle, [=] {
      memset(work, 0x5A, work_bytes);
      gesvd(!mode ? 'N' : thin ? 'S' : 'A', (int)m, (int)n, (P)a, (R*)s, (P)u, (P)v, info);
      if (!mode) return;
      // V itself, not its conjugate transpose
      T* x = (T*)v;
      for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
          const T p = x[i + j * n], q = x[j + i * n];
          if constexpr (std::is_same<T, R>::value) {
            x[i + j * n] = q;
            x[j + i * n] = p;
          } else {
            x[i + j * n] = std::conj(q);
            x[j + i * n] = std::conj(p);
          }
        }
    });
  });
  if (status == SUCCESS) cuStreamSynchronize(handle->stream);
  *moved = 0;
  return status;
}
API cusolverDnXgeev_bufferSize(Handle*, void*, unsigned, unsigned, int64_t, int, const void*, int64_t, int, const void*,
    int, const void*, int64_t, int, const void*, int64_t, int, size_t* device, size_t* host) {
  return sizes(device, host);
}
API cusolverDnXgeev(Handle* handle, void*, unsigned left, unsigned right, int64_t n, int type, void* a, int64_t lda,
    int type_w, void* w, int, void*, int64_t, int, void* vr, int64_t ldvr, int compute, ROOM) {
  CHECK_ROOM;
  if (left != 0 || right > 1 || lda != n || ldvr != n || type_w != type || compute != type) return INVALID_VALUE;
  return typed_real(type, [=](auto* t) {
    typedef decltype(t) P;
    return later(handle, [=] {
      memset(work, 0x5A, work_bytes);
      geev(right ? 'V' : 'N', (int)n, (P)a, (P)w, (P)vr, info);
    });
  });
}

#define ORMQR(letter, T)                                                                                               \
  API cusolverDn##letter##ormqr_bufferSize(Handle*, int, int, int, int, int, const T*, int, const T*, const T*, int, int* size) { \
    *size = 16;                                                                                                        \
    return SUCCESS;                                                                                                    \
  }                                                                                                                    \
  API cusolverDn##letter##ormqr(Handle* handle, int side, int op, int m, int n, int k, const T* a, int lda, const T* tau, T* c, int ldc, T* work, int size, int* info) { \
    if (side != 0 || op < 0 || op > 1 || lda != m || ldc != m || k > m || !work || size < 16 || !info) return INVALID_VALUE; \
    return later(handle, [=] {                                                                                         \
      memset(work, 0x5A, (size_t)size * sizeof(T));                                                                    \
      ormqr(op ? 'T' : 'N', m, n, k, a, tau, c);                                                                       \
    });                                                                                                                \
  }
ORMQR(S, float)
ORMQR(D, double)
