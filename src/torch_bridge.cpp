// Exchanges tensors of the R package torch by the DLPack functions of the libtorch that it has loaded.
//
// torch has no DLPack interface in R, but libtorch has one, and two of torch's C callables create and delete R tensors.
// Their headers need Rcpp or libtorch. So this file declares the layouts itself, and C_torch_start() checks them
// against the running torch before anything relies on them. Only this file depends on libtorch; entries/torch.rs has
// the entries, R/interop-torch.R the R functions. (Facts: torch 0.13 to 0.17, libtorch 2.0 to 2.11.)
//
// No C++ exception and no R error leaves a function that Rust calls.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include "torch_bridge.h"

enum Status { DONE, NO_TENSOR, NOT_STRIDED, REQUIRES_GRAD, CONJUGATE, FAILED, UNDEFINED };
enum Kind { STRIDED, NO_VALUES, OTHER }; // dense and strided, undefined, other layouts such as sparse

#ifdef __linux__
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int vg_is_heap(const void *address, size_t bytes); // Rust: whether these bytes are certainly mapped

namespace {

// DLManagedTensor of dlpack.h; unchanged since DLPack 0.2.
struct Managed {
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  void *context;
  void (*deleter)(Managed *);
};

// at::Tensor: a counted pointer to the tensor's implementation. The destructor makes the ABI return it through memory,
// as it does at::Tensor. It does nothing, since tensors are on the heap and torch's delete_tensor() frees them.
struct Tensor {
  void *impl;
  Tensor(Tensor &&other) : impl(other.impl) { other.impl = nullptr; }
  ~Tensor() {}
};

// What an R tensor's external pointer points to: a class of torch with this single member.
using Held = std::shared_ptr<void>;

Managed *(*to_dlpack)(const Tensor &);                                // at::toDLPack
// at::native::alias; null if libtorch lacks it or a function that describe() needs
Tensor (*alias)(const Tensor &);
Tensor (*from_dlpack)(Managed *, std::function<void(void *)>);        // at::fromDLPack
bool (*requires_grad)(const void *impl);                              // c10::TensorImpl::requires_grad
bool (*is_conj)(const Tensor &);                                      // at::native::is_conj
bool (*is_neg)(const Tensor &);                                       // at::native::is_neg
// vtable of c10::TensorImpl: dense, strided tensors
const void *strided;
const void *undefined;                                                // of c10::UndefinedTensorImpl; may be null
// libtorch's stable C functions; they return 0 on success
int32_t (*get_numel)(const Tensor *, int64_t *);
int32_t (*get_dtype)(const Tensor *, int32_t *);
int32_t (*get_data)(const Tensor *, void **);
int32_t (*get_dim)(const Tensor *, int64_t *);
int32_t (*get_sizes)(const Tensor *, int64_t **);
int32_t (*get_strides)(const Tensor *, int64_t **);
int32_t (*get_storage_size)(const Tensor *, int64_t *);               // may be null
int32_t (*get_storage_offset)(const Tensor *, int64_t *);
int32_t (*get_device_type)(const Tensor *, int32_t *);
int32_t (*get_device_index)(const Tensor *, int32_t *);
SEXP (*to_sexp)(const Held *);                                        // torch's C callables
void (*delete_tensor)(void *);
void (*empty_cache)();                                               // of liblantern; null if torch does not use CUDA

// Copies 8-byte words from an address that may be unmapped; false if it is. C++ objects that the main thread has made
// are in the heap, which is checked without a system call. For other addresses rt_sigprocmask() is called with an
// invalid `how`: it reads the signal set first, so it fails with EINVAL if the word is mapped, and with EFAULT if not.
// That takes 0.2 us to 0.8 us, where process_vm_readv takes 2.
bool peek(const void *from, void *to, size_t bytes) {
  if (!from || reinterpret_cast<uintptr_t>(from) % 8 != 0) return false;
  for (size_t at = vg_is_heap(from, bytes) ? bytes : 0; at < bytes; at += 8) {
    if (syscall(SYS_rt_sigprocmask, ~0, static_cast<const char *>(from) + at, nullptr, 8) == 0 ||
        errno != EINVAL) return false;
  }
  std::memcpy(to, from, bytes);
  return true;
}

// The tensor of an R object; null if it is none. Reads every pointer by peek(), so it is safe for any external pointer.
const Tensor *tensor_of(SEXP x, Kind *kind) {
  void *held[2] = {nullptr, nullptr}, *impl = nullptr;
  const void *vtable = nullptr;
  if (TYPEOF(x) != EXTPTRSXP || !Rf_inherits(x, "torch_tensor")) return nullptr;
  if (!peek(R_ExternalPtrAddr(x), held, sizeof held) || !peek(held[0], &impl, sizeof impl)) return nullptr;
  if (!peek(impl, &vtable, sizeof vtable)) return nullptr;
  *kind = vtable == strided ? STRIDED : undefined && vtable == undefined ? NO_VALUES : OTHER;
  return static_cast<const Tensor *>(held[0]);
}

// A DLPack tensor made by describe(), with the alias tensor that it keeps alive.
struct Described {
  Managed managed;
  Tensor *tensor;
  explicit Described(Tensor &&own) : managed(), tensor(new Tensor(std::move(own))) {}
  ~Described() { delete_tensor(tensor); }
};

void delete_described(Managed *managed) { delete static_cast<Described *>(managed->context); }

// The tensor that a DLPack tensor keeps alive; null if it is not known. at::toDLPack() stores it as the first member of
// its context.
const Tensor *kept_by(const Managed &managed) {
  if (managed.deleter == delete_described) return static_cast<Described *>(managed.context)->tensor;
  void *impl = nullptr;
  const void *vtable = nullptr;
  const bool is_tensor = peek(managed.context, &impl, sizeof impl) && peek(impl, &vtable, sizeof vtable) &&
      vtable == strided;
  return is_tensor ? static_cast<const Tensor *>(managed.context) : nullptr;
}

// The end of a tensor's elements in its storage, in bytes, for a storage offset in elements; 0 for an empty tensor.
int64_t reach(const Managed &managed, int64_t offset) {
  int64_t last = offset;
  for (int32_t k = 0; k < managed.ndim; k++) {
    if (managed.shape[k] == 0) return 0;
    last += (managed.shape[k] - 1) * managed.strides[k];
  }
  return (last + 1) * (managed.bits / 8);
}

// The result of at::toDLPack() in a third of the time, since that makes its view through the dispatcher and autograd.
// Null if this file does not know the dtype or device, or libtorch lacks a function for it.
Managed *describe(const Tensor &tensor) {
  struct Type {
    uint8_t code, bits;
  };
  // c10::ScalarType: uint8 to float64, then complex64, complex128, bool, bfloat16
  static const Type types[] = {{1, 8},  {0, 8},  {0, 16},  {0, 32},  {0, 64}, {2, 16}, {2, 32}, {2, 64},
                               {0, 0},  {5, 64}, {5, 128}, {6, 8},   {0, 0},  {0, 0},  {0, 0},  {4, 16}};
  int64_t ndim = 0;
  int32_t dtype = 0, device_type = 0, device = 0;
  if (!alias || get_dim(&tensor, &ndim) || get_dtype(&tensor, &dtype) ||
      get_device_type(&tensor, &device_type)) return nullptr;
  const bool known = dtype >= 0 && dtype < 16 && types[dtype].bits && (device_type == 0 || device_type == 1) &&
      ndim <= INT32_MAX;
  if (!known || (device_type == 1 && get_device_index(&tensor, &device))) return nullptr;
  std::unique_ptr<Described> own(new Described(alias(tensor)));
  Managed &m = own->managed;
  if (get_data(own->tensor, &m.data) || get_sizes(own->tensor, &m.shape) ||
      get_strides(own->tensor, &m.strides)) return nullptr;
  m.device_type = device_type + 1; // kDLCPU is 1, kDLCUDA 2
  m.device_id = device;
  m.ndim = static_cast<int32_t>(ndim);
  m.code = types[dtype].code;
  m.bits = types[dtype].bits;
  m.lanes = 1;
  m.context = own.get();
  m.deleter = delete_described;
  return &own.release()->managed;
}

void say(char *message, int room, const char *text) { std::snprintf(message, static_cast<size_t>(room), "%s", text); }

template <typename F> bool find(void *library, F *function, const char *name) {
  void *found = dlsym(library, name);
  std::memcpy(function, &found, sizeof found);
  return found != nullptr;
}

struct Making {
  const Held *held;
  SEXP made;
};

// Body of an R_ToplevelExec(): R may jump out of it, but a C++ exception must not leave it.
void make_sexp(void *data) {
  Making *making = static_cast<Making *>(data);
  try {
    making->made = to_sexp(making->held);
  } catch (...) {
    making->made = nullptr;
  }
}

} // namespace

extern "C" {

// A DLPack tensor on an R tensor's memory; the caller calls its deleter. On failure null, with the reason in `status`
// and for FAILED in `message`, a buffer of `room` bytes.
void *vg_torch_give(SEXP x, int *status, char *message, int room) {
  Kind kind = OTHER;
  const Tensor *tensor = to_dlpack ? tensor_of(x, &kind) : nullptr;
  *status = !tensor                         ? NO_TENSOR
            : kind == NO_VALUES             ? UNDEFINED
            : kind == OTHER                 ? NOT_STRIDED
            : requires_grad(tensor->impl)   ? REQUIRES_GRAD
                                            : DONE;
  if (*status != DONE) return nullptr;
  try {
    if (is_conj(*tensor) || is_neg(*tensor)) {
      *status = CONJUGATE;
      return nullptr;
    }
    Managed *described = describe(*tensor);
    return described ? described : to_dlpack(*tensor);
  } catch (const std::exception &e) {
    say(message, room, e.what());
  } catch (...) {
    say(message, room, "an exception of an unknown type");
  }
  *status = FAILED;
  return nullptr;
}

// An R tensor on a DLPack tensor's memory. Takes ownership of `managed`: its deleter is called when the last user of
// the memory is gone, or here on failure, when the result is null. Unprotected.
SEXP vg_torch_take(void *managed, int *status, char *message, int room) {
  *status = FAILED;
  try {
    // shared with the deleter closure, so that it is freed exactly once, whatever libtorch does
    std::shared_ptr<Managed> owner(static_cast<Managed *>(managed), [](Managed *m) { m->deleter(m); });
    if (!from_dlpack) return nullptr;
    Held held(new Tensor(from_dlpack(owner.get(), [owner](void *) {})), delete_tensor);
    owner.reset();
    Making making = {&held, nullptr};
    if (R_ToplevelExec(make_sexp, &making) && making.made) {
      *status = DONE;
      return making.made;
    }
    say(message, room, "torch could not make an R object of the tensor");
  } catch (const std::exception &e) {
    say(message, room, e.what());
  } catch (...) {
    say(message, room, "an exception of an unknown type");
  }
  return nullptr;
}

// Whether the memory of a tensor from vg_torch_give() is still valid: `resize_()` of a tensor on the same storage may
// reallocate it.
int vg_torch_is_there(const void *described) {
  const Managed &managed = *static_cast<const Managed *>(described);
  const Tensor *tensor = kept_by(managed);
  void *data = nullptr;
  int64_t size = 0, offset = 0;
  if (!tensor || reach(managed, 0) == 0) return 1;
  if (get_data(tensor, &data) || data != managed.data) return 0;
  if (!get_storage_size || !get_storage_offset || get_storage_size(tensor, &size) ||
      get_storage_offset(tensor, &offset)) return 1;
  return reach(managed, offset) <= size;
}

// Makes torch return the device memory in its cache to the driver.
void vg_torch_trim() {
  if (empty_cache) empty_cache(); // catches its own exceptions
}

// Whether C_torch_start() has found torch and its checks have passed.
int vg_torch_started() { return to_dlpack != nullptr; }

// Looks up torch's functions in the library at `path` (liblantern) and checks the layouts declared here on `sample`, a
// float32 tensor of 1, 2, 3. `cuda`: whether torch uses CUDA. Returns NULL, or a string that says what is wrong; may
// raise an R error. A NULL path resets it.
SEXP C_torch_start(SEXP path, SEXP sample, SEXP cuda) {
  static float probe[3] = {1, 2, 3};
  static int64_t three = 3, one = 1;
  static int deleted;
  to_dlpack = nullptr;
  if (path == R_NilValue) return R_NilValue;
  void *library = dlopen(Rf_translateChar(STRING_ELT(path, 0)), RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return Rf_mkString("it has not been started: liblantern is not loaded");
  Managed *(*give)(const Tensor &) = nullptr;
  const char *missing = nullptr;
#define FIND(function, name) if (!find(library, &function, name)) missing = name
  FIND(give, "_ZN2at8toDLPackERKNS_6TensorE");
  FIND(from_dlpack, "_ZN2at10fromDLPackEP15DLManagedTensorSt8functionIFvPvEE");
  FIND(requires_grad, "_ZNK3c1010TensorImpl13requires_gradEv");
  FIND(is_conj, "_ZN2at6native7is_conjERKNS_6TensorE");
  FIND(is_neg, "_ZN2at6native6is_negERKNS_6TensorE");
  FIND(strided, "_ZTVN3c1010TensorImplE");
  FIND(get_numel, "aoti_torch_get_numel");
  FIND(get_dtype, "aoti_torch_get_dtype");
  FIND(get_data, "aoti_torch_get_data_ptr");
#undef FIND
  bool whole = find(library, &alias, "_ZN2at6native5aliasERKNS_6TensorE");
  whole = find(library, &get_dim, "aoti_torch_get_dim") && whole;
  whole = find(library, &get_sizes, "aoti_torch_get_sizes") && whole;
  whole = find(library, &get_strides, "aoti_torch_get_strides") && whole;
  whole = find(library, &get_device_type, "aoti_torch_get_device_type") && whole;
  whole = find(library, &get_device_index, "aoti_torch_get_device_index") && whole;
  if (!whole) alias = nullptr;
  find(library, &get_storage_size, "aoti_torch_get_storage_size");
  find(library, &get_storage_offset, "aoti_torch_get_storage_offset");
  if (missing) {
    char text[200];
    std::snprintf(text, sizeof text, "its libtorch has no %s", missing);
    return Rf_mkString(text);
  }
  undefined = nullptr;
  if (find(library, &undefined, "_ZTVN3c1019UndefinedTensorImplE"))
    undefined = static_cast<const char *>(undefined) + 2 * sizeof(void *);
  // an object's vtable pointer points behind the offset to top and the type info
  strided = static_cast<const char *>(strided) + 2 * sizeof(void *);
  to_sexp = reinterpret_cast<SEXP (*)(const Held *)>(R_GetCCallable("torch", "operator_sexp_tensor"));
  delete_tensor = reinterpret_cast<void (*)(void *)>(R_GetCCallable("torch", "delete_tensor"));

  // check a tensor of torch; each step reads memory only if the step before has found what it expects
  auto is_probe = [](const Tensor *t) {
    int64_t n = 0;
    int32_t dtype = 0;
    void *data = nullptr;
    float values[3];
    // 6: float32
    const bool told = !get_numel(t, &n) && !get_dtype(t, &dtype) && !get_data(t, &data) && n == 3 && dtype == 6;
    return told && peek(data, values, sizeof values) && std::memcmp(values, probe, sizeof probe) == 0;
  };
  Kind kind = OTHER;
  const Tensor *known = tensor_of(sample, &kind);
  if (!known || kind != STRIDED || !is_probe(known))
    return Rf_mkString("its tensors are not laid out as those of torch 0.13 to 0.17");
  // check a DLPack tensor made here, to torch and back
  to_dlpack = give;
  static Managed managed = {probe, 1, 0, 1, 2, 32, 1, &three, &one, 0, nullptr, [](Managed *) { deleted++; }};
  deleted = 0;
  int status;
  char message[200] = "";
  SEXP made = vg_torch_take(&managed, &status, message, sizeof message);
  bool same = false;
  if (made) {
    PROTECT(made);
    known = tensor_of(made, &kind);
    if (known && kind == STRIDED && is_probe(known) && deleted == 0) {
      Managed *back = static_cast<Managed *>(vg_torch_give(made, &status, message, sizeof message));
      same = back && back->data == probe && back->ndim == 1 && back->shape[0] == 3 && back->strides[0] == 1 &&
             back->device_type == 1 && back->device_id == 0 && back->code == 2 && back->bits == 32 &&
             back->lanes == 1 && back->byte_offset == 0;
      if (back) back->deleter(back);
    }
    UNPROTECT(1);
  }
  if (same) {
    empty_cache = nullptr;
    if (Rf_asLogical(cuda) == TRUE) find(library, &empty_cache, "_lantern_cuda_empty_cache");
    return R_NilValue;
  }
  to_dlpack = nullptr;
  char text[300];
  std::snprintf(text, sizeof text, "a tensor did not come back as it went%s%s", message[0] ? ": " : "", message);
  return Rf_mkString(text);
}

} // extern "C"

#else

extern "C" {
void *vg_torch_give(SEXP, int *status, char *, int) { *status = NO_TENSOR; return nullptr; }
SEXP vg_torch_take(void *, int *status, char *, int) { *status = FAILED; return nullptr; }
int vg_torch_is_there(const void *) { return 1; }
void vg_torch_trim() {}
int vg_torch_started() { return 0; }
SEXP C_torch_start(SEXP, SEXP, SEXP) { return Rf_mkString("tensors are shared on Linux only"); }
}

#endif
