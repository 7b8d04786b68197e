// libcufft: transforms in double precision by splitting lengths at their prime factors, in the stream's order.
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

extern "C" unsigned cuLaunchHostFunc(void* stream, void (*function)(void*), void* data);
extern "C" unsigned cuStreamSynchronize(void* stream);

namespace {

enum Status { SUCCESS = 0, INVALID_PLAN = 1, INVALID_TYPE = 3, INVALID_VALUE = 4, EXEC_FAILED = 6, INVALID_SIZE = 8 };
enum Type { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };
typedef std::complex<double> c64;
typedef long long Long;

struct Side { std::vector<Long> extents; Long stride = 1, distance = 0; };
struct Plan {
  bool made = false;
  Type type = Z2Z;
  std::vector<Long> n;  // the slowest first
  Side in, out;
  Long count = 0;
  void *stream = nullptr, *work = nullptr;
};

// a workspace that is too small, missing or freed too early shows: its bytes are written before the transform
const size_t WORK = 256;

std::mutex lock;
std::map<int, Plan> plans;
int next_plan = 1;

// x[0], x[step], ... of n elements
void transform(const c64* x, Long step, c64* out, Long n, double sign) {
  if (n == 1) {
    out[0] = x[0];
    return;
  }
  Long p = 2;
  while (p * p <= n && n % p) p++;
  if (n % p) p = n;
  const Long m = n / p;
  std::vector<c64> parts((size_t)n);
  for (Long r = 0; r < p; r++) transform(x + r * step, step * p, parts.data() + r * m, m, sign);
  for (Long k = 0; k < n; k++) {
    c64 sum = 0;
    for (Long r = 0; r < p; r++)
      sum += parts[(size_t)(r * m + k % m)] * std::polar(1.0, sign * 2 * M_PI * (double)(r * k % n) / (double)n);
    out[k] = sum;
  }
}

template <class T> c64 read(const void* memory, Long at, bool complex) {
  const T* x = (const T*)memory;
  return complex ? c64(x[2 * at], x[2 * at + 1]) : c64(x[at]);
}
template <class T> void write(void* memory, Long at, bool complex, c64 value) {
  T* x = (T*)memory;
  if (complex) x[2 * at] = (T)value.real(), x[2 * at + 1] = (T)value.imag();
  else x[at] = (T)value.real();
}

template <class T> void run(const Plan& plan, const void* from, void* to, double sign) {
  const bool half_in = plan.type == C2R || plan.type == Z2D, half_out = plan.type == R2C || plan.type == D2Z;
  const size_t rank = plan.n.size();
  Long total = 1;
  for (Long n : plan.n) total *= n;
  std::vector<Long> index(rank);
  const auto offset = [&](const Side& side) {
    Long at = 0;
    for (size_t d = 0; d < rank; d++) at = at * (d ? side.extents[d] : 1) + index[d];
    return at * side.stride;
  };
  const auto unravel = [&](Long k) {
    for (size_t d = rank; d-- > 0; k /= plan.n[d]) index[d] = k % plan.n[d];
  };
  const Long last = plan.n[rank - 1];
  for (Long b = 0; b < plan.count; b++) {
    std::vector<c64> x((size_t)total), line, result;
    for (Long k = 0; k < total; k++) {
      unravel(k);
      bool mirrored = false;
      if (half_in && index[rank - 1] > last / 2) {
        mirrored = true;
        for (size_t d = 0; d < rank; d++) index[d] = (plan.n[d] - index[d]) % plan.n[d];
      }
      const c64 value = read<T>(from, b * plan.in.distance + offset(plan.in), !half_out);
      x[(size_t)k] = mirrored ? std::conj(value) : value;
    }
    Long after = 1;
    for (size_t d = rank; d-- > 0; after *= plan.n[d]) {
      const Long n = plan.n[d];
      line.resize((size_t)n);
      result.resize((size_t)n);
      for (Long k = 0; k < total; k++) {
        if (k / after % n) continue;
        for (Long j = 0; j < n; j++) line[(size_t)j] = x[(size_t)(k + j * after)];
        transform(line.data(), 1, result.data(), n, sign);
        for (Long j = 0; j < n; j++) x[(size_t)(k + j * after)] = result[(size_t)j];
      }
    }
    for (Long k = 0; k < total; k++) {
      unravel(k);
      if (half_out && index[rank - 1] > last / 2) continue;
      write<T>(to, b * plan.out.distance + offset(plan.out), !half_in, x[(size_t)k]);
    }
  }
}

void carry_out(void* data) {
  // never freed: a graph carries it out again
  (*(std::function<void()>*)data)();
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) unsigned

API cufftGetProperty(int which, int* value) {
  const int version[] = {11, 0, 0};
  *value = version[which];
  return SUCCESS;
}

API cufftCreate(int* plan) {
  std::lock_guard<std::mutex> held(lock);
  plans[*plan = next_plan++] = Plan();
  return SUCCESS;
}

API cufftSetAutoAllocation(int, int automatic) { return automatic ? INVALID_VALUE : SUCCESS; }

API cufftMakePlanMany64(int handle, int rank, Long* n, Long* in, Long in_stride, Long in_distance, Long* out,
    Long out_stride, Long out_distance, int type, Long count, size_t* work) {
  std::lock_guard<std::mutex> held(lock);
  if (!plans.count(handle)) return INVALID_PLAN;
  if (rank < 1 || rank > 3 || count < 1) return INVALID_SIZE;
  Plan& plan = plans[handle];
  plan.made = true;
  plan.type = (Type)type;
  plan.n.assign(n, n + rank);
  plan.in = {std::vector<Long>(in, in + rank), in_stride, in_distance};
  plan.out = {std::vector<Long>(out, out + rank), out_stride, out_distance};
  plan.count = count;
  *work = WORK;
  return SUCCESS;
}

API cufftSetStream(int handle, void* stream) {
  std::lock_guard<std::mutex> held(lock);
  if (!plans.count(handle)) return INVALID_PLAN;
  plans[handle].stream = stream;
  return SUCCESS;
}

API cufftSetWorkArea(int handle, void* work) {
  std::lock_guard<std::mutex> held(lock);
  if (!plans.count(handle)) return INVALID_PLAN;
  plans[handle].work = work;
  return SUCCESS;
}

API cufftXtExec(int handle, void* from, void* to, int direction) {
  Plan plan;
  {
    std::lock_guard<std::mutex> held(lock);
    if (!plans.count(handle) || !plans[handle].made || !plans[handle].work) return INVALID_PLAN;
    plan = plans[handle];
  }
  const bool half_in = plan.type == C2R || plan.type == Z2D, half_out = plan.type == R2C || plan.type == D2Z;
  const double sign = half_out ? -1 : half_in ? 1 : direction;
  const bool single = plan.type == R2C || plan.type == C2R || plan.type == C2C;
  if ((uintptr_t)from % (single ? 8 : 16) || (uintptr_t)to % (single ? 8 : 16)) return INVALID_VALUE;
  auto task = new std::function<void()>([=] {
    memset(plan.work, 0x5A, WORK);
    if (single) run<float>(plan, from, to, sign);
    else run<double>(plan, from, to, sign);
    // the library may do so, and the caller may not rely on it
    if (half_in) memset(from, 0x5A, single ? 8 : 16);
  });
  return cuLaunchHostFunc(plan.stream, carry_out, task) == 0 ? SUCCESS : EXEC_FAILED;
}

API cufftDestroy(int handle) {
  void* stream;
  {
    std::lock_guard<std::mutex> held(lock);
    if (!plans.count(handle)) return INVALID_PLAN;
    stream = plans[handle].stream;
    plans.erase(handle);
  }
  cuStreamSynchronize(stream);
  return SUCCESS;
}
