//! Loads cuBLAS and cuSOLVER and makes their handles before they are asked for: in the background, once a device is in
//! use and nothing is to be compiled. The first product of a session does not wait for it then, or only for what is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

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
    static BEGUN: PerDevice<OnceLock<()>> = PerDevice::new();
    if let Some(begun) = BEGUN.get(cuda) {
        if begun.get().is_some() {
            return;
        }
    }
    if !ALLOWED.load(Ordering::Relaxed) || BEGUN.of(cuda).set(()).is_err() {
        return;
    }
    // one job each: the end of a process waits for one at most. A library that is not there is an error where it is used
    for prepare in [blas::prepare as fn(&Cuda) -> Result<()>, solver::prepare] {
        background::queue_later(Box::new(move || _ = prepare(cuda)));
    }
}
