//! Warnings of computed operations, on their way to R.
//!
//! A kernel that may warn sets bits. The backend notes them here with the call that recorded the operation, and the
//! bridge takes them when it next returns to R.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use verdigris_compile::{Failed, Routine};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::DType;
use verdigris_ops::{Flag, OpId};

/// What R makes of a warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A warning as base R gives it.
    Base,
    /// A warning that values have lost digits, of a class of this package.
    Precision,
    /// An error: an element has left its routine.
    Error,
}

/// What happened, in R's words, and where it was recorded.
pub struct Warning {
    pub message: Cow<'static, str>,
    pub site: Option<CallSite>,
    pub class: Class,
}

/// Of int64 that became floats, in bit64's words.
const ROUNDED: &str = "integer precision lost while converting to double";
/// Its place among the bits of a cast's flag word.
const ROUNDED_BIT: usize = 3;

/// A site without a call, of what warns wherever it is recorded.
pub fn no_call() -> Option<CallSite> {
    Some(Arc::new(()))
}

static ANY: AtomicBool = AtomicBool::new(false);
static NOTED: Mutex<Vec<Warning>> = Mutex::new(Vec::new());

/// Notes the warnings that the bits of a row's flag word stand for.
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
        order.rotate_left(1); // R says "NaNs produced" when all elements are computed
    }
    for bit in order.into_iter().filter(|bit| bits >> bit & 1 != 0) {
        let Some(message) = messages[bit].clone() else { continue };
        noted.push(Warning { message, site: site.cloned(), class: precision(bit) });
        ANY.store(true, Ordering::Release);
    }
}

/// R's name of the C function that computes `r`.
fn c_name(r: &str) -> String {
    match r.strip_prefix("bessel") {
        Some(kind) => format!("bessel_{}", kind.to_lowercase()),
        None => format!("{r}fn"),
    }
}

/// Notes that an int64 became another number as a double.
pub fn rounded(site: Option<&CallSite>) {
    note(OpId::cast(DType::Float64), 1 << ROUNDED_BIT, site);
}

/// Notes what a call of a routine has left in its words, one for each row that may warn, and the first element that has
/// failed.
pub fn note_call(routine: &Routine, words: &[u32], failed: Option<Failed>, site: Option<&CallSite>) {
    for (&op, &bits) in routine.notes.iter().zip(words).filter(|(_, bits)| **bits != 0) {
        note(op, bits, site);
    }
    if let Some(failed) = failed {
        fail(routine, failed, site);
    }
}

/// Notes the first element of a call that has failed.
pub fn fail(routine: &Routine, failed: Failed, site: Option<&CallSite>) {
    let mut noted = NOTED.lock().unwrap_or_else(|p| p.into_inner());
    noted.push(Warning { message: failed.message(routine).into(), site: site.cloned(), class: Class::Error });
    ANY.store(true, Ordering::Release);
}

/// Whether there is anything to take: one load.
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

pub fn take() -> Vec<Warning> {
    ANY.store(false, Ordering::Release);
    std::mem::take(&mut *NOTED.lock().unwrap_or_else(|p| p.into_inner()))
}
