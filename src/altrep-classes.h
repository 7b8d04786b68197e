// A family of ALTREP classes, one for each type of vector. Each file that includes this header defines the methods
// under the names used below.
#pragma once
#include "r_api.h"

static R_altrep_class_t class_logical, class_integer, class_real, class_complex;

static R_altrep_class_t class_of(int type) {
  switch (type) {
  case LGLSXP: return class_logical;
  case INTSXP: return class_integer;
  case CPLXSXP: return class_complex;
  default: return class_real;
  }
}

#define VG_MAKE_CLASS(family, name)                                                                \
  class_##name = R_make_alt##name##_class(family "_" #name, "verdigris", dll);                     \
  R_set_altrep_Length_method(class_##name, length_method);                                         \
  R_set_altrep_Inspect_method(class_##name, inspect_method);                                       \
  R_set_altvec_Dataptr_method(class_##name, dataptr_method);                                       \
  R_set_altvec_Dataptr_or_null_method(class_##name, dataptr_or_null_method);                       \
  R_set_alt##name##_Elt_method(class_##name, name##_elt);                                          \
  R_set_alt##name##_Get_region_method(class_##name, name##_get_region);
