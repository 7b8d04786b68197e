// Devices and their streams.
#include "device.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "grid.h"
#include "settings.h"

namespace emulator {

double milliseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

Device::Device(int ordinal) : ordinal(ordinal) {}

Stream* Device::legacy() {
  std::lock_guard<std::mutex> held(lock_);
  if (!legacy_) legacy_ = new Stream(*this);
  return legacy_;
}

void Device::fail(unsigned status, const std::string& what) {
  fprintf(stderr, "emulated GPU %d: %s\n", ordinal, what.c_str());
  if (settings().abort) abort();
  unsigned well = 0;
  broken.compare_exchange_strong(well, status);
}

Device* device(int ordinal) {
  static const std::vector<Device*>& all = *[] {
    auto* made = new std::vector<Device*>();
    for (unsigned k = 0; k < settings().devices; k++) made->push_back(new Device((int)k));
    return made;
  }();
  return ordinal >= 0 && (size_t)ordinal < all.size() ? all[(size_t)ordinal] : nullptr;
}

Stream::Stream(Device& device) : device(device) {
  static std::atomic<unsigned> count{0};
  seed_ = settings().seed + 1000 * ++count;
  // for the rest of the process: what it uses is never destroyed
  std::thread(&Stream::work, this).detach();
}

void Stream::queue(std::function<void()> item) {
  if (captured) {
    captured->items.push_back(std::move(item));
    return;
  }
  std::lock_guard<std::mutex> held(lock_);
  items_.push_back(std::move(item));
  queued_.fetch_add(1, std::memory_order_relaxed);
  came_.notify_one();
}

void Stream::wait() {
  std::unique_lock<std::mutex> held(lock_);
  const uint64_t until = queued_;
  went_.wait(held, [&] { return done_ >= until; });
}

void Stream::work() {
  prepare_thread();
  for (;;) {
    std::function<void()> item;
    {
      std::unique_lock<std::mutex> held(lock_);
      came_.wait(held, [&] { return !items_.empty(); });
      item = std::move(items_.front());
      items_.pop_front();
    }
    if (const unsigned longest = settings().delay) usleep((unsigned)rand_r(&seed_) % longest);
    // a context that has failed does nothing more; but who waits must not wait for ever, and sees the status
    item();
    item = nullptr;
    {
      std::lock_guard<std::mutex> held(lock_);
      done_.fetch_add(1, std::memory_order_release);
    }
    went_.notify_all();
  }
}

}  // namespace emulator
