//! The prologue and epilogue of every entry, and the macro that defines one.

use verdigris_ops::error::Result;

use crate::array::foreign_stream;
use crate::r::conditions::{attempt, collect_warnings};
use crate::r::{self, finalizers, gc, SEXP};

/// Runs an entry's body. Returns R's NULL where it fails.
pub fn run(body: impl FnOnce() -> Result<SEXP>) -> SEXP {
    run_as_it_is(|| {
        finalizers::reap();
        gc::relieve();
        body()
    })
}

/// As `run`, but frees nothing before.
pub fn run_as_it_is(body: impl FnOnce() -> Result<SEXP>) -> SEXP {
    let result = attempt(body).unwrap_or_else(r::null);
    foreign_stream::after();
    collect_warnings();
    result
}

/// Defines what `.Call(C_<name>, ...)` reaches; declare it in `src/entries.h` too.
///
/// `entry! { fn name(x, y) { ... Ok(sexp) } }`: the body gives `Result<SEXP>`, the result unprotected.
#[macro_export]
macro_rules! entry {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident),* $(,)?) $body:block)+) => {
        $($crate::entry!(@one [$(#[$meta])*] [$name] [$($argument),*] $body);)+
    };
    (@one [$(#[$meta:meta])*] [$name:ident] [$($argument:ident),*] $body:block) => {
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            #[export_name = concat!("vg_", stringify!($name))]
            extern "C" fn entry($($argument: $crate::r::SEXP),*) -> $crate::r::SEXP {
                $crate::entries::entry::run(move || -> verdigris_ops::error::Result<$crate::r::SEXP> { $body })
            }
        }
    };
}
