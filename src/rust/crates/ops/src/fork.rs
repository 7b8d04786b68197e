//! Detects whether this process was forked from the one that made an object. A child must not free what its parent
//! owns, and has neither its threads nor its CUDA context. The check is one load: getpid() is a system call, which
//! takes a microsecond on some virtual machines.

use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

#[cfg(unix)]
type Handler = Option<extern "C" fn()>;
#[cfg(unix)]
unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> i32;
}

/// Starts counting forks, once, and returns the count so far.
pub fn watch() -> u32 {
    #[cfg(unix)]
    {
        extern "C" fn child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        static ONCE: std::sync::Once = std::sync::Once::new();
        // SAFETY: the handler adds to a number, which is allowed in a child; this library is never unloaded.
        ONCE.call_once(|| unsafe {
            pthread_atfork(None, None, Some(child));
        });
    }
    depth()
}

/// Registers a function that the forking thread calls before each fork.
pub fn before(prepare: extern "C" fn()) {
    #[cfg(unix)]
    {
        // SAFETY: the caller's function, which is never unloaded.
        unsafe {
            pthread_atfork(Some(prepare), None, None);
        }
    }
    #[cfg(not(unix))]
    {
        _ = prepare;
    }
}

/// Registers a function that each child calls, on its only thread. It may do only what a signal handler may.
pub fn in_child(child: extern "C" fn()) {
    #[cfg(unix)]
    {
        // SAFETY: the caller's function, which is never unloaded.
        unsafe {
            pthread_atfork(None, None, Some(child));
        }
    }
    #[cfg(not(unix))]
    {
        _ = child;
    }
}

/// The number of forks between the process that first called `watch` and this one: 0 in the former.
pub fn depth() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
