//! Loads what a session is likely to want next, in the background, once a device is in use and nothing is to be
//! compiled: first the prebuilt kernels that serve every new expression and reduction, as far as the package has their
//! machine code, then cuBLAS and cuSOLVER with their handles. The first product of a session waits at most for what is
//! left of it.
//!
//! The driver loads one module at a time, and a library takes it for hundreds of milliseconds. So libraries wait until no
//! kernel has been loaded for a while.

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

/// Begins it on a device, once.
pub(crate) fn begin(cuda: &'static Cuda) {
    static BEGUN: PerDevice<()> = PerDevice::new();
    if !ALLOWED.load(Ordering::Relaxed) {
        return;
    }
    BEGUN.get_or(cuda, || {
        // one job each: the end of a process waits for one at most
        for prepare in [interpret::prepare as fn(&Cuda), prebuilt_reductions::prepare] {
            background::queue_next(Box::new(move || prepare(cuda)));
        }
        // a library that is not there is an error in use
        for prepare in [blas::prepare as fn(&Cuda) -> Result<()>, solver::prepare] {
            background::queue_later(Box::new(move || _ = prepare(cuda)));
        }
    });
}
