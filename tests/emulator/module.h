// The interface between a compiled kernel module and the emulated driver. Both include it: the module by way of
// cuda_on_host.h, which has no headers to include.
#pragma once

namespace emulator {

typedef unsigned u32;
typedef unsigned long long u64;
struct Index { u32 x, y, z; };

/// What a warp does together.
enum Together { SHUFFLE = 0, BALLOT = 1, SYNC = 2, MATCH = 3 };

/// What kernels ask of the one that runs them. `site` is the place in the source that asks: its low bits are the line.
const int LINE = (1 << 18) - 1;
struct Host {
  /// SHUFFLE gives the value of lane `lane`, BALLOT the lanes whose value is not 0, MATCH those with this one's value.
  u64 (*together)(Together what, u32 lanes, u64 value, u32 lane, int site);
  /// Waits for the block's threads; gives how many of them came with a `value` that is not 0.
  u32 (*barrier)(u32 value, int site);
  void (*trap)();
  u64 (*clock)();
};

struct Kernel {
  const char* name;
  void (*call)(void** arguments);
  const u32* sizes;  // of the arguments, in bytes
  u32 count;
  u32 bounds;  // __launch_bounds__, or 0
};

/// A variable that lies outside all functions.
struct Global {
  const char* name;
  void* address;
  u64 bytes;
};

/// A "cubin" says that it is for a GPU, and by this last byte of its identification that the GPU is emulated.
const unsigned char EMULATED = 'V';

const u32 DYNAMIC_SHARED = 227 << 10, STATIC_SHARED = 48 << 10;
const u32 CANARY = 64;
const u32 VERSION = 2;

struct Module {
  u32 version;
  Index *thread, *block, *block_size, *grid_size;
  const Host** host;
  char *shared, *shared_end;  // what `__shared__` variables take
  char* dynamic;              // DYNAMIC_SHARED + CANARY bytes
  const Kernel* kernels;
  u32 count;
  const Global* globals;
  u32 global_count;
};

}  // namespace emulator
