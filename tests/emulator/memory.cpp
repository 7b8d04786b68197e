// Device memory is counted host memory. With VERDIGRIS_EMULATOR_GUARD every piece ends at a page that faults, and
// faults as a whole after it is freed.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "device.h"
#include "settings.h"

namespace emulator {
namespace {

const size_t PAGE = 4096, CHUNK = 2 << 20, SLAB = 32 << 20, ALIGNED = 512;
const size_t KEPT_DEAD = 4096;  // pieces that fault after they were freed
const unsigned char NEW = 0xA5, DEAD = 0xDD;
const size_t FILLED = 1 << 20;  // of a longer piece the ends alone: the first and the last half of this

size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// never destroyed: streams are at work until the process has ended
std::mutex& lock = *new std::mutex();
auto& live = *new std::map<uintptr_t, Piece>();
auto& bins = *new std::map<size_t, std::vector<char*>>();  // freed pieces by room
char *slab = nullptr, *slab_end = nullptr;
auto& dead = *new std::deque<std::pair<char*, size_t>>();
auto& locked = *new std::map<uintptr_t, size_t>();

char* map(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : (char*)p;
}

// Powers of two and three steps between them.
size_t class_of(size_t bytes) {
  if (bytes >= CHUNK) return up(bytes, CHUNK);
  size_t power = ALIGNED;
  while (power < bytes) power *= 2;
  if (power > 4 * ALIGNED)
    for (size_t quarter = power / 8 * 5; quarter < power; quarter += power / 8)
      if (bytes <= quarter) return quarter;
  return power;
}

char* guarded(size_t bytes) {
  const size_t room = up(bytes, PAGE);
  char* base = map(room + PAGE);
  if (!base) return nullptr;
  mprotect(base + room, PAGE, PROT_NONE);
  return base + room - up(bytes, 16);
}

char* plain(size_t room) {
  auto& bin = bins[room];
  if (!bin.empty()) {
    char* p = bin.back();
    bin.pop_back();
    return p;
  }
  if (room >= CHUNK) return map(room);
  if ((size_t)(slab_end - slab) < room) {
    slab = map(SLAB);
    if (!slab) return nullptr;
    slab_end = slab + SLAB;
  }
  char* p = slab;
  slab += room;
  return p;
}

size_t reserved(const Device& device) {
  size_t sum = device.direct;
  for (const Pool* pool : device.pools) sum += pool->reserved;
  return sum;
}

}  // namespace

uintptr_t take(Device& device, Pool* pool, size_t bytes) {
  std::lock_guard<std::mutex> held(lock);
  const size_t room = up(bytes, ALIGNED), total = settings().memory;
  if (bytes > total) return 0;
  if (pool) {
    if (pool->used + room > pool->reserved) {
      const size_t grown = up(pool->used + room, CHUNK);
      if (reserved(device) - pool->reserved + grown > total) return 0;
      pool->reserved = grown;
      pool->reserved_high = std::max(pool->reserved_high, grown);
    }
  } else if (reserved(device) + room > total) {
    return 0;
  }
  char* p = settings().guard ? guarded(bytes) : plain(class_of(room));
  if (!p) return 0;
  if (pool) {
    pool->used += room;
    pool->used_high = std::max(pool->used_high, pool->used);
  } else {
    device.direct += room;
  }
  live[(uintptr_t)p] = {bytes, room, &device, pool};
  return (uintptr_t)p;
}

void adopt(Device& device, uintptr_t address, size_t bytes) {
  std::lock_guard<std::mutex> held(lock);
  live[address] = {bytes, 0, &device, nullptr};
}

static void pattern(uintptr_t address, size_t bytes, unsigned char with) {
  char* p = (char*)address;
  if (bytes <= FILLED) memset(p, with, bytes);
  else {
    memset(p, with, FILLED / 2);
    memset(p + bytes - FILLED / 2, with, FILLED / 2);
  }
}
void fill_new(uintptr_t address, size_t bytes) { pattern(address, bytes, NEW); }

bool drop(uintptr_t address, Piece& piece) {
  std::lock_guard<std::mutex> held(lock);
  auto found = live.find(address);
  if (found == live.end()) return false;
  piece = found->second;
  live.erase(found);
  if (piece.pool) {
    piece.pool->used -= piece.room;
    const size_t kept = up(piece.pool->used, CHUNK);
    if (piece.pool->reserved > kept && piece.pool->reserved > piece.pool->threshold) piece.pool->reserved =
        std::max<size_t>(kept, piece.pool->threshold);
  } else {
    piece.device->direct -= piece.room;
  }
  return true;
}

void give_back(uintptr_t address, const Piece& piece) {
  pattern(address, piece.bytes, DEAD);
  std::lock_guard<std::mutex> held(lock);
  if (!settings().guard) {
    const size_t room = class_of(piece.room);
    if (room >= 16 * CHUNK) madvise((char*)address, room, MADV_DONTNEED);
    bins[room].push_back((char*)address);
    return;
  }
  char* base = (char*)(address / PAGE * PAGE);
  const size_t room = (char*)up(address + piece.bytes, PAGE) - base;
  madvise(base, room, MADV_DONTNEED);
  mprotect(base, room, PROT_NONE);
  dead.push_back({base, room + PAGE});
  if (dead.size() > KEPT_DEAD) {
    munmap(dead.front().first, dead.front().second);
    dead.pop_front();
  }
}

Device* owner(uintptr_t address, size_t bytes) {
  std::lock_guard<std::mutex> held(lock);
  auto after = live.upper_bound(address);
  if (after == live.begin()) return nullptr;
  const auto& [start, piece] = *--after;
  return address + bytes <= start + piece.bytes && address < start + std::max<size_t>(piece.bytes, 1) ?
      piece.device : nullptr;
}

void range(uintptr_t address, uintptr_t* start, size_t* bytes) {
  std::lock_guard<std::mutex> held(lock);
  auto after = live.upper_bound(address);
  if (after == live.begin()) return;
  --after;
  *start = after->first;
  *bytes = after->second.bytes;
}

void note_freed(Stream& stream, const Piece& piece) {
  if (!piece.pool) return;
  std::lock_guard<std::mutex> held(lock);
  stream.freed[piece.pool] += piece.room;
  piece.pool->unobserved += piece.room;
}

void observe(Stream& stream) {
  std::lock_guard<std::mutex> held(lock);
  for (auto& [pool, bytes] : stream.freed) pool->unobserved -= bytes;
  stream.freed.clear();
}

void trim(Pool& pool, size_t keep) {
  std::lock_guard<std::mutex> held(lock);
  pool.reserved = std::min(pool.reserved, std::max(up(pool.used + pool.unobserved, CHUNK), up(keep, CHUNK)));
  // all devices' pieces lie in the same bins
  for (auto& [room, bin] : bins) {
    if (room < CHUNK) continue;
    for (char* p : bin) munmap(p, room);
    bin.clear();
  }
}

size_t free_bytes(Device& device) {
  std::lock_guard<std::mutex> held(lock);
  return settings().memory - std::min(settings().memory, reserved(device));
}

bool pin(void* address, size_t bytes) {
  std::lock_guard<std::mutex> held(lock);
  const uintptr_t from = (uintptr_t)address, to = from + bytes;
  auto after = locked.lower_bound(to);
  if (after != locked.begin()) {
    const auto& [start, size] = *std::prev(after);
    if (start + size > from) return false;
  }
  locked[from] = bytes;
  return true;
}
bool unpin(void* address) {
  std::lock_guard<std::mutex> held(lock);
  return locked.erase((uintptr_t)address) > 0;
}
bool pinned(const void* address, size_t bytes) {
  std::lock_guard<std::mutex> held(lock);
  auto after = locked.upper_bound((uintptr_t)address);
  if (after == locked.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return (uintptr_t)address + bytes <= start + size && (uintptr_t)address < start + size;
}

}  // namespace emulator
