// libcuda.so.1: modules, their functions, and launches.
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "driver.h"
#include "grid.h"
#include "settings.h"

using namespace emulator;

namespace {

struct Function;
struct Loaded {
  emulator::Module* module;
  Device* device;
  std::map<std::string, Function*> functions;
};
struct Function {
  Loaded* loaded;
  const Kernel* kernel;
  unsigned most_shared = 48 << 10;
};

}  // namespace

// The driver's own compiler is not emulated: what is prebuilt as PTX comes to be compiled from source.
API cuLinkCreate_v2(unsigned, void*, void*, void** out) {
  ENTER;
  *out = malloc(1);
  return SUCCESS;
}
API cuLinkAddData_v2(void*, int, void*, size_t, const char*, unsigned, void*, void*) { return JIT_COMPILER_NOT_FOUND; }
API cuLinkComplete(void*, void**, size_t*) { return JIT_COMPILER_NOT_FOUND; }
API cuLinkDestroy(void* link) {
  free(link);
  return SUCCESS;
}

// What "PTX" has in its comment; empty for real PTX, which is not emulated.
static std::string from_ptx(const char* text) {
  const char* at = strstr(text, ".address_size 64\n//");
  std::string bytes;
  if (!at) return bytes;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (at += 19; digit(at[0]) >= 0 && digit(at[1]) >= 0; at += 2) bytes += (char)(digit(at[0]) * 16 + digit(at[1]));
  return bytes;
}

API cuModuleLoadData(Loaded** out, const void* image) {
  ENTER;
  const char* bytes = (const char*)image;
  std::string text;
  unsigned magic;
  memcpy(&magic, bytes, 4);
  if (magic == 0xBA55ED50) {
    // a fatbin: of its parts the first that is machine code
    unsigned short header, kind;
    uint64_t size, part_size;
    unsigned part_header;
    memcpy(&header, bytes + 6, 2);
    memcpy(&size, bytes + 8, 8);
    for (const char *part = bytes + header, *end = part + size; part < end; part += part_header + part_size) {
      memcpy(&kind, part, 2);
      memcpy(&part_header, part + 4, 4);
      memcpy(&part_size, part + 8, 8);
      if (kind == 2) return cuModuleLoadData(out, part + part_header);
    }
    return NO_BINARY_FOR_GPU;
  }
  if (bytes[0] == '/' || bytes[0] == '.') {
    text = from_ptx(bytes);
    if (text.empty()) return JIT_COMPILER_NOT_FOUND;
    bytes = text.data();
  }
  Elf64_Ehdr head;
  if (memcmp(bytes, ELFMAG, SELFMAG)) return INVALID_IMAGE;
  memcpy(&head, bytes, sizeof head);
  // machine code of a real GPU, as it is prebuilt for the interpreters
  if (head.e_machine == EM_CUDA && head.e_ident[EI_NIDENT - 1] != EMULATED) return NO_BINARY_FOR_GPU;
#if defined(__aarch64__)
  head.e_machine = EM_AARCH64;
#else
  head.e_machine = EM_X86_64;
#endif
  head.e_ident[EI_NIDENT - 1] = 0;
  // the linker writes the section headers last
  const size_t size = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
  // the loader knows libraries by name: each needs one of its own
  const char* base = getenv("TMPDIR");
  std::string path = std::string(base && *base ? base : "/tmp") + "/emulated-kernels-XXXXXX";
  const int file = mkstemp(&path[0]);
  if (file < 0) return SHARED_OBJECT_INIT_FAILED;
  const bool written = write(file, &head, sizeof head) == (ssize_t)sizeof head &&
                       write(file, bytes + sizeof head, size - sizeof head) == (ssize_t)(size - sizeof head);
  close(file);
  void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  auto* module = library ? (emulator::Module*)dlsym(library, "vg_module") : nullptr;
  if (!module || module->version != VERSION) {
    const char* reason = dlerror();
    fprintf(stderr, "emulated GPU: a module does not load: %s\n", reason ? reason : "of another version");
    return INVALID_IMAGE;
  }
  for (unsigned k = 0; k < module->global_count; k++) adopt(*current, (Address)module->globals[k].address,
      module->globals[k].bytes);
  *out = new Loaded{module, current, {}};
  return SUCCESS;
}
API cuModuleLoadDataEx(Loaded** out, const void* image, unsigned, void*, void*) { return cuModuleLoadData(out, image); }
API cuModuleGetGlobal_v2(Address* address, size_t* bytes, Loaded* loaded, const char* name) {
  ENTER;
  for (unsigned k = 0; k < loaded->module->global_count; k++)
    if (const auto& g = loaded->module->globals[k]; !strcmp(g.name, name)) {
      *address = (Address)g.address;
      *bytes = g.bytes;
      return SUCCESS;
    }
  return NOT_FOUND;
}
API cuModuleUnload(Loaded*) {
  ENTER;
  return SUCCESS;
}
API cuModuleGetFunction(Function** out, Loaded* loaded, const char* name) {
  ENTER;
  for (unsigned k = 0; k < loaded->module->count; k++)
    if (!strcmp(loaded->module->kernels[k].name, name)) {
      Function*& known = loaded->functions[name];
      if (!known) known = new Function{loaded, &loaded->module->kernels[k]};
      *out = known;
      return SUCCESS;
    }
  return NOT_FOUND;
}
API cuModuleGetFunctionCount(unsigned* count, Loaded* loaded) {
  ENTER;
  *count = loaded->module->count;
  return SUCCESS;
}
API cuModuleEnumerateFunctions(Function** out, unsigned count, Loaded* loaded) {
  ENTER;
  for (unsigned k = 0; k < count && k < loaded->module->count; k++) cuModuleGetFunction(out + k, loaded,
      loaded->module->kernels[k].name);
  return SUCCESS;
}
API cuFuncGetName(const char** out, Function* function) {
  *out = function->kernel->name;
  return SUCCESS;
}
API cuFuncGetParamInfo(Function* function, size_t which, size_t* offset, size_t* bytes) {
  if (which >= function->kernel->count) return INVALID_VALUE;
  size_t at = 0;
  for (size_t k = 0; k < which; k++) at += function->kernel->sizes[k];
  *offset = at;
  *bytes = function->kernel->sizes[which];
  return SUCCESS;
}
static unsigned most_threads(const Kernel& kernel) { return kernel.bounds ? kernel.bounds : 1024; }
API cuFuncGetAttribute(int* out, int which, Function* function) {
  ENTER;
  const emulator::Module& m = *function->loaded->module;
  switch (which) {
    case 0: *out = (int)most_threads(*function->kernel); break;
    case 1: *out = (int)(m.shared_end - m.shared); break;
    case 4: *out = 32; break;  // registers
    case 8: *out = (int)function->most_shared; break;
    default: *out = 0;
  }
  return SUCCESS;
}
API cuFuncSetAttribute(Function* function, int which, int value) {
  ENTER;
  if (which != 8 || value < 0 || value > (int)DYNAMIC_SHARED) return INVALID_VALUE;
  function->most_shared = (unsigned)value;
  return SUCCESS;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, Function* function, int threads, size_t shared) {
  ENTER;
  if (threads <= 0) return INVALID_VALUE;
  int blocks = std::min(2048 / threads, 32);
  const emulator::Module& m = *function->loaded->module;
  const size_t each = shared + (size_t)(m.shared_end - m.shared);
  if (each) blocks = std::min(blocks, (int)(DYNAMIC_SHARED / each));
  *out = (unsigned)threads > most_threads(*function->kernel) ? 0 : blocks;
  return SUCCESS;
}

API cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Function* function, void*, size_t shared, int limit) {
  ENTER;
  int per = 0;
  *block = (int)most_threads(*function->kernel);
  if (limit > 0) *block = std::min(*block, limit);
  const unsigned status = cuOccupancyMaxActiveBlocksPerMultiprocessor(&per, function, *block, shared);
  *grid = per * (int)settings().multiprocessors;
  return status;
}

namespace {
/// A launch as nodes of graphs describe it.
struct Node { Function* function; unsigned gx, gy, gz, bx, by, bz, shared; void **arguments, **extra;
void *kern, *context; };

/// What a launch queues: its arguments are read before the return.
Status prepare(const Node& node, std::function<void()>& item) {
  const auto& [function, gx, gy, gz, bx, by, bz, shared, arguments, extra, kern, context] = node;
  Device* device = function->loaded->device;
  if (current != device) return INVALID_HANDLE;
  const uint64_t threads = (uint64_t)bx * by * bz;
  if (extra || !gx || !gy || !gz || !threads || gx > 0x7FFFFFFFu || gy > 65535 || gz > 65535 || threads > 1024 ||
      bz > 64) return INVALID_VALUE;
  const Kernel& kernel = *function->kernel;
  if (threads > most_threads(kernel)) return LAUNCH_OUT_OF_RESOURCES;
  if (shared > function->most_shared) return INVALID_VALUE;
  auto launch = std::make_shared<Launch>();
  *launch = {function->loaded->module, &kernel, {gx, gy, gz}, {bx, by, bz}, shared, {}, {}};
  size_t bytes = 0;
  for (unsigned k = 0; k < kernel.count; k++) bytes += (kernel.sizes[k] + 15) / 16 * 16;
  launch->memory.resize(bytes + 16);
  unsigned char* at = (unsigned char*)(((uintptr_t)launch->memory.data() + 15) / 16 * 16);
  for (unsigned k = 0; k < kernel.count; k++) {
    memcpy(at, arguments[k], kernel.sizes[k]);
    launch->arguments.push_back(at);
    at += (kernel.sizes[k] + 15) / 16 * 16;
  }
  item = [device, launch] {
    if (device->broken) return;
    const Outcome outcome = run_grid(*launch);
    if (!outcome.status) return;
    device->fail(outcome.status, std::string("kernel `") + launch->kernel->name + "`: " + outcome.message);
  };
  return SUCCESS;
}
}  // namespace

API cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void* handle,
                   void** arguments, void** extra) {
  ENTER;
  Stream* stream = stream_of(handle);
  if (&stream->device != function->loaded->device) return INVALID_HANDLE;
  std::function<void()> item;
  const Status status = prepare({function, gx, gy, gz, bx, by, bz, shared, arguments, extra, nullptr, nullptr}, item);
  if (!status) stream->queue(item);
  return status;
}
API cuGraphCreate(Graph** out, unsigned) {
  ENTER;
  *out = new Graph;
  return SUCCESS;
}
namespace {
/// Nodes of the graphs that there are, with their places in them and in what was made of them.
std::map<uintptr_t, size_t> nodes;
std::mutex nodes_lock;
}  // namespace
API cuGraphAddKernelNode_v2(uintptr_t* out, Graph* graph, const uintptr_t*, size_t, const Node* node) {
  ENTER;
  std::function<void()> item;
  const Status status = prepare(*node, item);
  if (status) return status;
  static uintptr_t last = 0;
  std::lock_guard<std::mutex> guard(nodes_lock);
  nodes[*out = ++last] = graph->items.size();
  graph->items.push_back(item);
  graph->nodes.push_back(last);
  return SUCCESS;
}
API cuGraphExecKernelNodeSetParams_v2(Graph* graph, uintptr_t known, const Node* node) {
  ENTER;
  std::lock_guard<std::mutex> guard(nodes_lock);
  const auto found = nodes.find(known);
  if (found == nodes.end() || found->second >= graph->items.size()) return INVALID_VALUE;
  return prepare(*node, graph->items[found->second]);
}
API cuGraphDestroy(Graph* graph) {
  {
    std::lock_guard<std::mutex> guard(nodes_lock);
    for (uintptr_t node : graph->nodes) nodes.erase(node);
  }
  delete graph;
  return SUCCESS;
}

namespace {
struct Attribute { unsigned id, padding; union { int cooperative; unsigned cluster[3]; char room[64]; } value; };
struct Config { unsigned gx, gy, gz, bx, by, bz, shared; void* stream; Attribute* attributes; unsigned count; };
}  // namespace

// Blocks run one after the other: those that wait for each other wait for good, so only the limits of cooperative
// launches and clusters are here.
API cuLaunchKernelEx(const Config* config, Function* function, void** arguments, void** extra) {
  ENTER;
  for (unsigned k = 0; k < config->count; k++) {
    const Attribute& a = config->attributes[k];
    int blocks = 0;
    if (a.id == 2 && a.value.cooperative) {
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, (int)(config->bx * config->by * config->bz),
          config->shared);
      if ((uint64_t)config->gx * config->gy * config->gz > (uint64_t)blocks * settings().multiprocessors) return COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    if (a.id == 4 && (config->gx % a.value.cluster[0] || config->gy % a.value.cluster[1] ||
        config->gz % a.value.cluster[2])) return INVALID_VALUE;
  }
  return cuLaunchKernel(function, config->gx, config->gy, config->gz, config->bx, config->by, config->bz,
      config->shared, config->stream, arguments, extra);
}
