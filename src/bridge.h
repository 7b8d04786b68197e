// What entrypoint.c, conditions.c and altrep.c share, and what they and the Rust library call in each other.
#pragma once
#define R_NO_REMAP
#include <stdint.h>
#include <R.h>
#include <Rinternals.h>
#include <Rversion.h>
#include <R_ext/Altrep.h>
#include <R_ext/Rdynload.h>

// ---- conditions.c: Rust leaves a condition behind, C raises it when no Rust frame is alive -------
extern int vg_pending;               // Rust: nonzero where something is left to raise
SEXP vg_settle(SEXP result);         // raises it; returns `result` where it was only warnings
void vg_set_namespace(SEXP env);     // where raise() and the other helpers in R are found
SEXP vg_eval_helper(const char *name, SEXP first, SEXP second);
void vg_say(const char *helper, const char *message);

// Rust: the condition, in pieces; strings are UTF-8 without NUL
int vg_error_present(void);
const char *vg_error_text(int field, int index, int *bytes); // 0 kind, 1 message, 2 detail, 3 source, 4 advice
int vg_warning_count(void);
const char *vg_warning_text(int index, int *bytes);
const char *vg_warning_class(int index);
SEXP vg_warning_call(int index);
void vg_condition_clear(void);

// ---- unwind.c ------------------------------------------------------------------------------------
void vg_init_unwind(void);
int vg_unwind_protect(void (*run)(void *), void *data);
int vg_is_jumping(void);
void vg_continue_jump(void);
int vg_drop_jump(void);
int vg_hold_interrupts(void);
void vg_release_interrupts(int ours);
int vg_interrupted(void);

// ---- finalizers.c --------------------------------------------------------------------------------
// How every value begins that an external pointer of ours owns (`external_ptr::Header` in Rust).
typedef struct {
  void (*drop)(void *);
  R_xlen_t length; // of its vector
  int state;
  int kind;
} vg_header;

enum { VG_ALIVE, VG_DEAD, VG_USED }; // USED: by a finalizer, after its own has run
extern int vg_any_dead;              // Rust: nonzero where there is something to free

void vg_init_finalizers(void);
SEXP vg_new_pointer(SEXP tag, SEXP kept);
void vg_register(SEXP pointer);
SEXP vg_kept_with(SEXP pointer);
void vg_keep_with(SEXP pointer, SEXP kept);
void *vg_value_of(SEXP pointer);
R_xlen_t vg_length_of(SEXP pointer);
SEXP vg_next_dead(void);
SEXP vg_dead_after(SEXP pointer);
int vg_in_finalizer(void);

// The value, NULL where it was freed.
static inline vg_header *vg_peek(SEXP pointer) {
  void *at = R_ExternalPtrAddr(pointer);
  return (uintptr_t)at & 1 ? NULL : (vg_header *)at;
}

// The same for who uses it.
static inline void *vg_value(SEXP pointer) {
  vg_header *value = vg_peek(pointer);
  if (value != NULL && value->state == VG_DEAD) value->state = VG_USED;
  return value;
}

// ---- operators.c: R before 4.3 dispatches operators the slow way (see there) ---------------------
extern int vg_slow_dispatch;
SEXP vg_quick_dispatch(SEXP result); // returns `result`
void vg_classify(SEXP x);            // gives a new array the class that goes with its attributes

// ---- calls.c -------------------------------------------------------------------------------------
SEXP vg_preserved(const char *code); // a call, parsed and kept for good

// ---- altrep.c ------------------------------------------------------------------------------------
void vg_register_altrep(DllInfo *dll);
SEXP vg_new(int type);                        // a class-less vector whose pointer is to own a handle; unprotected
SEXP vg_new_classed(int type);                // the same with the class of a vector
int vg_is_shared(SEXP x);                     // whether R counts more than one reference
int vg_is_ours(SEXP x);                       // whether one of our vectors, also through base's wrappers
void *vg_handle_of(SEXP x);                   // its handle, also through base's wrappers; NULL where not ours, and where it was freed or cannot be made
SEXP vg_data_of(SEXP x);                      // what one of our vectors holds: its handle's external pointer, or a lazy cell; NULL, the pointer, where not ours
SEXP vg_new_recorded(int type, SEXP cell);    // a class-less vector of a lazy cell; unprotected
SEXP vg_set_class(SEXP x, int shape);         // 0 vector, 1 matrix, 2 array, 3 ts, 4 matrix that is a ts
void vg_learn_wrapper(SEXP x);                // x is wrapped by base: remember the class of the wrapper
SEXP vg_written_dtype(SEXP x);                // attribute gpu_dtype, also of what a wrapper holds, or NULL

// Rust: lazy cells (lazy.rs).
void vg_give_handle(SEXP x);                  // makes the handle of a vector that was recorded
R_xlen_t vg_recorded_length(SEXP cell);

// Rust: the methods' work. Those that may fail leave a condition.
void *vg_host_pointer(void *handle, int writable);  // the host copy, NULL where there is none; notes a writer
void *vg_host_fetch(void *handle, int writable);    // brings everything; NULL on failure
int vg_region_cached(void *handle, R_xlen_t from, R_xlen_t n, void *out);
int vg_region(void *handle, R_xlen_t from, R_xlen_t n, void *out); // 0 on failure
int vg_element_at(void *handle, R_xlen_t place, void *out); // 0 on failure, -1 where it does not serve
void *vg_handle_duplicate(void *handle);            // NULL: let R copy
const char *vg_handle_dtype(void *handle);          // NULL where R's type says it all
void vg_handle_describe(void *handle, char *out, int room);
double vg_handle_bytes(void *handle);
void vg_init(void);
int vg_forked(void);
void vg_leave_freed(int array);                     // leaves the error of a vector that was finalized

// ---- holders.c: C code that may keep an address over calls of R --------------------------------------
enum { VG_RETURNS = 8 };
typedef struct {
  uintptr_t slot, value; // where a return address stands, and what it is
} vg_return;
typedef struct {
  uintptr_t end; // of its frame
  uintptr_t count;
  vg_return returns[VG_RETURNS]; // its own and its callers'
} vg_holding;
void vg_init_holders(void);
const vg_holding *vg_holder(const void *frame);              // who was given an address by this frame of Dataptr; NULL for nobody who may keep it
int vg_is_held(const vg_holding *holding);                   // whether that one may still run
void vg_handle_hold(void *handle, const vg_holding *holder); // Rust: notes it; a copy

// ---- vectors.c -----------------------------------------------------------------------------------
void vg_register_vectors(DllInfo *dll);
SEXP vg_new_vector(int type);                 // an ordinary vector whose pointer is to own its memory; unprotected

// ---- frame.c: the arguments of a method's frame; those of `...` count from 1 ------------------------
enum { VG_EMPTY, VG_VALUE, VG_PROMISE };
int vg_is_missing(SEXP symbol, SEXP rho);
int vg_dots_length(SEXP rho);
int vg_dots_named(SEXP rho);
int vg_dots_kind(int k, SEXP rho);
SEXP vg_dots_value(int k, SEXP rho);
// All of them: names as CHARSXP, NULL where there is none, and values, which the frame keeps. How many; -1 where there are more
// than `most`, or an empty one.
int vg_dots_all(SEXP rho, int most, SEXP *names, SEXP *values);
// The value of a variable or argument where it is known without running code: it has been evaluated, or is a constant or a
// variable of which the same holds. NULL, the pointer, elsewhere.
SEXP vg_known(SEXP symbol, SEXP env);
SEXP vg_dot_known(int k, SEXP rho);

// ---- conditions.c, for preserve.rs: functions of users that are called when their memory is let go of ----
extern int vg_freed;                 // Rust: nonzero where there are any
SEXP vg_tell_freed(SEXP result);     // calls them; returns `result`
SEXP vg_next_freed(void);            // Rust

// The end of every entry: what its Rust body has left to do is done.
static inline SEXP vg_returned(SEXP result) {
  if (vg_pending) vg_settle(result);
  if (vg_slow_dispatch) vg_quick_dispatch(result);
  return vg_freed ? vg_tell_freed(result) : result;
}

// ---- callables.c: what other packages' C calls (inst/include/verdigris.h) ------------------------
void vg_register_callables(void);

// Rust: dlpack.rs, and the error that is kept for the caller
void *vg_foreign_export(SEXP x, int versioned, int writable, int64_t stream);
SEXP vg_foreign_import(void *tensor, int versioned, int copy);
SEXP vg_foreign_capsule(void *tensor, int versioned);
void *vg_foreign_take(SEXP capsule, int versioned);
int vg_foreign_is_array(SEXP x);
void vg_leave_jump(void);
int vg_error_keep(void);
int vg_error_recall(void);
void vg_error_kept(char *out, int room);

// ---- contained.c: R code that Rust may call ------------------------------------------------------
int vg_contained(void (*run)(void *), void *data);
void vg_collect_garbage(int all);
double vg_processor_seconds(void);
void vg_call_text(SEXP call, char *out, int room);
