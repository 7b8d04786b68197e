//! Warnings of computed operations, on their way to R.
//!
//! A kernel that may warn sets bits; the backend hands them here with the call that recorded the
//! operation, and the bridge takes them when it next returns to R.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::expr::Site;
use crate::ops::Flag;

/// What happened, in R's words, and where it was recorded.
pub struct Warning {
    pub message: &'static str,
    pub site: Option<Site>,
}

static ANY: AtomicBool = AtomicBool::new(false);
static NOTED: Mutex<Vec<Warning>> = Mutex::new(Vec::new());

/// Notes the warnings that the bits of a flag word stand for.
pub fn note(flag: Flag, bits: u32, site: Option<&Site>) {
    let messages: &[(u32, &'static str)] = match flag {
        Flag::None => &[],
        Flag::NaNsProduced => &[(1, "NaNs produced")],
        Flag::IntegerOverflow => &[(1, "NAs produced by integer overflow")],
        Flag::Coercion => &[
            (1, "NAs introduced by coercion to integer range"),
            (2, "imaginary parts discarded in coercion"),
            (4, "out-of-range values treated as 0 in coercion to raw"),
        ],
    };
    let mut noted = NOTED.lock().unwrap_or_else(|p| p.into_inner());
    for &(bit, message) in messages {
        if bits & bit != 0 {
            noted.push(Warning { message, site: site.cloned() });
            ANY.store(true, Ordering::Release);
        }
    }
}

/// Whether there is anything to take: one load.
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

pub fn take() -> Vec<Warning> {
    ANY.store(false, Ordering::Release);
    std::mem::take(&mut *NOTED.lock().unwrap_or_else(|p| p.into_inner()))
}
