// Shared by the files of libcuda.so.1: statuses, the current device, queueing.
#pragma once
#include "device.h"

namespace emulator {

enum Status : unsigned {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
      INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, JIT_COMPILER_NOT_FOUND = 221, SHARED_OBJECT_INIT_FAILED = 303,
      INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
  ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713,
      MISALIGNED_ADDRESS = 716,
  LAUNCH_FAILED = 719, COOPERATIVE_LAUNCH_TOO_LARGE = 720, HARDWARE_STACK_ERROR = 714, NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_ISOLATION = 905
};

inline bool started = false;
inline thread_local Device* current = nullptr;

inline Stream* stream_of(void* handle) {
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

}  // namespace emulator

#define API extern "C" __attribute__((visibility("default"))) unsigned
typedef uintptr_t Address;
