// Subsetting and assignment: base R's rules on dimensions and names. Rust interprets subscripts and moves the elements
// (rust/src/entries/index.rs).
//
// The methods of `[`, `[[` and `[<-` handle numbers, logicals and arrays as subscripts in a single .External2. Names,
// factors, index matrices and errors are left to R/array-index.R, which calls back with positions.
#include <math.h>
#include <string.h>
#include "subset.h"
#include "altrep-array.h"
#include "attributes.h"
#include "conditions.h"
#include "dots.h"
#include "helpers.h"
#include "target.h"

// Rust. vg_subset() and vg_assign() return a string if a subscript is invalid. vg_subset() writes the number of
// elements selected on each axis to `extents` (integers, or NULL), vg_assign() the number of elements assigned to
// `count`.
SEXP vg_subset(SEXP x, SEXP dim, SEXP at, SEXP extents);
SEXP vg_assign(SEXP x, SEXP dim, SEXP at, SEXP value, SEXP count, SEXP is_target);
int vg_assign_one(SEXP x, R_xlen_t place, SEXP value); // 1 if done, 0 on failure, -1 if not possible in place
SEXP vg_collect(SEXP x);
SEXP vg_element_of(void *handle, R_xlen_t place); // a null pointer if it must be taken by vg_subset()

#define MOST_ASKED 8
static SEXP x_symbol, i_symbol, drop_symbol, value_symbol, missing_calls[MOST_ASKED];

void vg_init_subset(void) {
  x_symbol = Rf_install("x");
  i_symbol = Rf_install("i");
  drop_symbol = Rf_install("drop");
  value_symbol = Rf_install("value");
  for (int k = 0; k < MOST_ASKED; k++) {
    char code[] = "missing(..1)";
    code[10] += (char)k;
    missing_calls[k] = vg_preserved(code);
  }
}

static int is_array(SEXP x) { return Rf_inherits(x, "gpu_array"); }
static int is_fault(SEXP x) { return TYPEOF(x) == STRSXP; }

// ---- classifying subscripts ------------------------------------------------------------------------

// A list of the subscripts, the elements of `...` in the method's frame; like base R, ignores their names. An empty
// subscript is R_MissingArg, and so is a variable that is a missing argument of the caller (only among the first eight;
// beyond them R raises its error).
static SEXP subscripts(SEXP rho) {
  int n = vg_dots_length(rho);
  SEXP values = PROTECT(Rf_allocVector(VECSXP, n));
  for (int k = 0; k < n; k++) {
    int kind = vg_dots_kind(k + 1, rho);
    int is_missing = kind == VG_PROMISE && k < MOST_ASKED && Rf_asLogical(Rf_eval(missing_calls[k], rho)) == TRUE;
    SET_VECTOR_ELT(values, k, kind == VG_EMPTY || is_missing ? R_MissingArg : vg_dots_value(k + 1, rho));
  }
  UNPROTECT(1);
  return values;
}

// The same list for R code, with NULL for an empty subscript and list(value) for others.
static SEXP for_r(SEXP values) {
  SEXP given = PROTECT(Rf_allocVector(VECSXP, XLENGTH(values)));
  for (R_xlen_t k = 0; k < XLENGTH(values); k++) {
    if (VECTOR_ELT(values, k) == R_MissingArg) continue;
    SEXP one = Rf_allocVector(VECSXP, 1);
    SET_VECTOR_ELT(given, k, one);
    SET_VECTOR_ELT(one, 0, VECTOR_ELT(values, k));
  }
  UNPROTECT(1);
  return given;
}

// Whether Rust can interpret a subscript.
static int is_plain(SEXP i) {
  switch (TYPEOF(i)) {
  case NILSXP: return 1;
  case LGLSXP: case INTSXP: case REALSXP: return !Rf_isObject(i) || is_array(i) || Rf_inherits(i, "integer64");
  default: return i == R_MissingArg;
  }
}

static int rank(SEXP x) {
  SEXP dim = Rf_getAttrib(x, R_DimSymbol);
  return dim == R_NilValue ? 0 : (int)XLENGTH(dim);
}

// The subscripts as Rust takes them: a list with NULL for a whole axis. A null pointer if R code must interpret them.
// Unprotected.
static SEXP positions(SEXP x, SEXP values) {
  R_xlen_t n = XLENGTH(values);
  if (n != 1 && n != rank(x)) return NULL;
  for (R_xlen_t k = 0; k < n; k++)
    if (!is_plain(VECTOR_ELT(values, k))) return NULL;
  if (n == 1) {
    // possibly an index matrix; a GPU array is one only if it has a column for each dimension of x
    SEXP i = VECTOR_ELT(values, 0), dim = Rf_getAttrib(i, R_DimSymbol);
    if (dim != R_NilValue && rank(x) > 0) {
      int is_index = TYPEOF(i) != LGLSXP && XLENGTH(dim) == 2 && INTEGER_ELT(dim, 1) == rank(x);
      if (!is_array(i) || is_index) return NULL;
    }
  }
  SEXP at = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    SEXP i = VECTOR_ELT(values, k);
    if (i != R_MissingArg) SET_VECTOR_ELT(at, k, i == R_NilValue ? Rf_allocVector(INTSXP, 0) : i);
  }
  UNPROTECT(1);
  return at;
}

// ---- subsetting ------------------------------------------------------------------------------------

// names[i]; i may be a GPU array. Unprotected.
static SEXP names_at(SEXP names, SEXP i) {
  i = PROTECT(is_array(i) ? vg_checked(vg_collect(i)) : i);
  SEXP call = PROTECT(Rf_lang3(R_BracketSymbol, names, i));
  SEXP out = Rf_eval(call, R_BaseEnv);
  UNPROTECT(2);
  return out;
}

static SEXP take_flat(SEXP x, SEXP at, int drop) {
  SEXP n = PROTECT(Rf_ScalarReal((double)Rf_xlength(x)));
  SEXP out = PROTECT(vg_checked(vg_subset(x, n, at, R_NilValue)));
  if (is_fault(out)) {
    UNPROTECT(2);
    return out;
  }
  SEXP names = PROTECT(Rf_getAttrib(x, R_NamesSymbol)); // for one dimension R returns the dimnames
  if (names != R_NilValue) names = names_at(names, VECTOR_ELT(at, 0));
  PROTECT(names);
  // an array of one dimension stays one, as long as there are two elements or drop = FALSE
  if (rank(x) == 1 && !(drop && Rf_xlength(out) <= 1)) {
    SEXP dim = PROTECT(Rf_ScalarInteger((int)Rf_xlength(out)));
    Rf_setAttrib(out, R_DimSymbol, dim);
    if (names != R_NilValue) {
      SEXP dimnames = PROTECT(Rf_allocVector(VECSXP, 1));
      SET_VECTOR_ELT(dimnames, 0, names);
      SEXP axis = PROTECT(Rf_getAttrib(x, R_DimNamesSymbol));
      axis = PROTECT(Rf_getAttrib(axis, R_NamesSymbol));
      if (axis != R_NilValue) Rf_setAttrib(dimnames, R_NamesSymbol, axis);
      Rf_setAttrib(out, R_DimNamesSymbol, dimnames);
      UNPROTECT(3);
    }
    vg_classify(out);
    UNPROTECT(1);
  } else if (names != R_NilValue) {
    Rf_setAttrib(out, R_NamesSymbol, names);
  }
  UNPROTECT(4);
  return out;
}

// The elements of a list, strings or integers for the axes that are not dropped; `count` is their number.
static SEXP staying(SEXP all, const int *extents, int drop, int count) {
  SEXP out = PROTECT(Rf_allocVector(TYPEOF(all), count));
  for (int k = 0, to = 0; k < (int)XLENGTH(all); k++) {
    if (drop && extents[k] == 1) continue;
    if (TYPEOF(all) == INTSXP) INTEGER(out)[to++] = INTEGER_ELT(all, k);
    else if (TYPEOF(all) == STRSXP) SET_STRING_ELT(out, to++, STRING_ELT(all, k));
    else SET_VECTOR_ELT(out, to++, VECTOR_ELT(all, k));
  }
  UNPROTECT(1);
  return out;
}

static SEXP take_axes(SEXP x, SEXP at, int drop) {
  int n = (int)XLENGTH(at);
  SEXP dim = PROTECT(Rf_getAttrib(x, R_DimSymbol)), lengths = PROTECT(Rf_allocVector(INTSXP, n));
  SEXP out = PROTECT(vg_checked(vg_subset(x, dim, at, lengths)));
  if (is_fault(out)) {
    UNPROTECT(3);
    return out;
  }
  const int *extents = INTEGER(lengths);
  int stay = 0, named = 0, last_named = -1, last_stay = -1;
  for (int k = 0; k < n; k++)
    if (!drop || extents[k] != 1) stay++, last_stay = k;
  SEXP dimnames = PROTECT(Rf_getAttrib(x, R_DimNamesSymbol));
  SEXP kept = PROTECT(dimnames == R_NilValue ? R_NilValue : Rf_allocVector(VECSXP, n));
  for (int k = 0; dimnames != R_NilValue && k < n; k++) {
    SEXP names = VECTOR_ELT(dimnames, k), i = VECTOR_ELT(at, k);
    if (names == R_NilValue) continue;
    SET_VECTOR_ELT(kept, k, i == R_NilValue ? names : names_at(names, i));
    if (XLENGTH(VECTOR_ELT(kept, k)) > 0) named++, last_named = k;
  }
  if (stay >= 2 || !drop) {
    Rf_setAttrib(out, R_DimSymbol, PROTECT(staying(lengths, extents, drop, stay)));
    UNPROTECT(1);
    int any = 0;
    for (int k = 0; kept != R_NilValue && k < n; k++) {
      any |= (!drop || extents[k] != 1) && VECTOR_ELT(kept, k) != R_NilValue;
    }
    if (any) {
      SEXP list = PROTECT(staying(kept, extents, drop, stay));
      SEXP axes = PROTECT(Rf_getAttrib(dimnames, R_NamesSymbol));
      if (axes != R_NilValue) {
        Rf_setAttrib(list, R_NamesSymbol, PROTECT(staying(axes, extents, drop, stay)));
        UNPROTECT(1);
      }
      Rf_setAttrib(out, R_DimNamesSymbol, list);
      UNPROTECT(2);
    }
    vg_classify(out);
  } else if (named) {
    // a single element is named only if exactly one axis has names
    int from = stay == 1 ? last_stay : named == 1 ? last_named : -1;
    if (from >= 0 && Rf_xlength(VECTOR_ELT(kept, from)) > 0) Rf_setAttrib(out, R_NamesSymbol, VECTOR_ELT(kept, from));
  }
  UNPROTECT(5);
  return out;
}

static SEXP take(SEXP x, SEXP at, int drop) {
  return XLENGTH(at) == 1 ? take_flat(x, at, drop) : take_axes(x, at, drop);
}

// The 0-based position on an axis of a single number within its extent; -1 for other subscripts.
static double place_on(SEXP i, double extent) {
  if ((TYPEOF(i) != INTSXP && TYPEOF(i) != REALSXP) || Rf_isObject(i) || XLENGTH(i) != 1) return -1;
  double place = trunc(TYPEOF(i) == INTSXP ? INTEGER_ELT(i, 0) : REAL_ELT(i, 0)); // NA_INTEGER is less than 1
  return place >= 1 && place <= extent ? place - 1 : -1;
}

// x[i] or x[i, j, ...] for a single number on each axis of a computed array without names, as an array; otherwise a
// null pointer. A fast path for loops over elements.
static SEXP one_element(SEXP x, SEXP values) {
  int n = (int)XLENGTH(values);
  if (Rf_getAttrib(x, n == 1 ? R_NamesSymbol : R_DimNamesSymbol) != R_NilValue) return NULL;
  SEXP dim = n == 1 ? R_NilValue : Rf_getAttrib(x, R_DimSymbol);
  if (n > 1 && Rf_length(dim) != n) return NULL;
  double place = 0, stride = 1;
  for (int k = 0; k < n; k++) {
    double extent = n == 1 ? (double)Rf_xlength(x) : INTEGER_ELT(dim, k), at = place_on(VECTOR_ELT(values, k), extent);
    if (at < 0) return NULL;
    place += at * stride;
    stride *= extent;
  }
  void *h = vg_handle_of(x);
  SEXP out = h == NULL ? NULL : vg_element_of(h, (R_xlen_t)place);
  if (out == NULL) return NULL;
  PROTECT(out);
  out = vg_set_class(out, 0);
  UNPROTECT(1);
  return out;
}

// As in base R, NA counts as drop = TRUE.
static int drops(SEXP drop) { return Rf_asLogical(drop) != FALSE; }

// Subsets x by positions that R code has worked out. Returns a string if a subscript is invalid.
SEXP C_take(SEXP x, SEXP at, SEXP drop) { return take(x, at, drops(drop)); }

// .External2(C_subset) in `[.gpu_array`(x, ..., drop): the subset, or the list of subscripts if R code must handle
// them.
SEXP C_subset(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = PROTECT(Rf_eval(x_symbol, rho)), values = PROTECT(subscripts(rho)), out = NULL;
  if (XLENGTH(values) == 0 || (XLENGTH(values) == 1 && VECTOR_ELT(values, 0) == R_MissingArg)) {
    if (vg_is_fronted(x)) x = for_r(values);
    UNPROTECT(2);
    return x;
  }
  int drop = drops(Rf_eval(drop_symbol, rho));
  if (drop && (out = one_element(x, values)) != NULL) {
    UNPROTECT(2);
    return out;
  }
  if (vg_pending) vg_raise_pending(R_NilValue);
  // columns of a time series keep tsp: left to R code
  int series =
    XLENGTH(values) > 1 && VECTOR_ELT(values, 0) == R_MissingArg && Rf_getAttrib(x, R_TspSymbol) != R_NilValue;
  SEXP at = series ? NULL : positions(x, values);
  if (at != NULL) {
    PROTECT(at);
    out = take(x, at, drop);
    UNPROTECT(1);
  }
  if (at == NULL || is_fault(out)) out = for_r(values);
  UNPROTECT(2);
  return out;
}

// x[[i]] as an R number, for a single number i and a computed array; otherwise a null pointer. A fast path, since
// mapply() and others take all elements in turn.
static SEXP number_at(SEXP x, SEXP i) {
  if ((TYPEOF(i) != INTSXP && TYPEOF(i) != REALSXP) || Rf_isObject(i) || XLENGTH(i) != 1) return NULL;
  double place = TYPEOF(i) == INTSXP ? INTEGER_ELT(i, 0) : REAL_ELT(i, 0); // NA_INTEGER is less than 1
  if (!(place >= 1 && place < (double)Rf_xlength(x) + 1)) return NULL;
  void *h = vg_handle_of(x);
  if (h == NULL) return NULL;
  union { int whole; double real; Rcomplex complex; } value;
  int done = vg_element_at(h, (R_xlen_t)place - 1, &value);
  if (vg_pending) vg_raise_pending(R_NilValue);
  if (done != 1) return NULL;
  switch (TYPEOF(x)) {
  case LGLSXP: return Rf_ScalarLogical(value.whole);
  case INTSXP: return Rf_ScalarInteger(value.whole);
  case REALSXP: return Rf_ScalarReal(value.real);
  default: return Rf_ScalarComplex(value.complex);
  }
}

// .External2(C_subset2) in `[[.gpu_array`(x, i, ...): the element as an R number, for a single number on each axis.
// Otherwise NULL: R code handles the call.
SEXP C_subset2(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = PROTECT(Rf_eval(x_symbol, rho));
  int n = 1 + vg_dots_length(rho);
  if (n == 1 && !vg_is_missing(i_symbol, rho)) {
    SEXP number = number_at(x, Rf_eval(i_symbol, rho));
    if (number != NULL) {
      UNPROTECT(1);
      return number;
    }
  }
  SEXP dim = n == 1 ? Rf_ScalarReal((double)Rf_xlength(x)) : Rf_getAttrib(x, R_DimSymbol);
  PROTECT(dim);
  SEXP at = PROTECT(Rf_allocVector(VECSXP, n));
  int plain = Rf_xlength(dim) == n && !vg_is_missing(i_symbol, rho) && !vg_dots_named(rho);
  for (int k = 0; k < n && plain; k++) {
    if (k > 0 && vg_dots_kind(k, rho) == VG_EMPTY) {
      plain = 0;
      break;
    }
    SEXP i = k == 0 ? Rf_eval(i_symbol, rho) : vg_dots_value(k, rho);
    plain = (TYPEOF(i) == INTSXP || TYPEOF(i) == REALSXP) && !Rf_isObject(i) && XLENGTH(i) == 1;
    if (!plain) break;
    double place = trunc(Rf_asReal(i)), extent = TYPEOF(dim) == INTSXP ? INTEGER_ELT(dim, k) : REAL_ELT(dim, k);
    plain = place >= 1 && place <= extent;
    if (plain) SET_VECTOR_ELT(at, k, Rf_ScalarReal(place));
  }
  SEXP out = R_NilValue;
  if (plain) {
    SEXP part = PROTECT(vg_checked(vg_subset(x, dim, at, R_NilValue)));
    if (!is_fault(part)) out = vg_checked(vg_collect(part));
    UNPROTECT(1);
  }
  UNPROTECT(3);
  return out;
}

// ---- assignment ------------------------------------------------------------------------------------

// Assigns `value` at these subscripts. Returns x itself if it was written in place, which is allowed only if
// `is_target`; else a new array. `names` are the names of a vector that grows, or NULL to extend x's names. Returns a
// string if a subscript is invalid.
static SEXP put(SEXP x, SEXP at, SEXP value, SEXP names, int is_target) {
  int flat = XLENGTH(at) == 1;
  SEXP dim = PROTECT(flat ? Rf_ScalarReal((double)Rf_xlength(x)) : Rf_getAttrib(x, R_DimSymbol));
  SEXP count = PROTECT(Rf_ScalarReal(0));
  SEXP out = PROTECT(vg_checked(vg_assign(x, dim, at, value, count, Rf_ScalarLogical(is_target))));
  if (is_fault(out)) {
    static const char *const messages[][2] = {
      {"zero", "replacement has length zero"},
      {"na", "NAs are not allowed in subscripted assignments"},
      {"uneven", "number of items to replace is not a multiple of replacement length"},
      {"vast", "vector is too large"},
    };
    const char *fault = CHAR(STRING_ELT(out, 0));
    for (size_t k = 0; k < sizeof messages / sizeof *messages; k++)
      if (strcmp(fault, messages[k][0]) == 0) vg_say("stop_as_base", messages[k][1]);
    UNPROTECT(3);
    return out;
  }
  if (REAL_ELT(count, 0) > 0 && fmod(REAL_ELT(count, 0), (double)Rf_xlength(value)) != 0)
    vg_say("warn_as_base", "number of items to replace is not a multiple of replacement length");
  R_xlen_t had = Rf_xlength(x), has = Rf_xlength(out);
  if (out == x) {
    // written in place, or nothing was assigned
  } else if (has == had) {
    out = C_copy_attributes(x, out);
  } else {
    if (Rf_getAttrib(x, R_TspSymbol) != R_NilValue) vg_say("stop_as_base", "only replacement of elements is allowed");
    Rf_copyMostAttrib(x, out);
    vg_classify(out);
    SEXP old = PROTECT(Rf_getAttrib(x, R_NamesSymbol));
    int grows = names == R_NilValue && old != R_NilValue;
    PROTECT(names = grows ? Rf_allocVector(STRSXP, has) : names);
    for (R_xlen_t k = 0; grows && k < has; k++) SET_STRING_ELT(names, k, k < had ? STRING_ELT(old, k) : R_BlankString);
    if (names != R_NilValue) Rf_setAttrib(out, R_NamesSymbol, names);
    UNPROTECT(2);
  }
  UNPROTECT(3);
  return out;
}

SEXP C_put(SEXP x, SEXP at, SEXP value, SEXP names) { return put(x, at, value, names, 0); }

// Whether vg_assign() takes the value; other values are left to R code.
static int is_value(SEXP value) {
  int is_complex = TYPEOF(value) == CPLXSXP && (!Rf_isObject(value) || is_array(value));
  return value != R_NilValue && (is_plain(value) || is_complex);
}

// Whether x is a plain R number. A reduction's result may still be pending on the device, so it is not one.
static int is_number(SEXP x) {
  int is_real = TYPEOF(x) == REALSXP || TYPEOF(x) == INTSXP || TYPEOF(x) == LGLSXP;
  return is_real && !Rf_isObject(x) && XLENGTH(x) == 1 && !vg_is_ours(x);
}

// The value to assign to an element of x as a plain R number, if it is known without waiting; otherwise a null pointer.
static SEXP known_number(SEXP x, SEXP value) {
  if (is_number(value)) return value;
  SEXP cell = vg_data_of(value);
  const void *number = cell != NULL && TYPEOF(cell) == LISTSXP ? vg_number_for(x, cell) : NULL;
  if (number == NULL) return NULL;
  switch (TYPEOF(value)) {
  case LGLSXP: return Rf_ScalarLogical(*(const int *)number);
  case INTSXP: return Rf_ScalarInteger(*(const int *)number);
  default: return Rf_ScalarReal(*(const double *)number);
  }
}

// The 0-based position in x of the element that a single number on each axis selects; -1 for other subscripts. `i` is
// the symbol of the first subscript, or a null pointer if all subscripts are in `...`.
static double flat_place(SEXP x, SEXP i, SEXP rho) {
  int first = i != NULL, n = vg_dots_length(rho) + first;
  SEXP dim = PROTECT(n == 1 ? R_NilValue : Rf_getAttrib(x, R_DimSymbol));
  double place = 0, stride = 1;
  if (n == 0 || (n > 1 && Rf_length(dim) != n)) place = -1;
  for (int k = 0; k < n && place >= 0; k++) {
    int is_first = first && k == 0, j = k + 1 - first;
    if (!is_first && vg_dots_kind(j, rho) == VG_EMPTY) {
      place = -1;
      break;
    }
    double extent = n == 1 ? (double)Rf_xlength(x) : INTEGER_ELT(dim, k);
    double at = place_on(is_first ? Rf_eval(i, rho) : vg_dots_value(j, rho), extent);
    place = at < 0 ? -1 : place + at * stride;
    stride *= extent;
  }
  UNPROTECT(1);
  return place;
}

// Writes a number at a 0-based position of a target, in place. Returns whether it was written.
static int put_one(SEXP x, double place, SEXP value) {
  if (place < 0) return 0;
  int done = vg_assign_one(x, (R_xlen_t)place, value);
  if (vg_pending) vg_raise_pending(R_NilValue);
  return done == 1;
}

// .External2(C_replace) in `[<-.gpu_array`(x, ..., value): the array, or the list of subscripts if R code must handle
// them.
SEXP C_replace(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = PROTECT(Rf_eval(x_symbol, rho));
  int is_target = vg_is_target(x, NULL, rho);
  if (is_target) {
    SEXP value = PROTECT(Rf_eval(value_symbol, rho)), number = known_number(x, value);
    int done = 0;
    if (number != NULL) {
      PROTECT(number);
      done = put_one(x, flat_place(x, NULL, rho), number);
      UNPROTECT(1);
    }
    UNPROTECT(1);
    if (done) {
      UNPROTECT(1);
      return x;
    }
  }
  SEXP values = PROTECT(subscripts(rho)), out = NULL;
  // if the method is called as a function with an unnamed value, that value is the last element of `...`
  int known = !vg_is_missing(value_symbol, rho);
  SEXP value = PROTECT(known ? Rf_eval(value_symbol, rho) : R_NilValue);
  if (is_value(value)) {
    SEXP at = XLENGTH(values) == 0 ? Rf_allocVector(VECSXP, 1) : positions(x, values);
    if (at != NULL) {
      PROTECT(at);
      out = put(x, at, value, R_NilValue, is_target);
      UNPROTECT(1);
    }
  }
  if (out == NULL || is_fault(out)) out = for_r(values);
  UNPROTECT(3);
  return out;
}

// .External2(C_replace_element) in `[[<-.gpu_array`(x, i, ..., value): the array, for a single number on each axis and
// a single value. Otherwise NULL: R code handles the call.
SEXP C_replace_element(SEXP call, SEXP op, SEXP args, SEXP rho) {
  if (vg_is_missing(value_symbol, rho) || vg_is_missing(i_symbol, rho)) return R_NilValue;
  SEXP x = PROTECT(Rf_eval(x_symbol, rho)), out = R_NilValue;
  int is_target = vg_is_target(x, i_symbol, rho);
  SEXP value = PROTECT(Rf_eval(value_symbol, rho));
  double place = is_value(value) && Rf_xlength(value) == 1 ? flat_place(x, i_symbol, rho) : -1;
  SEXP number = is_target && place >= 0 ? known_number(x, value) : NULL;
  PROTECT(number == NULL ? R_NilValue : number);
  if (number != NULL && put_one(x, place, number)) {
    out = x;
  } else if (place >= 0) {
    SEXP at = PROTECT(Rf_allocVector(VECSXP, 1));
    SET_VECTOR_ELT(at, 0, Rf_ScalarReal(place + 1));
    out = put(x, at, value, R_NilValue, is_target);
    if (is_fault(out)) out = R_NilValue;
    UNPROTECT(1);
  }
  UNPROTECT(3);
  return out;
}

// .External2(C_replace_at, frame, at): assigns at subscript `at`, for an assignment function with arguments `x` and
// `value` and this frame. NULL if R code must handle the call.
SEXP C_replace_at(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP frame = CAR(args = CDR(args)), at = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(at, 0, CAR(CDR(args)));
  SEXP x = PROTECT(Rf_eval(x_symbol, frame)), value = PROTECT(Rf_eval(value_symbol, frame)), out = R_NilValue;
  if (is_value(value)) {
    out = put(x, at, value, R_NilValue, vg_is_target(x, NULL, frame));
    if (is_fault(out)) out = R_NilValue;
  }
  UNPROTECT(3);
  return out;
}
