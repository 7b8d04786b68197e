// Threads of a block are fibers. One runs until it ends or waits; then a thread whose wait is over continues, else the
// next one starts. A fiber whose thread has ended starts the next thread itself, so a kernel without waits never
// switches.
#include "grid.h"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <random>

#include "fiber.h"
#include "settings.h"

namespace emulator {
namespace {

enum : unsigned { ILLEGAL_ADDRESS = 700, ILLEGAL_INSTRUCTION = 715, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719,
    HARDWARE_STACK = 714 };
const size_t STACK = 256 << 10;
const unsigned char UNSET = 0xA5;

struct Fiber {
  Stack stack{STACK};
  Context context;
  u32 thread = 0;
};

// A thread while it waits for others of its warp.
struct Lane {
  Fiber* fiber;
  Together what;
  u32 lanes, from;
  int site;
  u64 value;
};
struct Warp {
  Lane lane[32];
  u32 alive, waiting;  // bits
};

// Fibers that may go on, in the order in which they may: a ring, never longer than the block.
struct Ready {
  Fiber* ring[1024];
  u32 first = 0, count = 0;
  void push(Fiber* fiber) { ring[(first + count++) & 1023] = fiber; }
  Fiber* pop() {
    Fiber* fiber = ring[first];
    first = (first + 1) & 1023;
    count--;
    return fiber;
  }
};

struct Block {
  Launch* launch;
  u32 threads, next, live;
  std::vector<u32> order;  // in which threads start
  std::vector<Warp> warps;
  Ready ready;
  // the barrier
  std::vector<Fiber*> at_barrier;
  u32 yes, answer;
  int site;
};

// of the one kernel that runs; never destroyed, since the process may end while it does
Block& block = *new Block();
Fiber* current;
Context scheduler;
auto& fibers = *new std::vector<std::unique_ptr<Fiber>>();
auto& idle = *new std::vector<Fiber*>();
std::mt19937 chance;

// of the thread that runs kernels: where a fault leads
thread_local sigjmp_buf escape;
thread_local volatile bool inside = false;
thread_local Outcome fault;

[[noreturn]] void give_up(unsigned status, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fault.status = status;
  fault.message = text;
  siglongjmp(escape, 1);
}

Index place_of(u32 thread) {
  const Index& size = block.launch->block;
  return {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
}
const char* described(u32 thread) {
  static char text[2][64];
  static int turn = 0;
  const Index t = place_of(thread);
  char* out = text[turn ^= 1];
  snprintf(out, sizeof text[0], "thread (%u, %u, %u)", t.x, t.y, t.z);
  return out;
}

void go(Fiber* fiber) {
  current = fiber;
  *block.launch->module->thread = place_of(fiber->thread);
}

// Leaves this fiber until somebody goes to it again.
void wait_here() {
  Fiber* self = current;
  if (block.ready.count == 0) return switch_to(self->context, scheduler);
  Fiber* next = block.ready.pop();
  go(next);
  switch_to(self->context, next->context);
}

// ---- warps ------------------------------------------------------------------------------------------
const char* const NAMES[] = {"a shuffle", "a vote", "__syncwarp()", "__match_any_sync()"};

// Whether all lanes that lane `one` waits for have arrived; then gives each its result.
bool complete(Warp& warp, u32 one, u32 first) {
  const Together what = warp.lane[one].what;
  const u32 lanes = warp.lane[one].lanes, site = (u32)warp.lane[one].site, here = lanes & warp.alive;
  if ((warp.waiting & here) != here) return false;
  u64 answer[32];
  u32 votes = 0;
  for (u32 left = here; left; left &= left - 1) {
    const u32 k = (u32)__builtin_ctz(left);
    const Lane& l = warp.lane[k];
    if (l.what != what || l.lanes != lanes || (u32)l.site != site)
      give_up(LAUNCH_FAILED,
          "threads of a warp meet in different places: %s at %s of line %u for the lanes %08x, %s at %s of line %d for %08x",
              described(first + one), NAMES[what], site & LINE, lanes, described(first + k), NAMES[l.what],
                  l.site & LINE, l.lanes);
    votes |= (u32)(l.value != 0) << k;
  }
  for (u32 left = here; left; left &= left - 1) {
    const u32 k = (u32)__builtin_ctz(left);
    const Lane& l = warp.lane[k];
    switch (what) {
      // of a lane that takes no part the value is not defined
      case SHUFFLE: answer[k] = here >> l.from & 1 ? warp.lane[l.from].value : 0xA5A5A5A5A5A5A5A5ull; break;
      case BALLOT: answer[k] = votes; break;
      case MATCH:
        answer[k] = 0;
        for (u32 others = here; others; others &= others - 1)
          if (warp.lane[__builtin_ctz(others)].value == l.value) answer[k] |= others & -others;
        break;
      default: answer[k] = 0;
    }
  }
  warp.waiting &= ~here;
  for (u32 left = here; left; left &= left - 1) {
    const u32 k = (u32)__builtin_ctz(left);
    warp.lane[k].value = answer[k];
    if (warp.lane[k].fiber != current) block.ready.push(warp.lane[k].fiber);
  }
  return true;
}

u64 together(Together what, u32 lanes, u64 value, u32 from, int site) {
  const u32 thread = current->thread;
  Warp& warp = block.warps[thread / 32];
  Lane& own = warp.lane[thread % 32];
  if (!(lanes >> (thread % 32) & 1))
    give_up(LAUNCH_FAILED, "%s is not among the lanes %08x of its own %s at line %d", described(thread), lanes,
        NAMES[what], site & LINE);
  own.fiber = current;
  own.what = what;
  own.lanes = lanes;
  own.from = from;
  own.site = site;
  own.value = value;
  warp.waiting |= 1u << thread % 32;
  if (!complete(warp, thread % 32, thread / 32 * 32)) wait_here();
  return own.value;
}

// ---- the block --------------------------------------------------------------------------------------
void open_barrier() {
  block.answer = block.yes;
  block.yes = 0;
  for (Fiber* fiber : block.at_barrier)
    if (fiber != current) block.ready.push(fiber);
  block.at_barrier.clear();
}

u32 barrier(u32 value, int site) {
  if (block.at_barrier.empty()) block.site = site;
  else if (block.site != site)
    give_up(LAUNCH_FAILED, "threads of a block meet in different barriers: %s at line %d, others at line %d",
        described(current->thread), site & LINE, block.site & LINE);
  block.at_barrier.push_back(current);
  block.yes += value != 0;
  if (block.at_barrier.size() == block.live) open_barrier();
  else wait_here();
  return block.answer;
}

void ended(u32 thread) {
  block.live--;
  Warp& warp = block.warps[thread / 32];
  warp.alive &= ~(1u << thread % 32);
  // others may have waited for this one alone
  for (u32 k = 0; k < 32; k++)
    if (warp.waiting >> k & 1) complete(warp, k, thread / 32 * 32);
  if (block.live > 0 && block.at_barrier.size() == block.live) open_barrier();
}

void worker() {
  for (;;) {
    Fiber* self = current;
    while (block.next < block.threads) {
      const u32 thread = block.order[block.next++];
      self->thread = thread;
      go(self);
      block.launch->kernel->call(block.launch->arguments.data());
      ended(thread);
      if (block.ready.count) break;
    }
    idle.push_back(self);
    wait_here();
  }
}

void run_block() {
  block.next = 0;
  block.live = block.threads;
  block.ready = Ready();
  block.at_barrier.clear();
  block.yes = 0;
  for (u32 w = 0; w < block.warps.size(); w++) {
    const u32 threads = std::min(block.threads - w * 32, 32u);
    block.warps[w].alive = threads == 32 ? ~0u : (1u << threads) - 1u;
    block.warps[w].waiting = 0;
  }
  const Module& m = *block.launch->module;
  if (m.shared_end > m.shared) memset(m.shared, UNSET, m.shared_end - m.shared);
  if (block.launch->shared) memset(m.dynamic, UNSET, block.launch->shared);
  memset(m.dynamic + block.launch->shared, ~UNSET, CANARY);
  while (block.live > 0) {
    Fiber* fiber;
    if (block.ready.count) {
      fiber = block.ready.pop();
    } else if (block.next < block.threads) {
      if (idle.empty()) {
        fibers.push_back(std::make_unique<Fiber>());
        idle.push_back(fibers.back().get());
        prepare(idle.back()->context, idle.back()->stack, worker);
      }
      fiber = idle.back();
      idle.pop_back();
      current = fiber;
      switch_to(scheduler, fiber->context);
      continue;
    } else {
      for (u32 t = 0; t < block.threads; t++) {
        const Warp& warp = block.warps[t / 32];
        const Lane& l = warp.lane[t % 32];
        if (warp.waiting >> t % 32 & 1)
          give_up(LAUNCH_FAILED,
              "%s waits for ever: %s at line %d for the lanes %08x; %zu of %u threads are at a barrier (line %d)",
              described(t),
                  NAMES[l.what], l.site & LINE, l.lanes, block.at_barrier.size(), block.live, block.site & LINE);
      }
      give_up(LAUNCH_FAILED, "%zu of %u threads wait for ever at the barrier of line %d", block.at_barrier.size(),
          block.live, block.site & LINE);
    }
    go(fiber);
    switch_to(scheduler, fiber->context);
  }
  for (u32 k = 0; k < CANARY; k++)
    if ((unsigned char)m.dynamic[block.launch->shared + k] != (unsigned char)~UNSET)
      give_up(ILLEGAL_ADDRESS, "shared memory was written past its %u bytes", block.launch->shared);
}

void trap() { give_up(LAUNCH_FAILED, "__trap()"); }
u64 ticks() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}
const Host host = {together, barrier, trap, ticks};

// ---- faults -----------------------------------------------------------------------------------------
struct sigaction before[NSIG];
void on_signal(int number, siginfo_t* info, void* context) {
  if (inside) {
    const unsigned status = number == SIGILL ? MISALIGNED_ADDRESS : ILLEGAL_ADDRESS;
    // alignment and the bounds of arrays are checked by instructions that do not exist
    const char* what = number == SIGILL ? "an address that is not aligned, or an index beyond a local or shared array"
                       : number == SIGFPE ? "an arithmetic fault of the host (an integer division by 0)"
                                          : "an illegal address";
    for (const auto& fiber : fibers) {
      char* at = (char*)info->si_addr;
      if (number == SIGSEGV && at >= fiber->stack.base() && at < fiber->stack.base() + 4096)
        give_up(HARDWARE_STACK, "%s has used all of its stack of %zu bytes", described(current->thread), STACK);
    }
    const Index b = *block.launch->module->block;
    give_up(status, "%s of block (%u, %u, %u): %s%s", described(current->thread), b.x, b.y, b.z, what,
            number == SIGSEGV || number == SIGBUS ? (std::string(" ") + [&] {
                char t[32]; snprintf(t, 32, "%p", info->si_addr); return std::string(t); }()).c_str() : "");
  }
  // somebody else's: as if we were not there
  if ((before[number].sa_flags & SA_SIGINFO) && before[number].sa_sigaction) return before[number].sa_sigaction(number,
      info, context);
  if (before[number].sa_handler != SIG_DFL &&
      before[number].sa_handler != SIG_IGN) return before[number].sa_handler(number);
  sigaction(number, &before[number], nullptr);
}

}  // namespace

void prepare_thread() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigaction(number, &action, &before[number]);
  });
  stack_t stack = {};
  stack.ss_size = 64 << 10;
  stack.ss_sp = mmap(nullptr, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigaltstack(&stack, nullptr);
}

Outcome run_grid(Launch& launch) {
  static std::mutex one;
  std::lock_guard<std::mutex> held(one);
  block.launch = &launch;
  block.threads = launch.block.x * launch.block.y * launch.block.z;
  block.warps.resize((block.threads + 31) / 32);
  block.order.resize(block.threads);
  for (u32 k = 0; k < block.threads; k++) block.order[k] = k;
  const Module& m = *launch.module;
  *m.host = &host;
  *m.block_size = launch.block;
  *m.grid_size = launch.grid;
  const u64 blocks = (u64)launch.grid.x * launch.grid.y * launch.grid.z;
  // an order that kernels must not depend on: a stride that shares no divisor with the count
  const bool shuffled = settings().shuffle;
  u64 step = 1, b = 0;
  if (shuffled) {
    chance.seed(settings().seed++);
    std::shuffle(block.order.begin(), block.order.end(), chance);
    if (blocks > 1) {
      auto shares = [&](u64 x) { u64 y = blocks; while (y) { u64 r = x % y; x = y; y = r; } return x > 1; };
      do step = 1 + chance() % blocks; while (shares(step));
      b = chance() % blocks;
    }
  }
  if (sigsetjmp(escape, 1)) {
    inside = false;
    // the fibers that were under way are lost
    fibers.clear();
    idle.clear();
    return fault;
  }
  inside = true;
  for (u64 k = 0; k < blocks; k++) {
    *m.block = {(u32)(b % launch.grid.x), (u32)(b / launch.grid.x % launch.grid.y),
        (u32)(b / launch.grid.x / launch.grid.y)};
    run_block();
    b = (b + step) % blocks;
  }
  inside = false;
  return {};
}

}  // namespace emulator
