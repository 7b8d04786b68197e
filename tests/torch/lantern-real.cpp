// A liblantern over a real libtorch.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include "lantern.h"

namespace {

const std::map<std::string, at::ScalarType> types = {
    {"float64", at::kDouble}, {"float32", at::kFloat}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16},
    {"int64", at::kLong}, {"int32", at::kInt}, {"int16", at::kShort}, {"int8", at::kChar}, {"uint8", at::kByte},
    {"bool8", at::kBool}, {"complex64", at::kComplexFloat}, {"complex128", at::kComplexDouble},
    {"float8", at::kFloat8_e5m2}};

at::Tensor &of(void *tensor) { return *static_cast<at::Tensor *>(tensor); }

} // namespace

extern "C" {

void *lantern_tensor(const double *values, const int64_t *shape, int ndim, const char *dtype) {
  // column-major values: the reversed shape, turned round
  std::vector<int64_t> reversed(shape, shape + ndim), order;
  std::reverse(reversed.begin(), reversed.end());
  for (int k = ndim; k-- > 0;) order.push_back(k);
  at::Tensor t = at::from_blob(const_cast<double *>(values), reversed, at::kDouble).permute(order).contiguous();
  return new at::Tensor(t.to(types.at(dtype), false, true));
}

void lantern_delete(void *tensor) { delete static_cast<at::Tensor *>(tensor); }
int lantern_ndim(void *tensor) { return static_cast<int>(of(tensor).dim()); }

void lantern_shape(void *tensor, int64_t *shape, int64_t *strides) {
  for (int64_t k = 0; k < of(tensor).dim(); k++) {
    shape[k] = of(tensor).size(k);
    strides[k] = of(tensor).stride(k);
  }
}

const char *lantern_dtype(void *tensor) {
  for (const auto &type : types)
    if (type.second == of(tensor).scalar_type()) return type.first.c_str();
  return "other";
}

void *lantern_address(void *tensor) { return of(tensor).data_ptr(); }

double lantern_value(void *tensor, int64_t place) {
  at::Tensor t = of(tensor).detach();
  at::Tensor one = t.as_strided({1}, {1}, t.storage_offset() + place);
  return (one.is_complex() ? at::real(one) : one).to(at::kDouble).item<double>();
}

void *lantern_change(void *tensor, const char *what, const double *arguments, int n) {
  try {
    const at::Tensor &t = of(tensor);
    const std::string name = what;
    at::NoGradGuard guard;
    if (name == "mul_") return new at::Tensor(t.mul_(arguments[0]));
    if (name == "fill_") return new at::Tensor(t.fill_(arguments[0]));
    if (name == "resize_") return new at::Tensor(t.resize_({static_cast<int64_t>(arguments[0])}));
    if (name == "grad") return new at::Tensor(t.detach().requires_grad_().grad());
    if (name == "cuda") return new at::Tensor(t.to(at::kCUDA));
    if (name == "t") return new at::Tensor(t.t());
    if (name == "select") return new at::Tensor(t.select(0, static_cast<int64_t>(arguments[0]) - 1));
    if (name == "flip") return new at::Tensor(t.flip(0));
    if (name == "conj") return new at::Tensor(at::conj(t));
    if (name == "neg_view") return new at::Tensor(at::_neg_view(t));
    if (name == "detach") return new at::Tensor(t.detach());
    if (name == "requires_grad_") return new at::Tensor(t.detach().requires_grad_());
    if (name == "to_sparse") return new at::Tensor(t.to_sparse());
  } catch (...) {
  }
  return nullptr;
}

double lantern_live() { return std::numeric_limits<double>::quiet_NaN(); }

} // extern "C"
