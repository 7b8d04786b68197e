// Fibers: several stacks in one system thread, and switches between them.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

// A page below each stack faults.
class Stack {
 public:
  explicit Stack(size_t bytes) : bytes_(bytes) {
    static size_t count = 0;
    colour_ = count++ * 448 % 16384;
    memory_ = (char*)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) { perror("emulated GPU: a stack"); abort(); }
    mprotect(memory_, 4096, PROT_NONE);
  }
  ~Stack() { munmap(memory_, bytes_); }
  Stack(const Stack&) = delete;
  char* base() const { return memory_; }
  /// Where it begins. Not all at the same distance from a page's end: they would share few lines of the cache.
  char* top() const { return memory_ + bytes_ - colour_; }

 private:
  char* memory_;
  size_t bytes_, colour_;
};

#if defined(__x86_64__)

// What a switch keeps lies on the stack: only where its top is must be remembered.
struct Context { void* top = nullptr; };

extern "C" void emulator_switch(void** from, void* to);
// The six registers that the C calling convention keeps; the compiler takes all others for lost at a call.
asm(R"(
.text
.p2align 4
.type emulator_switch,@function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch,.-emulator_switch
)");

inline void prepare(Context& context, const Stack& stack, void (*entry)()) {
  void** top = (void**)stack.top();
  *--top = nullptr;  // `entry` never returns; and its stack is aligned as after a call
  *--top = (void*)entry;
  for (int k = 0; k < 6; k++) *--top = nullptr;
  context.top = top;
}
inline void switch_to(Context& from, Context& to) { emulator_switch(&from.top, to.top); }

#else

struct Context { ucontext_t state; };
inline void prepare(Context& context, const Stack& stack, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack.base() + 4096;
  context.state.uc_stack.ss_size = (size_t)(stack.top() - stack.base()) - 4096;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}
inline void switch_to(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

#endif

}  // namespace emulator
