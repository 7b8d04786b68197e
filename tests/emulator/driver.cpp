// libcuda.so.1: the functions of the driver that the package asks for (src/backend/cuda/api.rs), on emulated devices.
// Numbers of attributes and statuses are those of cuda.h.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "device.h"
#include "grid.h"
#include "settings.h"

using namespace emulator;

namespace {

enum Status : unsigned {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, JIT_COMPILER_NOT_FOUND = 221, SHARED_OBJECT_INIT_FAILED = 303, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
  ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, MISALIGNED_ADDRESS = 716,
  LAUNCH_FAILED = 719, COOPERATIVE_LAUNCH_TOO_LARGE = 720, HARDWARE_STACK_ERROR = 714, NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_ISOLATION = 905
};
struct Text { unsigned code; const char *name, *sentence; };
const Text TEXTS[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {JIT_COMPILER_NOT_FOUND, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
    {SHARED_OBJECT_INIT_FAILED, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {HARDWARE_STACK_ERROR, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
};

struct Event {
  std::mutex lock;
  std::shared_ptr<Moment> moment;
  Device* device = nullptr;
};
struct Function;
struct Loaded {
  emulator::Module* module;
  Device* device;
  std::map<std::string, Function*> functions;
};
struct Function {
  Loaded* loaded;
  const Kernel* kernel;
  unsigned most_shared = 48 << 10;
};

bool started = false;
thread_local Device* current = nullptr;

Stream* stream_of(void* handle) {
  const uintptr_t number = (uintptr_t)handle;
  if (number > 2) return (Stream*)handle;
  return current ? current->legacy() : nullptr;
}

// Every call begins so: a context that has failed serves none.
#define ENTER                              \
  if (!started) return NOT_INITIALIZED;    \
  if (!current) return INVALID_CONTEXT;    \
  if (unsigned status = current->broken) return status

// Runs something in a stream's order, unless its device has failed.
template <class F> unsigned queue(Stream* stream, F work) {
  if (!stream) return INVALID_CONTEXT;
  stream->queue([stream, work]() mutable {
    if (!stream->device.broken) work();
  });
  return SUCCESS;
}

// What waits for a stream, or orders it, is no part of a graph of it.
#define NOT_CAPTURED(stream, status)     \
  if ((stream)->captured) {              \
    (stream)->captured->valid = false;   \
    return status;                       \
  }

// Memory of any device, or page-locked memory of the host.
bool reachable(uintptr_t address, size_t bytes) { return owner(address, bytes) || pinned((void*)address, bytes); }

unsigned copy(Stream* stream, uintptr_t to, uintptr_t from, size_t bytes) {
  return queue(stream, [=] { memmove((void*)to, (void*)from, bytes); });
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) unsigned
typedef uintptr_t Address;

// ---- what there is ----------------------------------------------------------------------------------
static unsigned text_of(unsigned code, const char** out, bool sentence) {
  *out = nullptr;
  for (const Text& t : TEXTS)
    if (t.code == code) *out = sentence ? t.sentence : t.name;
  return *out ? SUCCESS : INVALID_VALUE;
}
API cuGetErrorName(unsigned code, const char** out) { return text_of(code, out, false); }
API cuGetErrorString(unsigned code, const char** out) { return text_of(code, out, true); }
API cuInit(unsigned flags) {
  if (flags) return INVALID_VALUE;
  if (settings().devices == 0) return NO_DEVICE;
  started = true;
  return SUCCESS;
}
API cuDriverGetVersion(int* version) {
  *version = 12080;
  return SUCCESS;
}
API cuDeviceGetCount(int* count) {
  if (!started) return NOT_INITIALIZED;
  *count = (int)settings().devices;
  return SUCCESS;
}
API cuDeviceGet(int* out, int ordinal) {
  if (!started) return NOT_INITIALIZED;
  if (!device(ordinal)) return INVALID_DEVICE;
  *out = ordinal;
  return SUCCESS;
}
API cuDeviceGetName(char* out, int room, int ordinal) {
  if (!device(ordinal)) return INVALID_DEVICE;
  snprintf(out, (size_t)room, "Emulated GPU");
  return SUCCESS;
}
API cuDeviceTotalMem_v2(size_t* out, int ordinal) {
  if (!device(ordinal)) return INVALID_DEVICE;
  *out = settings().memory;
  return SUCCESS;
}
API cuDeviceGetAttribute(int* out, int which, int ordinal) {
  if (!device(ordinal)) return INVALID_DEVICE;
  switch (which) {
    case 1: *out = 1024; break;                                // threads of a block
    case 10: *out = 32; break;                                 // threads of a warp
    case 16: *out = (int)settings().multiprocessors; break;
    case 18: *out = 0; break;                                  // shares the host's memory
    case 38: *out = 50 << 20; break;                           // second-level cache
    case 75: *out = 9; break;                                  // compute capability
    case 76: *out = 0; break;
    case 97: *out = (int)DYNAMIC_SHARED; break;
    case 115: *out = 1; break;                                 // memory pools
    default: *out = 0;
  }
  return SUCCESS;
}

// ---- contexts ---------------------------------------------------------------------------------------
API cuDevicePrimaryCtxRetain(Device** out, int ordinal) {
  if (!started) return NOT_INITIALIZED;
  if (!device(ordinal)) return INVALID_DEVICE;
  *out = device(ordinal);
  (*out)->retained = true;
  return SUCCESS;
}
API cuCtxGetCurrent(Device** out) {
  if (!started) return NOT_INITIALIZED;
  *out = current;
  return SUCCESS;
}
API cuCtxSetCurrent(Device* context) {
  if (!started) return NOT_INITIALIZED;
  current = context;
  return SUCCESS;
}

// ---- streams and events -----------------------------------------------------------------------------
API cuStreamCreate(Stream** out, unsigned) {
  ENTER;
  *out = new Stream(*current);
  return SUCCESS;
}
API cuStreamCreateWithPriority(Stream** out, unsigned flags, int) { return cuStreamCreate(out, flags); }
API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER;
  *least = 0;
  *greatest = -5;
  return SUCCESS;
}
API cuStreamBeginCapture_v2(Stream* stream, int) {
  ENTER;
  if (stream->captured) return CAPTURE_UNSUPPORTED;
  stream->captured = new Graph;
  return SUCCESS;
}
API cuStreamEndCapture(Stream* stream, Graph** out) {
  ENTER;
  *out = nullptr;
  if (!stream->captured) return CAPTURE_UNMATCHED;
  Graph* graph = stream->captured;
  stream->captured = nullptr;
  if (!graph->valid) {
    delete graph;
    return CAPTURE_INVALIDATED;
  }
  *out = graph;
  return SUCCESS;
}
API cuGraphGetNodes(Graph* graph, void*, size_t* count) {
  ENTER;
  *count = graph->items.size();
  return SUCCESS;
}
API cuGraphInstantiateWithFlags(Graph** out, Graph* graph, unsigned long long) {
  ENTER;
  *out = new Graph(*graph);
  return SUCCESS;
}
API cuGraphLaunch(Graph* graph, void* handle) {
  ENTER;
  Stream* stream = stream_of(handle);
  for (const auto& item : graph->items) stream->queue(item);
  return SUCCESS;
}
API cuGraphDestroy(Graph* graph) {
  delete graph;
  return SUCCESS;
}
API cuGraphExecDestroy(Graph* graph) {
  delete graph;
  return SUCCESS;
}
API cuStreamSynchronize(void* handle) {
  ENTER;
  Stream* stream = stream_of(handle);
  NOT_CAPTURED(stream, CAPTURE_UNSUPPORTED);
  stream->wait();
  return stream->device.broken;
}
API cuStreamQuery(void* handle) {
  ENTER;
  Stream* stream = stream_of(handle);
  NOT_CAPTURED(stream, CAPTURE_UNSUPPORTED);
  if (stream->empty()) return stream->device.broken;
  std::this_thread::yield();  // there may be one core for both
  return NOT_READY;
}
API cuStreamWaitEvent(void* handle, Event* event, unsigned) {
  ENTER;
  if (!event) return INVALID_HANDLE;
  std::shared_ptr<Moment> moment;
  {
    std::lock_guard<std::mutex> held(event->lock);
    moment = event->moment;
  }
  Stream* stream = stream_of(handle);
  NOT_CAPTURED(stream, CAPTURE_ISOLATION);
  if (!moment || moment->done) return SUCCESS;  // one that was never recorded has happened
  stream->queue([moment] {
    while (!moment->done.load(std::memory_order_acquire)) usleep(20);
  });
  return SUCCESS;
}
API cuEventCreate(Event** out, unsigned) {
  ENTER;
  *out = new Event;
  (*out)->device = current;
  return SUCCESS;
}
API cuEventDestroy_v2(Event* event) {
  delete event;
  return SUCCESS;
}
API cuEventRecord(Event* event, void* handle) {
  ENTER;
  if (!event) return INVALID_HANDLE;
  Stream* stream = stream_of(handle);
  if (event->device != &stream->device) return INVALID_HANDLE;
  NOT_CAPTURED(stream, CAPTURE_ISOLATION);
  auto moment = std::make_shared<Moment>();
  {
    std::lock_guard<std::mutex> held(event->lock);
    event->moment = moment;
  }
  // also on a device that has failed: others wait
  stream->queue([moment] {
    moment->at = milliseconds();
    moment->done.store(true, std::memory_order_release);
  });
  return SUCCESS;
}
API cuEventQuery(Event* event) {
  ENTER;
  std::lock_guard<std::mutex> held(event->lock);
  if (event->moment && !event->moment->done.load(std::memory_order_acquire)) {
    std::this_thread::yield();
    return NOT_READY;
  }
  return event->device->broken;
}
API cuEventSynchronize(Event* event) {
  ENTER;
  std::shared_ptr<Moment> moment;
  {
    std::lock_guard<std::mutex> held(event->lock);
    moment = event->moment;
  }
  while (moment && !moment->done.load(std::memory_order_acquire)) usleep(20);
  return event->device->broken;
}
API cuEventElapsedTime(float* out, Event* from, Event* to) {
  ENTER;
  if (!from->moment || !to->moment) return INVALID_HANDLE;
  if (!from->moment->done || !to->moment->done) return NOT_READY;
  *out = (float)(to->moment->at - from->moment->at);
  return SUCCESS;
}
API cuLaunchHostFunc(void* handle, void (*function)(void*), void* data) {
  ENTER;
  return queue(stream_of(handle), [=] { function(data); });
}

// ---- memory -----------------------------------------------------------------------------------------
API cuMemPoolCreate(Pool** out, const void* properties) {
  ENTER;
  // type, handle types, then the location: its type and its number
  const int ordinal = ((const int*)properties)[3];
  Device* of = device(ordinal);
  if (!of) return INVALID_DEVICE;
  *out = new Pool{*of};
  of->pools.push_back(*out);
  return SUCCESS;
}
API cuMemPoolSetAttribute(Pool* pool, int which, const uint64_t* value) {
  ENTER;
  switch (which) {
    case 4: pool->threshold = *value; return SUCCESS;
    case 6: pool->reserved_high = pool->reserved; return *value ? INVALID_VALUE : SUCCESS;
    case 8: pool->used_high = pool->used; return *value ? INVALID_VALUE : SUCCESS;
    default: return INVALID_VALUE;
  }
}
API cuMemPoolGetAttribute(Pool* pool, int which, uint64_t* out) {
  ENTER;
  switch (which) {
    case 4: *out = pool->threshold; return SUCCESS;
    case 5: *out = pool->reserved; return SUCCESS;
    case 6: *out = pool->reserved_high; return SUCCESS;
    case 7: *out = pool->used; return SUCCESS;
    case 8: *out = pool->used_high; return SUCCESS;
    default: return INVALID_VALUE;
  }
}
API cuMemPoolTrimTo(Pool* pool, size_t keep) {
  ENTER;
  trim(*pool, keep);
  return SUCCESS;
}
API cuMemAllocFromPoolAsync(Address* out, size_t bytes, Pool* pool, void* handle) {
  ENTER;
  if (!pool || !bytes) return INVALID_VALUE;
  NOT_CAPTURED(stream_of(handle), CAPTURE_UNSUPPORTED);
  *out = take(pool->device, pool, bytes);
  if (!*out) return OUT_OF_MEMORY;
  // until the stream comes here, its earlier work may use the memory: who writes before loses what it wrote
  return queue(stream_of(handle), [address = *out, bytes] { if (owner(address, bytes)) fill_new(address, bytes); });
}
API cuMemFreeAsync(Address address, void* handle) {
  ENTER;
  Piece piece;
  NOT_CAPTURED(stream_of(handle), CAPTURE_UNSUPPORTED);
  if (!drop(address, piece)) return INVALID_VALUE;
  return queue(stream_of(handle), [=] { give_back(address, piece); });
}
API cuMemAlloc_v2(Address* out, size_t bytes) {
  ENTER;
  if (!bytes) return INVALID_VALUE;
  *out = take(*current, nullptr, bytes);
  if (!*out) return OUT_OF_MEMORY;
  fill_new(*out, bytes);
  return SUCCESS;
}
API cuMemFree_v2(Address address) {
  ENTER;
  Piece piece;
  if (!drop(address, piece)) return INVALID_VALUE;
  give_back(address, piece);
  return SUCCESS;
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER;
  *free = free_bytes(*current);
  *total = settings().memory;
  return SUCCESS;
}
API cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  ENTER;
  void* p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!p) return OUT_OF_MEMORY;
  memset(p, 0xA5, bytes);
  pin(p, bytes);
  *out = p;
  return SUCCESS;
}
API cuMemFreeHost(void* p) {
  ENTER;
  if (!unpin(p)) return INVALID_VALUE;
  free(p);
  return SUCCESS;
}
API cuMemHostRegister_v2(void* p, size_t bytes, unsigned) {
  ENTER;
  if (!p || !bytes) return INVALID_VALUE;
  return pin(p, bytes) ? SUCCESS : ALREADY_REGISTERED;
}
API cuMemHostUnregister(void* p) {
  ENTER;
  return unpin(p) ? SUCCESS : NOT_REGISTERED;
}
API cuMemHostGetDevicePointer_v2(Address* out, void* p, unsigned) {
  ENTER;
  if (!pinned(p, 1)) return INVALID_VALUE;
  *out = (Address)p;
  return SUCCESS;
}
// Of memory that the driver does not know all answers are 0.
API cuPointerGetAttributes(unsigned count, int* which, void** out, Address address) {
  ENTER;
  Device* of = owner(address, 1);
  const bool host = !of && pinned((void*)address, 1);
  uintptr_t start = 0;
  size_t bytes = 0;
  if (of) range(address, &start, &bytes);
  for (unsigned k = 0; k < count; k++) {
    switch (which[k]) {
      case 2: *(unsigned*)out[k] = of ? 2 : host; break;  // device or host
      case 8: *(bool*)out[k] = false; break;              // managed
      case 9: *(int*)out[k] = of ? of->ordinal : host ? current->ordinal : -2; break;
      case 11: *(uintptr_t*)out[k] = start; break;
      case 12: *(size_t*)out[k] = bytes; break;
      default: return INVALID_VALUE;
    }
  }
  return SUCCESS;
}
API cuPointerGetAttribute(void* out, int which, Address address) {
  ENTER;
  if (!owner(address, 1) && !pinned((void*)address, 1)) return INVALID_VALUE;
  return cuPointerGetAttributes(1, &which, &out, address);
}
API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* handle) {
  ENTER;
  if (!reachable(to, bytes)) return INVALID_VALUE;
  Stream* stream = stream_of(handle);
  if (pinned(from, bytes)) return copy(stream, to, (Address)from, bytes);
  NOT_CAPTURED(stream, CAPTURE_UNSUPPORTED);
  // ordinary memory has been read when the call returns
  auto kept = std::make_shared<std::vector<char>>((const char*)from, (const char*)from + bytes);
  return queue(stream, [=] { memcpy((void*)to, kept->data(), bytes); });
}
API cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* handle) {
  ENTER;
  if (!reachable(from, bytes)) return INVALID_VALUE;
  Stream* stream = stream_of(handle);
  const unsigned status = copy(stream, (Address)to, from, bytes);
  // ordinary memory has been written when the call returns
  if (status || pinned(to, bytes)) return status;
  NOT_CAPTURED(stream, CAPTURE_UNSUPPORTED);
  stream->wait();
  return stream->device.broken;
}
API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* handle) {
  ENTER;
  if (!reachable(to, bytes) || !reachable(from, bytes)) return INVALID_VALUE;
  return copy(stream_of(handle), to, from, bytes);
}
API cuMemsetD8Async(Address to, unsigned char byte, size_t bytes, void* handle) {
  ENTER;
  if (!reachable(to, bytes)) return INVALID_VALUE;
  return queue(stream_of(handle), [=] { memset((void*)to, byte, bytes); });
}

// ---- modules ----------------------------------------------------------------------------------------
// The driver's own compiler is not emulated: what is shipped as PTX comes to be compiled from source.
API cuLinkCreate_v2(unsigned, void*, void*, void** out) {
  ENTER;
  *out = malloc(1);
  return SUCCESS;
}
API cuLinkAddData_v2(void*, int, void*, size_t, const char*, unsigned, void*, void*) { return JIT_COMPILER_NOT_FOUND; }
API cuLinkComplete(void*, void**, size_t*) { return JIT_COMPILER_NOT_FOUND; }
API cuLinkDestroy(void* link) {
  free(link);
  return SUCCESS;
}

// What "PTX" has in its comment; empty for real PTX, which is not emulated.
static std::string from_ptx(const char* text) {
  const char* at = strstr(text, ".address_size 64\n//");
  std::string bytes;
  if (!at) return bytes;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (at += 19; digit(at[0]) >= 0 && digit(at[1]) >= 0; at += 2) bytes += (char)(digit(at[0]) * 16 + digit(at[1]));
  return bytes;
}

API cuModuleLoadData(Loaded** out, const void* image) {
  ENTER;
  const char* bytes = (const char*)image;
  std::string text;
  unsigned magic;
  memcpy(&magic, bytes, 4);
  if (magic == 0xBA55ED50) {
    // a fatbin: of its parts the first that is machine code
    unsigned short header, kind;
    uint64_t size, part_size;
    unsigned part_header;
    memcpy(&header, bytes + 6, 2);
    memcpy(&size, bytes + 8, 8);
    for (const char *part = bytes + header, *end = part + size; part < end; part += part_header + part_size) {
      memcpy(&kind, part, 2);
      memcpy(&part_header, part + 4, 4);
      memcpy(&part_size, part + 8, 8);
      if (kind == 2) return cuModuleLoadData(out, part + part_header);
    }
    return NO_BINARY_FOR_GPU;
  }
  if (bytes[0] == '/' || bytes[0] == '.') {
    text = from_ptx(bytes);
    if (text.empty()) return JIT_COMPILER_NOT_FOUND;
    bytes = text.data();
  }
  Elf64_Ehdr head;
  if (memcmp(bytes, ELFMAG, SELFMAG)) return INVALID_IMAGE;
  memcpy(&head, bytes, sizeof head);
  // machine code of a real GPU, as it is shipped for the interpreters
  if (head.e_machine == EM_CUDA && head.e_ident[EI_NIDENT - 1] != EMULATED) return NO_BINARY_FOR_GPU;
#if defined(__aarch64__)
  head.e_machine = EM_AARCH64;
#else
  head.e_machine = EM_X86_64;
#endif
  head.e_ident[EI_NIDENT - 1] = 0;
  // the linker writes the section headers last
  const size_t size = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
  // the loader knows libraries by name: each needs one of its own
  const char* base = getenv("TMPDIR");
  std::string path = std::string(base && *base ? base : "/tmp") + "/emulated-kernels-XXXXXX";
  const int file = mkstemp(&path[0]);
  if (file < 0) return SHARED_OBJECT_INIT_FAILED;
  const bool written = write(file, &head, sizeof head) == (ssize_t)sizeof head &&
                       write(file, bytes + sizeof head, size - sizeof head) == (ssize_t)(size - sizeof head);
  close(file);
  void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  auto* module = library ? (emulator::Module*)dlsym(library, "vg_module") : nullptr;
  if (!module || module->version != VERSION) {
    const char* reason = dlerror();
    fprintf(stderr, "emulated GPU: a module does not load: %s\n", reason ? reason : "of another version");
    return INVALID_IMAGE;
  }
  for (unsigned k = 0; k < module->global_count; k++) adopt(*current, (Address)module->globals[k].address, module->globals[k].bytes);
  *out = new Loaded{module, current, {}};
  return SUCCESS;
}
API cuModuleLoadDataEx(Loaded** out, const void* image, unsigned, void*, void*) { return cuModuleLoadData(out, image); }
API cuModuleGetGlobal_v2(Address* address, size_t* bytes, Loaded* loaded, const char* name) {
  ENTER;
  for (unsigned k = 0; k < loaded->module->global_count; k++)
    if (const auto& g = loaded->module->globals[k]; !strcmp(g.name, name)) {
      *address = (Address)g.address;
      *bytes = g.bytes;
      return SUCCESS;
    }
  return NOT_FOUND;
}
API cuModuleUnload(Loaded*) {
  ENTER;
  return SUCCESS;
}
API cuModuleGetFunction(Function** out, Loaded* loaded, const char* name) {
  ENTER;
  for (unsigned k = 0; k < loaded->module->count; k++)
    if (!strcmp(loaded->module->kernels[k].name, name)) {
      Function*& known = loaded->functions[name];
      if (!known) known = new Function{loaded, &loaded->module->kernels[k]};
      *out = known;
      return SUCCESS;
    }
  return NOT_FOUND;
}
API cuModuleGetFunctionCount(unsigned* count, Loaded* loaded) {
  ENTER;
  *count = loaded->module->count;
  return SUCCESS;
}
API cuModuleEnumerateFunctions(Function** out, unsigned count, Loaded* loaded) {
  ENTER;
  for (unsigned k = 0; k < count && k < loaded->module->count; k++) cuModuleGetFunction(out + k, loaded, loaded->module->kernels[k].name);
  return SUCCESS;
}
API cuFuncGetName(const char** out, Function* function) {
  *out = function->kernel->name;
  return SUCCESS;
}
API cuFuncGetParamInfo(Function* function, size_t which, size_t* offset, size_t* bytes) {
  if (which >= function->kernel->count) return INVALID_VALUE;
  size_t at = 0;
  for (size_t k = 0; k < which; k++) at += function->kernel->sizes[k];
  *offset = at;
  *bytes = function->kernel->sizes[which];
  return SUCCESS;
}
static unsigned most_threads(const Kernel& kernel) { return kernel.bounds ? kernel.bounds : 1024; }
API cuFuncGetAttribute(int* out, int which, Function* function) {
  ENTER;
  const emulator::Module& m = *function->loaded->module;
  switch (which) {
    case 0: *out = (int)most_threads(*function->kernel); break;
    case 1: *out = (int)(m.shared_end - m.shared); break;
    case 4: *out = 32; break;  // registers
    case 8: *out = (int)function->most_shared; break;
    default: *out = 0;
  }
  return SUCCESS;
}
API cuFuncSetAttribute(Function* function, int which, int value) {
  ENTER;
  if (which != 8 || value < 0 || value > (int)DYNAMIC_SHARED) return INVALID_VALUE;
  function->most_shared = (unsigned)value;
  return SUCCESS;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, Function* function, int threads, size_t shared) {
  ENTER;
  if (threads <= 0) return INVALID_VALUE;
  int blocks = std::min(2048 / threads, 32);
  const emulator::Module& m = *function->loaded->module;
  const size_t each = shared + (size_t)(m.shared_end - m.shared);
  if (each) blocks = std::min(blocks, (int)(DYNAMIC_SHARED / each));
  *out = (unsigned)threads > most_threads(*function->kernel) ? 0 : blocks;
  return SUCCESS;
}

API cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Function* function, void*, size_t shared, int limit) {
  ENTER;
  int per = 0;
  *block = (int)most_threads(*function->kernel);
  if (limit > 0) *block = std::min(*block, limit);
  const unsigned status = cuOccupancyMaxActiveBlocksPerMultiprocessor(&per, function, *block, shared);
  *grid = per * (int)settings().multiprocessors;
  return status;
}

API cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* handle,
                   void** arguments, void** extra) {
  ENTER;
  Stream* stream = stream_of(handle);
  if (&stream->device != function->loaded->device || current != function->loaded->device) return INVALID_HANDLE;
  const uint64_t threads = (uint64_t)bx * by * bz;
  if (extra || !gx || !gy || !gz || !threads || gx > 0x7FFFFFFFu || gy > 65535 || gz > 65535 || threads > 1024 || bz > 64) return INVALID_VALUE;
  const Kernel& kernel = *function->kernel;
  if (threads > most_threads(kernel)) return LAUNCH_OUT_OF_RESOURCES;
  if (shared > function->most_shared) return INVALID_VALUE;
  // the arguments are read before the return
  auto launch = std::make_shared<Launch>();
  *launch = {function->loaded->module, &kernel, {gx, gy, gz}, {bx, by, bz}, shared, {}, {}};
  size_t bytes = 0;
  for (unsigned k = 0; k < kernel.count; k++) bytes += (kernel.sizes[k] + 15) / 16 * 16;
  launch->memory.resize(bytes + 16);
  unsigned char* at = (unsigned char*)(((uintptr_t)launch->memory.data() + 15) / 16 * 16);
  for (unsigned k = 0; k < kernel.count; k++) {
    memcpy(at, arguments[k], kernel.sizes[k]);
    launch->arguments.push_back(at);
    at += (kernel.sizes[k] + 15) / 16 * 16;
  }
  return queue(stream, [stream, launch] {
    const Outcome outcome = run_grid(*launch);
    if (!outcome.status) return;
    stream->device.fail(outcome.status, std::string("kernel `") + launch->kernel->name + "`: " + outcome.message);
  });
}
namespace {
struct Attribute { unsigned id, padding; union { int cooperative; unsigned cluster[3]; char room[64]; } value; };
struct Config { unsigned gx, gy, gz, bx, by, bz, shared; void* stream; Attribute* attributes; unsigned count; };
}  // namespace
// Blocks run one after the other: those that wait for each other wait for good, so only the limits of cooperative launches and clusters are here.
API cuLaunchKernelEx(const Config* config, Function* function, void** arguments, void** extra) {
  ENTER;
  for (unsigned k = 0; k < config->count; k++) {
    const Attribute& a = config->attributes[k];
    int blocks = 0;
    if (a.id == 2 && a.value.cooperative) {
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)(config->bx * config->by * config->bz), config->shared);
      if ((uint64_t)config->gx * config->gy * config->gz > (uint64_t)blocks * settings().multiprocessors) return COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    if (a.id == 4 && (config->gx % a.value.cluster[0] || config->gy % a.value.cluster[1] || config->gz % a.value.cluster[2])) return INVALID_VALUE;
  }
  return cuLaunchKernel(function, config->gx, config->gy, config->gz, config->bx, config->by, config->bz, config->shared, config->stream, arguments, extra);
}
