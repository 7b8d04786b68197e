// External pointers that own a Rust value, and the deferred freeing of these values.
//
// R finalizes an object, and everything that only it refers to, after one collection and in any order: the finalizer of
// an environment may use an array whose own finalizer has already run. So the finalizers here only put the pointer on
// the list of dead pointers. The next entry frees their values (rust/src/r/finalizers.rs), unless R is still running a
// finalizer written in R. Pointers that such a finalizer used may be reachable again, so they get a new finalizer
// instead. A pointer whose value was freed stores the length of its vector as an odd address; using it is an error.
#include "finalizers.h"
#include "helpers.h"
#include "toplevel.h"

static SEXP dead; // head of a linked list: CAR is the pointer that died last, see link_of()
static SEXP calls_call, parents_call;

void vg_init_finalizers(void) {
  dead = Rf_cons(R_NilValue, R_NilValue);
  R_PreserveObject(dead);
  calls_call = vg_preserved("sys.calls()");
  parents_call = vg_preserved("sys.parents()");
}

// The link to the next dead pointer is in the external pointer's `prot` field. If the pointer keeps an object, that
// field is a cons cell of the object and the link.
static SEXP link_of(SEXP pointer) {
  SEXP place = R_ExternalPtrProtected(pointer);
  return TYPEOF(place) == LISTSXP ? CDR(place) : place;
}

static void set_link(SEXP pointer, SEXP next) {
  SEXP place = R_ExternalPtrProtected(pointer);
  if (TYPEOF(place) == LISTSXP) SETCDR(place, next);
  else R_SetExternalPtrProtected(pointer, next);
}

SEXP vg_kept_with(SEXP pointer) {
  SEXP place = R_ExternalPtrProtected(pointer);
  return TYPEOF(place) == LISTSXP ? CAR(place) : R_NilValue;
}

// Replaces the object of a pointer that was made with one; does nothing for other pointers.
void vg_keep_with(SEXP pointer, SEXP kept) {
  SEXP place = R_ExternalPtrProtected(pointer);
  if (TYPEOF(place) == LISTSXP) SETCAR(place, kept);
}

static void finalize(SEXP pointer) {
  vg_header *value = vg_peek(pointer);
  if (value == NULL || vg_forked()) return; // a forked child must not free values of its parent
  value->state = VG_DEAD;
  set_link(pointer, CAR(dead));
  SETCAR(dead, pointer);
  vg_any_dead = 1;
}

void vg_register(SEXP pointer) { R_RegisterCFinalizerEx(pointer, finalize, FALSE); }

// A new external pointer without value; Rust sets the address when nothing can fail any more. `kept` is an object for
// the pointer to keep alive, or a null pointer.
SEXP vg_new_pointer(SEXP tag, SEXP kept) {
  SEXP cell = PROTECT(kept == NULL ? R_NilValue : Rf_cons(kept, R_NilValue));
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, tag, cell));
  vg_register(pointer);
  UNPROTECT(2);
  return pointer;
}

void *vg_value_of(SEXP pointer) { return vg_value(pointer); }

// The length of the pointer's vector; known even if the value was freed. Counts as a use of the value: code that asks
// for the length may keep the vector, as R's deferred strings do.
R_xlen_t vg_length_of(SEXP pointer) {
  uintptr_t at = (uintptr_t)R_ExternalPtrAddr(pointer);
  if (at == 0) return 0;
  return at & 1 ? (R_xlen_t)(at >> 1) : ((vg_header *)vg_value(pointer))->length;
}

// Removes the first dead pointer from the list and returns it; a null pointer if there is none.
SEXP vg_next_dead(void) {
  SEXP pointer = CAR(dead);
  if (pointer == R_NilValue) return NULL;
  SETCAR(dead, link_of(pointer));
  set_link(pointer, R_NilValue);
  return pointer;
}

// The dead pointer after `pointer`, or the first one if `pointer` is null. A null pointer at the end.
SEXP vg_dead_after(SEXP pointer) {
  SEXP next = pointer == NULL ? CAR(dead) : link_of(pointer);
  return next == R_NilValue ? NULL : next;
}

// R calls a finalizer written in R as function(object), from the global environment.
static int is_finalizer(SEXP call, int parent) {
  if (parent != 0 || TYPEOF(call) != LANGSXP || TYPEOF(CAR(call)) != CLOSXP || Rf_length(call) != 2) return 0;
  return TYPEOF(CADR(call)) == ENVSXP || TYPEOF(CADR(call)) == EXTPTRSXP;
}

static void find_finalizer(void *data) {
  int *found = data;
  SEXP calls = PROTECT(Rf_eval(calls_call, R_BaseEnv)), parents = PROTECT(Rf_eval(parents_call, R_BaseEnv));
  *found = 0;
  for (int k = 0; calls != R_NilValue; calls = CDR(calls), k++) {
    if (TYPEOF(parents) == INTSXP && k < LENGTH(parents) && is_finalizer(CAR(calls), INTEGER(parents)[k])) *found = 1;
  }
  UNPROTECT(2);
}

// Whether R may be running a finalizer written in R; also nonzero if the calls cannot be listed.
int vg_in_finalizer(void) {
  int found = 1;
  vg_toplevel(find_finalizer, &found);
  return found;
}
