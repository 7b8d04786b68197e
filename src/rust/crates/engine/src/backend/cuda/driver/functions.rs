//! Tables of a CUDA library's functions, declared to return any status as a plain number.

use verdigris_ops::error::{Error, Kind, Result};

use super::library::{Handle, Loaded};

/// A library in which functions can be looked up.
pub trait Symbols {
    /// A function as `F`, an `unsafe extern "C" fn` type.
    ///
    /// # Safety
    /// `F` must have the signature in the library's header, with the status as `u32`.
    ///
    /// # Errors
    /// `Library` where it has no such function.
    unsafe fn find<F: Copy>(&self, name: &str) -> Result<F>;
}

impl Symbols for Loaded {
    unsafe fn find<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller's promise.
        unsafe { self.symbol(name) }
    }
}

/// The driver's library is a bare `Handle`, not a `Loaded`.
impl Symbols for Handle {
    unsafe fn find<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller's promise.
        unsafe { self.function(name) }.ok_or_else(|| {
            Error::new(Kind::Library, format!("the NVIDIA driver has no function `{name}`: it is too old"))
                .advise("Install an NVIDIA driver that supports CUDA 12 or later.")
        })
    }
}

/// `Table of sys { field = function(types); }` declares a struct of function pointers, which `Table::find()` looks up
/// in a library. `sys` has cudarc's declarations, against which these are checked: the number of parameters by the
/// compiler, their sizes by a test (`declared::differences`). `like` names a function of the same type, for functions
/// that cudarc does not declare.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident of $sys:path {
        $($field:ident = $symbol:ident($($argument:ty),* $(,)?) $(like $like:ident)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $table { $(pub $field: unsafe extern "C" fn($($argument),*) -> u32,)* }

        impl $table {
            /// # Safety
            /// The library must be the one whose header declares these functions.
            ///
            /// # Errors
            /// `Library` where it lacks one.
            pub unsafe fn find(library: &impl $crate::backend::cuda::driver::functions::Symbols) -> Result<$table> {
                // SAFETY: the caller's promise; the declarations follow the header.
                Ok($table { $($field: unsafe { library.find(stringify!($symbol)) }?,)* })
            }
        }

        #[cfg(test)]
        impl $table {
            pub(crate) fn differences() -> Vec<String> {
                use $crate::backend::cuda::driver::functions::declared;
                use $sys as theirs;
                [$((
                    stringify!($symbol),
                    declared::sizes::<unsafe extern "C" fn($($argument),*) -> u32>(),
                    declared::sizes_of(declared::last!(theirs $symbol $($like)?) as unsafe fn($(declared::any!($argument)),*) -> _),
                ),)*]
                .into_iter()
                .filter(|(_, ours, theirs)| ours != theirs)
                .map(|(name, ours, theirs)| format!("{name}: {ours:?}, and {theirs:?} in cudarc"))
                .collect()
            }
        }
    };
}
pub(crate) use functions;

/// Computes the sizes of functions' parameters, to compare declarations.
#[cfg(test)]
pub(crate) mod declared {
    /// Expands to `_` for any type, so that a list has as many placeholders as types.
    macro_rules! any {
        ($type:ty) => {
            _
        };
    }
    pub(crate) use any;

    macro_rules! last {
        ($module:ident $symbol:ident) => {
            $module::$symbol
        };
        ($module:ident $symbol:ident $like:ident) => {
            $module::$like
        };
    }
    pub(crate) use last;

    pub trait Parameters {
        fn sizes() -> Vec<usize>;
    }

    macro_rules! parameters {
        () => { parameters!(@); };
        ($first:ident $($rest:ident)*) => {
            parameters!(@ $first $($rest)*);
            parameters!($($rest)*);
        };
        (@ $($name:ident)*) => {
            impl<Status, $($name),*> Parameters for unsafe extern "C" fn($($name),*) -> Status {
                fn sizes() -> Vec<usize> {
                    vec![size_of::<Status>(), $(size_of::<$name>()),*]
                }
            }
            impl<Status, $($name),*> Parameters for unsafe fn($($name),*) -> Status {
                fn sizes() -> Vec<usize> {
                    vec![size_of::<Status>(), $(size_of::<$name>()),*]
                }
            }
        };
    }
    parameters!(A B C D E F G H I J K L M N O P Q R S T U V W X);

    pub fn sizes<F: Parameters>() -> Vec<usize> {
        F::sizes()
    }

    pub fn sizes_of<F: Parameters>(_: F) -> Vec<usize> {
        F::sizes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::api::{Driver, Ipc, Nvrtc, Peers, Reflection};
    use super::declared::sizes;

    #[test]
    fn declarations_are_cudarcs() {
        let found = [
            Driver::differences(),
            Reflection::differences(),
            Peers::differences(),
            Ipc::differences(),
            Nvrtc::differences(),
        ]
        .concat();
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_parameter_of_another_size_is_a_difference() {
        assert_ne!(sizes::<unsafe extern "C" fn(u32, i32) -> u32>(), sizes::<unsafe fn(u32, usize) -> u32>());
        assert_ne!(sizes::<unsafe extern "C" fn(u32, i32) -> u32>(), sizes::<unsafe fn(u32) -> u32>());
    }
}
