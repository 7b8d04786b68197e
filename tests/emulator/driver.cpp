// libcuda.so.1: the driver functions that the package uses (src/rust/crates/engine/src/backend/cuda/driver/api.rs), on
// emulated devices. Those of modules and launches are in modules.cpp. Numbers of attributes and statuses are those of
// cuda.h.
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "driver.h"
#include "module.h"
#include "settings.h"

using namespace emulator;

namespace {

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
    {ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        "part or all of the requested memory range is already mapped"},
    {NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        "pointer does not correspond to a registered memory region"},
    {HARDWARE_STACK_ERROR, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        "operation failed due to a previous error during capture"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        "dependency created on uncaptured work in another stream"},
};

struct Event {
  std::mutex lock;
  std::shared_ptr<Moment> moment;
  Device* device = nullptr;
};
struct Lent { // CUipcMemHandle
  pid_t process;
  uintptr_t address;
  size_t bytes;
  char unused[40];
};
// Memory of any device, or page-locked memory of the host.
bool reachable(uintptr_t address, size_t bytes) { return owner(address, bytes) || pinned((void*)address, bytes); }

unsigned copy(Stream* stream, uintptr_t to, uintptr_t from, size_t bytes) {
  return queue(stream, [=] { memmove((void*)to, (void*)from, bytes); });
}

}  // namespace

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
API cuGraphExecDestroy(Graph* graph) {
  delete graph;
  return SUCCESS;
}
API cuStreamSynchronize(void* handle) {
  ENTER;
  Stream* stream = stream_of(handle);
  NOT_CAPTURED(stream, CAPTURE_UNSUPPORTED);
  stream->wait();
  observe(*stream);
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
    case 1: case 2: case 3: return SUCCESS; // what is freed on another stream is given to nobody here before it is free
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
  note_freed(*stream_of(handle), piece);
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
// The handle is a process and an address. What is opened is a copy as of that moment.
API cuIpcGetMemHandle(Lent* out, Address address) {
  ENTER;
  Address start = 0;
  size_t bytes = 0;
  range(address, &start, &bytes);
  if (!bytes || start != address) return INVALID_VALUE;
  *out = {getpid(), address, bytes, {}};
  return SUCCESS;
}
API cuIpcOpenMemHandle_v2(Address* out, Lent lent, unsigned) {
  ENTER;
  if (!lent.process) return INVALID_VALUE;
  if (lent.process == getpid()) return INVALID_CONTEXT;
  *out = take(*current, nullptr, lent.bytes);
  if (!*out) return OUT_OF_MEMORY;
  iovec here{(void*)*out, lent.bytes}, there{(void*)lent.address, lent.bytes};
  if (process_vm_readv(lent.process, &here, 1, &there, 1, 0) == (ssize_t)lent.bytes) return SUCCESS;
  cuMemFree_v2(*out);
  return INVALID_VALUE;
}
API cuIpcCloseMemHandle(Address address) { return cuMemFree_v2(address); }
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
