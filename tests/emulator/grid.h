// Running a kernel: the blocks of a grid one after the other, the threads of a block as fibers.
#pragma once
#include <string>
#include <vector>

#include "module.h"

namespace emulator {

struct Launch {
  const Module* module;
  const Kernel* kernel;
  Index grid, block;
  u32 shared;                           // bytes of dynamic shared memory
  std::vector<unsigned char> memory;    // the arguments
  std::vector<void*> arguments;         // pointers into it
};

/// What a kernel did that a GPU would not survive; no message where all went well.
struct Outcome {
  unsigned status = 0;
  std::string message;
};

/// Runs a kernel. One at a time in a process; others wait.
Outcome run_grid(Launch& launch);

/// Called by every thread that runs kernels, before the first.
void prepare_thread();

}  // namespace emulator
