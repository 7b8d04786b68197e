// What a stand-in's liblantern offers to the stand-in of the R package. A tensor is an at::Tensor on the heap.
#pragma once
#include <cstdint>

extern "C" {
// of a dtype by its name in R; row-major, as libtorch makes them, from column-major values
void *lantern_tensor(const double *values, const int64_t *shape, int ndim, const char *dtype);
void lantern_delete(void *tensor);
int lantern_ndim(void *tensor);
void lantern_shape(void *tensor, int64_t *shape, int64_t *strides);
const char *lantern_dtype(void *tensor);
void *lantern_address(void *tensor);
double lantern_value(void *tensor, int64_t place); // an element, `place` elements past the first
// "mul_", "fill_", "resize_" (in place), "t", "conj", "neg_view", "detach", "requires_grad_", "to_sparse", "grad",
// "select", "flip", "cuda" (the real one): a tensor, or null
void *lantern_change(void *tensor, const char *what, const double *arguments, int n);
double lantern_live(); // bytes that tensors own; NaN where it is not known
}
