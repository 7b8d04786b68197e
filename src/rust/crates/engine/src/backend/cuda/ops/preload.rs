//! Loads cuBLAS and cuSOLVER and makes their handles before they are asked for: in the background, once a device is in
//! use and nothing is to be compiled. The first product of a session waits at most for what is left of it.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{blas, solver};
use crate::backend::cuda::context::background;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use verdigris_ops::error::Result;

static ALLOWED: AtomicBool = AtomicBool::new(true);

/// Whether libraries are loaded ahead on devices that are used from now on.
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
        // one job each: the end of a process waits for one at most. A library that is not there is an error in use
        for prepare in [blas::prepare as fn(&Cuda) -> Result<()>, solver::prepare] {
            background::queue_later(Box::new(move || _ = prepare(cuda)));
        }
    });
}
