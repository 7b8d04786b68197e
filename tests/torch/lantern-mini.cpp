// A liblantern with the symbols of libtorch that src/torch_bridge.cpp uses, over tensors made by hand.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include "lantern.h"

struct DLManagedTensor { // dlpack.h
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  void *context;
  void (*deleter)(DLManagedTensor *);
};

struct Type {
  uint8_t code, bits;
  int32_t number; // c10::ScalarType
};
static const std::map<std::string, Type> types = {
    {"float64", {2, 64, 7}}, {"float32", {2, 32, 6}}, {"int64", {0, 64, 4}}, {"int32", {0, 32, 3}},
        {"int16", {0, 16, 2}},
    {"int8", {0, 8, 1}}, {"uint8", {1, 8, 0}}, {"bool8", {6, 8, 11}}, {"complex128", {5, 128, 10}},
        {"complex64", {5, 64, 9}},
    {"float16", {2, 16, 5}}, {"bfloat16", {4, 16, 15}}};
static double live = 0;

// What tensors share; resize_() gives it other memory.
struct Storage {
  std::shared_ptr<void> data;
  char *start = nullptr;
  int64_t bytes = 0;
};

namespace c10 {
struct TensorImpl {
  virtual ~TensorImpl();
  virtual void nothing();
  bool requires_grad() const;
#ifdef OTHER_LAYOUT
  std::shared_ptr<Storage> storage;
  int64_t references = 1;
#else
  int64_t references = 1;
  std::shared_ptr<Storage> storage = std::make_shared<Storage>();
#endif
  int64_t offset = 0; // in bytes
  char *first() const { return storage->start ? storage->start + offset : nullptr; }
  std::vector<int64_t> shape, strides;
  Type type{};
  int32_t device_type = 1, device_id = 0;
  bool gradient = false, conjugated = false, negated = false;
};
TensorImpl::~TensorImpl() {}
void TensorImpl::nothing() {}
bool TensorImpl::requires_grad() const { return gradient; }

struct SparseImpl : TensorImpl {
  ~SparseImpl() override {}
};

struct UndefinedTensorImpl : TensorImpl { // what `$grad` is before `$backward()`
  ~UndefinedTensorImpl() override {}
};

// The same values behind a new implementation.
static TensorImpl *view(const TensorImpl &impl, TensorImpl *out = new TensorImpl) {
  out->storage = impl.storage;
  out->offset = impl.offset;
  out->shape = impl.shape;
  out->strides = impl.strides;
  out->type = impl.type;
  out->device_type = impl.device_type;
  out->device_id = impl.device_id;
  return out;
}

} // namespace c10

namespace at {
struct Tensor {
#ifdef OTHER_LAYOUT
  int64_t version = 3;
#endif
  c10::TensorImpl *impl;
  explicit Tensor(c10::TensorImpl *impl) : impl(impl) {}
  Tensor(const Tensor &other) : impl(other.impl) { impl->references++; }
  ~Tensor() {
    if (--impl->references == 0) delete impl;
  }
};

struct Lent { // the tensor first, as libtorch has it
  Tensor tensor;
  DLManagedTensor managed;
};

__attribute__((visibility("default"))) DLManagedTensor *toDLPack(const Tensor &t) {
  if (t.impl->type.bits == 0) throw std::runtime_error("toDLPack: the type is not supported\nstack: ...");
  const c10::TensorImpl &impl = *t.impl;
  Lent *lent = new Lent{t, {impl.first(), impl.device_type, impl.device_id, static_cast<int32_t>(impl.shape.size()),
      impl.type.code, impl.type.bits, 1, t.impl->shape.data(),
                         t.impl->strides.data(), 0, nullptr, [](DLManagedTensor *m) {
                             delete static_cast<Lent *>(m->context); }}};
  lent->managed.context = lent;
  return &lent->managed;
}

#ifndef OTHER_VERSION
Tensor fromDLPack(DLManagedTensor *m, std::function<void(void *)> deleter) {
  auto impl = std::make_unique<c10::TensorImpl>();
  for (const auto &type : types)
    if (type.second.code == m->code && type.second.bits == m->bits) impl->type = type.second;
  if (impl->type.bits == 0) throw std::runtime_error("fromDLPack: the type is not supported");
  impl->shape.assign(m->shape, m->shape + m->ndim);
  impl->strides.assign(m->strides, m->strides + m->ndim); // 2.8 takes them for given, and passes byte_offset over
  impl->device_type = m->device_type;
  impl->device_id = m->device_id;
  impl->storage = std::make_shared<Storage>();
  impl->storage->start = static_cast<char *>(m->data);
  impl->storage->data = std::shared_ptr<void>(m->data, deleter);
  impl->storage->bytes = INT64_MAX;
  return Tensor(impl.release());
}
#endif

namespace native {
#ifndef WITHOUT_ALIAS
__attribute__((visibility("default"))) Tensor alias(const Tensor &t) { return Tensor(c10::view(*t.impl)); }
#endif
bool is_conj(const Tensor &t) { return t.impl->conjugated; }
bool is_neg(const Tensor &t) { return t.impl->negated; }
} // namespace native
} // namespace at

static at::Tensor &of(void *tensor) { return *static_cast<at::Tensor *>(tensor); }

extern "C" {

int32_t aoti_torch_get_numel(void *t, int64_t *out) {
  *out = 1;
  for (int64_t extent : of(t).impl->shape) *out *= extent;
  return 0;
}
int32_t aoti_torch_get_dtype(void *t, int32_t *out) { return *out = of(t).impl->type.number, 0; }
int32_t aoti_torch_get_dim(void *t, int64_t *out) { return *out = static_cast<int64_t>(of(t).impl->shape.size()), 0; }
int32_t aoti_torch_get_sizes(void *t, int64_t **out) { return *out = of(t).impl->shape.data(), 0; }
int32_t aoti_torch_get_strides(void *t, int64_t **out) { return *out = of(t).impl->strides.data(), 0; }
// as c10 counts them
int32_t aoti_torch_get_device_type(void *t, int32_t *out) { return *out = of(t).impl->device_type - 1, 0; }
int32_t aoti_torch_get_device_index(void *t, int32_t *out) { return *out = of(t).impl->device_id, 0; }
int32_t aoti_torch_get_data_ptr(void *t, void **out) { return *out = of(t).impl->first(), 0; }
int32_t aoti_torch_get_storage_size(void *t, int64_t *out) { return *out = of(t).impl->storage->bytes, 0; }
int32_t aoti_torch_get_storage_offset(void *t, int64_t *out) {
    return *out = of(t).impl->offset / (of(t).impl->type.bits / 8), 0; }

static void store(const Type &type, char *at, double value) {
  switch (type.number) {
    case 7: case 10: std::memcpy(at, &value, 8); break;
    case 6: case 9: { float v = static_cast<float>(value); std::memcpy(at, &v, 4); break; }
    case 4: { int64_t v = static_cast<int64_t>(value); std::memcpy(at, &v, 8); break; }
    case 3: { int32_t v = static_cast<int32_t>(value); std::memcpy(at, &v, 4); break; }
    case 2: { int16_t v = static_cast<int16_t>(value); std::memcpy(at, &v, 2); break; }
    case 0: *at = static_cast<char>(static_cast<uint8_t>(value)); break;
    case 15: { float v = static_cast<float>(value); std::memcpy(at, reinterpret_cast<char *>(&v) + 2, 2); break; }
    case 5: { int e; double m = value == 0 ? 0 : std::frexp(value, &e); // small positive numbers, all that the tests have
              uint16_t v = value == 0 ? 0 : static_cast<uint16_t>((e + 14) <<
                  10 | static_cast<int>((m * 2 - 1) * 1024)); std::memcpy(at, &v, 2); break; }
    default: *at = static_cast<char>(value); break;
  }
}

static double load(const Type &type, const char *at) {
  switch (type.number) {
    case 7: case 10: { double v; std::memcpy(&v, at, 8); return v; }
    case 6: case 9: { float v; std::memcpy(&v, at, 4); return v; }
    case 4: { int64_t v; std::memcpy(&v, at, 8); return static_cast<double>(v); }
    case 3: { int32_t v; std::memcpy(&v, at, 4); return v; }
    case 2: { int16_t v; std::memcpy(&v, at, 2); return v; }
    case 0: return static_cast<uint8_t>(*at);
    case 15: { float v = 0; std::memcpy(reinterpret_cast<char *>(&v) + 2, at, 2); return v; }
    case 5: { uint16_t v; std::memcpy(&v, at, 2);
    return v == 0 ? 0 : std::ldexp(1 + (v & 1023) / 1024.0, (v >> 10) - 15); }
    default: return *at;
  }
}

static void allocate(Storage &storage, size_t bytes) {
  live += static_cast<double>(bytes);
  storage.data = std::shared_ptr<void>(std::calloc(1, bytes ? bytes : 1), [bytes](void *p) {
    live -= static_cast<double>(bytes);
    std::memset(p, 0xDD, bytes);
    std::free(p);
  });
  storage.start = static_cast<char *>(storage.data.get());
  storage.bytes = static_cast<int64_t>(bytes);
}

void *lantern_tensor(const double *values, const int64_t *shape, int ndim, const char *dtype) {
  auto impl = std::make_unique<c10::TensorImpl>();
  const auto type = types.find(dtype);
  // of another type, float8 here, toDLPack knows nothing
  impl->type = type == types.end() ? Type{2, 0, 23} : type->second;
  impl->shape.assign(shape, shape + ndim);
  impl->strides.assign(static_cast<size_t>(ndim), 1);
  for (int k = ndim - 2; k >= 0; k--) impl->strides[k] = impl->strides[k + 1] * shape[k + 1];
  int64_t n = 1;
  for (int k = 0; k < ndim; k++) n *= shape[k];
  const size_t size = impl->type.bits ? impl->type.bits / 8 : 4, bytes = static_cast<size_t>(n) * size;
  impl->storage = std::make_shared<Storage>();
  allocate(*impl->storage, bytes);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, place = 0;
    for (int k = 0; k < ndim; k++) {
      place += rest % shape[k] * impl->strides[k];
      rest /= shape[k];
    }
    store(impl->type, impl->first() + place * static_cast<int64_t>(size), values[i]);
  }
  return new at::Tensor(impl.release());
}

void lantern_delete(void *tensor) { delete static_cast<at::Tensor *>(tensor); }
int lantern_ndim(void *tensor) { return static_cast<int>(of(tensor).impl->shape.size()); }

void lantern_shape(void *tensor, int64_t *shape, int64_t *strides) {
  for (size_t k = 0; k < of(tensor).impl->shape.size(); k++) {
    shape[k] = of(tensor).impl->shape[k];
    strides[k] = of(tensor).impl->strides[k];
  }
}

const char *lantern_dtype(void *tensor) {
  for (const auto &type : types)
    if (type.second.number == of(tensor).impl->type.number) return type.first.c_str();
  return "other";
}

void *lantern_address(void *tensor) { return of(tensor).impl->first(); }

double lantern_value(void *tensor, int64_t place) {
  const c10::TensorImpl &impl = *of(tensor).impl;
  return load(impl.type, impl.first() + place * (impl.type.bits / 8));
}

void *lantern_change(void *tensor, const char *what, const double *arguments, int) {
  c10::TensorImpl &impl = *of(tensor).impl;
  const std::string name = what;
  if (name == "mul_" || name == "fill_") {
    int64_t n;
    aoti_torch_get_numel(tensor, &n);
    for (int64_t i = 0; i < n; i++) { // in any order: each element once
      int64_t rest = i, place = 0;
      for (size_t k = 0; k < impl.shape.size(); k++) {
        place += rest % impl.shape[k] * impl.strides[k];
        rest /= impl.shape[k];
      }
      char *at = impl.first() + place * (impl.type.bits / 8);
      store(impl.type, at, name == "fill_" ? arguments[0] : load(impl.type, at) * arguments[0]);
    }
    return new at::Tensor(of(tensor));
  }
  if (name == "resize_") { // to a vector, with what was there
    const size_t bytes = static_cast<size_t>(arguments[0]) * (impl.type.bits / 8);
    if (static_cast<int64_t>(bytes) > impl.storage->bytes) {
      const std::shared_ptr<void> old = impl.storage->data;
      const size_t known = static_cast<size_t>(impl.storage->bytes);
      allocate(*impl.storage, bytes);
      std::memcpy(impl.storage->start, old.get(), known);
    }
    impl.shape.assign(1, static_cast<int64_t>(arguments[0]));
    impl.strides.assign(1, 1);
    return new at::Tensor(of(tensor));
  }
  if (name == "grad") return new at::Tensor(new c10::UndefinedTensorImpl);
  if (name == "to_sparse") return new at::Tensor(c10::view(impl, new c10::SparseImpl));
  c10::TensorImpl *out = c10::view(impl);
  if (name == "t") {
    std::swap(out->shape[0], out->shape[1]);
    std::swap(out->strides[0], out->strides[1]);
  } else if (name == "select") {
    out->offset += (static_cast<int64_t>(arguments[0]) - 1) * out->strides[0] * (out->type.bits / 8);
    out->shape.erase(out->shape.begin());
    out->strides.erase(out->strides.begin());
  } else if (name == "conj") {
    out->conjugated = true;
  } else if (name == "neg_view") {
    out->negated = true;
  } else if (name == "requires_grad_") {
    out->gradient = true;
  } else if (name != "detach") {
    delete out;
    return nullptr;
  }
  return new at::Tensor(out);
}

double lantern_live() { return live; }

} // extern "C"
