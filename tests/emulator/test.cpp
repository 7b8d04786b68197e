// Tests that the emulated GPU detects the faults it is meant to detect. Each case runs in a process of its own, since a
// fault is permanent.
// usage: test (by tools/test/emulate.sh)
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
typedef unsigned Status;
Status cuInit(unsigned);
Status cuDevicePrimaryCtxRetain(void**, int);
Status cuCtxSetCurrent(void*);
Status cuStreamCreate(void**, unsigned);
Status cuStreamSynchronize(void*);
Status cuEventCreate(void**, unsigned);
Status cuEventRecord(void*, void*);
Status cuStreamWaitEvent(void*, void*, unsigned);
Status cuMemAlloc_v2(uintptr_t*, size_t);
Status cuMemFree_v2(uintptr_t);
Status cuMemHostAlloc(void**, size_t, unsigned);
Status cuMemcpyHtoDAsync_v2(uintptr_t, const void*, size_t, void*);
Status cuMemcpyDtoHAsync_v2(void*, uintptr_t, size_t, void*);
Status cuMemcpyDtoDAsync_v2(uintptr_t, uintptr_t, size_t, void*);
Status cuModuleLoadData(void**, const void*);
Status cuModuleGetFunction(void**, void*, const char*);
Status cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
    void**);
Status nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*, const char* const*);
Status nvrtcCompileProgram(void*, int, const char* const*);
Status nvrtcGetCUBINSize(void*, size_t*);
Status nvrtcGetCUBIN(void*, char*);
}

static void* stream;
static void start() {
  void* context;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuStreamCreate(&stream,
      1)) exit(90);
}

// Runs `void f(double* x, int n)` on 64 numbers 0, 1 ...; what the wait for it gave, and the numbers.
static Status run(const std::string& body, std::vector<double>& x, unsigned shared = 0, unsigned blocks = 1) {
  start();
  x.resize(64);
  for (int k = 0; k < 64; k++) x[(size_t)k] = k;
  void *program, *module, *function;
  const std::string source = "extern \"C\" __global__ void f(double* x, int n) {\n" + body + "\n}\n";
  size_t size;
  if (nvrtcCreateProgram(&program, source.c_str(), "f.cu", 0, nullptr, nullptr) || nvrtcCompileProgram(program, 0,
      nullptr)) exit(91);
  nvrtcGetCUBINSize(program, &size);
  std::vector<char> image(size);
  nvrtcGetCUBIN(program, image.data());
  uintptr_t at;
  int n = 64;
  void* arguments[] = {&at, &n};
  if (cuModuleLoadData(&module, image.data()) || cuModuleGetFunction(&function, module, "f") ||
      cuMemAlloc_v2(&at, 64 * 8)) exit(92);
  if (cuMemcpyHtoDAsync_v2(at, x.data(), 64 * 8, stream)) exit(93);
  if (cuLaunchKernel(function, blocks, 1, 1, 64 / blocks, 1, 1, shared, stream, arguments, nullptr)) exit(94);
  const Status status = cuStreamSynchronize(stream);
  if (!status) cuMemcpyDtoHAsync_v2(x.data(), at, 64 * 8, stream);
  return status;
}
static Status run(const std::string& body) {
  std::vector<double> x;
  return run(body, x);
}

static int failed = 0;
template <class F> void check(const char* what, const std::vector<const char*>& variables, F holds) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (const char* v : variables) putenv(const_cast<char*>(v));
    (void)!freopen("/dev/null", "w", stderr);
    _exit(holds() ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  const bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!ok) failed++;
  printf("%s: %s\n", ok ? "ok" : "FAILED", what);
}

int main() {
  static char guard[] = "VERDIGRIS_EMULATOR_GUARD=1", checked[] = "VERDIGRIS_EMULATOR_CHECK=1",
      shuffle[] = "VERDIGRIS_EMULATOR_SHUFFLE=1",
              delay[] = "VERDIGRIS_EMULATOR_DELAY=20000";
  const unsigned ILLEGAL = 700, MISALIGNED = 716, FAILED = 719;
  const char* reverse = "__shared__ double s[64]; int t = threadIdx.x; s[t] = x[t]; __syncthreads(); x[t] = s[63 - t];";
  check("a kernel with a barrier", {shuffle, guard, checked}, [&] {
    std::vector<double> x;
    return run(reverse, x) == 0 && x[0] == 63 && x[63] == 0;
  });
  check("a barrier that is missing", {shuffle}, [&] {
    std::vector<double> x;
    std::string body = reverse;
    body.erase(body.find("__syncthreads();"), 16);
    return run(body, x) == 0 && (x[0] != 63 || x[63] != 0);
  });
  check("blocks that rely on their order", {shuffle}, [&] {
    std::vector<double> x;
    run("if (blockIdx.x == gridDim.x - 1) x[0] = -1; else x[0] = blockIdx.x;", x, 0, 64);
    return x[0] != -1;
  });
  check("shuffles and votes", {}, [&] {
    std::vector<double> x;
    return run("int t = threadIdx.x; double y = __shfl_down_sync(0xffffffffu, x[t], 1); x[t] = y + 1000 * __popc(__ballot_sync(0xffffffffu, t & 1));", x) == 0 &&
           x[0] == 16001 && x[31] == 16031;
  });
  check("threads at different barriers", {}, [&] {
      return run("if (threadIdx.x < 7) __syncthreads(); else { x[0] = 1; __syncthreads(); }") == FAILED; });
  check("lanes that do not come", {}, [&] {
      return run("if (threadIdx.x < 7) __syncwarp(); else __syncthreads();") == FAILED; });
  check("an address that is none", {}, [&] { return run("x[(long long)n << 40] = 1;") == ILLEGAL; });
  check("an element past the end", {guard}, [&] { return run("x[n] = 1;") == ILLEGAL; });
  check("an index past a shared array", {checked}, [&] {
      return run("__shared__ double s[32]; s[threadIdx.x] = 1; __syncthreads(); x[0] = s[0];") == MISALIGNED; });
  check("an address that is not aligned", {checked}, [&] {
      return run("*(double2*)(x + 1) = make_double2(1, 2);") == MISALIGNED; });
  check("shared memory past what was asked for", {}, [&] {
    std::vector<double> x;
    return run("extern __shared__ double s[]; s[threadIdx.x] = 1;", x, 504) == ILLEGAL;
  });
  check("a copy of memory that was freed", {guard}, [&] {
    start();
    uintptr_t a, b;
    cuMemAlloc_v2(&a, 64);
    cuMemAlloc_v2(&b, 64);
    cuMemFree_v2(a);
    return cuMemcpyDtoDAsync_v2(b, a, 64, stream) == 1;
  });
  // page-locked memory is read when the copy's turn comes, other memory before the call returns
  const auto changed = [&](bool locked) {
    start();
    void* host = malloc(64);
    if (locked) cuMemHostAlloc(&host, 64, 0);
    uintptr_t a;
    char back[64];
    cuMemAlloc_v2(&a, 64);
    memset(host, 1, 64);
    cuMemcpyHtoDAsync_v2(a, host, 64, stream);
    memset(host, 2, 64);
    cuMemcpyDtoHAsync_v2(back, a, 64, stream);
    return back[0];
  };
  check("a page-locked source that is changed too early", {delay}, [&] { return changed(true) == 2; });
  check("an ordinary source that is changed", {delay}, [&] { return changed(false) == 1; });
  // a copy on one stream of what another has not yet written, without an event between them and with one
  const auto crossed = [&](bool ordered) {
    start();
    void *other, *event, *locked;
    cuStreamCreate(&other, 1);
    cuEventCreate(&event, 2);
    cuMemHostAlloc(&locked, 64, 0);
    uintptr_t a;
    char ones[64], back[64];
    memset(ones, 1, 64);
    cuMemAlloc_v2(&a, 64);
    int seen = 0;
    for (int turn = 0; turn < 20; turn++) {
      memset(locked, 0, 64);
      cuMemcpyHtoDAsync_v2(a, locked, 64, stream);
      cuStreamSynchronize(stream);
      cuMemcpyHtoDAsync_v2(a, ones, 64, stream);
      if (ordered && (cuEventRecord(event, stream) || cuStreamWaitEvent(other, event, 0))) return -1;
      cuMemcpyDtoHAsync_v2(back, a, 64, other);
      seen += back[0] == 1;
      cuStreamSynchronize(stream);
    }
    return seen;
  };
  check("streams without order", {delay}, [&] { return crossed(false) < 20; });
  check("streams that an event orders", {delay}, [&] { return crossed(true) == 20; });
  return failed != 0;
}
