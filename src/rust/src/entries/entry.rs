//! The prologue and epilogue of every entry, and the macros that define them.

use verdigris_ops::error::Result;

use crate::array::foreign_stream;
use crate::r::conditions::{attempt, collect_warnings};
use crate::r::{self, finalizers, gc, SEXP};

/// Runs an entry's body: frees dead values first, and collects garbage if memory is short. Returns R's NULL on failure.
pub fn run(body: impl FnOnce() -> Result<SEXP>) -> SEXP {
    run_without_reaping(|| {
        finalizers::reap();
        gc::relieve();
        body()
    })
}

/// As `run`, without freeing or collecting anything first.
pub fn run_without_reaping(body: impl FnOnce() -> Result<SEXP>) -> SEXP {
    let result = attempt(body).unwrap_or_else(r::null);
    foreign_stream::after();
    collect_warnings();
    result
}

/// Defines the functions that R calls by `.Call(C_<name>, ...)`, and `ENTRIES`, which registers them.
///
/// `entries! { fn name(x: Array, na_rm as "na.rm": bool) -> Result<f64> { ... } }`: arguments may be any `FromR` type,
/// the result any `IntoR` type. Errors name an argument as in R, by its name here or by the string after `as`.
/// `@run_without_reaping fn` runs the body by `run_without_reaping`.
macro_rules! entries {
    ($($(#[$meta:meta])* $(@$run:ident)? fn $name:ident($($x:ident $(as $said:literal)?: $type:ty),* $(,)?)
        $(-> $out:ty)? $body:block)+) => {
        $($(#[$meta])* #[allow(clippy::too_many_arguments)] fn $name($($x: $type),*) $(-> $out)? $body)+

        pub const ENTRIES: &[$crate::r::R_CallMethodDef] = &[$({
            // `returned` raises the condition that `run` has left: R jumps over this frame, which owns nothing
            #[export_name = concat!("C_", stringify!($name))]
            extern "C-unwind" fn entry($($x: $crate::r::SEXP),*) -> $crate::r::SEXP {
                $crate::r::returned($crate::entries::entry::entries!(@call [$($run)? run] $name($($x $($said)?),*)))
            }
            let named = concat!("C_", stringify!($name), "\0");
            $crate::r::routine(named, entry as *const (), <[&str]>::len(&[$(stringify!($x)),*]))
        }),+];
    };
    (@call [$run:ident $($_:ident)?] $name:ident($($x:ident $($said:literal)?),*)) => {
        $crate::entries::entry::$run(move || $crate::r::typed::Outcome::outcome(self::$name($(
            $crate::r::typed::FromR::from_r($x, $crate::entries::entry::entries!(@said $($said)? stringify!($x)))?
        ),*)))
    };
    (@said $said:literal $($_:tt)+) => { $said };
    (@said $($said:tt)+) => { $($said)+ };
}

/// Exports entry bodies to C as `vg_<name>()`. They leave a condition pending instead of raising it.
macro_rules! for_c {
    ($($name:ident($($x:ident $(as $said:literal)?),*);)+) => {
        $(const _: () = {
            #[export_name = concat!("vg_", stringify!($name))]
            extern "C" fn body($($x: $crate::r::SEXP),*) -> $crate::r::SEXP {
                $crate::entries::entry::entries!(@call [run] $name($($x $($said)?),*))
            }
        };)+
    };
}

pub(crate) use {entries, for_c};
