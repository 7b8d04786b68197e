// Environment variables of the emulated GPU (README.md lists them).
#pragma once
#include <cstdlib>

namespace emulator {

struct Settings {
  unsigned devices, multiprocessors, delay, seed;
  size_t memory;
  bool guard, shuffle, abort;
};

inline Settings& settings() {
  auto number = [](const char* name, unsigned long long otherwise) {
    const char* text = getenv(name);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
  };
  static Settings known = {
      (unsigned)number("VERDIGRIS_EMULATOR_DEVICES", 1),
      (unsigned)number("VERDIGRIS_EMULATOR_MULTIPROCESSORS", 132),
      (unsigned)number("VERDIGRIS_EMULATOR_DELAY", 0),
      (unsigned)number("VERDIGRIS_EMULATOR_SEED", 1),
      (size_t)number("VERDIGRIS_EMULATOR_MEMORY", 2ull << 30),
      number("VERDIGRIS_EMULATOR_GUARD", 0) != 0,
      number("VERDIGRIS_EMULATOR_SHUFFLE", 0) != 0,
      number("VERDIGRIS_EMULATOR_ABORT", 0) != 0,
  };
  return known;
}

}  // namespace emulator
