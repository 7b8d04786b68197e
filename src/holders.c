// Detects whether C code may still use an address that Dataptr returned. C code that has called REAL(x) may call back
// into R, which uses x on a device, and then write through the old address: numericDeriv() does. So an address counts
// as held while the C function that asked for it may be running.
//
// The holder is the outermost C function of a package between Dataptr and the evaluator, which calls foreign functions
// from R_doDotCall() and do_External(). It may be running as long as the stack is deeper than its frame and the return
// addresses of that frame and of its callers are unchanged. R's own C code keeps no address across calls of R code, so
// it never is a holder. The stack is walked once for each call point of Dataptr (a microsecond or two); the same call
// point is recognised by the return addresses on the stack.
#define _GNU_SOURCE // dl_iterate_phdr()
#include <string.h>
#include "holders.h"

#define VG_NOT_FAR 16384

#if defined(__linux__) && defined(__x86_64__)
#include <link.h>
#include <unwind.h>

enum { MOST_FRAMES = 48, MOST_OF_R = 16, WALKS = 16, DISPATCHERS = 4 };

typedef struct {
  uintptr_t from, to;
} Range;

// A walk of the stack from a frame of Dataptr outwards, and its result.
typedef struct {
  uintptr_t at;           // address of the Dataptr frame; 0: not to be reused
  // number of return addresses; index of the holder's, or -1 if there is none; whether the walk reached the evaluator
  int count, holder_index, is_known;
  vg_return frames[MOST_FRAMES];
  vg_holding holding;
} Walk;

static Range text_of_r, text_of_ours;
static uintptr_t dispatchers[DISPATCHERS]; // functions of R that call foreign functions or evaluate code
static Walk walks[WALKS];

static int is_in(Range range, uintptr_t address) { return address >= range.from && address < range.to; }

typedef struct {
  uintptr_t address;
  Range range;
} Wanted;

// dl_iterate_phdr() callback: finds the executable segment that contains the wanted address.
static int find_text(struct dl_phdr_info *info, size_t size, void *data) {
  Wanted *wanted = data;
  for (int k = 0; k < info->dlpi_phnum; k++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[k];
    Range range = {info->dlpi_addr + header->p_vaddr, info->dlpi_addr + header->p_vaddr + header->p_memsz};
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_X) || !is_in(range, wanted->address)) continue;
    wanted->range = range;
    return 1;
  }
  return 0;
}

static Range text_around(uintptr_t address) {
  Wanted wanted = {address, {0, 0}};
  dl_iterate_phdr(find_text, &wanted);
  return wanted.range;
}

static int is_dispatcher(uintptr_t function) {
  for (int k = 0; k < DISPATCHERS; k++) {
    if (function != 0 && dispatchers[k] == function) return 1;
  }
  return 0;
}

static void learn_dispatcher(uintptr_t function) {
  for (int k = 0; k < DISPATCHERS && !is_dispatcher(function); k++) {
    if (dispatchers[k] == 0) dispatchers[k] = function;
  }
}

// Whether the return addresses are still on the stack where they were.
static int returns_unchanged(const vg_return *returns, int count) {
  for (int k = 0; k < count; k++) {
    if (*(const uintptr_t *)returns[k].slot != returns[k].value) return 0;
  }
  return 1;
}

// _Unwind_Backtrace() callback, called for each frame from the inside out. _Unwind_GetCFA() gives the frame's stack
// pointer at its call, which is the end of the frame inside it; the return address is just below.
static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *data) {
  Walk *w = data;
  uintptr_t address = _Unwind_GetIP(context), pointer = _Unwind_GetCFA(context);
  if (pointer <= w->at) return _URC_NO_REASON; // Dataptr itself and the frames of this walk
  if (w->count == MOST_FRAMES) return _URC_NORMAL_STOP;
  vg_return one = {pointer - sizeof(void *), address};
  w->frames[w->count++] = one;
  if (w->is_known) return w->count == w->holder_index + VG_RETURNS ? _URC_NORMAL_STOP : _URC_NO_REASON;
  if (is_dispatcher((uintptr_t)_Unwind_FindEnclosingFunction((void *)address))) {
    w->is_known = 1;
    if (w->holder_index < 0) return _URC_NORMAL_STOP;
    w->holder_index = w->count - 1;
  } else if (!is_in(text_of_r, address) && !is_in(text_of_ours, address)) {
    w->holder_index = w->count;
  } else if (w->holder_index < 0 && w->count >= MOST_OF_R) {
    w->is_known = 1;
    return _URC_NORMAL_STOP;
  }
  return _URC_NO_REASON;
}

static const Walk *walk(Walk *w, uintptr_t at) {
  w->at = at;
  w->count = w->is_known = 0;
  w->holder_index = -1;
  _Unwind_Backtrace(step, w);
  vg_holding *holding = &w->holding;
  memset(holding, 0, sizeof *holding);
  if (!w->is_known) {
    // too deep, or code without unwind tables: assume a holder within the next VG_NOT_FAR bytes of stack
    w->at = 0;
    w->holder_index = 0;
    holding->end = at + VG_NOT_FAR;
  } else if (w->holder_index >= 0) {
    holding->count = w->count - w->holder_index;
    memcpy(holding->returns, &w->frames[w->holder_index], (size_t)holding->count * sizeof *holding->returns);
    holding->end = holding->returns[0].slot + sizeof(void *);
  }
  return w;
}

const vg_holding *vg_holder(const void *frame) {
  uintptr_t at = (uintptr_t)frame;
  Walk *w = &walks[at / 16 % WALKS];
  if (w->at != at || !returns_unchanged(w->frames, w->count)) walk(w, at);
  return w->holder_index < 0 ? NULL : &w->holding;
}

int vg_is_held(const vg_holding *holding) {
  return (uintptr_t)__builtin_frame_address(0) < holding->end && returns_unchanged(holding->returns, holding->count);
}

// The function of R that has called the entry with frame `at`.
typedef struct {
  uintptr_t at, function;
} Caller;

static _Unwind_Reason_Code step_to_caller(struct _Unwind_Context *context, void *data) {
  Caller *caller = data;
  if (_Unwind_GetCFA(context) <= caller->at) return _URC_NO_REASON;
  caller->function = (uintptr_t)_Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
  return _URC_NORMAL_STOP;
}

static void learn(const void *frame) {
  Caller caller = {(uintptr_t)frame, 0};
  _Unwind_Backtrace(step_to_caller, &caller);
  learn_dispatcher(caller.function);
}

void vg_init_holders(void) {
  text_of_r = text_around((uintptr_t)Rf_eval);
  text_of_ours = text_around((uintptr_t)vg_holder);
  learn_dispatcher((uintptr_t)Rf_eval);
}

#else

// Without unwinding, assume a holder within the next VG_NOT_FAR bytes of stack. Stacks grow down.
const vg_holding *vg_holder(const void *frame) {
  static vg_holding holding;
  memset(&holding, 0, sizeof holding);
  holding.end = (uintptr_t)frame + VG_NOT_FAR;
  return &holding;
}

static void learn(const void *frame) { (void)frame; }

void vg_init_holders(void) {}

int vg_is_held(const vg_holding *holding) { return (uintptr_t)__builtin_frame_address(0) < holding->end; }

#endif

// .onLoad calls the first by .Call and the second by .External2, to learn which functions of R call foreign functions.
SEXP C_learn_call(void) {
  learn(__builtin_frame_address(0));
  return R_NilValue;
}

SEXP C_learn_external(SEXP call, SEXP op, SEXP args, SEXP rho) {
  learn(__builtin_frame_address(0));
  return R_NilValue;
}
