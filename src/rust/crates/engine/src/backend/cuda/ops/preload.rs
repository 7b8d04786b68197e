//! Loads in the background what a session is likely to need next, once a device is in use and nothing is to be
//! compiled: first the prebuilt kernels that serve new expressions and reductions, as far as the package has their
//! machine code, then cuBLAS and cuSOLVER with their handles. The first product of a session waits at most for the rest
//! of this.
//!
//! The driver loads one module at a time, and loading a library keeps it busy for hundreds of milliseconds. So
//! libraries are loaded only when no kernel has been loaded for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{blas, solver};
use crate::backend::cuda::context::background;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use crate::backend::cuda::interpret;
use crate::backend::cuda::tiers::prebuilt_reductions;
use verdigris_ops::error::Result;

static ALLOWED: AtomicBool = AtomicBool::new(true);

/// Whether kernels and libraries are loaded ahead on devices that are used from now on.
pub fn allow(yes: bool) {
    ALLOWED.store(yes, Ordering::Relaxed);
}

/// Queues the loading for a device, once.
pub(crate) fn begin(cuda: &'static Cuda) {
    static BEGUN: PerDevice<()> = PerDevice::new();
    if !ALLOWED.load(Ordering::Relaxed) {
        return;
    }
    BEGUN.get_or(cuda, || {
        // separate jobs, since the end of the process waits for the job that is running
        for prepare in [interpret::prepare as fn(&Cuda), prebuilt_reductions::prepare] {
            background::queue_next(Box::new(move || prepare(cuda)));
        }
        // errors are ignored here: a missing library is reported when it is used
        for prepare in [blas::prepare as fn(&Cuda) -> Result<()>, solver::prepare] {
            background::queue_later(Box::new(move || _ = prepare(cuda)));
        }
    });
}
