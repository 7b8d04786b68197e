// An emulated device: its memory, its streams, and the faults that have occurred on it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace emulator {

/// What has happened once everything queued on a stream before has been done.
struct Moment {
  std::atomic<bool> done{false};
  double at = 0;  // milliseconds
};

struct Device;

/// What was queued on a stream while it was captured.
struct Graph {
  std::vector<std::function<void()>> items;
  bool valid = true;
  /// The nodes that were added, which end with the graph.
  std::vector<uintptr_t> nodes;
};

struct Pool;
/// A queue that a thread of the system works off.
class Stream {
 public:
  /// Where it is captured: what is queued goes there.
  Graph* captured = nullptr;
  explicit Stream(Device& device);
  void queue(std::function<void()> item);
  bool empty() const { return done_.load(std::memory_order_acquire) == queued_.load(std::memory_order_relaxed); }
  void wait();
  Device& device;
  /// Bytes of pools that were freed here since the host last synchronised with this stream.
  std::map<Pool*, size_t> freed;

 private:
  void work();
  std::mutex lock_;
  std::condition_variable came_, went_;
  std::deque<std::function<void()>> items_;
  std::atomic<uint64_t> queued_{0}, done_{0};
  unsigned seed_;
};

struct Pool {
  Device& device;
  size_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  size_t unobserved = 0;  // freed on streams that the host has not synchronised with since
  uint64_t threshold = 0;
};

/// A piece of device memory.
struct Piece {
  size_t bytes;  // as asked for
  size_t room;   // as counted
  Device* device;
  Pool* pool;  // or null
};

struct Device {
  explicit Device(int ordinal);
  const int ordinal;
  bool retained = false;
  size_t direct = 0;  // bytes that no pool has
  std::vector<Pool*> pools;
  Stream* legacy();
  /// The status that every call gives from now on; 0 while all is well.
  std::atomic<unsigned> broken{0};
  void fail(unsigned status, const std::string& what);

 private:
  std::mutex lock_;
  Stream* legacy_ = nullptr;
};

Device* device(int ordinal);  // null where there is none
double milliseconds();

// ---- memory -----------------------------------------------------------------------------------------
/// 0 where there is no room. Not cleared: filled with a pattern.
uintptr_t take(Device& device, Pool* pool, size_t bytes);
/// The fill that `take` leaves to the stream.
void fill_new(uintptr_t address, size_t bytes);
/// Counts memory of a module's variables as the device's.
void adopt(Device& device, uintptr_t address, size_t bytes);
/// Takes a piece out of the accounts; false where there is none at the address. `give_back` frees it then.
bool drop(uintptr_t address, Piece& piece);
void give_back(uintptr_t address, const Piece& piece);
/// The device whose live memory holds these bytes; null where none does.
Device* owner(uintptr_t address, size_t bytes);
void range(uintptr_t address, uintptr_t* start, size_t* bytes);  // the piece that the address lies in
/// Notes what a stream is to free. Trimming a pool keeps it until `observe`: the host synchronises with the stream.
void note_freed(Stream& stream, const Piece& piece);
void observe(Stream& stream);
void trim(Pool& pool, size_t keep);
size_t free_bytes(Device& device);

/// Page-locked memory of the host.
bool pin(void* address, size_t bytes);
bool unpin(void* address);
bool pinned(const void* address, size_t bytes);

}  // namespace emulator
