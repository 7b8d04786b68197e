//! Routines on the cpu device: every statement is one compiled loop over the active lanes.
//!
//! A lane works on one element. Lanes that are at the same statement are contiguous, so a loop processes them like a
//! block of a plan. Where lanes diverge at a condition they are swapped, with all live registers, until the lanes of
//! each branch are contiguous again. So there are no masks and no gathers, and no lane runs a statement that R would
//! not run. If both branches are short and cannot warn or fail, all lanes run both, and a select takes the result.
//!
//! [`lower`] translates a routine to a [`program::Program`], once; [`lanes`] runs it.

mod lanes;
mod live;
mod lower;
mod program;
#[cfg(test)]
mod random;
#[cfg(test)]
mod reference;
mod simplify;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{PoisonError, RwLock};

use program::Program;
use verdigris_compile::{Failed, Routine};
use verdigris_ops::loops::BLOCK;

/// The program of a routine. Both live until the process ends: routines are interned.
fn program(routine: &'static Routine) -> &'static Program {
    thread_local! {
        static LAST: Cell<Option<(*const Routine, &'static Program)>> = const { Cell::new(None) };
    }
    static ALL: RwLock<Option<HashMap<usize, &'static Program>>> = RwLock::new(None);
    let key: *const Routine = routine;
    if let Some((_, program)) = LAST.get().filter(|(last, _)| *last == key) {
        return program;
    }
    let found =
        ALL.read().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|all| all.get(&(key as usize)).copied());
    let program = found.unwrap_or_else(|| {
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_with(HashMap::new);
        all.entry(key as usize).or_insert_with(|| Box::leak(Box::new(lower::lower(routine, BLOCK))))
    });
    LAST.set(Some((key, program)));
    program
}

/// Runs a routine for elements `i .. i + n` of a call.
///
/// `args` holds `n` elements for each parameter, of the parameter's class. `results` has space for `n` elements of each
/// result, of its register's class, and overlaps nothing else. `tables` are addresses and numbers of elements. `words`
/// receives the flag bits of each row of `notes`. Returns the failure of the first element that failed.
///
/// After a user interrupt (`parallel::should_continue`) it returns early, with incomplete results.
///
/// # Safety
/// All addresses must point to memory as described above.
pub unsafe fn run(
    routine: &'static Routine,
    args: &[*const u8],
    tables: &[(*const c_void, i64)],
    i: usize,
    n: usize,
    results: &[*mut u8],
    words: &mut [u32],
) -> Option<Failed> {
    // SAFETY: the caller's promise.
    unsafe { lanes::run(program(routine), args, tables, i, n, results, words) }
}
