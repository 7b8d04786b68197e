//! Routines on the cpu: every statement is one compiled loop over the lanes that run it.
//!
//! A lane works on an element. All lanes that stand at a statement lie side by side, so a loop takes them as it takes a
//! block of the graph's. Where they part, at a condition that not all share, lanes change places until those of each
//! way lie side by side again, and take the registers that are still wanted with them: nothing is masked, nothing is
//! gathered, and no lane runs a statement that R would not run. Where the ways are short and cannot warn or fail, all
//! lanes run both, and keep what is theirs.
//!
//! [`lower`] makes a [`program::Program`] of a routine, once; [`lanes`] runs it.

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

/// The program of a routine. Both stay for the process: routines are interned.
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
/// `args` has `n` elements for each parameter, of its class, and `results` room for as many for each result, of its
/// register's class; it overlaps nothing else. `tables` are addresses and numbers of elements. `words` takes bits of
/// each row of `notes`. Returns how the first element that failed did so.
///
/// Where the user wants to stop (`parallel::goes_on`), it returns early, with results that are not computed.
///
/// # Safety
/// The addresses are those of such memory.
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
