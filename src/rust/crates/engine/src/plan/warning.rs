//! Warnings of computed operations, on their way to R.
//!
//! A kernel that may warn sets flag bits. The backend notes them here with the call that recorded the operation. The
//! bridge takes the warnings when it next returns to R.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use verdigris_compile::{Failed, Routine};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::DType;
use verdigris_ops::{Flag, OpId};

/// How R signals it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// As a plain warning, like base R's.
    Base,
    /// As a warning of this package's class for lost precision.
    Precision,
    /// As an error: a routine failed for an element.
    Error,
}

/// The message, and the call that recorded the operation.
pub struct Warning {
    pub message: Cow<'static, str>,
    pub site: Option<CallSite>,
    pub class: Class,
}

/// For int64 converted to floats, in bit64's words.
const ROUNDED: &str = "integer precision lost while converting to double";
/// Its bit in the flag word of a cast.
const ROUNDED_BIT: usize = 3;

/// A site without a call, for operations that must warn even if their call is unknown.
pub fn no_call() -> Option<CallSite> {
    Some(Arc::new(()))
}

static ANY: AtomicBool = AtomicBool::new(false);
static NOTED: Mutex<Vec<Warning>> = Mutex::new(Vec::new());

/// Notes the warnings for the bits of a row's flag word.
pub fn note(op: OpId, bits: u32, site: Option<&CallSite>) {
    let row = op.row();
    let precision = |bit| if row.flag == Flag::Coercion && bit == ROUNDED_BIT { Class::Precision } else { Class::Base };
    let messages: [Option<Cow<'static, str>>; 4] = match row.flag {
        Flag::None => Default::default(),
        Flag::NaNsProduced => [
            Some("NaNs produced".into()),
            Some(format!("NaNs produced in function \"{}\"", row.r).into()),
            Some(format!("value out of range in '{}'", c_name(row.r)).into()),
            Some(format!("full precision may not have been achieved in '{}'", c_name(row.r)).into()),
        ],
        Flag::NonInteger => {
            [Some("NaNs produced".into()), Some("non-integer x".into()), Some("non-integer n".into()), None]
        }
        Flag::LostAccuracy => [Some("probable complete loss of accuracy in modulus".into()), None, None, None],
        Flag::NAsProduced => [Some("NAs produced".into()), None, None, None],
        Flag::IntegerOverflow => [
            Some("NAs produced by integer overflow".into()),
            Some("NAs produced by integer64 overflow".into()),
            None,
            None,
        ],
        Flag::Coercion => [
            Some("NAs introduced by coercion to integer range".into()),
            Some("imaginary parts discarded in coercion".into()),
            Some("out-of-range values treated as 0 in coercion to raw".into()),
            Some(ROUNDED.into()),
        ],
    };
    let mut noted = NOTED.lock().unwrap_or_else(|p| p.into_inner());
    let mut order = [0, 1, 2, 3];
    if row.flag == Flag::NaNsProduced {
        order.rotate_left(1); // R warns "NaNs produced" after all elements are computed
    }
    for bit in order.into_iter().filter(|bit| bits >> bit & 1 != 0) {
        let Some(message) = messages[bit].clone() else { continue };
        noted.push(Warning { message, site: site.cloned(), class: precision(bit) });
        ANY.store(true, Ordering::Release);
    }
}

/// The name of R's C function for the R function `r`.
fn c_name(r: &str) -> String {
    match r.strip_prefix("bessel") {
        Some(kind) => format!("bessel_{}", kind.to_lowercase()),
        None => format!("{r}fn"),
    }
}

/// Notes that an int64 was rounded to another number as a double.
pub fn rounded(site: Option<&CallSite>) {
    note(OpId::cast(DType::Float64), 1 << ROUNDED_BIT, site);
}

/// Notes the warnings of a call of a routine, from its flag words (one for each row that may warn), and its first
/// failure.
pub fn note_call(routine: &Routine, words: &[u32], failed: Option<Failed>, site: Option<&CallSite>) {
    for (&op, &bits) in routine.notes.iter().zip(words).filter(|(_, bits)| **bits != 0) {
        note(op, bits, site);
    }
    if let Some(failed) = failed {
        fail(routine, failed, site);
    }
}

/// Notes the failure of the first element of a call that failed.
pub fn fail(routine: &Routine, failed: Failed, site: Option<&CallSite>) {
    let mut noted = NOTED.lock().unwrap_or_else(|p| p.into_inner());
    noted.push(Warning { message: failed.message(routine).into(), site: site.cloned(), class: Class::Error });
    ANY.store(true, Ordering::Release);
}

/// Whether there are warnings to take. Costs one atomic load.
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

pub fn take() -> Vec<Warning> {
    ANY.store(false, Ordering::Release);
    std::mem::take(&mut *NOTED.lock().unwrap_or_else(|p| p.into_inner()))
}
