// R's jumps and interrupts while Rust runs.
#pragma once
#include "r_api.h"

void vg_init_unwind(void);
int vg_unwind_protect(void (*run)(void *), void *data);
int vg_is_jumping(void);
void vg_continue_jump(void);
int vg_drop_jump(void);
int vg_hold_interrupts(void);
void vg_release_interrupts(int ours);
int vg_interrupted(void);
void vg_raise_wait_error(void);
