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

/// Counts forks from now on, and gives their number.
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

/// Has a function called by the thread that forks, before it does.
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

/// Has a function called in each child, by its only thread; it may do what a signal handler may.
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

/// How many forks lie between this process and the one that first called `watch`: 0 there.
pub fn depth() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
