// R's side of the library: a C function for every entry, and their registration.
//
// An entry's body is Rust and returns normally even where it fails: the condition waits in
// vg_pending, and is raised here, where no Rust frame is left to be jumped over.
#include "bridge.h"

#define ARGUMENTS_0 void
#define ARGUMENTS_1 SEXP a
#define ARGUMENTS_2 ARGUMENTS_1, SEXP b
#define ARGUMENTS_3 ARGUMENTS_2, SEXP c
#define ARGUMENTS_4 ARGUMENTS_3, SEXP d
#define ARGUMENTS_5 ARGUMENTS_4, SEXP e
#define ARGUMENTS_6 ARGUMENTS_5, SEXP f
#define ARGUMENTS_7 ARGUMENTS_6, SEXP g
#define ARGUMENTS_8 ARGUMENTS_7, SEXP h
#define ARGUMENTS_9 ARGUMENTS_8, SEXP i
#define ARGUMENTS_10 ARGUMENTS_9, SEXP j
#define VALUES_0
#define VALUES_1 a
#define VALUES_2 VALUES_1, b
#define VALUES_3 VALUES_2, c
#define VALUES_4 VALUES_3, d
#define VALUES_5 VALUES_4, e
#define VALUES_6 VALUES_5, f
#define VALUES_7 VALUES_6, g
#define VALUES_8 VALUES_7, h
#define VALUES_9 VALUES_8, i
#define VALUES_10 VALUES_9, j

#define ENTRY(name, n) SEXP vg_##name(ARGUMENTS_##n);
#include "entries.h"
#undef ENTRY

#define ENTRY(name, n)                                                                             \
  static SEXP C_##name(ARGUMENTS_##n) {                                                            \
    return vg_returned(vg_##name(VALUES_##n));                                                     \
  }
#include "entries.h"
#undef ENTRY

// operators.c, calls.c, exchange.c, subset.c: what says R's rules on attributes around an entry of Rust's
void vg_init_operators(void);
void vg_init_calls(void);
void vg_init_exchange(void);
void vg_init_subset(void);
void vg_init_launch(void);
void vg_init_masks(void);
SEXP C_settle(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_whole(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_binary(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_elementwise(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_as_dlpack(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_from_dlpack(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_as_torch(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_from_torch(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_is_there(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_as_there(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_unary(SEXP op, SEXP keep, SEXP x, SEXP call);
SEXP C_recycled(SEXP op, SEXP operands, SEXP call);
SEXP C_copy_attributes(SEXP from, SEXP to);
SEXP C_holds_array(SEXP x);
SEXP C_collect_ordinary(SEXP x);
SEXP C_torch_start(SEXP path, SEXP sample, SEXP cuda); // torch_bridge.cpp
SEXP C_learn_call(void); // holders.c
SEXP C_learn_external(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_part(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_launch(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_element(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_replace(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_take(SEXP x, SEXP at, SEXP drop);
SEXP C_known(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_masked(SEXP state); // masks.c
SEXP C_mask_assign(SEXP state, SEXP value);
SEXP C_any_inherit(SEXP list, SEXP classes);
SEXP C_put(SEXP x, SEXP at, SEXP value, SEXP names);

#define ENTRY(name, n) {"C_" #name, (DL_FUNC)C_##name, n},
static const R_CallMethodDef entries[] = {
#include "entries.h"
    {"C_unary", (DL_FUNC)C_unary, 4},
    {"C_recycled", (DL_FUNC)C_recycled, 3},
    {"C_copy_attributes", (DL_FUNC)C_copy_attributes, 2},
    {"C_holds_array", (DL_FUNC)C_holds_array, 1},
    {"C_collect_ordinary", (DL_FUNC)C_collect_ordinary, 1},
    {"C_torch_start", (DL_FUNC)C_torch_start, 3},
    {"C_learn_call", (DL_FUNC)C_learn_call, 0},
    {"C_take", (DL_FUNC)C_take, 3},
    {"C_put", (DL_FUNC)C_put, 4},
    {"C_masked", (DL_FUNC)C_masked, 1},
    {"C_mask_assign", (DL_FUNC)C_mask_assign, 2},
    {"C_any_inherit", (DL_FUNC)C_any_inherit, 2},
    {NULL, NULL, 0}};
#undef ENTRY

static const R_ExternalMethodDef externals[] = {
    {"C_binary", (DL_FUNC)C_binary, 0}, {"C_elementwise", (DL_FUNC)C_elementwise, 3},
    {"C_launch", (DL_FUNC)C_launch, 0}, {"C_settle", (DL_FUNC)C_settle, 0}, {"C_whole", (DL_FUNC)C_whole, 0},
    {"C_part", (DL_FUNC)C_part, 0}, {"C_element", (DL_FUNC)C_element, 0}, {"C_replace", (DL_FUNC)C_replace, 0},
    {"C_as_dlpack", (DL_FUNC)C_as_dlpack, 0}, {"C_from_dlpack", (DL_FUNC)C_from_dlpack, 0}, {"C_as_torch", (DL_FUNC)C_as_torch, 0},
    {"C_from_torch", (DL_FUNC)C_from_torch, 0}, {"C_is_there", (DL_FUNC)C_is_there, 0}, {"C_as_there", (DL_FUNC)C_as_there, 0},
    {"C_learn_external", (DL_FUNC)C_learn_external, 0}, {"C_known", (DL_FUNC)C_known, 1}, {NULL, NULL, 0}};

void R_init_verdigris(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, externals);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  vg_init_holders();
  vg_init_unwind();
  vg_init_finalizers();
  vg_register_altrep(dll);
  vg_init_operators();
  vg_init_calls();
  vg_init_exchange();
  vg_init_subset();
  vg_init_launch();
  vg_init_masks();
  vg_register_vectors(dll);
  vg_register_callables();
  vg_init();
}
